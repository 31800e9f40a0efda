"""What numpy makes of record files, by the formulas of vLLM's client and of
docs/measurement.md: an independent second opinion for TestOracle.

    python3 -m venv v && v/bin/pip install numpy==2.4.6
    v/bin/python oracle.py generate     # writes the runs, *.requests.jsonl
    v/bin/python oracle.py              # reads them, writes oracle.json
    v/bin/python oracle.py stat         # writes ../stat/testdata/numpy.json
    v/bin/python oracle.py vllm FILE... # cuts results of `vllm bench serve --save-detailed` down to vllm-*.json

Everything here works on float seconds and on lists, as vLLM does; the Go code
works on integer nanoseconds.
"""

import json
import math
import pathlib
import random
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
PERCENT = [50, 90, 95, 99, 99.9]
MS = 10**6

# What a run was asked for; the Go test takes these from oracle.json.
RUNS = {
    "equal": {"open_loop": True, "goodput": {"ttft": 140, "tpot": 12.5}},
    "chat": {"open_loop": False, "goodput": {"e2el": 900, "tpot": 9}},
    "mixed": {"open_loop": True, "goodput": {"ttft": 150}},
    "stalls": {"open_loop": False, "goodput": {}},
    "unstreamed": {"open_loop": False, "goodput": {"e2el": 700}},
    "failed": {"open_loop": True, "goodput": {"ttft": 100}},
    "single": {"open_loop": False, "goodput": {}},
}


# --- generation -----------------------------------------------------------


class Run:
    def __init__(self, seed, open_loop, cap):
        self.rng, self.open, self.free = random.Random(seed), open_loop, [0] * cap
        self.lines, self.due = [], 0

    def request(self, gaps, *, outcome="ok", ttft=None, tail=0, connect=0, **extra):
        """gaps: ns between events; the first event comes ttft after sending."""
        rng = self.rng
        self.due += rng.randint(20 * MS, 90 * MS) if self.open else 0
        slot_index = min(range(len(self.free)), key=lambda i: self.free[i])
        since = self.free[slot_index]
        slot = max(self.due, since) if self.open else since
        sent = slot + rng.randint(15_000, 400_000)
        r = {"seq": len(self.lines), "id": f"bench-{len(self.lines)}", "due_ns": self.due if self.open else slot, "slot_ns": slot, "sent_ns": sent}
        if outcome not in ("connect", "timeout_connect"):
            r["status"] = extra.pop("status", 200)
        at = sent + (ttft if ttft is not None else rng.randint(90 * MS, 190 * MS))
        if "status" in r:
            r["headers_ns"] = at - 1000
        arrivals = []
        if gaps is not None:
            arrivals.append(at)
            for g in gaps:
                at += g
                arrivals.append(at)
            r["first_ns"] = arrivals[0]
        delays = []
        for i in range(len(arrivals)):
            same = i and arrivals[i] == arrivals[i - 1]
            delays.append(delays[-1] if same and rng.random() < 0.7 else rng.randint(3_000, 80_000))
        r |= {"done_ns": at + tail + rng.randint(10_000, 90_000), "arrivals_ns": arrivals, "rx_delay_ns": delays}
        r |= {"outcome": outcome, "reused": not connect, "prompt_tokens": rng.randint(40, 60)}
        if connect:
            r["connect_ns"] = connect
        if outcome != "ok":
            r["error"] = "the server closed or reset the connection"
        self.free[slot_index] = r["done_ns"]
        self.lines.append(r | extra)

    def gaps(self, n, lo=7 * MS, hi=14 * MS):
        return [self.rng.randint(lo, hi) for _ in range(n)]


def usage(n):
    return {"output_tokens": n, "token_source": "usage"}


