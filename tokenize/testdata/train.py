"""Trains the small tokenizer of the tests: python train.py FOLDER (needs the tokenizers package).

A byte-level BPE over the text below, with a post-processor that puts [BOS] in front,
special tokens of every spelling, and a normal added token.
"""

import json
import os
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = """
A load generator sends requests when they are due, whether or not the server kept up.
The server's first token ends the wait for the prompt; every later token is a step of the decoder.
Ein Lastgenerator schickt Anfragen zur geplanten Zeit, auch wenn der Server nicht nachkommt.
Größe, Höhe, Maß: Umlaute sind zwei Bytes. Les élèves goûtent où ça brûle.
負荷試験は予定どおりに要求を送ります。 Нагрузка растёт, ответы медленнее. 🙂🙃
for i in range(10): print(i, 3.14, 1000000)   # four   spaces    here
we're, it's, don't, I'll, they've; "quoted" (bracketed) [squared] {braced} <angled>
"""


def main(folder):
    os.makedirs(folder, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, show_progress=False, special_tokens=["[PAD]", "[BOS]", "[EOS]"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([TEXT] * 3, trainer)
    tokenizer.add_tokens([AddedToken("[TOOL]", lstrip=True, rstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[BOS] $A", pair="[BOS] $A [BOS] $B", special_tokens=[("[BOS]", tokenizer.token_to_id("[BOS]"))]
    )
    # Both are switched off on loading: without that every encoding would be 4 ids long.
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4, pad_id=0, pad_token="[PAD]")
    tokenizer.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "[BOS]",
        "eos_token": {"__type": "AddedToken", "content": "[EOS]", "lstrip": False, "rstrip": False,
                      "normalized": False, "single_word": False},
        "mask_token": "[MASK]",
        "unk_token": None,
        "image_token": "[IMG]",
        "additional_special_tokens": ["[A]", "[B]"],
        "clean_up_tokenization_spaces": True,
    }
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(config, f, indent=1)


main(sys.argv[1])
