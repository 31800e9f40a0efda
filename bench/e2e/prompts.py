"""Prints the prompts that vLLM's own data sets make with some tokenizers.

usage: prompts.py ROWS.jsonl FOLDER...

FOLDER holds a tokenizer. The output is a JSON object: for each folder's case
(folder/kind/seed) the list of the prompts' texts in sending order. The global
generators are seeded as `vllm bench serve` seeds them.
"""
import contextlib
import json
import random
import sys

with contextlib.redirect_stdout(sys.stderr):
    import numpy as np
    from transformers import AutoTokenizer
    from vllm.benchmarks.datasets import CustomDataset, PrefixRepetitionRandomDataset, RandomDataset

PROMPTS = 50


def samples(folder, rows):
    tok = AutoTokenizer.from_pretrained(folder)
    for seed in (0, 42):
        def fresh():
            random.seed(seed)
            np.random.seed(seed)
        fresh()
        yield f"random/{seed}", RandomDataset(random_seed=seed).sample(
            tokenizer=tok, num_requests=PROMPTS, prefix_len=16, input_len=128, output_len=1, range_ratio={"input": 0.3, "output": 0.0})
        fresh()
        yield f"prefix_repetition/{seed}", PrefixRepetitionRandomDataset(random_seed=seed).sample(
            tokenizer=tok, num_requests=PROMPTS, prefix_len=64, suffix_len=64, num_prefixes=5, output_len=1)
        for kind, skip in (("custom", True), ("custom, chat template", False)):
            if not skip and tok.chat_template is None:
                continue
            fresh()
            yield f"{kind}/{seed}", CustomDataset(dataset_path=rows, random_seed=seed).sample(
                tokenizer=tok, num_requests=PROMPTS, output_len=1, skip_chat_template=skip)


out = {}
with contextlib.redirect_stdout(sys.stderr):
    for folder in sys.argv[2:]:
        for name, requests in samples(folder, sys.argv[1]):
            out[f"{folder}/{name}"] = [r.prompt for r in requests]
print(json.dumps(out))
