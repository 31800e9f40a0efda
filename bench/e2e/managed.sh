#!/usr/bin/env bash
# managed.sh SERVEBENCH FOLDER [--resume]: `servebench sweep` with a real vLLM on the CPU that it starts and stops itself:
# two token budgets by two concurrencies, and a point whose server does not know one of its flags. The results
# are in FOLDER. Servers end with servebench, also where it is killed.
set -eu
[ $# -ge 2 ] || { echo "usage: managed.sh SERVEBENCH FOLDER [--resume]" >&2; exit 2; }
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/env.sh"
BENCH=$(realpath "$1")
mkdir -p "$2"
cat >"$2/managed.yaml" <<YAML
experiment:
  id: managed
  title: Token budget and concurrency of a tiny model on the CPU
  summary: Two scheduler token budgets at two concurrencies, and a start that fails.
  objective: Show that one command starts, measures, stops and describes a server.
  methodology: A tiny model of random weights on the CPU; its numbers describe no real model.
  tags: [cpu, test]
base:
  bench:
    backend: openai
    model: tiny
    tokenizer: $BASE/qwen3
    dataset-name: random
    random-input-len: 256
    random-output-len: 32
    num-prompts: 48
    num-warmups: 4
    max-concurrency: 8
    ready-check-timeout-sec: 120
    temperature: 0
    ignore-eos: true
    result-dir: $2
  vars: {max_num_batched_tokens: 2048, more: --no-enable-log-requests}
  server:
    ready_timeout: 7m
    command: [vllm, serve, $BASE/qwen3, --served-model-name, tiny, --host, "{host}", --port, "{port}",
      --max-model-len, "4096", --max-num-seqs, "32", --dtype, float32, --enforce-eager, --generation-config, vllm,
      --distributed-executor-backend, uni, --max-num-batched-tokens, "{max_num_batched_tokens}", "{more}"]
groups:
  - group: budget
    id: "budget-{max_num_batched_tokens}-c{max-concurrency}"
    name: "Token budget {max_num_batched_tokens}, concurrency {max-concurrency}"
    vary: {vars.max_num_batched_tokens: [256, 2048], bench.max-concurrency: [2, 8]}
  - group: broken
    id: wrong-flag
    name: A flag that vLLM does not have
    points: [{}]
    set: {vars.more: --no-such-flag}
    on_failure: {continue: true}
YAML
# Whoever looks for the servers of this folder finds them by this variable.
export MANAGED_FOLDER=$2
exec "$BENCH" sweep -f "$2/managed.yaml" "${@:3}"
