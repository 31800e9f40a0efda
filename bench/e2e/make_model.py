#!/usr/bin/env python3
"""Makes a tiny Qwen3ForCausalLM with deterministic random weights.

usage: make_model.py --out DIR --tokenizer DIR [--chain N] [--seed S]

--chain 0 (the default): plain random weights, greedy output is arbitrary
vocabulary.
--chain N: the untied lm_head is the embedding table, its rows permuted in cycles
of N tokens, so that greedy decoding walks a cycle of N tokens with a wide margin:
the output repeats, and the ngram drafter gets real hits.

Every tensor comes from one torch.Generator: the same seed gives the same bytes
with the same version of torch.
"""
import argparse
import json
import os
import shutil

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

ap = argparse.ArgumentParser()
ap.add_argument("--out", required=True)
ap.add_argument("--tokenizer", required=True)
ap.add_argument("--chain", type=int, default=0)
ap.add_argument("--seed", type=int, default=20240607)
a = ap.parse_args()

hidden, words = 64, 151643  # ordinary tokens; special ones follow
cfg = Qwen3Config(
    vocab_size=151936, hidden_size=hidden, intermediate_size=2 * hidden,
    num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
    head_dim=32, max_position_embeddings=16384, rms_norm_eps=1e-6,
    tie_word_embeddings=False, hidden_act="silu",
    bos_token_id=151643, eos_token_id=151645, pad_token_id=151643,
)
cfg.architectures = ["Qwen3ForCausalLM"]
g = torch.Generator().manual_seed(a.seed)
m = Qwen3ForCausalLM(cfg).to(torch.float32).eval()
with torch.no_grad():
    for name, p in sorted(m.named_parameters()):
        if name.endswith("norm.weight"):
            p.fill_(1.0)
        elif name in ("model.embed_tokens.weight", "lm_head.weight"):
            p.copy_(torch.randn(p.shape, generator=g))
        else:
            p.copy_(torch.randn(p.shape, generator=g) * 0.05)
    if a.chain > 1:
        # lm_head[next(t)] = embedding[t] for ordinary tokens.
        emb = m.model.embed_tokens.weight
        n = (words // a.chain) * a.chain
        t = torch.randperm(words, generator=g)[:n].view(-1, a.chain)
        m.lm_head.weight.mul_(0.1)
        m.lm_head.weight[torch.roll(t, -1, dims=1).reshape(-1)] = emb[t.reshape(-1)]
os.makedirs(a.out, exist_ok=True)
m.config.torch_dtype = "float32"
m.generation_config.do_sample = True
m.generation_config.temperature = 1.0
m.generation_config.bos_token_id = 151643
m.generation_config.eos_token_id = [151645, 151643]
m.generation_config.pad_token_id = 151643
m.save_pretrained(a.out, safe_serialization=True)
shutil.copy(os.path.join(a.tokenizer, "tokenizer.json"), a.out)
with open(os.path.join(a.tokenizer, "tokenizer_config.json")) as f:
    tc = json.load(f)
tc.setdefault("chat_template", (
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content"
    " + '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{%- endif %}"))
with open(os.path.join(a.out, "tokenizer_config.json"), "w") as f:
    json.dump(tc, f)
print(a.out, round(sum(p.numel() for p in m.parameters()) / 1e6, 1), "M parameters")
