#!/bin/sh
# A client that is starved of CPU must not be VALID, and one that is not must not be
# INVALID for its CPU. The hogs are children in a process group of their own, which is
# killed as one.
#   bash bench/e2e/starve.sh [BINARY] [PORT]
set -eu
bin=${1:-bin/servebench} port=${2:-18679}
dir=$(mktemp -d)
"$bin" sim --port "$port" --ttft 50ms --itl 10ms >"$dir/sim.log" 2>&1 &
sim=$! hogs=
end() {
	[ -z "$hogs" ] || kill -KILL -"$hogs" 2>/dev/null || true
	kill "$sim" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -r "$dir"
}
trap end EXIT INT TERM
run() {
	GOMAXPROCS=1 nice -n "$1" "$bin" serve --base-url "http://127.0.0.1:$port" --ready-check-timeout-sec 20 --model m \
		--request-rate 40 --num-prompts 200 --random-input-len 16 --random-output-len 20 >"$dir/screen" 2>&1
	sed -n '/^Verdict/,/^$/p; /^Client health/,/^$/p' "$dir/screen"
}
echo "== not starved"
run 0
if grep -q 'of its CPUs' "$dir/screen"; then echo "starve: an idle client is called busy" >&2; exit 1; fi
# Four hogs a core, at a higher priority than the client: it gets a hundredth.
n=$(($(nproc) * 4))
setsid sh -c 'i=0; while [ $i -lt '"$n"' ]; do (while :; do :; done) & i=$((i+1)); done; wait' &
hogs=$!
echo "== starved by $n hogs"
run 19
if grep -q '^Verdict: VALID' "$dir/screen"; then echo "starve: a starved client is called valid" >&2; exit 1; fi
echo "ok"
