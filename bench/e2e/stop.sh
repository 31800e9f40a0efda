#!/usr/bin/env bash
# stop.sh NAME...: stops servers that start.sh started, by the recorded pid and
# the process group of the same number, never by a program's name.
BASE=${SERVEBENCH_VLLM:-${XDG_CACHE_HOME:-$HOME/.cache}/servebench-vllm}
# members prints the pids of group $1 that belong to a vLLM server: a number that
# was reused must not be hit.
members() {
  local d s
  for d in /proc/[0-9]*; do
    s=$(cat "$d/stat" 2>/dev/null) || continue
    [ -r "$d/cmdline" ] || continue
    s=${s##*) }
    set -- "$1" $s # state, parent, group, ...
    [ "$4" = "$1" ] && [ "$2" != Z ] &&
      { tr '\0' ' ' <"$d/cmdline"; } 2>/dev/null | grep -Eq 'vllm|VLLM::|multiprocessing' && echo "${d#/proc/}"
  done
}
for n; do
  f=$BASE/run/$n.pid
  [ -f "$f" ] || { echo "$n: no pid file"; continue; }
  p=$(cat "$f")
  case $p in '' | *[!0-9]*) echo "$n: bad pid file"; continue ;; esac
  if [ -z "$(members "$p")" ]; then
    echo "$n: $p is not running"
    rm -f "$f"
    continue
  fi
  # The API server alone is asked: it ends what it started in order.
  if [ -r "/proc/$p/cmdline" ] && { tr '\0' ' ' <"/proc/$p/cmdline"; } 2>/dev/null | grep -q 'vllm.* serve '; then
    kill -TERM "$p"
  fi
  for _ in $(seq 80); do
    [ -z "$(members "$p")" ] && break
    sleep 0.5
  done
  for q in $(members "$p"); do
    echo "$n: $q still there after 40 s, killing it"
    kill -KILL "$q"
  done
  rm -f "$f"
  echo "$n: $p stopped"
done
