"""Writes made.json: what vLLM's own data sets give that are made from a seed or a trace, and custom_image.

Run with the Python of an installed vLLM 0.32:
    PYTHONHASHSEED=0 python made.py > made.json
The toy is that of golden.py, with a vocabulary that is told in more detail
(fake_test.go). With a folder of a Hugging Face tokenizer as argument it writes
digests for that instead: PYTHONHASHSEED=0 python made.py ../../tokenize/testdata/small > made_small.json
"""
import hashlib
import json
import os
import random
import string
import sys
import tempfile

assert os.environ.get("PYTHONHASHSEED") == "0", "set PYTHONHASHSEED=0"
# Only JSON may reach stdout; vLLM logs there.
out, sys.stdout = sys.stdout, sys.stderr
import numpy as np  # noqa: E402
from vllm.benchmarks.datasets import datasets as D  # noqa: E402
from vllm.benchmarks.lib import endpoint_request_func as E  # noqa: E402

LETTERS = string.ascii_lowercase
PIECES = (["<s>"] + list(LETTERS) + [LETTERS[i:i + 2] for i in range(0, 26, 2)]
          + [LETTERS[i] + LETTERS[i + 2] + LETTERS[i] for i in range(10)] + ["</s>"])
KNOWN = {p: i for i, p in enumerate(PIECES) if len(p) != 3 or p == "<s>"}


class Toy:
    def __init__(self, added):
        self.vocab_size = len(PIECES)
        self.all_special_ids = [0, len(PIECES) - 1]
        self.added = added
        # "c" is marked special without a role, 60 and 62 lie beyond the base.
        flag = type("Token", (), {})
        self.added_tokens_decoder = {i: flag() for i in (0, 3, 49, 60, 62)}
        for i, token in self.added_tokens_decoder.items():
            token.special = i != 60

    def num_special_tokens_to_add(self):
        return self.added

    def get_vocab(self):  # "d" has no token
        return {p: i for i, p in enumerate(PIECES) if i != 4} | {"[TOOL]": 60, "[IMG]": 62}

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


def ratio(i, o=0.0):
    return dict(input=i, output=o)


def dims(*rows):
    return [dict(height=h, width=w, frames=f, probability=p) for h, w, f, p in rows]


