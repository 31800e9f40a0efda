"""Prints what transformers says of tokenizer folders, as JSON, one object a folder.

    HF_HUB_OFFLINE=1 python tokenize/testdata/oracle.py [--brief] FOLDER... > answers.json

The tests of package tokenize hold the Go implementation against it.
"""

import json
import os
import random
import sys

import tokenizers
import transformers

TEXTS = [
    "", " ", "  ", "\n", "\n\n \n", "\t x", "a", "Hello world", " Hello world ", "Hello,  world !  ok .",
    "it's we're I'M don't they'll ' s", "1234567890 3.14 1,000,000", "naïve café ﬁ Å e\u0301 \u1e9b\u0323",
    "grüße 🙂 👩‍👩‍👧‍👦 🇩🇪", "日本語のテキスト 中文 한국어", "العربية עברית हिन्दी ไทย", "\u0000", "a\u0000b\u0000\u0000 c",
    "\ufffd\ufffd", "\ufeffbom", "a\u200bb\u00a0c\u2028d", "x" * 300, " " * 70 + "y", "\r\n\r\n\tif x:\r\n\t\tpass",
    "<|endoftext|>", "a<|endoftext|>b", "<s>[INST] hi [/INST]</s>", "<bos>x<mask>y<eos>", "<unk><pad>",
    "<|im_start|>user\nhi<|im_end|>\n", "<|begin_of_text|>q<|eot_id|>", "▁under▁line", "Ġgpt Ċ", "<0x0A><0xFF>",
    "\u0300\u0301combining", "\U0010ffff\U000f0000", "ǅ ß İ ı ſ", "https://a.b/c?d=e&f=%20#g", "{\"k\": [1, null, \"v\\n\"]}",
    "[BOS]x[EOS] [MASK]y", "[TOOL]z  [PAD]", "\u0001\u001f\u007f\u0080\u009f",
]


def decodings(tokenizer, size):
    """Runs of consecutive ids, singles, and random ids (most make invalid UTF-8)."""
    rng = random.Random(1)
    runs = [list(range(start, min(start + 40, size))) for start in range(0, size, max(40, size // 60))]
    runs += [[i] for i in range(0, size, max(1, size // 80))]
    runs += [[rng.randrange(size) for _ in range(25)] for _ in range(40)]
    runs += [list(range(max(0, size - 10), len(tokenizer) + 10)), []]
    runs += [list(range(min(size, 300)))]
    return runs


def answers(folder, brief):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    runs = decodings(tokenizer, tokenizer.vocab_size)
    if brief:
        runs = runs[::4] + runs[-1:]
    decoded = [tokenizer.decode(ids) for ids in runs]
    return {
        "folder": os.path.basename(folder.rstrip("/")),
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "class": type(tokenizer).__name__,
        "vocab_size": tokenizer.vocab_size,
        "all_special_ids": sorted(set(tokenizer.all_special_ids)),
        "num_special_tokens_to_add": tokenizer.num_special_tokens_to_add(),
        "others": sorted({i for i in tokenizer.get_vocab().values() if i >= tokenizer.vocab_size}),
        "missing": sorted(set(range(tokenizer.vocab_size)) - set(tokenizer.get_vocab().values())),
        "control": sorted(i for i, t in tokenizer.added_tokens_decoder.items() if t.special),
        "encode": [
            {
                "text": text,
                "plain": tokenizer.encode(text, add_special_tokens=False),
                "special": tokenizer.encode(text, add_special_tokens=True),
            }
            for text in TEXTS + [d for d in decoded[: 10 if brief else 60]]
        ],
        "decode": [{"ids": ids, "text": text} for ids, text in zip(runs, decoded)],
    }


if __name__ == "__main__":
    brief = "--brief" in sys.argv
    rows = [json.dumps(answers(f, brief), separators=(",", ":")) for f in sys.argv[1:] if f != "--brief"]
    print("[" + ",\n".join(rows) + "]")
