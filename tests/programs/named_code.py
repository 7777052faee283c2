#!/usr/bin/env python3
"""What documents say to be in a source file is there.

    named_code.py

Documents name code as "`FILE`: `FUNCTION`, `FUNCTION`" and as "`NAME` in `FILE`". The functions of the first kind are
defined in the file, and it has the names of the second.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
SOURCE = r"`([a-z_0-9]+/[a-z_0-9/]+\.[ch])`"
FUNCTIONS = re.compile(SOURCE + r": (`\w+`(?:, `\w+`)*)")
NAMES = re.compile(r"((?:`\w+` and )*`\w+`)\s+in\s+" + SOURCE)


def named(text):
    """Returns (file, name, whether it is a function) of all that a text names."""
    found = [(file, name, True) for file, names in FUNCTIONS.findall(text) for name in re.findall(r"\w+", names)]
    return found + [(file, name, False) for names, file in NAMES.findall(text)
                    for name in re.findall(r"`(\w+)`", names)]


def has(file, name, is_function):
    source = ROOT / file
    text = source.read_text() if source.exists() else ""
    pattern = rf"^(?:[\w*]+ )+\**{name}\(" if is_function else rf"\b{name}\b"
    return re.search(pattern, text, re.MULTILINE) is not None


class NamedCode(unittest.TestCase):
    def test_documents(self):
        count = 0
        for document in DOCUMENTS:
            for file, name, is_function in named(document.read_text()):
                count += 1
                with self.subTest(document=document.name, file=file, name=name):
                    self.assertTrue(has(file, name, is_function))
        self.assertGreater(count, 30)

    def test_finds_what_is_not_there(self):
        text = "| `engine/ranks.c`: `ranks_open`, `no_such` | `no_such_name` and `ranks_open`\nin `engine/ranks.h` |"
        self.assertEqual([has(*one) for one in named(text)], [True, False, False, True])


if __name__ == "__main__":
    unittest.main()
