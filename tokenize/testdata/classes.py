"""Prints tokenize/classes.json: what transformers' tokenizer classes do beside tokenizer.json.

Run it with the transformers version to follow:

    HF_HUB_OFFLINE=1 python tokenize/testdata/classes.py > tokenize/classes.json

models:  model type -> [registered class, whether that class overrules the one a folder names]
classes: class -> kind, and for the kind "built" its token defaults, the tokens that only it
         knows, and the pipelines it builds in place of the file's (one per add_prefix_space, legacy).
kinds:   file (tokenizer.json as it is), built (pipeline from the class, vocabulary and merges
         from the file), other (not followed: built from options or vocabulary we do not model),
         python (no tokenizer.json at all)
"""

import inspect
import json

import transformers
from transformers import TokenizersBackend
from transformers.models.auto import tokenization_auto as auto

# Classes of generative models whose pipeline depends on add_prefix_space and legacy only.
BUILT = {
    "CohereTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer", "GemmaTokenizer",
    "LlamaTokenizer", "Qwen2Tokenizer", "Qwen3_5Tokenizer",
}
FILE = {"TokenizersBackend", "PythonBackend", "PreTrainedTokenizer", "PreTrainedTokenizerFast"}


def pipeline(cls, options):
    tokenizer = cls(**options)
    full = json.loads(tokenizer.backend_tokenizer.to_str())
    model = {k: v for k, v in full["model"].items() if k not in ("vocab", "merges")}
    return {
        "add_prefix_space": options.get("add_prefix_space"),
        "legacy": options.get("legacy"),
        "model": model,
        "normalizer": full["normalizer"],
        "pre_tokenizer": full["pre_tokenizer"],
        "decoder": full["decoder"],
    }


def built(cls):
    parameters = inspect.signature(cls.__init__).parameters
    pipelines = []
    for prefix in (None, False, True):
        for legacy in (None, False, True) if "legacy" in parameters else (None,):
            options = {"add_prefix_space": prefix, "legacy": legacy}
            options = {k: v for k, v in options.items() if v is not None}
            if prefix is None or "add_prefix_space" in parameters:
                pipelines.append(pipeline(cls, options))
    return {
        "kind": "built",
        "defaults": {k: p.default for k, p in parameters.items() if k.endswith("_token") and not k.startswith("add_")},
        # What __init__ does after the base class's (read from the source, not found by probing).
        "readd": {"Qwen2Tokenizer": "all", "CohereTokenizer": "extra"}.get(cls.__name__, ""),
        "no_post_processor": cls.__name__ == "GPTNeoXTokenizer",
        "pipelines": pipelines,
    }


def describe(cls):
    if cls is None or cls.__name__ in FILE:
        return {"kind": "file"}
    if not issubclass(cls, TokenizersBackend):
        return {"kind": "python"}
    if cls.__name__ in BUILT:
        return built(cls)
    return {"kind": "other" if "__init__" in cls.__dict__ else "file"}


def main():
    names = {n for n in dir(transformers) if n.endswith(("Tokenizer", "TokenizerFast"))} | FILE
    names |= {n for n in auto.TOKENIZER_MAPPING_NAMES.values() if n}
    classes = {}
    for name in sorted(names):
        cls = auto.tokenizer_class_from_name(name)
        # A class under a second name (LlamaTokenizerFast) is written once.
        alias = cls is not None and cls.__name__ != name and cls.__name__ in names and cls.__name__ not in FILE
        classes[name] = {"kind": "alias", "of": cls.__name__} if alias else describe(cls)
    incorrect = auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
    models = {k: [v or "", k in incorrect] for k, v in sorted(auto.TOKENIZER_MAPPING_NAMES.items())}
    out = ['{"transformers": %s,' % json.dumps(transformers.__version__)]
    for title, table in (("models", models), ("classes", classes)):
        rows = ["  %s: %s" % (json.dumps(k), json.dumps(v, ensure_ascii=False)) for k, v in table.items()]
        out.append('"%s": {\n%s\n}' % (title, ",\n".join(rows)) + ("," if title == "models" else "}"))
    print("\n".join(out))


main()
