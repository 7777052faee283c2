#!/usr/bin/env python3
"""Checks the manual pages against the programs.

usage: manuals.py BUILD_DIR

Every page has the options of the program's --help and nothing else, with the same help; pstar's page
and help say of each program what its own page says; groff finds nothing wrong; and every example
works as printed, in a folder with the files of documented.py's reference pages.

Exit status: 0, or 1 with what is wrong.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import documented

PROJECT = documented.PROJECT


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout


def plain(roff):
    """Returns the text of a page as it is printed, one line for each line of the source."""
    text = re.sub(r"\\f[BIR]|\\&", "", roff)
    for escape, letter in ((r"\-", "-"), (r"\(aq", "'"), (r"\(ga", "`"), (r"\(ha", "^"),
                           (r"\(ti", "~"), (r"\e", "\\")):
        text = text.replace(escape, letter)
    return text


def options_of_help(text):
    """Returns {(options, value): help} of what --help-all prints."""
    pattern = r"^  (?:(-\w), )?(--(?!help)[a-z0-9-]+)(?:=(\S(?:\S| (?! ))*))?  +(\S.*)$"
    return {(letter or None, name, value or None): text.rstrip(".")
            for letter, name, value, text in re.findall(pattern, text, re.MULTILINE)}


def options_of_page(page):
    pattern = r"^\.TP\n(?:(-\w), )?(--(?!help)[a-z0-9-]+)(?:=(.*))?\n(.*)$"
    return {(letter or None, name, value or None): text.rstrip(".")
            for letter, name, value, text in re.findall(pattern, plain(page), re.MULTILINE)}


def examples_of(page):
    return re.findall(r"^\.RS 4\n\.PP\n\.nf\n(.*)\n\.fi\n\.RE$", plain(page), re.MULTILINE)


def purpose_of(page):
    return re.search(r"^\.SH NAME\n\S+ - (.*)$", plain(page), re.MULTILINE).group(1)


def lint(page):
    """Returns what groff finds wrong."""
    if not shutil.which("groff"):
        return ""
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, encoding="utf-8",
                          stderr=subprocess.PIPE, check=False)
    return done.stderr


def differences(build, name, page):
    """Yields what of a page is not as the program says."""
    program = str(build / name)
    if page != output(program, "--man-page"):
        yield "the page is not the program's own"
    if lint(page):
        yield lint(page)
    commands = re.findall(r"^\.SS \S+ (\S+)$", page, re.MULTILINE) if name == "pstar-trace" else []
    if name == "pstar":
        helped = {(None, "--version", None): "Print the version"}
    elif commands:
        texts = [output(program, command, "--help-all") for command in commands]
        helped = {key: text for one in texts for key, text in options_of_help(one).items()}
    else:
        helped = options_of_help(output(program, "--help-all"))
    written = options_of_page(page)
    if len(helped) < 1 or set(helped) != set(written):
        yield f"only one of page and --help has {set(helped) ^ set(written)}"
    for key in set(helped) & set(written):
        if not commands and helped[key] != written[key]:
            yield f"{key}: {written[key]} in the page, {helped[key]} in --help"
    if not examples_of(page) and name != "pstar":
        yield "there is no example"


def check_pstar(pages, build):
    """Yields where pstar's list of programs differs from the programs' own words."""
    listed = dict(re.findall(r"^  (\w+) +(\S.*)$", output(str(build / "pstar"), "--help"),
                             re.MULTILINE))
    purposes = {name.removeprefix("pstar-"): purpose_of(page) for name, page in pages.items()
                if name != "pstar"}
    script = (PROJECT / "tools/tokenize.1").read_text(encoding="utf-8")  # it makes no page itself
    purposes["tokenize"] = purpose_of(script)
    if lint(script):
        yield f"tokenize.1: {lint(script)}"
    if listed != purposes:
        yield f"pstar lists {listed}, but the pages say {purposes}"


def tokenizer(folder):
    """Writes a tokenizer of single bytes, as GPT-2's files are."""
    letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in letters]
    names = [chr(byte) for byte in letters] + [chr(256 + i) for i in range(len(others))]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")


# The traces of two ranks of one run.
RANKS = """for rank in 0 1; do
    pstar-trace synth --model models/configs/gpt2.json --batch 1 --seq 8 --precision fp32 --ranks 2 -o run-$rank.pstar
done"""


def training_script():
    """Returns the script that docs/pytorch.md begins with."""
    text = (PROJECT / "docs/pytorch.md").read_text(encoding="utf-8")
    return re.search(r"^cat > train.py <<'END'\n(.*?)^END$", text, re.MULTILINE | re.DOTALL).group(1)


def has_torch():
    return subprocess.run(["python3", "-c", "import torch"], check=False, stderr=subprocess.DEVNULL).returncode == 0


def run_examples(pages, build):
    """Yields the examples that fail."""
    environment = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        documented.link_project(folder)
        tokenizer(folder / "gpt2")
        profile = gzip.decompress((PROJECT / "tests/data/kineto/gpt.json.gz").read_bytes())
        (folder / "profile.json").write_bytes(profile)
        (folder / "train.py").write_text(training_script(), encoding="utf-8")
        skipped = "--torch " if not has_torch() else None
        commands = [documented.READY, RANKS] + [line for page in pages.values()
                                         for line in examples_of(page) if not (skipped and skipped in line)]
        for command in commands:
            done = documented.run(command, folder, environment)
            if done.returncode:
                yield f"{command}\n{done.stdout.decode('utf-8', 'replace')[-2000:]}"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    pages = {page.stem: page.read_text(encoding="utf-8")
             for page in sorted((build / "man").glob("*.1"))}
    wrong = [f"{name}: {text}" for name, page in pages.items()
             for text in differences(build, name, page)]
    wrong += check_pstar(pages, build)
    wrong += run_examples(pages, build)
    print("\n".join(wrong) if wrong else f"{len(pages)} pages are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
