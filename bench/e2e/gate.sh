#!/usr/bin/env bash
# The gate in real time, on two simulators: equal ones pass, one that is 8 % slower fails,
# a client that stands still, another data set and a server that is away are told from
# that. Five minutes on a quiet machine.
#   bash bench/e2e/gate.sh [BINARY]
set -eu
bin=${1:-bin/servebench}
dir=$(mktemp -d)
servers=()
end() {
  for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -r "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM
# Both at once: they only sleep. A server that computes would be started for its runs.
start() { # NAME ITL: sets url
  "$bin" sim --port 0 --ttft 20ms --itl "$2" >"$dir/$1.log" 2>&1 &
  servers+=($!)
  for _ in $(seq 100); do
    url=$(grep -o 'http://[0-9.:]*' "$dir/$1.log" | head -n 1 || true)
    [ -z "$url" ] || return 0
    sleep 0.1
  done
  echo "gate: the simulator $1 did not start" >&2
  cat "$dir/$1.log" >&2
  exit 1
}
start a 10ms; a=$url
start b 10ms; b=$url
start slow 10.86ms; slow=$url
load=(--model m --skip-tokenizer-init --num-prompts 64 --max-concurrency 8 --random-input-len 16 --random-output-len 32 --temperature 0 --ignore-eos)
failed=0
# expect NAME CODE COMMAND...: runs it and compares the exit code.
expect() {
  local name=$1 want=$2 code=0
  shift 2
  "$@" >"$dir/$name.out" 2>"$dir/$name.err" || code=$?
  if [ "$code" -eq "$want" ]; then
    echo "PASS $name: exit $code: $(tail -n 1 "$dir/$name.out")"
  else
    failed=1
    echo "FAIL $name: exit $code, want $want"
    tail -n 20 "$dir/$name.out" "$dir/$name.err"
  fi
}
gate() { "$bin" gate "$@" "${load[@]}" --result-dir "$dir/runs-$RANDOM$RANDOM"; }
# standing still in the second run, which takes over two seconds
still() {
  "$bin" gate --baseline-url "$a" --candidate-url "$b" "${load[@]}" --result-dir "$dir/runs-still" 2>"$dir/still.progress" &
  local pid=$!
  until grep -q '\[1/' "$dir/still.progress" || ! kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  sleep 0.7
  kill -STOP "$pid"; sleep 1.6; kill -CONT "$pid"
  wait "$pid"
}
run() { "$bin" serve --base-url "$a" "${load[@]}" --save-result --result-dir "$dir" --result-filename "$1" "${@:2}" >/dev/null 2>&1; }
expect equal 0 gate --baseline-url "$a" --candidate-url "$b"
expect slower 3 gate --baseline-url "$a" --candidate-url "$slow"
expect slower-commands 3 gate --baseline-command '{servebench} sim --host {host} --port {port} --ttft 20ms --itl 10ms' --candidate-command '{servebench} sim --host {host} --port {port} --ttft 20ms --itl 10.86ms'
expect standing-still 4 still
expect away 5 gate --baseline-url "$a" --candidate-url http://127.0.0.1:1
expect wrong-rule 2 gate --baseline-url "$a" --candidate-url "$b" --require 'p99_ttft << 3ms'
run one.json && run other.json --seed 7 --random-range-ratio 0.5
expect other-data-set 4 "$bin" gate --baseline "$dir/one.json" --result "$dir/other.json"
exit "$failed"