def generate():
    runs = {}
    r = runs["equal"] = Run(1, True, 3)
    for i in range(30):
        r.request(r.gaps(15), connect=int(i % 11 == 3) * 250_000, **usage(16))

    r = runs["chat"] = Run(2, False, 4)
    for i in range(24):  # a role-only event first, then one to four tokens each
        chunks = r.rng.randint(5, 30)
        tokens = [0] + [r.rng.choice([1, 1, 2, 4]) for _ in range(chunks)]
        idle = [0]
        if i % 5 == 0:  # a chunk in the middle whose content is held back
            tokens[3], idle = r.rng.randint(0, 1), [0, 3]
        if i % 7 == 0:  # bears text, but no token of its own
            tokens[4] = 0
        r.request([0 if i % 3 else 40_000] + r.gaps(chunks - 1, 20 * MS, 60 * MS), tokens=tokens, not_bearing=idle, **usage(sum(tokens)))
    r = runs["mixed"] = Run(3, True, 5)
    for i in range(4):
        r.request(r.gaps(9), **usage(10))
        r.request([], **usage(1))
        r.request([], **usage(0))
        r.request([], **usage(12))  # all tokens in one event
        r.request(r.gaps(4), outcome="reset", **usage(5))
        r.request(None, outcome="connect", ttft=2 * MS)
        r.request(None, outcome="http", status=503, ttft=5 * MS)
        r.request(r.gaps(3), not_bearing=[0, 1, 2, 3], output_tokens=4, token_source="chunks")  # no text at all
        r.request(r.gaps(6), not_bearing=[0, 1, 2, 3, 4, 6], **usage(8))
        r.request([0, 0] + r.gaps(5) + [0], **usage(8 + i))  # several events in a read
        r.request(None, not_streamed=True, **({} if i % 2 else usage(20)))
    r.request(r.gaps(2), outcome="timeout_stall", tail=6000 * MS)

    r = runs["stalls"] = Run(4, False, 3)
    for i in range(12):
        g = r.gaps(20)
        g[i] = [4_294_967_295, 4_294_967_296, 5_000 * MS, 61_000 * MS, 9_999_999_999, 4_294_967_294][i % 6]
        r.request(g, **usage(40 if i % 2 else 21))

    r = runs["unstreamed"] = Run(5, False, 2)
    for i in range(11):
        r.request(None, ttft=r.rng.randint(300 * MS, 900 * MS), not_streamed=True, **usage(20 + i % 3))
    r = runs["failed"] = Run(6, True, 2)
    for outcome in ["stream_error", "timeout_headers", "decode", "connect"]:
        r.request([] if outcome == "decode" else None, outcome=outcome)
    r = runs["single"] = Run(7, False, 1)
    r.request(r.gaps(6), **usage(7))
    for name, run in runs.items():
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in run.lines)
        (HERE / f"{name}.requests.jsonl").write_text(text)


# --- the oracle -----------------------------------------------------------


def dist(seconds):
    """vLLM's numbers for one metric, in ms; None where vLLM has no sample."""
    if not seconds:
        return None
    x = np.array(seconds, dtype=float)
    return {
        "n": len(x),
        "mean": np.mean(x) * 1000,
        "median": np.median(x) * 1000,
        "std": np.std(x) * 1000,
        "min": np.min(x) * 1000,
        "max": np.max(x) * 1000,
        "p": [np.percentile(x, p) * 1000 for p in PERCENT],
    }


def s(ns):
    return ns / 1e9


def bearing(r):
    idle = set(r.get("not_bearing", []))
    times = [t for i, t in enumerate(r["arrivals_ns"]) if i not in idle]
    return times or r["arrivals_ns"]


def reading(ok, events, lone_tpot):
    """The four metrics over the events that `events` selects."""
    ttft, tpot, itl, e2el = [], [], [], []
    for r in ok:
        ev, n = events(r), r.get("output_tokens", 0)
        if not ev:
            e2el.append(s(r["done_ns"] - r["sent_ns"]))
            continue
        ttft.append(s(ev[0] - r["sent_ns"]))
        e2el.append(s(ev[-1] - r["sent_ns"]))
        itl += [s(b - a) for a, b in zip(ev, ev[1:])]
        if n > 1 and (lone_tpot or len(ev) > 1):
            tpot.append((e2el[-1] - ttft[-1]) / (n - 1))
    return {"ttft": dist(ttft), "tpot": dist(tpot), "itl": dist(itl), "e2el": dist(e2el)}


