#!/usr/bin/env python3
"""Records what Hugging Face's tokenizers make of texts, for tests/models/test_tokenizer.c.

usage: record.py

Trains a small byte-level BPE on this repository's README.md and writes it and the tokens of texts beside
itself: tokenizer.json, vocab.json and merges.txt (the same), expected.json. Then a BPE of characters that falls back to
bytes, in the forms of LLaMA 2 (prepend), of later files (first) and of Gemma (replace), each in a folder. Needs the
package tokenizers.
"""

import json
import pathlib
import random

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

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
    record(tokenizer, texts, HERE)
    record_fallbacks([text.replace("<|endoftext|>", "</s>") for text in texts] + ["</s> a</s>b", "▁▁ a▁b", "a  b   c"])


def record(tokenizer, texts, folder):
    expected = [dict(text=text, tokens=tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    for entry in expected:
        decoded = tokenizer.decode(entry["tokens"], skip_special_tokens=False)
        if decoded != entry["text"]:
            entry["decoded"] = decoded
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=True) + "\n", encoding="utf-8")


def train_characters():
    """Returns a file whose special tokens are only those of LLaMA."""
    special = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=440, special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)])
    tokenizer.train_from_iterator([(HERE.parents[2] / "README.md").read_text(encoding="utf-8")], trainer)
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] in special]
    return json.dumps(file)


def record_fallbacks(texts):
    file = train_characters()
    replace = normalizers.Replace(" ", "▁")
    pieces = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    strip = decoders.Sequence(pieces + [decoders.Strip(" ", 1, 0)])
    forms = dict(
        prepend=(normalizers.Sequence([normalizers.Prepend("▁"), replace]), None, strip),
        first=(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), strip),
        replace=(replace, pre_tokenizers.Split(" ", "merged_with_previous"), decoders.Sequence(pieces)))
    for name, (normalizer, pre_tokenizer, decoder) in forms.items():
        tokenizer = Tokenizer.from_str(file)
        if normalizer:
            tokenizer.normalizer = normalizer
        written = json.loads(tokenizer.to_str())
        written["pre_tokenizer"] = pre_tokenizer and json.loads(pre_tokenizer.__getstate__())
        tokenizer = Tokenizer.from_str(json.dumps(written))
        tokenizer.decoder = decoder
        (HERE / name).mkdir(exist_ok=True)
        tokenizer.save(str(HERE / name / "tokenizer.json"), pretty=False)
        record(tokenizer, texts, HERE / name)


main()
