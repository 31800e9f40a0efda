"""Writes argv.json: command lines, and what vLLM's own parser makes of them.

Run it after flags.py, with the same Python. A case has the words, whether the
parser refuses them, the flags they set, and where servebench does otherwise on
purpose, "ours": "accepts: ..." or "refuses: ...".
"""

import argparse
import contextlib
import io
import json
import logging
import pathlib
import random


from flags import parser

logging.disable(logging.CRITICAL)

# Its values are Python literals with tuples for keys: tested where they are read.
SKIPPED = {"--random-mm-bucket-config"}
# Values that servebench refuses, or may come to take: tested there.
REFUSED = {
    "--backend": {"openai-audio", "openai-embeddings-clip", "openai-embeddings-vlm2vec", "infinity-embeddings-clip"},
    "--dataset-name": {"custom_audio"},
    "--asr-max-audio-len-sec": None,
    "--asr-min-audio-len-sec": None,
    "--bfcl-categories": None,
}


def tagged(v):
    if isinstance(v, bool):
        return ["bool", "true" if v else "false"]
    if isinstance(v, int):
        return ["int", str(v)]
    if isinstance(v, float):
        return ["float", repr(v)]
    if isinstance(v, str):
        return ["str", v]
    if isinstance(v, list) and all(isinstance(x, str) for x in v):
        return ["list", v]
    return ["json", v]


