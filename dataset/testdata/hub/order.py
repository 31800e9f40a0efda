"""Writes order.json: the order in which the datasets library yields the rows of
data sets of several Parquet files.

    pip install datasets==5.2.0 pyarrow==26.0.1 numpy==2.4.6 && python order.py

A row is named by its number in the concatenation of the files. "first" are the
first rows, "sha256" is that of all, in decimal with a newline after each.
"""
import hashlib
import json
import os
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

os.environ["HF_HUB_OFFLINE"] = "1"
import datasets  # noqa: E402

datasets.disable_progress_bars()
datasets.disable_caching()


def orders(name, counts, groups, cache):
    folder = os.path.join(cache, name)
    os.makedirs(os.path.join(folder, "data"))
    row = 0
    for i, n in enumerate(counts):
        table = pa.table({"row": list(range(row, row + n)), "text": [f"t{j}" for j in range(n)]})
        row += n
        pq.write_table(table, os.path.join(folder, "data", f"train-{i:05d}-of-{len(counts):05d}.parquet"), row_group_size=groups)
    for seed in (0, 42):
        for stream in (True, False):
            data = datasets.load_dataset(folder, split="train", streaming=stream).shuffle(seed=seed)
            rows = [x["row"] for x in data]
            # What vLLM iterates over: the data set itself, filtered, or its beginning.
            kept = [x["row"] for x in data.filter(lambda x: x["row"] % 3 != 0)]
            assert kept == [r for r in rows if r % 3 != 0], name
            assert [x["row"] for x in data.take(20)] == rows[:20], name
            if len(counts) == 1:  # the hub makes one Parquet file of one JSON file: the order is the same
                with open(os.path.join(cache, name + ".jsonl"), "w") as f:
                    f.writelines(json.dumps({"row": i}) + "\n" for i in range(counts[0]))
                lines = datasets.load_dataset("json", data_files=f.name, split="train", streaming=stream).shuffle(seed=seed)
                assert [x["row"] for x in lines] == rows, name
            text = "".join(f"{r}\n" for r in rows)
            yield {"name": name, "counts": counts, "seed": seed, "stream": stream, "first": rows[:40],
                   "sha256": hashlib.sha256(text.encode()).hexdigest()}


with tempfile.TemporaryDirectory() as cache:
    os.environ["HF_DATASETS_CACHE"] = cache
    out = []
    for name, counts, groups in [
        ("one", [250], 1000),
        ("buffer", [1000], 300),
        ("long", [2550], 70),
        ("three", [1200, 30, 700], 90),
        ("ten", [130] * 10, 50),
        ("twelve", [150, 20, 333, 1, 99, 100, 101, 250, 40, 60, 70, 77], 64),
        ("many", [37 + i for i in range(25)], 1000),
    ]:
        out += orders(name, counts, groups, cache)

permutations = [{"n": n, "seed": seed, "want": np.random.default_rng(seed).permutation(n).tolist()[:50]}
                for n in (0, 1, 2, 10, 1000, 70000) for seed in (0, 42, 4294967295)]
with open("order.json", "w") as f:
    f.write('{"orders": [\n' + ",\n".join(map(json.dumps, out)) + '\n], "permutations": [\n' + ",\n".join(map(json.dumps, permutations)) + "\n]}\n")
