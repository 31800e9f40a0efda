"""Writes text.json: what vLLM 0.32.0's own data sets that read text give with a toy tokenizer.

Run with the Python of an installed vLLM 0.32.0: python text.py > text.json
With a folder of a Hugging Face tokenizer as argument it prints digests for that tokenizer instead:
python text.py ../../tokenize/testdata/small > text.small.json
The toy is that of golden.py, written a second time in fake_test.go. vLLM 0.32 has no SonnetDataset any more: it is
written anew here, from what it did.
"""
import csv
import hashlib
import io
import json
import os
import random
import string
import sys
import tempfile

# Only JSON may reach stdout; vLLM logs there.
out, sys.stdout = sys.stdout, sys.stderr
from vllm.benchmarks.datasets.datasets import (  # noqa: E402
    BurstGPTDataset, CustomDataset, ShareGPTDataset, SpecBench, SpeedBench)

LETTERS = string.ascii_lowercase
PIECES = (["<s>"] + list(LETTERS) + [LETTERS[i:i + 2] for i in range(0, 26, 2)]
          + [LETTERS[i] + LETTERS[i + 2] + LETTERS[i] for i in range(10)] + ["</s>"])
KNOWN = {p: i for i, p in enumerate(PIECES) if len(p) != 3 or p == "<s>"}


class Toy:
    vocab_size = len(PIECES)

    def __init__(self, added, head):
        self.added, self.head = added, head

    def decode(self, ids):
        return "".join(PIECES[i] for i in ids)

    def __call__(self, text):
        ids, at = [0] * self.added, 0
        text = text.encode().decode("latin-1")  # a byte at a time, as in Go
        while at < len(text):
            n = next((n for n in (4, 3, 2, 1) if text[at:at + n] in KNOWN), 0)
            ids.append(KNOWN[text[at:at + n]] if n else 1)
            at += max(n, 1)
        return type("Out", (), {"input_ids": ids})

    def apply_chat_template(self, messages, add_generation_prompt, tokenize):
        assert add_generation_prompt and not tokenize and len(messages) == 1
        return self.head + "[user]" + messages[0]["content"] + "[bot]"


def text(i, n):
    """n letters of which few merge, another text for each i."""
    rng = random.Random(i * 100003 + n)
    return "".join(rng.choice(LETTERS) for _ in range(n))


def sharegpt():
    entries = [{"id": "none"}, {"id": "one", "conversations": [{"from": "human", "value": "alone"}]}]
    for i in range(24):
        turns = [{"from": "human", "value": text(i, 3 + 2 * i)}, {"from": "gpt", "value": text(i + 100, 2 + i)}]
        entries.append({"id": str(i), "conversations": turns + turns[:i % 3]})
    entries[7]["conversations"][0]["value"] = "z" * 1200
    entries[9]["conversations"] = [{"value": "q" * 1000}, {"value": "s" * 1100}]
    entries[11]["image"] = "https://host/a.jpg?b=1&c=2"
    entries[13]["image"] = "photos/a b.jpg"
    entries[15]["video"] = "/videos/v.mp4"
    entries[16]["image"] = ""
    entries[17]["conversations"][0]["value"] = 'say "\u00e9\U0001f600"\n{[\\'
    return json.dumps(entries, indent=1)


def burstgpt():
    sheet = io.StringIO()
    rows = csv.writer(sheet)
    rows.writerow(["Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"])
    for i in range(60):
        row = [i * 7, ["GPT-4", "ChatGPT", "GPT-4"][i % 3], 1 + i * 5 % 90, 0 if i % 9 == 3 else 7 + i]
        rows.writerow(row + [row[2] + row[3], "Conversation log"])
    return sheet.getvalue()


FILES = {
    "sharegpt.json": sharegpt(),
    "burstgpt.csv": burstgpt(),
    "custom.jsonl": "".join(json.dumps(dict(prompt=text(i, 4 + i), output_tokens=10 + i)) + "\n" for i in range(12)),
    "question.jsonl": "".join(
        json.dumps(dict(question_id=i, category=["writing", "qa"][i % 2], turns=[text(i, 5 + i), "more"])) + "\n"
        for i in range(15)),
    "qualitative.jsonl": "".join(
        json.dumps(dict(category=["coding", "math", "qa"][i % 3],
                        messages=[dict(role="user", content=text(i, 6 + i))])) + "\n" for i in range(15)),
    "poem.txt": "".join(text(i, 18 + i * 3 % 11) + "\r\n" for i in range(40)) + "the last line",
}


def sonnet(tokenizer, spec, path):
    """SonnetDataset of older vLLM: returns rendered prompts as for a completions backend."""
    with open(path, encoding="utf-8") as f:
        lines = f.readlines()
    count = lambda t: len(tokenizer(t).input_ids)  # noqa: E731
    render = lambda t: tokenizer.apply_chat_template(  # noqa: E731
        [{"role": "user", "content": t}], add_generation_prompt=True, tokenize=False)
    question = "Pick as many lines as you can from these poem lines:\n"
    mean = sum(map(count, lines)) / len(lines)
    base = count(render(question))
    everything = round((spec["input_len"] - base) / mean)
    first = max(0, round((spec["prefix_len"] - base) / mean))
    random.seed(spec["seed"])
    rows = []
    while len(rows) < spec["prompts"]:
        body = lines[:first] + random.choices(lines, k=everything - first)
        prompt = render(question + "".join(body))
        if count(prompt) <= spec["input_len"]:
            rows.append([prompt, count(prompt), spec["output_len"], None])
    return rows