PREFIXES = [
    dict(seed=0, n=10, prefix=20, suffix=15, prefixes=3, output=8, shuffle=True, added=0),
    dict(seed=42, n=12, prefix=7, suffix=30, prefixes=4, output=1, shuffle=True, added=1),
    dict(seed=42, n=5, prefix=0, suffix=9, prefixes=5, output=1, shuffle=False, added=0),
    dict(seed=1, n=6, prefix=9, suffix=0, prefixes=1, output=3, shuffle=True, added=2),
]
BATCHES = [
    dict(seed=0, n=7, batch=3, input=12, prefix=0, ratio=ratio(0.5), added=0),
    dict(seed=42, n=8, batch=2, input=9, prefix=4, ratio=ratio(0.2), added=1),
    dict(seed=42, n=3, batch=16, input=9, prefix=0, ratio=ratio(0.0), added=0),
]
RERANK = [
    dict(seed=0, n=5, batch=1, input=20, ratio=ratio(0.0), added=0, plain=False),
    dict(seed=42, n=7, batch=3, input=40, ratio=ratio(0.4, 0.9), added=1, plain=False),
    dict(seed=0, n=7, batch=3, input=15, ratio=ratio(0.4), added=2, plain=True),
    dict(seed=42, n=5, batch=5, input=15, ratio=ratio(0.0), added=0, plain=True),
]
MEDIA = [
    dict(seed=0, n=6, input=20, output=8, prefix=0, ratio=ratio(0.0), added=0, items=1, items_ratio=0.0,
         limit=dict(image=255, video=1), buckets=dims((5, 7, 1, .5), (3, 4, 1, .5), (3, 4, 16, 0.0))),
    dict(seed=42, n=9, input=14, output=5, prefix=6, ratio=ratio(0.5, 0.3), added=1, items=3, items_ratio=1.0,
         limit=dict(image=4), buckets=dims((1, 1, 1, 1.0), (16, 16, 1, 5), (2, 5, 1, 2.5))),
    dict(seed=42, n=9, input=9, output=5, prefix=0, ratio=ratio(0.9), added=0, items=2, items_ratio=0.5,
         limit=dict(image=5, video=0), buckets=dims((3, 3, 1, .2), (2, 2, 8, .5), (4, 1, 1, .3))),
    dict(seed=7, n=2, input=9, output=0, prefix=0, ratio=ratio(0.0), added=0, items=0, items_ratio=0.0,
         limit=dict(image=5), buckets=dims((3, 3, 1, .2))),
]
TRACE = [
    dict(timestamp=0.0, input_length=40, output_length=5, hash_ids=[1, 2, 3]),
    dict(timestamp=0.5, input_length=33, output_length=1, hash_ids=[1, 2, 46]),
    dict(timestamp=1.25, input_length=16, output_length=7, hash_ids=[1]),
    dict(timestamp=1.25, input_length=7, output_length=2, hash_ids=[18446744073709551616]),
    dict(timestamp="3", input_length=18, output_length=9, hash_ids=["caf\u00e9", "\u65e5\u672c"]),
    dict(timestamp=4, input_length=5, output_length=9, hash_ids=[-3, 4]),
]
IMAGES = [
    dict(prompt="abc", image_files=["a/b.png"], output_tokens=11),
    dict(prompt="cde", image_files=["/x/y z.png", "https://h/i.jpg"], output_tokens=12),
    dict(content=[dict(type="text", text="ab"), dict(type="image", image="/p.png"), dict(type="text", text="xyz"),
                  dict(type="image_url", image_url=dict(url="http://h/q?a=1#b", detail="low"))], output_tokens=13),
    dict(content=[dict(type="image_url", image_url="data:image/png;base64,AAAA")], prompt="not used", output_tokens=14),
    dict(content=[dict(type="text", text="z")], output_tokens=15),
    dict(prompt="<&>", image_files=["file:///r.png"], output_tokens=16),
]
IMAGE_CASES = [dict(seed=0, n=4, output=9, shuffle=True), dict(seed=42, n=13, output=256, shuffle=True),
               dict(seed=42, n=0, output=9, shuffle=False)]


def rows(requests):
    return [[r.prompt, r.prompt_len, r.expected_output_len] for r in requests]


def prefixes(c, tok):
    np.random.seed(99)  # the class seeds again
    got = rows(D.PrefixRepetitionRandomDataset(random_seed=c["seed"], disable_shuffle=not c["shuffle"]).sample(
        tok, c["n"], prefix_len=c["prefix"], suffix_len=c["suffix"], num_prefixes=c["prefixes"], output_len=c["output"]))
    return dict(rows=got, gamma=[float(np.random.gamma(1.0, 0.1)).hex() for _ in range(3)],
                python=random.random().hex())


def batches(c, tok):
    return dict(rows=rows(D.RandomDataset(random_seed=c["seed"]).sample(
        tok, c["n"], prefix_len=c["prefix"], range_ratio=c["ratio"], input_len=c["input"], output_len=8,
        batchsize=c["batch"])))


def rerank(c, tok):
    return dict(rows=rows(D.RandomDatasetForReranking(random_seed=c["seed"]).sample(
        tok, c["n"], input_len=c["input"], range_ratio=c["ratio"], batchsize=c["batch"], is_reranker=not c["plain"])))


class Watched(D.RandomMultiModalDataset):
    """Notes the pixels, which JPEG loses."""

    def generate_mm_item(self, config):
        image = self.generate_synthetic_image(config[1], config[0])
        part = D.process_image(image)
        assert part["image_url"]["url"].startswith("data:image/jpeg;base64,"), part["image_url"]["url"][:40]
        return [int(config[0]), int(config[1]), hashlib.sha256(np.asarray(image).tobytes()).hexdigest()]


def media(c, tok):
    got = Watched(random_seed=c["seed"]).sample(
        tok, c["n"], prefix_len=c["prefix"], range_ratio=c["ratio"], input_len=c["input"], output_len=c["output"],
        limit_mm_per_prompt=c["limit"], base_items_per_request=c["items"], num_mm_items_range_ratio=c["items_ratio"],
        bucket_config={(b["height"], b["width"], b["frames"]): b["probability"] for b in c["buckets"]})
    return dict(rows=rows(got), images=[r.multi_modal_data for r in got])


