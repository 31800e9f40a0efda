"""What the result JSON of recorded requests must be: vLLM's formulas over float
seconds, with numpy, for TestResultIsTheFormulas. The records are those of
../../metrics/testdata; what the runs below add to them is given beside.

    python3 -m venv v && v/bin/pip install numpy==2.4.6
    v/bin/python oracle.py > oracle.json
"""

import json
import pathlib

import numpy as np

RECORDS = pathlib.Path(__file__).parents[2] / "metrics" / "testdata"
PERCENT = [50.0, 90.0, 99.0, 99.9]
GENERATED = ["ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"]

# offsets: an open loop. speculation, diffusion and ramp are as in vLLM's client;
# probes are in ns; sequences is the number of texts of request i.
RUNS = {
    "equal": dict(records="equal", rate=11.5, cap=3, open=True, goodput={"ttft": 140, "tpot": 12.5}),
    "chat": dict(records="chat", cap=4, goodput={"e2el": 900, "tpot": 9}, probes=[50_000_000, 31_234_567, 90_000_001], probe_failed=2),
    "mixed": dict(records="mixed", rate=20.0, cap=5, open=True, burstiness="inf", goodput={"ttft": 150},
                  speculation=dict(drafts=1000, draft_tokens=3000, accepted=1777, at=[900, 500, 377])),
    "stalls": dict(records="stalls", cap=3, diffusion=dict(steps=450, positions=450 * 32, committed=2900)),
    "uncapped": dict(records="chat"),
    "ramp": dict(records="equal", open=True, ramp=["linear", 0.5, 7.25]),
    "steep ramp": dict(records="mixed", cap=5, open=True, ramp=["exponential", 1, 64]),
    "unstreamed": dict(records="unstreamed", cap=2, stream=False, goodput={"e2el": 700}),
    "pooled": dict(records="unstreamed", cap=2, backend="openai-embeddings", sequences=[1, 4, 2], probes=[5_000_000]),
    "reranked": dict(records="unstreamed", rate=3.0, cap=2, open=True, backend="vllm-rerank", sequences=[8]),
    "single": dict(records="single", cap=1),
}


def read(name):
    with open(RECORDS / f"{name}.requests.jsonl") as f:
        return [json.loads(line) for line in f]


class Output:
    """A request as vLLM's client keeps it, in seconds."""

    def __init__(self, r, open_loop):
        self.ok = r["outcome"] == "ok"
        events = [t / 1e9 for t in r["arrivals_ns"]]
        self.start, self.due, self.streamed = r["sent_ns"] / 1e9, r["due_ns"] / 1e9, bool(events)
        self.ttft = events[0] - self.start if events else 0.0
        self.itl = [b - a for a, b in zip(events, events[1:])]
        end = events[-1] if events else r["done_ns"] / 1e9
        self.latency = end - self.start if self.ok else 0.0
        self.queue = self.start - (self.due if open_loop else 0.0)
        self.prompt_len, self.output_len = r["prompt_tokens"], r.get("output_tokens", 0) if self.ok else 0

    def tpot(self):
        return (self.latency - self.ttft) / (self.output_len - 1)


def statistics(result, name, seconds):
    x = np.array(seconds or [0.0])
    result[f"mean_{name}_ms"] = np.mean(x) * 1000
    result[f"median_{name}_ms"] = np.median(x) * 1000
    result[f"std_{name}_ms"] = np.std(x) * 1000
    for p in PERCENT:
        word = str(int(p)) if int(p) == p else str(p)
        result[f"p{word}_{name}_ms"] = np.percentile(x, p) * 1000


def good(ok, bounds):
    """A request without a stream meets no bound on one."""
    n = 0
    for o in ok:
        tpot = 0.0 if o.output_len <= 1 else o.tpot()
        values = {"ttft": o.ttft, "tpot": tpot, "e2el": o.latency}
        met = all(values[k] <= ms / 1000 for k, ms in bounds.items())
        n += met and (o.streamed or "ttft" not in bounds and ("tpot" not in bounds or o.output_len <= 1))
    return n


def peaks(ok):
    first = min(o.start for o in ok)
    seconds = int(np.ceil(max(o.start + o.latency for o in ok) - first)) + 1
    tokens, open_ = np.zeros(seconds), np.zeros(seconds)
    for o in ok:
        at = o.start + o.ttft
        for gap in [None] + o.itl if o.streamed else []:
            at += gap or 0.0
            tokens[int(at - first)] += 1
        for second in range(int(o.start - first), int(o.start + o.latency - first) + 1):
            open_[second] += 1
    return float(tokens.max()), int(open_.max())


