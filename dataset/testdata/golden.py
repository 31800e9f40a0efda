"""Writes golden.json: what vLLM's own RandomDataset and CustomDataset give with a toy tokenizer.

Run with the Python of an installed vLLM 0.32.0: python golden.py > golden.json
The toy is written a second time in Go (fake_test.go). It is made to go wrong:
consecutive letters merge (prompts come out short and are padded), some ids
decode to text that has no id of its own (prompts come out long and are cut).
With a folder of a Hugging Face tokenizer as argument it prints digests for that instead.
"""
import hashlib
import json
import os
import string
import sys
import tempfile

# Only JSON may reach stdout; vLLM logs there.
out, sys.stdout = sys.stdout, sys.stderr
from vllm.benchmarks.datasets.datasets import CustomDataset, RandomDataset  # noqa: E402

LETTERS = string.ascii_lowercase
PIECES = (["<s>"] + list(LETTERS) + [LETTERS[i:i + 2] for i in range(0, 26, 2)]
          + [LETTERS[i] + LETTERS[i + 2] + LETTERS[i] for i in range(10)] + ["</s>"])
KNOWN = {p: i for i, p in enumerate(PIECES) if len(p) != 3 or p == "<s>"}


class Toy:
    def __init__(self, added):
        self.vocab_size = len(PIECES)
        self.all_special_ids = [0, len(PIECES) - 1]
        self.added = added

    def num_special_tokens_to_add(self):
        return self.added

    def decode(self, ids):
        return "".join(PIECES[i] for i in ids)

    def encode(self, text, add_special_tokens=True):
        ids = [0] * self.added if add_special_tokens else []
        at = 0
        while at < len(text):
            for n in (4, 3, 2, 1):
                if text[at:at + n] in KNOWN:
                    ids.append(KNOWN[text[at:at + n]])
                    at += n
                    break
            else:
                ids.append(1)
                at += 1
        return ids

    def __call__(self, text):
        return type("Out", (), {"input_ids": self.encode(text)})


RANDOM = [
    dict(seed=0, n=30, input=20, output=8, ratio=dict(input=0.0, output=0.0), prefix=0, added=0),
    dict(seed=1, n=30, input=30, output=50, ratio=dict(input=0.5, output=0.2), prefix=7, added=1),
    dict(seed=42, n=31, input=5, output=1, ratio=dict(input=0.9, output=0.9), prefix=1, added=2),
    dict(seed=2**32 - 1, n=12, input=64, output=16, ratio=dict(input=0.25, output=0.0), prefix=33, added=1),
    dict(seed=7, n=20, input=1, output=0, ratio=dict(input=0.0, output=0.0), prefix=0, added=0),
]
CUSTOM = [
    dict(seed=0, n=10, output=-1, shuffle=True, oversample=True),
    dict(seed=42, n=4, output=256, shuffle=True, oversample=True),
    dict(seed=3, n=25, output=-1, shuffle=True, oversample=True),
    dict(seed=3, n=25, output=5, shuffle=False, oversample=True),
    dict(seed=9, n=25, output=5, shuffle=True, oversample=False),
    dict(seed=9, n=0, output=5, shuffle=True, oversample=True),
]


def sample_random(c, tokenizer):
    return RandomDataset(random_seed=c["seed"]).sample(
        tokenizer, c["n"], prefix_len=c["prefix"], range_ratio=c["ratio"],
        input_len=c["input"], output_len=c["output"])


def rows(requests):
    return [[r.prompt, r.prompt_len, r.expected_output_len] for r in requests]


def toy():
    result = dict(random=[], custom=[], file=[])
    for c in RANDOM:
        result["random"].append(dict(c, rows=rows(sample_random(c, Toy(c["added"])))))
    lines = [json.dumps(dict(prompt=LETTERS[:i + 3][::-1], output_tokens=10 + i)) for i in range(12)]
    result["file"] = lines
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.jsonl")
        with open(path, "w") as f:
            f.write("\n".join(lines) + "\n")
        for c in CUSTOM:
            data = CustomDataset(dataset_path=path, random_seed=c["seed"], disable_shuffle=not c["shuffle"])
            result["custom"].append(dict(c, rows=rows(data.sample(
                Toy(1), c["n"], output_len=c["output"], skip_chat_template=True,
                no_oversample=not c["oversample"]))))
    return result


def real(folder):
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    result = []
    for c in (dict(seed=0, n=200, input=1024, output=128, ratio=dict(input=0.0, output=0.0), prefix=0),
              dict(seed=1, n=300, input=300, output=50, ratio=dict(input=0.5, output=0.2), prefix=100)):
        h = hashlib.sha256()
        for prompt, n, o in rows(sample_random(c, tokenizer)):
            h.update(f"{len(prompt.encode())} {n} {o}\n{prompt}".encode())
        result.append(dict(c, sha256=h.hexdigest()))
    return result


def write(name, value, end):
    """One row of a long list a line, for diffs."""
    parts = (json.dumps(v, ensure_ascii=False) for v in value)
    out.write(f'"{name}": [\n' + ",\n".join(parts) + f"]{end}\n")


if len(sys.argv) > 1:
    out.write(json.dumps(real(sys.argv[1]), indent=1) + "\n")
else:
    result = toy()
    out.write("{\n")
    write("random", result["random"], ",")
    write("custom", result["custom"], ",")
    write("file", result["file"], "\n}")