def sample(tokenizer, c, folder):
    spec, path = c["spec"], os.path.join(folder, c["file"])
    options = dict(dataset_path=path, disable_shuffle=spec.get("disable_shuffle", False))
    ask = dict(tokenizer=tokenizer, num_requests=spec["prompts"], no_oversample=spec.get("no_oversample", False))
    length = spec.get("output_len")
    name = spec["name"]
    if name == "sonnet":
        return sonnet(tokenizer, spec, path)
    if name == "sharegpt":
        requests = ShareGPTDataset(random_seed=spec["seed"], **options).sample(
            output_len=None if length == -1 else length, **ask)
    elif name == "burstgpt":
        requests = BurstGPTDataset(random_seed=spec["seed"], **options).sample(**ask)
    elif name == "custom":
        requests = CustomDataset(random_seed=spec["seed"], **options).sample(output_len=length, **ask)
    elif name == "spec_bench":
        requests = SpecBench(category=spec.get("category"), **options).sample(output_len=length, **ask)
    else:
        options["dataset_path"] = folder
        requests = SpeedBench(dataset_subset=spec["subset"], category=spec.get("category"), **options).sample(
            output_len=length, skip_chat_template=spec.get("skip_template", False), **ask)
    return [[r.prompt, r.prompt_len, r.expected_output_len, r.multi_modal_data] for r in requests]


def cases():
    """Each with a Spec of ours."""
    result = []

    def case(file, head="", added=1, **spec):
        result.append(dict(file=file, head=head, added=added, spec=spec))

    for seed in (0, 42):
        case("sharegpt.json", name="sharegpt", seed=seed, prompts=9, output_len=-1)
        case("sharegpt.json", name="sharegpt", seed=seed, prompts=30, output_len=-1, added=0)
        case("sharegpt.json", name="sharegpt", seed=seed, prompts=30, output_len=2, disable_shuffle=True)
        case("sharegpt.json", name="sharegpt", seed=seed, prompts=50, output_len=3, no_oversample=True)
        case("burstgpt.csv", name="burstgpt", seed=seed, prompts=20)
        case("burstgpt.csv", name="burstgpt", seed=seed, prompts=90)
        case("custom.jsonl", name="custom", seed=seed, prompts=7, output_len=-1)
        case("custom.jsonl", "<s>", name="custom", seed=seed, prompts=20, output_len=5)
        case("custom.jsonl", "<s>", 0, name="custom", seed=seed, prompts=0, output_len=5, disable_shuffle=True)
        case("poem.txt", name="sonnet", seed=seed, prompts=25, input_len=400, prefix_len=150, output_len=9)
        case("poem.txt", "<s>", name="sonnet", seed=seed, prompts=12, input_len=300, prefix_len=0, output_len=9)
        case("poem.txt", name="sonnet", seed=seed, prompts=3, input_len=2000, prefix_len=1700, output_len=9)
    for seed in (0, 42):  # vLLM does not pass it on
        case("question.jsonl", name="spec_bench", seed=seed, prompts=6, output_len=256)
        case("question.jsonl", "<s>", name="spec_bench", seed=seed, prompts=30, output_len=256, category="qa")
        case("question.jsonl", name="spec_bench", seed=seed, prompts=-1, output_len=256, disable_shuffle=True)
        case("qualitative.jsonl", name="speed_bench", subset="qualitative", seed=seed, prompts=6, output_len=4096)
        case("qualitative.jsonl", name="speed_bench", subset="qualitative", seed=seed, prompts=12, output_len=4096,
             category="math", skip_template=True)
        case("qualitative.jsonl", name="speed_bench", subset="qualitative", seed=seed, prompts=30, output_len=4096,
             no_oversample=True)
    return result


def real(folder):
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def make(c):
        head = tokenizer.bos_token if c["head"] else ""
        tokenizer.chat_template = head + "[user]{{ messages[0].content }}[bot]"
        return tokenizer
    return make


def main():
    make = real(sys.argv[1]) if len(sys.argv) > 1 else lambda c: Toy(c["added"], c["head"])
    done = []
    with tempfile.TemporaryDirectory() as folder:
        for name, content in FILES.items():
            with open(os.path.join(folder, name), "w", newline="") as f:
                f.write(content)
        for c in cases():
            random.seed(c["spec"]["seed"])  # as serve.py does
            rows = sample(make(c), c, folder)
            if len(sys.argv) > 1:
                h = hashlib.sha256()
                for prompt, n, o, _ in rows:
                    h.update(f"{len(prompt.encode())} {n} {o}\n{prompt}".encode())
                done.append(dict(c, sha256=h.hexdigest()))
            else:
                done.append(dict(c, rows=rows, next=random.random().hex()))
    out.write('{"files": ' + json.dumps({} if len(sys.argv) > 1 else FILES, indent=1) + ',\n"cases": [\n')
    out.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in done) + "\n]}\n")


main()
