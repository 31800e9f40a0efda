"""Writes the files of this folder, and golden.json with what pyarrow reads from them.

    pip install pyarrow==26.0.1 && python make.py
"""
import base64
import json

import pyarrow as pa
import pyarrow.parquet as pq

N = 60
table = pa.table({
    "text": pa.array([None if i % 7 == 3 else f"row {i % 40} é" for i in range(N)]),
    "always": pa.array([f"r{i}" for i in range(N)]),
    "number": pa.array([i * 0.5 for i in range(N)]),
    "small": pa.array([i / 4 for i in range(N)], pa.float32()),
    "int": pa.array([i * 1000003 for i in range(N)]),
    "int32": pa.array([None if i % 2 else -i for i in range(N)], pa.int32()),
    "flag": pa.array([None if i % 11 == 0 else i % 3 == 0 for i in range(N)]),
    "one": pa.array(["same"] * N),
    "turns": pa.array([None if i % 5 == 0 else [] if i % 5 == 1 else [None if j == 2 else f"t{i}.{j}" for j in range(i % 5)]
                       for i in range(N)]),
    "conversations": pa.array([None if i % 9 == 0 else [] if i % 9 == 1 else
                               [None if i % 9 == 2 else {"from": "human" if j % 2 == 0 else "gpt", "value": None if j == 3 else f"v{i}.{j}"}
                                for j in range(i % 9)] for i in range(N)],
                              pa.list_(pa.struct([("from", pa.string()), ("value", pa.string())]))),
    "deep": pa.array([None if i % 6 == 0 else [None if j == 1 else [{"content": f"d{i}.{j}.{k}", "ids": [k] * k} for k in range(j)]
                                               for j in range(i % 6)] for i in range(N)],
                     pa.list_(pa.list_(pa.struct([("content", pa.string()), ("ids", pa.list_(pa.int64()))])))),
    "image": pa.array([None if i % 4 == 0 else {"bytes": bytes([255, 216, i]), "path": None} for i in range(N)],
                      pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
    "map": pa.array([None if i % 4 == 0 else [(f"k{j}", j) for j in range(i % 4)] for i in range(N)], pa.map_(pa.string(), pa.int32())),
    "nothing": pa.nulls(N),
    "fixed": pa.array([b"%04d" % i for i in range(N)], pa.binary(4)),
    "large": pa.array([f"L{i}" for i in range(N)], pa.large_string()),
})
common = dict(row_group_size=25, write_batch_size=8, data_page_size=64)
pq.write_table(table, "snappy.parquet", compression="snappy", **common)
pq.write_table(table, "zstd2.parquet", compression="zstd", data_page_version="2.0", write_page_checksum=True, **common)
pq.write_table(table, "gzip-plain.parquet", compression="gzip", use_dictionary=False, row_group_size=40)
pq.write_table(table, "none-legacy.parquet", compression="none", use_compliant_nested_type=False, **common)
strings = pa.table({"a": ["x", "xy"] * 4})
pq.write_table(strings, "brotli.parquet", compression="brotli")
pq.write_table(strings, "delta.parquet", use_dictionary=False, column_encoding={"a": "DELTA_BYTE_ARRAY"})
pq.write_table(table.slice(0, 0), "empty.parquet")
pq.write_table(table.select(["text", "turns", "conversations", "flag"]).slice(0, 12), "small.parquet", compression="none", row_group_size=8)


def plain(v):
    if isinstance(v, bytes):
        return {"base64": base64.b64encode(v).decode()}
    if isinstance(v, tuple):  # of a map
        return {"key": v[0], "value": v[1]}
    if isinstance(v, list):
        return [plain(x) for x in v]
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    return v


with open("golden.json", "w") as f:
    columns = {n: [plain(v) for v in table[n].to_pylist()] for n in table.column_names}
    f.write("{" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in columns.items()) + "}\n")