def per_token(ok):
    """Every token has its share, in whole ns, of the gap that it ended."""
    out = []
    for r in ok:
        if "tokens" not in r or not r["arrivals_ns"]:
            continue
        idle = set(r.get("not_bearing", []))
        if len(idle) == len(r["arrivals_ns"]):
            idle = set()
        start = None
        pending = 0
        for i, at in enumerate(r["arrivals_ns"]):
            pending += r["tokens"][i]
            if i in idle:
                continue
            if start is None:
                start, pending = at, 0
            elif pending:
                whole, rest = divmod(at - start, pending)
                out += [s(whole + 1)] * rest + [s(whole)] * (pending - rest)
                start, pending = at, 0
    return dist(out)


def good(ok, bounds):
    n = 0
    for r in ok:
        ev, tokens = r["arrivals_ns"], r.get("output_tokens", 0)
        end = ev[-1] if ev else r["done_ns"]
        v = {"e2el": s(end - r["sent_ns"]), "ttft": s(ev[0] - r["sent_ns"]) if ev else math.inf}
        v["tpot"] = 0 if tokens <= 1 else (v["e2el"] - v["ttft"]) / (tokens - 1) if ev else math.inf
        n += all(v[k] <= ms / 1000 for k, ms in bounds.items())
    return n


def vllm_peaks(ok):
    """vLLM's algorithm: seconds from the first start, chunks and touching requests."""
    if not ok:
        return 0, 0
    outs = []
    for r in ok:
        ev = r["arrivals_ns"]
        outs.append((s(r["sent_ns"]), [s(t) for t in ev], s((ev[-1] if ev else r["done_ns"]) - r["sent_ns"])))
    first = min(o[0] for o in outs)
    seconds = int(np.ceil(max(o[0] + o[2] for o in outs) - first)) + 1
    chunks, open_ = np.zeros(seconds), np.zeros(seconds)
    for start, events, latency in outs:
        for t in events:
            chunks[int(t - first)] += 1
        for k in range(int(start - first), int(start + latency - first) + 1):
            open_[k] += 1
    return int(chunks.max()), int(open_.max())


def in_flight(sent):
    return max((sum(q["sent_ns"] <= r["sent_ns"] < q["done_ns"] for q in sent) for r in sent), default=0)


def token_rate(ok, last):
    """The fullest of the windows [t, t + 1s), each begun by an event."""
    at, tokens = [], []
    for r in ok:
        n, ev = r.get("output_tokens", 0), r["arrivals_ns"]
        if not ev:
            shares = [(r["done_ns"], n)]
        elif "tokens" in r and sum(r["tokens"]) == n:
            shares = list(zip(ev, r["tokens"]))
        else:
            shares = [(t, n / len(bearing(r))) for t in bearing(r)]
        for t, k in shares:
            at.append(t)
            tokens.append(k)
    at, tokens = np.array(at, dtype=np.int64), np.array(tokens, dtype=float)
    peak = max((math.fsum(tokens[(at >= t) & (at < t + 10**9)]) for t in at), default=0)
    return max(peak, sum(r.get("output_tokens", 0) for r in ok) / s(last) if last else 0)


