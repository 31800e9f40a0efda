#!/usr/bin/env bash
# vllm.sh: servebench against a real vLLM on the CPU; `make e2e-vllm` runs it.
# It sets vLLM up where it is missing, runs the published commands against the
# simulator, and hands over to bench/internal/e2e, which starts and stops the
# servers, checks, and writes docs/vllm.md. Arguments go there:
# `bash bench/e2e/vllm.sh -only counts,keys`.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bash bench/e2e/setup.sh
export GOFLAGS=${GOFLAGS:--buildvcs=false}
go build -o bin/e2e ./bench/internal/e2e
if go test -count=1 -run TestReferenceCommands ./bench/internal/e2e; then
  echo "PASS references: the published commands on the simulator"
else
  echo "FAIL references: the published commands on the simulator"
  exit 1
fi
exec bin/e2e "$@" # it stops its servers itself, also on a signal
