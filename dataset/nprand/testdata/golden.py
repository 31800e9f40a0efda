"""Writes golden.json: what numpy and CPython draw. Run: PYTHONHASHSEED=0 python golden.py > golden.json

Long sequences are digests: sha256 over the little-endian 8-byte values.
Floats travel as C99 hexadecimal, so no digit is lost.
"""
import hashlib
import json
import os
import random
import sys

import numpy as np
import pandas as pd

SEEDS = [0, 1, 42, 2**32 - 1]
WIDE = SEEDS + [2**32, 12345678901234567890, 2**64 - 1]


def digest(values, kind):
    return hashlib.sha256(np.asarray(values).astype(kind).tobytes()).hexdigest()


RANGES = [
    (0, 1), (0, 2), (0, 10), (-5, 5), (1000, 20000), (0, 50257), (0, 151643),
    (0, 2**31), (0, 3 * 2**30), (0, 2**32 - 1), (0, 2**32), (0, 2**32 + 1),
    (-(2**62), 2**62), (-(2**63), 2**63 - 1), (0, 3 * 2**61),
]


def integers():
    rows = []
    for seed in WIDE:
        rng = np.random.default_rng(seed)
        # One generator for all ranges with odd counts: the half word crosses calls.
        for low, high in RANGES:
            v = rng.integers(low, high, 1001)
            rows.append(dict(seed=str(seed), low=low, high=high, n=1001,
                             first=[int(x) for x in v[:4]], sha256=digest(v, "<i8"),
                             random=float(rng.random()).hex()))
    return rows


def gammas():
    """1,000 draws, every tenth written; `next` shows that all took the same path."""
    rows = []
    for seed in SEEDS:
        for shape in (0.1, 0.5, 1.0, 2.0, 10.0):
            np.random.seed(seed)
            v = [np.random.gamma(shape=shape, scale=1.0 / (10.0 * shape)) for _ in range(1000)]
            rows.append(dict(seed=seed, shape=shape, scale=(1.0 / (10.0 * shape)).hex(),
                             tenth=[float(x).hex() for x in v[9::10]],
                             next=float(np.random.random_sample()).hex()))
    return rows


def python():
    rows = []
    for seed in SEEDS + [-42, 2**32, 2**63 - 1, -(2**63)]:
        random.seed(seed)
        order = list(range(1000))
        random.shuffle(order)
        picks = [random.choice(range(n)) for n in range(1, 200)]
        wide = [random.choice(range(2**62 + 12345)) for _ in range(50)]
        rows.append(dict(seed=seed, first=order[:8], order=digest(order, "<i8"),
                         picks=digest(picks, "<i8"), wide=digest(wide, "<i8"),
                         random=random.random().hex()))
    return rows


def samples():
    """What pandas' df.sample(n, random_state=seed) draws, and random.choices."""
    rows = []
    for seed in SEEDS:
        for n in (1, 2, 3, 64, 65, 1000, 70000):
            order = pd.DataFrame(dict(at=range(n))).sample(n=n, random_state=seed)["at"]
            again = pd.DataFrame(dict(at=range(n))).sample(n=2 * n + 1, random_state=seed, replace=True)["at"]
            some = pd.DataFrame(dict(at=range(n))).sample(n=(n + 1) // 2, random_state=seed)["at"]
            random.seed(seed)
            choices = random.choices(range(n), k=777)
            random.choices(range(n), k=-5)
            rows.append(dict(seed=seed, n=n, order=digest(order, "<i8"), some=digest(some, "<i8"),
                             again=digest(again, "<i8"), choices=digest(choices, "<i8"),
                             random=random.random().hex()))
    return rows


def schedules():
    """Cumulative gaps of vLLM's get_request at 10 requests/s, 8 requests, scaled to 0.8 s."""
    rows = []
    for shape in (0.5, 1.0, 2.0):
        np.random.seed(0)
        gaps = [np.random.gamma(shape=shape, scale=1.0 / (10.0 * shape)) for _ in range(8)]
        t = np.cumsum(gaps)
        rows.append(dict(shape=shape, offsets=[float(x) for x in t * (0.8 / t[-1])]))
    return rows


def randints():
    """One RandomState for all ranges."""
    rows = []
    for seed in SEEDS:
        rng = np.random.RandomState(seed)
        for low, high in RANGES:
            v = rng.randint(low, high, 1001)
            rows.append(dict(seed=seed, low=low, high=high, n=1001,
                             first=[int(x) for x in v[:4]], sha256=digest(v, "<i8"),
                             random=float(rng.random_sample()).hex()))
    return rows


def mixed():
    """What random-mm draws, in turns: a count, a choice, bytes, padding."""
    rows = []
    for seed in WIDE:
        rng = np.random.default_rng(seed)
        for n, p in ((1, [1.0]), (3, [.5, .5]), (0, [.5, .25, .25]), (4, [.1, .2, .7]), (1023, [1e-9, 1 - 1e-9]),
                     (6, [1 / 3, 1 / 3, 1 / 3]), (768, [.25] * 4), (100001, [.3, .1, .6])):
            count = int(rng.integers(0, 5))
            picks = [int(rng.choice(len(p), p=p)) for _ in range(5)]
            pixels = rng.integers(0, 256, (n, 1, 1), dtype=np.uint8)
            rows.append(dict(seed=str(seed), n=n, p=p, count=count, picks=picks, pixels=digest(pixels, "u1"),
                             padding=[int(x) for x in rng.integers(0, 50257, 3)], random=float(rng.random()).hex()))
    return rows


def choices():
    rows = []
    for seed in SEEDS:
        for n in (1, 2, 19000, 151660, 2**31):
            rng = random.Random(seed)
            v = rng.choices(range(n), k=500)
            rows.append(dict(seed=seed, n=n, first=v[:4], sha256=digest(v, "<i8"), random=rng.random().hex()))
    return rows


def hashes():
    assert os.environ.get("PYTHONHASHSEED") == "0", "set PYTHONHASHSEED=0"
    texts = ["", "a", "0:16", "1:16", "-1:3", "46:512", "184467440737095516150:16", "caf\u00e9:1", "\u65e5\u672c:2",
             "\U0001f600:4", "\u00ff\u0100", "\x00", "x" * 300] + ["z" * n for n in range(6, 18)]
    return [dict(text=t, hash=str(hash(t))) for t in texts]


json.dump(dict(numpy=np.__version__, python=sys.version.split()[0], integers=integers(),
               gammas=gammas(), cpython=python(), schedules=schedules(), randints=randints(),
               mixed=mixed(), choices=choices(), hashes=hashes(), samples=samples()),
          sys.stdout, separators=(",", ":"))
print()