def summarize(lines, open_loop, goodput):
    ok = [r for r in lines if r["outcome"] == "ok"]
    told = [r["output_tokens"] for r in ok if "token_source" in r]
    chunks, touching = vllm_peaks(ok)
    last = max((r["done_ns"] for r in lines), default=0)
    queue = [s(r["sent_ns"] - (r["due_ns"] if open_loop else 0)) for r in ok]
    vllm = reading(ok, lambda r: r["arrivals_ns"], True)
    whole = [s((r["arrivals_ns"] or [r["done_ns"]])[-1] - r["sent_ns"]) for r in ok]
    rx = []
    for r in lines:
        reads = list(zip(r["arrivals_ns"], r["rx_delay_ns"]))
        rx += [s(d) for i, (t, d) in enumerate(reads) if i == 0 or reads[i - 1] != (t, d)]
    ramp = [r for r in lines if not open_loop and r["slot_ns"] == 0]
    paced = [r for r in lines if r not in ramp]
    return {
        "open_loop": open_loop,
        "goodput": goodput,
        "completed": len(ok),
        "failed": len(lines) - len(ok),
        "input_tokens": sum(r["prompt_tokens"] for r in ok),
        "output_tokens": sum(r.get("output_tokens", 0) for r in ok),
        "output_range": [min(told, default=0), max(told, default=0)],
        "good": good(ok, goodput),
        "peak_chunks": chunks,
        "peak_touching": touching,
        "in_flight": in_flight(lines),
        "token_rate": token_rate(ok, last),
        "reads": len(rx),
        "vllm": vllm,
        "token": reading(ok, bearing, False),
        "other": {
            "itl_per_token": per_token(ok),
            "ttft_from_due": dist([s(bearing(r)[0] - r["due_ns"]) for r in ok if r["arrivals_ns"]]) if open_loop else None,
            "e2el_from_due": dist([s((bearing(r) or [r["done_ns"]])[-1] - r["due_ns"]) for r in ok]) if open_loop else None,
            "client_queue": dist(queue),
            "e2el_with_queue": dist([q + w for q, w in zip(queue, whole)]),
            "queue_wait": dist([s(r["slot_ns"] - r["due_ns"]) for r in lines]) if open_loop else None,
            "lag": dist([s(r["sent_ns"] - r["slot_ns"]) for r in paced]),
            "ramp_lag": dist([s(r["sent_ns"] - r["slot_ns"]) for r in ramp]),
            "rx_delay": dist(rx),
            "connect": dist([s(r["connect_ns"]) for r in lines if "connect_ns" in r]),
        },
    }


def oracle():
    out = {}
    for name, asked in RUNS.items():
        with open(HERE / f"{name}.requests.jsonl") as f:
            out[name] = summarize([json.loads(line) for line in f], **asked)
    (HERE / "oracle.json").write_text(json.dumps({"percent": PERCENT, "runs": out}, indent=1) + "\n")


# --- stat -----------------------------------------------------------------


def lcg(n):
    """The Go test makes the same numbers, so that 10^5 of them need no file."""
    x, out = 1, []
    for _ in range(n):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((x >> 33) / 2**20)
    return out


def stat():
    sets = {f"lcg-{n}": lcg(n) for n in [1, 2, 3, 10, 100, 10**5]}
    sets["ties"] = [3.0, 1.5, 1.5, 1.5, 7.25, 7.25, 3.0, 1.5]
    sets["constant"] = [0.1] * 49
    sets["tiny spread"] = [1e6 + k * 2.0**-20 for k in [0, 1, 1, 2, 5]]
    sets["far apart"] = [1e-300, 1.0, 1e300]
    out = {}
    for name, x in sets.items():
        a = np.array(x)
        out[name] = {
            "x": None if name.startswith("lcg") else x,
            "n": len(x),
            "p": {str(p): float(np.percentile(a, p)) for p in [0, 25, 49, 50, 51, 75, 90, 95, 99, 99.9, 100]},
            "mean": math.fsum(x) / len(x),
        }
        if name != "far apart":  # squares overflow
            out[name]["std"] = float(np.std(a))
    path = HERE.parent / "stat" / "testdata"
    path.mkdir(exist_ok=True)
    (path / "numpy.json").write_text(json.dumps(out, indent=1) + "\n")


# --- results of vLLM itself -------------------------------------------------


def vllm(files):
    for name in files:
        full = json.loads(pathlib.Path(name).read_text())
        for key in ["generated_texts", "errors", "model_id", "tokenizer_id"]:
            full.pop(key)
        short = "vllm-spec.json" if "spec" in name else "vllm-plain.json"
        (HERE / short).write_text(json.dumps(full, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            oracle()
        case ["generate"]:
            generate()
        case ["stat"]:
            stat()
        case ["vllm", *files]:
            vllm(files)
        case _:
            sys.exit(__doc__)
