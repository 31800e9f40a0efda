"""A second opinion on intervals, correlations, fits and tests, by scipy's exact
distributions and by the plain formulas: writes intervals.json.

    python3 -m venv v && v/bin/pip install numpy==2.4.6 scipy==1.17.1
    v/bin/python intervals.py
"""

import json
import math
import pathlib

import numpy as np
from scipy import special, stats


def lcg(n):
    """stat_test.go makes the same numbers."""
    x, out = 1, []
    for _ in range(n):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((x >> 33) / 2**20)
    return out


def ar(n, rho):
    out, v = [], 0.0
    for x in lcg(n):
        v = rho * v + x
        out.append(v)
    return out


def ranks(n, p, level):
    half = (1 - level) / 2
    b = stats.binom(n, p)
    lo = max((k for k in around(n, p) if b.cdf(k - 1) <= half), default=0)
    hi = min((k for k in around(n, p) if b.sf(k - 1) <= half), default=n + 1)
    return [lo, hi] if lo >= 1 and hi <= n else None


def around(n, p):
    wide = int(10 * math.sqrt(n * p * (1 - p)) + 12)
    return range(max(1, int(n * p) - wide), min(n, int(n * p) + wide) + 1)


def tail(n, p, c):
    """MLPerf's own words: h_min(t) + t <= n, by the incomplete beta function."""
    best = None
    for t in range(1, n):
        if special.betainc(n - t, t + 1, p) <= 1 - c:  # n - t is at least h_min(t)
            best = n - t + 1
        else:
            break
    return best


def floor(found, guess):
    return next(n for n in range(max(1, guess - 3), guess + 4) if found(n) is not None)


def mser(y):
    y = [float(np.mean(y[i : i + 5])) for i in range(0, len(y) // 5 * 5, 5)]
    n = len(y)
    score = [float(np.sum((np.array(y[d:]) - np.mean(y[d:])) ** 2)) / (n - d) ** 2 for d in range(n // 2 + 1)]
    d = int(np.argmin(score))
    return {"cut": 5 * d, "ok": d < n // 2}


def batches(y):
    n, m = len(y), min(max(len(y) // 30, 5), 10)
    means = [np.mean(y[j * n // m : (j + 1) * n // m]) for j in range(m)]
    half = stats.t.ppf(0.975, m - 1) * np.std(means, ddof=1) / math.sqrt(m)
    return {"mean": np.mean(y), "half": half, "m": m, "rho": np.corrcoef(means[:-1], means[1:])[0, 1]}


def line(y):
    x = np.arange(len(y)) * 0.5
    r = stats.linregress(x, y)
    return {"slope": r.slope, "half": stats.t.ppf(0.975, len(y) - 2) * r.stderr}


def gaps(x, shape):
    mean = np.mean(x)
    r = stats.kstest(np.array(x) / mean, stats.gamma(shape, scale=1 / shape).cdf)
    return {"d": r.statistic, "p": stats.kstwobign.sf(r.statistic * (math.sqrt(len(x)) + 0.12 + 0.11 / math.sqrt(len(x))))}


def main():
    ps = [0.5, 0.9, 0.95, 0.99, 0.999]
    sizes = [1, 2, 5, 6, 35, 36, 71, 72, 100, 367, 368, 1000, 3687, 3688, 10_000, 123_457]
    floors = dict(zip(ps, [6, 36, 72, 368, 3688]))
    tails = dict(zip(ps, [11, 64, 130, 662, 6636]))
    ties = [float(int(v) % 7) for v in lcg(200)]
    step = [500.0 - min(i, 40) * 10 + v / 500 for i, v in enumerate(lcg(150))]
    series = {"lcg": lcg(150), "ar": ar(300, 0.6), "ties": ties, "head": step, "climb": [i + v / 200 for i, v in enumerate(lcg(120))]}
    out = {
        "ranks": [[n, p, 0.95, ranks(n, p, 0.95)] for n in sizes for p in ps]
        + [[1000, p, level, ranks(1000, p, level)] for p in [0.5, 0.99] for level in [0.5, 0.9, 0.99]]
        + [[6_400_000, p, 0.95, ranks(6_400_000, p, 0.95)] for p in ps],
        "needs": [[p, floor(lambda n, p=p: ranks(n, p, 0.95), floors[p]), floor(lambda n, p=p: tail(n, p, 0.99), tails[p])] for p in ps],
        "tail": [[n, p, tail(n, p, 0.99)] for n in [10, 11, 63, 64, 129, 130, 661, 662, 1000, 6635, 6636, 10_000, 123_457] for p in ps],
        "wilson": [[k, n, *map(float, stats.binomtest(k, n).proportion_ci(0.95, "wilson"))] for k, n in [(0, 1), (1, 1), (0, 20), (20, 20), (1, 3), (50, 100), (997, 1000), (1, 10**6)]],
        "series": {
            name: {
                "x": None if name in ("lcg", "ar") else x,
                "n": len(x),
                "spearman": float(stats.spearmanr(x[:-1], x[1:]).statistic),
                "pearson": float(np.corrcoef(x[:-1], x[1:])[0, 1]),
                "batches": {k: float(v) for k, v in batches(x).items()},
                "line": {k: float(v) for k, v in line(x).items()},
                "mser": mser(x),
                "gaps": {str(shape): {k: float(v) for k, v in gaps(x, shape).items()} for shape in [1, 0.5, 4]},
            }
            for name, x in series.items()
        },
    }
    (pathlib.Path(__file__).parent / "intervals.json").write_text(json.dumps(out) + "\n")


main()
