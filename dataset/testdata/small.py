"""Writes small.json: digests of what vLLM 0.32.0's own RandomDataset makes with the
small tokenizer of tokenize/testdata.

Run in an environment with vllm: python small.py ../../tokenize/testdata/small > small.json
"""
import hashlib
import json
import sys

from transformers import AutoTokenizer
from vllm.benchmarks.datasets import RandomDataset

tok = AutoTokenizer.from_pretrained(sys.argv[1])
out = []
for seed, n, inp, outp, ri, ro, prefix in [
    (0, 200, 256, 128, 0.0, 0.0, 0), (42, 200, 100, 50, 0.5, 0.2, 0), (7, 100, 64, 16, 0.3, 0.3, 40), (1, 50, 2, 1, 0.0, 0.0, 0),
]:
    ds = RandomDataset(random_seed=seed)
    reqs = ds.sample(tokenizer=tok, num_requests=n, prefix_len=prefix, range_ratio={"input": ri, "output": ro},
                     input_len=inp, output_len=outp)
    h = hashlib.sha256()
    for r in reqs:
        h.update(f"{len(r.prompt.encode())} {r.prompt_len} {r.expected_output_len}\n{r.prompt}".encode())
    out.append(dict(seed=seed, n=n, input=inp, output=outp, ratio=dict(input=ri, output=ro), prefix=prefix, sha256=h.hexdigest()))
print(json.dumps(out, indent=1))