def generated(outputs, ok, duration, run):
    total_in, total_out = sum(o.prompt_len for o in ok), sum(o.output_len for o in ok)
    tokens, open_ = peaks(ok)
    return {
        "duration": duration,
        "completed": len(ok),
        "failed": len(outputs) - len(ok),
        "total_input_tokens": total_in,
        "total_output_tokens": total_out,
        "request_throughput": len(ok) / duration,
        "request_goodput": good(ok, run["goodput"]) / duration if run.get("goodput") else None,
        "output_throughput": total_out / duration,
        "total_token_throughput": (total_in + total_out) / duration,
        "input_lens": [o.prompt_len for o in outputs],
        "output_lens": [o.output_len for o in outputs],
        "ttfts": [o.ttft for o in outputs],
        "itls": [o.itl for o in outputs],
        "latencies": [o.latency for o in outputs],
        "start_times": [o.start for o in outputs],
        "queue_times": [o.queue for o in outputs],
        "generated_texts": ["" for o in outputs],
        "errors": ["" if o.ok else "some" for o in outputs],
        "max_output_tokens_per_s": tokens,
        "max_concurrent_requests": open_,
        "rtfx": 0.0,
    }


def pooled(outputs, ok, duration, run):
    total_in = sum(o.prompt_len for o in ok)
    texts = [run["sequences"][i % len(run["sequences"])] for i in range(len(outputs))]
    total = sum(n for n, o in zip(texts, outputs) if o.ok)
    return {
        "duration": duration,
        "completed": len(ok),
        "total_input_tokens": total_in,
        "total_input_sequences": total,
        "request_throughput": len(ok) / duration,
        "input_sequence_throughput": total / duration,
        "total_token_throughput": total_in / duration,
        "input_lens": [o.prompt_len if o.ok else 0 for o in outputs],
        "latencies": [o.latency for o in outputs],
        "queue_times": [o.queue for o in outputs],
        "errors": ["" if o.ok else "some" for o in outputs],
    }


def probe(result, run):
    x = np.array(run["probes"]) / 1e9
    result["probe_completed"], result["probe_failed"] = len(x), run.get("probe_failed", 0)
    result["probe_median_e2el_ms"] = float(np.median(x)) * 1000
    result["probe_p99_e2el_ms"] = float(np.percentile(x, 99)) * 1000
    result["probe_max_e2el_ms"] = float(max(x)) * 1000


def ramp_events(outputs, ramp):
    """Where vLLM has the time of day there are the seconds since the start."""
    strategy, start, end = ramp
    events, last = [{"rps": int(start), "timestamp": 0.0}], int(start)
    for i, o in enumerate(outputs):
        progress = i / max(len(outputs) - 1, 1)
        rate = start + (end - start) * progress if strategy == "linear" else start * (end / start) ** progress
        for rps in range(last + 1, int(rate) + 1):
            events.append({"rps": rps, "timestamp": o.due})
        last = max(last, int(rate))
    return events


def decoding(result, run, duration):
    if s := run.get("speculation"):
        result["spec_decode_acceptance_rate"] = (s["accepted"] / s["draft_tokens"]) * 100
        result["spec_decode_acceptance_length"] = 1 + s["accepted"] / s["drafts"]
        result["spec_decode_num_drafts"] = s["drafts"]
        result["spec_decode_draft_tokens"] = s["draft_tokens"]
        result["spec_decode_accepted_tokens"] = s["accepted"]
        result["spec_decode_per_position_acceptance_rates"] = [n / s["drafts"] for n in s["at"]]
    if d := run.get("diffusion"):
        canvases = d["committed"] / (d["positions"] / d["steps"])
        denoising = d["steps"] - canvases
        result["diffusion_committed_throughput"] = d["committed"] / duration
        result["diffusion_steps_per_canvas"] = denoising / canvases
        result["diffusion_committed_per_step"] = d["committed"] / denoising
        result["diffusion_committed_tokens"] = d["committed"]
        result["diffusion_denoising_steps"] = int(denoising)
        result["diffusion_canvas_positions"] = d["positions"]


def result_of(run):
    lines = read(run["records"])
    outputs = [Output(r, run.get("open", False)) for r in lines]
    ok = [o for o in outputs if o.ok]
    duration = max(r["done_ns"] for r in lines) / 1e9
    pools = "sequences" in run
    head = {"request_rate": run.get("rate", "inf"), "burstiness": run.get("burstiness", 1.0), "max_concurrency": run.get("cap")}
    if "ramp" in run:
        head |= dict(zip(["ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"], run["ramp"]))
    result = head | (pooled if pools else generated)(outputs, ok, duration, run)
    if "probes" in run:
        probe(result, run)
    if "ramp" in run:
        result["rps_change_events"] = ramp_events(outputs, run["ramp"])
    decoding(result, run, duration)
    if not pools and run.get("stream", True):
        statistics(result, "ttft", [o.ttft for o in ok if o.streamed])
        statistics(result, "tpot", [o.tpot() for o in ok if o.streamed and o.output_len > 1])
        statistics(result, "itl", [gap for o in ok for gap in o.itl])
    statistics(result, "e2el", [o.latency for o in ok])
    if "cap" in run:
        statistics(result, "client_queue_time", [o.queue for o in ok])
        if run.get("open"):
            statistics(result, "e2el_including_client_queue", [o.latency + o.queue for o in ok])
    return result


if __name__ == "__main__":
    print(json.dumps({"percent": PERCENT, "runs": {name: {"run": run, "json": result_of(run)} for name, run in RUNS.items()}}))
