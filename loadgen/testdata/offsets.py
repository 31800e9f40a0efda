"""Writes offsets.json: the due times of vLLM's schedule, from numpy's own generator.

Run: python offsets.py > offsets.json   (numpy from PyPI)
"""
import json
import numpy as np

cases = []
for rate, b, seed, n in [
    (10, 1.0, 0, 8), (10, 0.5, 0, 8), (10, 2.0, 0, 8), (10, "inf", 0, 8),
    (200, 1.0, 42, 50), (0.5, 0.1, 1, 20), (3.7, 10.0, 7, 20), (1000, 1.0, 2**32 - 1, 100),
    (25, 0.99, 5, 30), (25, 1.01, 5, 30), (1, 1.0, 20260823, 1),
]:
    np.random.seed(seed)
    t, s = [], 0.0
    for _ in range(n):
        s += 1.0 / rate if b == "inf" else np.random.gamma(shape=b, scale=1.0 / (rate * b))
        t.append(s)
    k = (n / rate) / t[-1]
    cases.append(dict(N=n, Rate=rate, Burstiness=b, Seed=seed, Seconds=[float(x * k) for x in t]))
print(json.dumps(cases, indent=1))
