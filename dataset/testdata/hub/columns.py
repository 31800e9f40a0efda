"""Writes columns/train.parquet: a data set of no known form.

    pip install pyarrow==26.0.1 && python columns.py
"""
import os

import pyarrow as pa
import pyarrow.parquet as pq

message = pa.struct([("role", pa.string()), ("content", pa.string())])
turn = pa.struct([("from", pa.string()), ("value", pa.string())])


def chat(*turns):
    return [{"role": r, "content": c} for r, c in turns]


def said(*turns):
    return [{"from": r, "value": c} for r, c in turns]


rows = 6
table = pa.table({
    "prompt": ["one", "two words", None, "", "five", "six"],
    "number": [1, 2, 3, 4, 5, 6],
    "reply": ["a b c", "d", "e", "f", None, "g h"],
    "nested": [{"list": [{"text": f"deep {i}"}, {"text": "other"}]} for i in range(rows)],
    "chat": pa.array([
        chat(("system", "be kind"), ("user", "hello"), ("assistant", "hi")),
        chat(("user", "first"), ("assistant", "answer"), ("user", "second <2>"), ("assistant", "last")),
        chat(("assistant", "nobody asked")), [], None, chat(("user", "alone")),
    ], pa.list_(message)),
    "said": pa.array([
        said(("system", "s"), ("human", "hello"), ("gpt", "hi")), said(("Human", "x"), ("chatgpt", "y"), ("human", "z")),
        said(("narrator", "once")), said(("gpt", "y")), None, said(("user", "end")),
    ], pa.list_(turn)),
    "dotted.name": [f"dot {i}" for i in range(rows)],
    "raw": [b"\xff"] * rows,
})
here = os.path.dirname(os.path.abspath(__file__))
os.makedirs(os.path.join(here, "columns"), exist_ok=True)
pq.write_table(table, os.path.join(here, "columns", "train.parquet"))
os.makedirs(os.path.join(here, "guess"), exist_ok=True)
pq.write_table(table.select(["number", "prompt", "reply"]), os.path.join(here, "guess", "train.parquet"))
