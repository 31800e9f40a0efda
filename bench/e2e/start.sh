#!/usr/bin/env bash
# start.sh NAME PORT MODEL [vllm serve arguments...]: starts vLLM on the CPU with
# a model of setup.sh, waits until it answers and prints its pid, which stop.sh
# finds again by NAME. Whatever ends start.sh early ends the server too.
#
#   start.sh plain 8100 qwen3
#   start.sh spec 8101 qwen3-chain --speculative-config '{"method":"ngram",...}'
#
# READY_S (420) bounds the wait; MAX_LEN (8192) and SEQS (64) size the server.
set -u
[ $# -ge 3 ] || { echo "usage: start.sh NAME PORT MODEL [argument...]" >&2; exit 2; }
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/env.sh"
NAME=$1 PORT=$2 MODEL=$BASE/$3
shift 3
PIDF=$BASE/run/$NAME.pid LOG=$BASE/logs/$NAME.log
mkdir -p "$BASE/run" "$BASE/logs"
if [ -f "$PIDF" ] && kill -0 "$(cat "$PIDF")" 2>/dev/null; then
  echo "$NAME is already running: $(cat "$PIDF")" >&2
  exit 1
fi
if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
  echo "port $PORT is taken" >&2
  exit 1
fi
ready=
finish() { [ -n "$ready" ] || bash "$HERE/stop.sh" "$NAME" >&2; }
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# setsid: a process group of its own under the recorded number, so that stop.sh
# reaches whatever the server starts.
setsid "$VENV/bin/vllm" serve "$MODEL" --served-model-name tiny \
  --host 127.0.0.1 --port "$PORT" --max-model-len "${MAX_LEN:-8192}" \
  --max-num-seqs "${SEQS:-64}" --dtype float32 --enforce-eager \
  --generation-config vllm --distributed-executor-backend uni "$@" >"$LOG" 2>&1 </dev/null &
PID=$!
echo "$PID" >"$PIDF"
END=$((SECONDS + ${READY_S:-420}))
until curl -fsS -m 3 -o /dev/null "http://127.0.0.1:$PORT/health" 2>/dev/null; do
  if ! kill -0 "$PID" 2>/dev/null; then
    echo "the server ended before it was ready; its log is $LOG" >&2
    grep -E 'Error|error:' "$LOG" | tail -5 >&2
    exit 1
  fi
  if [ $SECONDS -ge $END ]; then
    echo "not ready after ${READY_S:-420} s; its log is $LOG" >&2
    exit 1
  fi
  sleep 1
done
# The first requests compile kernels, the first with logprobs for 11 s. A server
# that pools has no completions.
curl -fsS -m 120 -o /dev/null "http://127.0.0.1:$PORT/v1/embeddings" -H 'content-type: application/json' \
  -d '{"model":"tiny","input":"warm"}' 2>/dev/null ||
curl -fsS -m 120 -o /dev/null "http://127.0.0.1:$PORT/v1/completions" -H 'content-type: application/json' \
  -d '{"model":"tiny","prompt":"warm","max_tokens":4,"logprobs":1,"ignore_eos":true}' >&2 ||
  { echo "the first request failed; the log is $LOG" >&2; exit 1; }
ready=1
echo "$PID"
