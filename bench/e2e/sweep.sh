#!/usr/bin/env bash
# sweep.sh BENCH PORT POINTS.json FOLDER: `vllm bench sweep serve` with BENCH as
# its --bench-cmd on a server that it starts on PORT, then `sweep plot`. The
# results are in FOLDER/e2e. Whatever ends this ends the server too.
set -eu
[ $# -eq 4 ] || { echo "usage: sweep.sh BENCH PORT POINTS.json FOLDER" >&2; exit 2; }
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/env.sh"
# The sweep's children, the server among them, lead groups of their own.
finish() {
  [ -n "${SWEEP:-}" ] || return 0
  children=$(pgrep -P "$SWEEP" || true)
  kill -KILL "$SWEEP" 2>/dev/null || true
  for child in $children; do kill -KILL -- "-$child" 2>/dev/null || kill -KILL "$child" 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 143' INT TERM HUP
"$VENV/bin/vllm" bench sweep serve \
  --serve-cmd "$VENV/bin/vllm serve $BASE/qwen3 --served-model-name tiny --host 127.0.0.1 --port $2 --max-model-len 8192 --max-num-seqs 64 --dtype float32 --enforce-eager --generation-config vllm --distributed-executor-backend uni" \
  --bench-cmd "$1" --bench-params "$3" --num-runs 1 --output-dir "$4" --experiment-name e2e &
SWEEP=$!
wait "$SWEEP"
SWEEP=
"$VENV/bin/vllm" bench sweep plot "$4/e2e" --var-x max_concurrency --var-y median_ttft_ms --fig-dpi 60
