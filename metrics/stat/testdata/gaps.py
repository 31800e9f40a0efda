"""The null distribution of Stephens's D* for exponential gaps with estimated
mean, the table of ../arrivals.go: a simulation of a million samples, half a
minute.

    python3 -m venv v && v/bin/pip install numpy==2.4.6
    v/bin/python gaps.py
"""

import numpy as np

P = [0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.15, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001]
rng = np.random.default_rng(20261201)


def stars(n, sims):
    out, i = [], np.arange(1, n + 1)
    for _ in range(sims // 1000):
        x = rng.exponential(size=(1000, n))
        x.sort(axis=1)
        u = 1 - np.exp(-x / x.mean(axis=1, keepdims=True))
        d = np.maximum((i / n - u).max(axis=1), (u - (i - 1) / n).max(axis=1))
        out.append((d - 0.2 / n) * (np.sqrt(n) + 0.26 + 0.5 / np.sqrt(n)))
    return np.concatenate(out)


# Stephens's D* depends on n little: what remains is shown by the columns.
for n, sims in [(20, 400_000), (100, 400_000), (1000, 200_000)]:
    print(n, [round(float(q), 4) for q in np.quantile(stars(n, sims), [1 - p for p in P])])
