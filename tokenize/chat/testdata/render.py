"""Renders chat templates with transformers, for the tests of tokenize/chat.

    python render.py              writes constructs.golden.json, and the golden.json of real/*
    python render.py FOLDER...    writes golden.json into folders with a tokenizer_config.json

The date is fixed to 2024-07-26 09:05:07. A text of more than 2,000 characters is
kept as its SHA-256. Where Python raises, the golden says so: the message of
raise_exception in full, of another error only that there is one.
"""

import datetime
import glob
import hashlib
import json
import os
import shutil
import sys
import tempfile

import jinja2
import transformers
import transformers.utils.chat_template_utils as utils
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26, 9, 5, 7, 123456)


utils.datetime = Fixed


def outcome(render):
    try:
        text = render()
    except jinja2.exceptions.TemplateError as e:
        if type(e) is jinja2.exceptions.TemplateError:
            return {"raised": str(e)}
        return {"error": type(e).__name__}
    except Exception as e:
        return {"error": type(e).__name__}
    if len(text) > 2000:
        return {"sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}
    return {"text": text}


def constructs():
    with open(f"{HERE}/constructs.json", encoding="utf-8") as f:
        variables = json.load(f)
    out = {}
    with open(f"{HERE}/constructs.txt", encoding="utf-8", newline="") as f:
        blocks = f.read().split("\n=== ")
    for block in blocks[1:]:
        name, _, template = block.partition("\n")
        if name in out:
            raise SystemExit(f"{name} comes twice")
        out[name] = outcome(lambda: utils._compile_jinja_template(template).render(**variables))
    write(f"{HERE}/constructs.golden.json", out)


def tokenizer(folder):
    """The tokenizer of a folder; one without a vocabulary is given an empty one."""
    if os.path.exists(f"{folder}/tokenizer.json"):
        return AutoTokenizer.from_pretrained(folder)
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        Tokenizer(models.BPE()).save(f"{copy}/tokenizer.json")
        return PreTrainedTokenizerFast.from_pretrained(copy)


def real(folder):
    with open(f"{HERE}/conversations.json", encoding="utf-8") as f:
        cases = json.load(f)
    tok = tokenizer(folder)
    out = {"transformers": transformers.__version__, "jinja2": jinja2.__version__, "special": tok.special_tokens_map}
    for case in cases:
        messages = [dict(m, content=m["content"] * m.pop("times", 1)) for m in case["messages"]]
        out[case["name"]] = outcome(
            lambda: tok.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False, **case.get("kwargs", {})
            )
        )
    write(f"{folder}/golden.json", out)


def write(path, data):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f, ensure_ascii=False, indent=1)
        f.write("\n")


if __name__ == "__main__":
    if not sys.argv[1:]:
        constructs()
    for folder in sys.argv[1:] or sorted(glob.glob(f"{HERE}/real/*")):
        real(folder)
