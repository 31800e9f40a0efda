"""Writes serveargv.json: what vLLM's parser makes of lines for `vllm serve`.

Run it with the Python of an installed vLLM (0.32.0), as serveflags.py:

    python cmd/servebench/testdata/serveargv.py

A line is read by the whole command line, as a shell gives it: it ends in values of
the flags that `servebench sim` looks at, or in the message of argparse.
"""

import contextlib
import io
import json
import os
import pathlib

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")

import vllm  # noqa: E402
from vllm.entrypoints.cli.serve import ServeSubcommand  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

LINES = """
m
m --port 8001 --host 0.0.0.0
m --max_model_len 2k
m --max-model-len 2K
m --max-model-len auto
m --max-model-len -1
m --max-model-len 25.6k
m --max-model-len 25.6K
m --max-num-batched-tokens 1_024
m --max-num-seqs=7
m --max-num-s 7
m --max-num 7
m -tp 2 -pp 3
m -tp=2
m -t 2
m -d 2
m -q fp8
m -qfp8
m -n2
m -x 3
m -O3
m -O=3
m -O 3
m --served-model-name a b --block-size 32
m --served-model-name
m --enable-prefix-caching --no-enable-prefix-caching
m --no-enable-chunked-prefill
m --enable-chunked-prefill=1
m --enable-p
m --dtype half
m --dtype fp7
m --max-lora-rank 9
m --safetensors-load-strategy slow
m --max-num-seqs many
m --kv-cache-memory-bytes 4g
m --kv-cache-memory-bytes None
m --kv-cache-memory-bytes some
m --num-gpu-blocks-override None
m --gpu-memory-utilization 0.5
m --device-memory-utilization 0.5
m --gpu-memory-utilization most
m --speculative-config {"num_speculative_tokens":3}
m --speculative-config.num_speculative_tokens 3 --speculative-config.method ngram
m -sc.num_speculative_tokens 3
m -sc {"num_speculative_tokens":3}
m --speculative-config None
m --speculative-config {
m --spec-tokens 4
m --stream-interval 5 --seed 9
m --hf-token --port 8002
m --hf-token secret --port 8002
m --api-key a b --seed 3
m --lora-modules x=y z=w
m --port
m --port --seed 3
m --seed -4
m --no-such-flag
m --no-such-flag 3 --other
m --no-such-flag=3
m n
m n --seed 3
m --port x --no-such-flag
"""


def parser():
    main = FlexibleArgumentParser(prog="vllm")
    ServeSubcommand().subparser_init(main.add_subparsers(dest="subparser"))
    return main


KEPT = (
    "model_tag host port max_model_len max_num_seqs max_num_batched_tokens tensor_parallel_size "
    "served_model_name block_size enable_prefix_caching enable_chunked_prefill num_gpu_blocks_override "
    "kv_cache_memory_bytes gpu_memory_utilization speculative_config spec_tokens stream_interval seed api_key"
).split()


def read(p, line):
    # Quotes of JSON are part of a word here.
    words = line.split(" ")
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err):
            args = vars(p.parse_args(["serve", *words]))
    except SystemExit as e:
        message = err.getvalue().split("error: ", 1)[1].strip()
        return {"line": words, "exit": e.code, "error": message}
    return {"line": words, "values": {k: args[k] for k in KEPT if args[k] is not None}}


def main():
    p = parser()
    rows = [read(p, line) for line in LINES.strip().split("\n")]
    text = '{"vllm": %s, "lines": [\n%s\n]}\n' % (
        json.dumps(vllm.__version__),
        ",\n".join("  " + json.dumps(r) for r in rows),
    )
    (pathlib.Path(__file__).parent / "serveargv.json").write_text(text)


if __name__ == "__main__":
    main()
