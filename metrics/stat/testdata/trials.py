"""A second opinion on the comparison of repeats, by scipy's exact distributions,
by counting, and from published tables: writes trials.json.

    python3 -m venv v && v/bin/pip install numpy==2.4.6 scipy==1.17.1
    v/bin/python trials.py
"""

import itertools
import json
import math
import pathlib

import numpy as np
from scipy import stats

here = pathlib.Path(__file__).parent


def sign_flip(d):
    d = np.array(d)
    limit = d.mean() + 1e-12 * abs(d).mean()
    hits = sum((d * s).mean() <= limit for s in map(np.array, itertools.product([1, -1], repeat=len(d))))
    return int(hits) / 2 ** len(d)


def hodges_lehmann(d, level):
    d = np.array(d)
    n = len(d)
    walsh = np.sort([(d[i] + d[j]) / 2 for i in range(n) for j in range(i, n)])
    # The distribution of the signed-rank statistic by counting subsets.
    sums = [0]
    for r in range(1, n + 1):
        sums = sums + [s + r for s in sums]
    sums = np.array(sums)
    k = 0
    while (sums <= k).mean() <= (1 - level) / 2:
        k += 1
    if k == 0:
        return float(np.median(walsh)), None, None
    return float(np.median(walsh)), float(walsh[k - 1]), float(walsh[-k])


def mann_whitney(x, y):
    u = sum((a > b) + 0.5 * (a == b) for a in x for b in y)
    both = np.array(list(x) + list(y))
    ranks = stats.rankdata(both)
    limit = ranks[: len(x)].sum()
    sums = [ranks[list(c)].sum() for c in itertools.combinations(range(len(both)), len(x))]
    return float(u), float(np.mean(np.array(sums) <= limit + 1e-9))


rng = np.random.default_rng(7)
series = [
    [-0.05],
    [-0.01, -0.02, -0.03, -0.04, -0.05],
    [0.5, -0.5, 0.25, -0.25],
    [-1, -1, -1, 1, 1, -1, -1],
    [0, 0, -1, -2, 3],
] + [[round(float(v), 6) for v in rng.normal(-0.02, 0.03, n)] for n in (5, 6, 8, 10, 12)]
pairs = [
    ([1, 2, 3, 4], [5, 6, 7, 8]),
    ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]),
    ([3.1, 2.9, 3.3], [3.0, 3.2, 3.4, 3.6]),
    ([1, 1, 2, 2], [1, 2, 2, 3]),
    ([7, 7, 7], [7, 7, 7]),
    ([9, 1, 8], [2]),
]
ps = [
    [0.01, 0.04, 0.03, 0.005],
    [0.5, 0.5],
    [0.2],
    [0.001, 0.9, 0.04, 0.04, 0.02],
]


def holm(p):
    order = np.argsort(p, kind="stable")
    out, worst = [0.0] * len(p), 0.0
    for k, i in enumerate(order):
        worst = max(worst, min(1.0, p[i] * (len(p) - k)))
        out[i] = worst
    return out


out = {
    "t": [[p, df, float(stats.t.ppf(p, df))] for p in (0.025, 0.1, 0.5, 0.9, 0.95, 0.975, 0.99, 0.995) for df in (1, 2, 4, 7, 9, 15, 30, 120)],
    "t_p": [[t, df, float(stats.t.cdf(t, df))] for t in (-30, -3.2, -0.4, 0, 0.7, 2.5, 12) for df in (1, 4, 7, 30)],
    "sign_flip": [[d, sign_flip(d)] for d in series],
    "hodges_lehmann": [[d, level, *hodges_lehmann(d, level)] for d in series for level in (0.9, 0.95)],
    "mann_whitney": [[x, y, *mann_whitney(x, y)] for x, y in pairs],
    "holm": [[p, holm(p)] for p in ps],
}
for x, y in pairs[:3]:  # scipy's exact distribution knows no ties
    want = stats.mannwhitneyu(x, y, alternative="less", method="exact")
    assert math.isclose(mann_whitney(x, y)[1], want.pvalue), (x, y)
for d in series:
    if len(set(map(abs, d))) == len(d) and 0 not in d and 1 < len(d) <= 12:
        want = stats.permutation_test((d,), np.mean, permutation_type="samples", alternative="less", n_resamples=np.inf).pvalue
        assert math.isclose(sign_flip(d), want), (d, sign_flip(d), want)
(here / "trials.json").write_text(json.dumps(out, indent=1) + "\n")
