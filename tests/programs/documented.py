#!/usr/bin/env python3
"""Runs the commands that a page of the documentation prints.

usage: documented.py BUILD_DIR PAGE.md|EXAMPLE.c [FOLDER|torch]
       documented.py BUILD_DIR --prepare FOLDER

Every block of the page that is marked "sh" is run, in the order of the page, by one shell that stops at
the first command that fails. It runs in an empty folder with the project's models, platforms and
other folders in it, and the programs on the PATH. If the next block is marked "output", its lines must
be printed, in their order. Blocks with other marks are not run. Of a C file the indented lines of its
first comment are run.

With a FOLDER the page finds its files, which --prepare writes: text.txt, run.pstar, sweep.json,
machine.json, plan.json and run.jsonl of a small model, which the reference pages assume.

Exit status: 0, or 1 with the output of the block that failed; 77 if the page has no such block, or with
"torch" if there is no PyTorch.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
LINKED = ("models", "platforms", "collect", "examples", "include", "tools")
READY = """
cat /usr/include/*.h > text.txt
shape="--model models/configs/demo-11m.json --data text.txt --batch 4 --seq 64 --steps 3"
pstar-collect -o run.pstar -- pstar-run $shape --device-memory 100MiB --chunk-size 1MiB --log run.jsonl
cp platforms/cpu-2core.json machine.json
pstar-sim run.pstar --device-memory 80MiB --policy opt --platform machine.json --json sweep.json
pstar-plan run.pstar --device-memory 80MiB --platform machine.json -o plan.json
"""


def blocks(page):
    """Returns (line number, commands, lines that they print) of each block marked sh."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".c":
        lines = re.findall(r"^ \*     (.*?)(?: \*/)?$", text[:text.index("*/") + 2], re.MULTILINE)
        return [(1, "\n".join(lines), [])] if lines else []
    pattern = r"^```sh\n(.*?)^```$(?:\n\n```output\n(.*?)^```$)?"
    return [(text.count("\n", 0, match.start()) + 2, match.group(1),
             (match.group(2) or "").splitlines())
            for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL)]


def missing(expected, printed):
    """Returns the first expected line that is not printed after the one before it, or None."""
    lines = iter(printed.splitlines())
    return next((line for line in expected if line not in lines), None)


def run(commands, folder, environment):
    return subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)


def link_project(folder):
    for name in LINKED:
        os.symlink(PROJECT / name, folder / name)


def prepare(folder, environment):
    """Writes what the reference pages assume."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as empty:
        link_project(pathlib.Path(empty))
        done = run(READY, empty, environment)
        print(done.stdout.decode("utf-8", "replace"))
        for path in pathlib.Path(empty).iterdir():
            if not path.is_symlink():
                shutil.copy(path, folder)
    return done.returncode


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    environment = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}", LC_ALL="C.UTF-8",
                       PSTAR_LIBRARY=f"{build}/libpstar-core.so")
    if sys.argv[2] == "--prepare":
        return prepare(pathlib.Path(sys.argv[3]), environment)
    page, needs = pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    found = blocks(page)
    if not found or (needs == ["torch"] and not importlib.util.find_spec("torch")):
        return 77
    with tempfile.TemporaryDirectory() as folder:
        if needs not in ([], ["torch"]):
            shutil.copytree(needs[0], folder, dirs_exist_ok=True)
        link_project(pathlib.Path(folder))
        for line, commands, expected in found:
            done = run(commands, folder, environment)
            printed = done.stdout.decode("utf-8", "replace")
            if done.returncode == 0 and missing(expected, printed) is not None:
                print(f"{page.name}:{line}: prints no line {missing(expected, printed)!r} but\n"
                      f"{printed}")
                return 1
            if done.returncode:
                sys.stdout.write(printed[-4000:])
                print(f"{page.name}:{line}: these commands fail (exit status {done.returncode}):\n"
                      f"{commands}")
                return 1
    print(f"{page.name}: {len(found)} blocks of commands run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