def parse(p, actions, args):
    """Only what the words set: all defaults are suppressed."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            got = p.parse_args(list(args))
    except (SystemExit, Exception):
        return {"args": args, "error": True}
    values = {}
    for a in actions:
        if not hasattr(got, a.dest):
            continue
        v = getattr(got, a.dest)
        if a.type is json.loads:
            values[a.option_strings[0][2:]] = ["json", v]
        else:
            values[a.option_strings[0][2:]] = tagged(v)
    return {"args": args, "error": False, "set": values}


def samples(a):
    """Groups of words that fit behind the flag."""
    name = a.option_strings[0]
    if a.nargs == 0:
        return [[]]
    if name in REFUSED and REFUSED[name] is None:
        return [[str(a.default)]] if a.default is not None else []
    if a.choices:
        return [[c] for c in sorted(a.choices) if c not in REFUSED.get(name, ())]
    if name == "--tokenizer-mode":
        return [["auto"], ["hf"]]
    if a.nargs in ("*", "+"):
        return [["A=1"], ["A=1", "B=x y", "C=a,b"], ["-1", "a=b=c"]]
    if a.type is int:
        return [["7"], ["-3"], ["1_000"], [" 5 "], ["007"]]
    if a.type is float:
        return [["0.5"], ["inf"], ["1e3"], ["-2"], [".5"], ["3."]]
    if a.type is json.loads:
        return [['{"a_b": -1, "c": [1, 2.50]}'], ["{}"], ['{"a": {"b": null}}']]
    return [["x"], ["a=b"], ["a_b-c"], ["x y"], [""], ["-"], ["/a.b/c_d"], ["-x y"]]


def bad(a):
    if a.nargs == 0:
        return [["x"], ["1"]]
    if a.nargs == "*":
        return []
    if a.nargs == "+":
        return [[]]
    if a.choices:
        return [[], ["nonsense"], ["-x"]]
    if a.type is int:
        return [[], ["x"], ["1.5"], ["0x10"], [""], ["1__0"]] if "rps" not in a.option_strings[0] else [[], ["x"]]
    if a.type is float:
        return [[], ["x"], ["1,5"], ["0x1p3"], ["1_"]]
    if a.type is json.loads:
        return [[], ["{"], ["{a: 1}"], ["{'a': 1}"], [""]]
    return [[], ["a", "b"], ["--"]]


def abbreviations(names, name):
    """The shortest prefix that stands for the flag, and the one before it."""
    for n in range(3, len(name)):
        short = name[:n]
        if [x for x in names if x.startswith(short)] == [name]:
            return [short, short[:-1]] if n > 3 else [short]
    return []


def cases(p, actions):
    names = [o for a in p._actions for o in a.option_strings if o.startswith("--")]
    for a in actions:
        good = samples(a)
        for name in a.option_strings:
            under = "--" + name[2:].replace("-", "_")
            for i, words in enumerate(good):
                yield [name if i % 2 == 0 else under, *words]
            if good and a.nargs != 0:
                yield [name + "=" + good[-1][0]]
                yield [under + "=" + good[0][0], "--seed=1"]
                yield [name, *good[0], "--seed", "5", under, *good[-1]]
            for short in abbreviations(names, name):
                if good:
                    yield [short, *good[0]]
                    if a.nargs != 0:
                        yield [short.replace("-", "_", 3).replace("__", "--", 1) + "=" + good[0][0]]
            for words in bad(a):
                yield [name, *words]
            yield [name]
            yield ["-" + name.lstrip("-"), *(good[0] if good else [])]
            yield [name + "x", *(good[0] if good else [])]


BY_HAND = [
    [],
    ["x"],
    ["--seed", "1", "x"],
    ["--seed", "1", "--", "x"],
    ["--num", "5"],
    ["--num-p", "5"],
    ["--max", "5"],
    ["--he", "A=1"],
    ["--hea", "A=1", "B=2"],
    ["--header", "A=1", "--header", "B=2"],
    ["--header"],
    ["--header", "--seed", "1"],
    ["--metadata", "a=1", "b=2", "--seed", "3"],
    ["--metadata", "-1", "--seed", "3"],
    ["--metadata=a=1", "b=2"],
    ["--goodput", "ttft:100", "tpot:50", "--save_result"],
    ["--goodput=ttft:100"],
    ["--goodput"],
    ["--ignore-eos", "false"],
    ["--self-timed"],
    ["--no-self-timed"],
    ["--no_self_timed"],
    ["--no-self"],
    ["--no-s"],
    ["--no-self-timed", "--self-timed"],
    ["--label=--seed"],
    ["--label", "--seed"],
    ["--label=-x"],
    ["--label", "-x"],
    ["--label", "-5"],
    ["--label", "-x y"],
    ["--label", "-x=y z"],
    ["--label", "a b", "c"],
    ["--seed", "-1"],
    ["--seed=-1"],
    ["--seed", "--num-prompts", "5"],
    ["--frequency-penalty", "-2"],
    ["--hf-o", "3"],
    ["--str", "x"],
    ["---seed", "1"],
    ["---seed", "1"],
    ["--seed ", "1"],
    ["--seed 1"],
    ["--Seed", "1"],
    ["--=x"],
    # JSON by keys.
    ["--extra-body.a", "1"],
    ["--extra_body.a_b.c_d", "1"],
    ["--extra-body.chat_template_kwargs.enable_thinking", "false"],
    ["--extra-body.a=1"],
    ["--extra-body.a=b=c"],
    ["--extra-body.a", "-5"],
    ["--extra-body.a", "1.50"],
    ["--extra-body.a", "1e3"],
    ["--extra-body.a", "null", "--extra-body.b", "true"],
    ["--extra-body.a", "text with spaces"],
    ["--extra-body.a", "text"],
    ["--extra-body.a", '"text"'],
    ["--extra-body.a", '{"b": 1, "c": [1, 2]}', "--extra-body.a.d", "2"],
    ["--extra-body.a.d", "2", "--extra-body.a", '{"b": 1}'],
    ["--extra-body.a", "1", "--extra-body.a.b", "2"],
    ["--extra-body.a.b", "2", "--extra-body.a", "1"],
    ["--extra-body.a", "1", "--extra-body.a", "2"],
    ["--extra-body.a", "[1, 2]", "--extra-body.a", "[3]"],
    ["--extra-body.stop+", "a,b"],
    ["--extra-body.stop+", "a", "--extra-body.stop+=b,c"],
    ["--extra-body.stop+", "1,2"],
    ["--extra-body.stop+", "1", "--extra-body.stop", "[2]"],
    ["--extra-body.stop", "[1]", "--extra-body.stop", "x", "--extra-body.stop+", "y"],
    ["--extra-body.a", ""],
    ["--extra-body.a+", ""],
    ["--extra-body.a", "1k", "--extra-body.b", "1K", "--extra-body.c", "25.6k", "--extra-body.d", "80g"],
    ["--extra-body.a", "1.5K", "--extra-body.b", "010", "--extra-body.c", "+5", "--extra-body.d", "1_000"],
    ["--extra-body.a", "2T", "--extra-body.b", "0.1M", "--extra-body.c", "3x"],
    ["--extra-body.a", " 7 ", "--extra-body.b", "[x", "--extra-body.c", "0x10"],
    ["--extra-body.a", "12345678901234567890123"],
    ["--extra-body.a.b.c.d", "1", "--extra-body.a.b.e", "2", "--extra-body.a.f", "3"],
    ["--extra-body.", "1"],
    ["--extra-body..a", "1"],
    ["--extra-body.a.", "1"],
    ["--extra-body.a.+", "1"],
    ["--extra-body", '{"x": 1}', "--extra-body.a", "1"],
    ["--extra-body.a", "1", "--extra-body", '{"x": 1}'],
    ["--extra-b.a", "1"],
    ["--extra-b.a", "1", "--extra-body.b", "2"],
    ["--extra-body.b", "2", "--extra-b.a", "1", "--extra-body.c", "3"],
    ["--extra-body.a"],
    ["--extra-body.key", "\u00e9\u4e2d \U0001f600"],
    ["--extra-body.k\u00e9y", "1"],
    ["--chat-template-kwargs.thinking", "true"],
    ["--chat_template_kwargs.a.b", "x", "--seed", "1"],
    ["--random-mm-limit-mm-per-prompt.image", "3", "--random-mm-limit-mm-per-prompt.video", "0"],
    ["--random-range-ratio.input", "0.3", "--random-range-ratio.output", "0.5"],
    ["--ramp-up-st.x", "1"],
    ["--extra-body.a", "1", "x"],
    ["--extra-body.a", "-x"],
    ["--extra-body.a", "-x", "--seed", "1"],
    ["--seed.x", "1"],
    ["--nosuch.x", "1"],
    ["--extra-body", "null"],
    ["--extra-body", "[1]"],
    ["--extra-body", "5"],
]

# Where servebench does otherwise, and why.
OURS = [
    (["--sim"], "accepts: an own flag"),
    (["--rec", "x"], "accepts: short for an own flag"),
    (["--hf-p", "x"], "accepts: short for an own flag"),
    (["--self-timed=true"], "accepts: a switch may be said out loud"),
    (["--"], "accepts: nothing follows"),
    (["--ignore-eos=true"], "accepts: a switch may be said out loud"),
    (["--ignore-eos=false", "--seed", "1"], "accepts: a switch may be said out loud"),
    (["--temperature", "-1e-3"], "accepts: a negative number with an exponent is a number"),
    (["--presence-penalty", "-0.5"], "accepts: vLLM takes the point for a JSON key and loses the number"),
    (["--presence-penalty", "-0.5", "--seed", "1"], "accepts: vLLM takes the point for a JSON key and loses the number"),
    (["--ramp-up-start-rps", "0.5"], "accepts: rates may be fractions"),
    (["--ramp-up-end-rps", "2.5"], "accepts: rates may be fractions"),
    (["--dataset-name", "sonnet"], "accepts: the name is an older vLLM's"),
    (["--hf-prompt-column", "x"], "accepts: an own flag"),
    (["--request-rate", "1,5"], "accepts: a list is a run for each value"),
    (["--max-concurrency", "1,2,4"], "accepts: a list is a run for each value"),
    (["--temperature", "nan"], "refuses: no request takes a NaN"),
    (["--extra-body.a", "NaN"], "refuses: JSON has no NaN"),
    (["--extra-body.a", "-Infinity"], "refuses: JSON has no infinity"),
    (["--extra-body", '{"a": NaN}'], "refuses: JSON has no NaN"),
    (["--label.x", "1"], "refuses: the flag holds no JSON"),
    (["--metadata.x", "1"], "refuses: the flag holds no JSON"),
    (["--extra-body.a", "--seed"], "refuses: a flag is no value"),
    (["--tokenizer-mode", "mistral"], "refuses: not supported"),
    (["--tokenizer-mode", "plugin"], "refuses: not supported"),
    (["--request-rate", "1e999"], "refuses: infinite by a slip; inf says it"),
]


def mixed(p, actions, n):
    rnd = random.Random(4)
    pool = [a for a in actions if samples(a)]
    for _ in range(n):
        line = []
        for _ in range(rnd.randint(2, 6)):
            a = rnd.choice(pool)
            name = rnd.choice(a.option_strings)
            if rnd.random() < 0.3:
                name = "--" + name[2:].replace("-", "_")
            words = rnd.choice(samples(a)) if rnd.random() < 0.97 else rnd.choice(bad(a) or [[]])
            if a.nargs is None and words and rnd.random() < 0.3:
                line.append(name + "=" + words[0])
            else:
                line += [name, *words]
            if rnd.random() < 0.1:
                line += ["--extra-body." + rnd.choice(["a", "a.b", "l+", "a.c_d"]), rnd.choice(["1", "x", '{"y": [1]}', "p,q"])]
        yield line


def main():
    p = parser()
    actions = [a for a in p._actions if not isinstance(a, argparse._HelpAction)]
    for a in actions:
        a.default, a.was = argparse.SUPPRESS, a.default
    tested = [a for a in actions if a.option_strings[0] not in SKIPPED]
    for a in tested:
        a.default = a.was  # for samples
    lines, seen = [], set()
    listed = [*BY_HAND, *cases(p, tested), *mixed(p, tested, 150)]
    for a in actions:
        a.default = argparse.SUPPRESS
    for args, ours in [*((x, "") for x in listed if x not in [a for a, _ in OURS]), *OURS]:
        if tuple(args) in seen:
            continue
        seen.add(tuple(args))
        case = parse(p, actions, args)
        if ours:
            case["ours"] = ours
            case.pop("set", None)
        lines.append(json.dumps(case))
    (pathlib.Path(__file__).parent / "argv.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
