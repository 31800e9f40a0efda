"""Puts the streams of servebench's detailed results through vLLM's formulas.

usage: formulas.py GOODPUT RESULT.json...

Prints, for each file, what vLLM's calculate_metrics makes of its input_lens,
output_lens, ttfts, itls, latencies and start_times: a JSON object of the keys
that depend on them. GOODPUT is a JSON object of bounds in milliseconds.
"""
import contextlib
import json
import sys

with contextlib.redirect_stdout(sys.stderr):
    from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput
    from vllm.benchmarks.serve import calculate_metrics


def recomputed(path, goodput):
    with open(path) as f:
        d = json.load(f)
    outputs = []
    for i in range(len(d["ttfts"])):
        o = RequestFuncOutput()
        o.success = d["errors"][i] == ""
        o.error = d["errors"][i]
        o.prompt_len, o.output_tokens = d["input_lens"][i], d["output_lens"][i]
        o.ttft, o.itl, o.latency = d["ttfts"][i], d["itls"][i], d["latencies"][i]
        o.start_time = d["start_times"][i]
        outputs.append(o)
    percentiles = sorted({float(k[1:].split("_")[0]) for k in d if k.startswith("p") and k.endswith("_ttft_ms")})
    with contextlib.redirect_stdout(sys.stderr):
        m, _ = calculate_metrics([], outputs, d["duration"], None, percentiles, goodput)
    out = {
        "completed": m.completed, "failed": m.failed,
        "total_input_tokens": m.total_input, "total_output_tokens": m.total_output,
        "request_throughput": m.request_throughput, "output_throughput": m.output_throughput,
        "total_token_throughput": m.total_token_throughput,
        "max_output_tokens_per_s": m.max_output_tokens_per_s, "max_concurrent_requests": m.max_concurrent_requests,
    }
    if goodput:
        out["request_goodput"] = m.request_goodput
    for name in ("ttft", "tpot", "itl", "e2el"):
        for stat in ("mean", "median", "std"):
            out[f"{stat}_{name}_ms"] = getattr(m, f"{stat}_{name}_ms")
        for p, v in getattr(m, f"percentiles_{name}_ms"):
            out[f"p{int(p) if p == int(p) else p}_{name}_ms"] = v
    return {k: float(v) for k, v in out.items()}


print(json.dumps([recomputed(p, json.loads(sys.argv[1])) for p in sys.argv[2:]]))