def lines_file(folder, lines):
    path = os.path.join(folder, "rows.jsonl")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return path


def trace(tok, lines, block):
    with tempfile.TemporaryDirectory() as folder:
        data = D.TimedTrace(dataset_path=lines_file(folder, lines), seed=5, timed_trace_chunk_hash_size=block,
                            timed_trace_sec_multiplier=1, timed_trace_label_timestamp="timestamp",
                            timed_trace_label_input_length="input_length", timed_trace_label_output_length="output_length",
                            timed_trace_label_hash_ids="hash_ids")
        got = data.sample(tok, 100)
    return dict(block=block, rows=rows(got), offsets=[r.timestamp for r in got],
                gamma=[float(np.random.gamma(1.0, 0.1)).hex() for _ in range(3)], python=random.random().hex())


def images(c, tok, lines):
    with tempfile.TemporaryDirectory() as folder:
        data = D.CustomImageDataset(dataset_path=lines_file(folder, lines), random_seed=c["seed"],
                                    disable_shuffle=not c["shuffle"])
        got = data.sample(tok, c["n"], output_len=c["output"])
    result = []
    for r in got:
        call = E.RequestFuncInput(prompt=r.prompt, api_url="", prompt_len=0, output_len=0, model="",
                                  multi_modal_content=r.multi_modal_data)
        result.append([E._get_chat_messages(call), r.prompt_len, r.expected_output_len])
    return dict(rows=result, python=random.random().hex())


def digest(rows):
    h = hashlib.sha256()
    for prompt, n, o in rows:
        for text in prompt if isinstance(prompt, list) else [prompt]:
            data = str(text).encode()
            h.update(f"{len(data)}:".encode() + data)
        h.update(f"|{n}|{o}\n".encode())
    return h.hexdigest()


def real(folder):
    from transformers import AutoTokenizer
    tok = AutoTokenizer.from_pretrained(folder)
    lines = [json.dumps(dict(r, input_length=r["input_length"] * 4)) for r in TRACE[:5]]
    result = dict(prefixes=[], rerank=[], media=[], trace=[])
    for seed in (0, 42):
        c = dict(seed=seed, n=40, prefix=100, suffix=60, prefixes=4, output=8, shuffle=True)
        got = prefixes(c, tok)
        result["prefixes"].append(dict(c, gamma=got["gamma"], python=got["python"], sha256=digest(got["rows"])))
        c = dict(seed=seed, n=40, batch=8, input=80, ratio=ratio(0.3), plain=False)
        result["rerank"].append(dict(c, sha256=digest(rerank(c, tok)["rows"])))
        c = dict(MEDIA[1], seed=seed, n=40, input=60, prefix=20)
        got = media(c, tok)
        result["media"].append(dict(c, sha256=digest(got["rows"]), images=got["images"]))
    got = trace(tok, lines, 64)
    result["trace"].append(dict(block=64, lines=lines, sha256=digest(got["rows"])))
    return result


def toy():
    lines = [json.dumps(r) for r in TRACE]
    files = [json.dumps(r) for r in IMAGES]
    return dict(
        prefixes=[dict(c, **prefixes(c, Toy(c["added"]))) for c in PREFIXES],
        batches=[dict(c, **batches(c, Toy(c["added"]))) for c in BATCHES],
        rerank=[dict(c, **rerank(c, Toy(c["added"]))) for c in RERANK],
        media=[dict(c, **media(c, Toy(c["added"]))) for c in MEDIA],
        trace=[dict(trace(Toy(1), lines, block), lines=lines) for block in (16, 5)],
        images=[dict(c, lines=files, **images(c, Toy(1), files)) for c in IMAGE_CASES])


result = real(sys.argv[1]) if len(sys.argv) > 1 else toy()
# One case a line, for diffs.
out.write("{\n" + ",\n".join(
    f'"{name}": [\n' + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "]"
    for name, cases in result.items()) + "\n}\n")
