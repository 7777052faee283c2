#!/usr/bin/env python3
"""Records what Hugging Face's tokenizers make of texts, for tests/models/test_tokenizer.c.

usage: record.py

Trains a small byte-level BPE on this repository's README.md and writes it and the tokens of texts beside
itself: tokenizer.json, vocab.json and merges.txt (the same), expected.json. Needs the package tokenizers.
"""

import json
import pathlib
import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = ["", " ", "\n\n", "hello world's  we'll  it'd", "1,234.5 + x²= ½", "a\n\n\n  b\t\tc   ",
         "\u00a0nbsp \u3000 \x1c ٣٤ 日本語 ﬁ ǅ", "<|endoftext|>abc<|endoftext|>\n<|endoftext|>",
         "<|endoftext| >"]


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([(HERE.parents[2] / "README.md").read_text(encoding="utf-8")], trainer)
    tokenizer.save(str(HERE / "tokenizer.json"))
    tokenizer.model.save(str(HERE))
    draw = random.Random(1)
    letters = [*map(chr, [*range(1, 0x250), *range(0x2000, 0x2080), 0x1f600, 0x300, 0x2160])]
    texts = TEXTS + ["".join(draw.choice(letters if draw.random() < 0.5 else list("ab the 's \n12"))
                             for _ in range(draw.randrange(60))) for _ in range(60)]
    expected = [dict(text=text, tokens=tokenizer.encode(text).ids) for text in texts]
    (HERE / "expected.json").write_text(json.dumps(expected, ensure_ascii=True) + "\n", encoding="utf-8")


main()
