#!/usr/bin/env python3
"""Documents print what the benches' tables of rows hold, a figure that differs is found, and sentences quote
the figures of these tables. A bench that measures some of its rows keeps the others.

    figures.py
"""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A bench with its options, the table of its rows, the document, and the piece of it.
PIECES = [
    ("fidelity/fidelity", "fidelity/measured.csv", "clock", "fidelity"),
    ("sweep/sweep", "sweep/measured.csv", "clock", "sweep"),
    ("sweep/ranks", "sweep/ranks.csv", "ranks", "ranks"),
    ("ranks/rows", "ranks/rows.csv", "ranks", "rows of ranks"),
    ("ranks/steps", "ranks/measured.csv", "ranks", "steps of ranks"),
    ("pipelines/steps", "pipelines/measured.csv", "pipelines", "steps of stages"),
    ("pipelines/moving", "pipelines/moving.csv", "pipelines", "moving stages"),
    ("pipelines/delay", "pipelines/delay.csv", "pipelines", "losses of delayed updates"),
    ("policies/bench_policies", "policies/measured.csv", "policies", "policies"),
    ("optimizer", "optimizer.csv", "devices", "optimizer"),
    ("gpu/results", "results/h200/results.json", "devices", "h200"),
    ("gpu/replayed", "results/h200/replayed.csv", "devices", "replayed"),
    ("checkpoints", "checkpoints.csv", "formats", "checkpoint-pauses"),
    ("storage", "storage.csv", "nvme", "storage"),
    ("planner/planner", "planner/measured.csv", "planner", "planner"),
    ("planner/planner --drawn 24", "planner/drawn.csv", "planner", "planner drawn 24"),
    ("planner/planner --drawn 24 --nvme", "planner/drawn_nvme.csv", "nvme", "planner drawn 24 nvme"),
    ("planner/planner --drawn 200", "planner/drawn200.csv", "planner", "planner drawn 200"),
    ("planner/planner --scaling", "planner/scaling.csv", "planner", "planner scaling"),
]

# A page, a sentence in it, the document whose pieces have the sentence's figures, how the names of these pieces begin,
# and where a figure stands there. A figure is written as #. If there are more of them than the sentence has, it quotes
# the least and the greatest, or only the greatest. A sentence may round them.
QUOTES = [
    ("README", "124M takes # ms where compiled PyTorch takes #", "devices", "h200", r"call 2: .*PyTorch.*? \| # \|"),
    ("README", "# % off on average there", "devices", "replayed", "those without updates .* on average: # %"),
    ("README", "updates on the host # %, and up to", "devices", "replayed", "those with updates .* on average: # %"),
    ("README", "and up to # %.. ", "devices", "replayed", "the worst within # %"),
    ("README", "predicted within # % on average, .* but for one size", "papers", "resident", "on average: # %"),
    ("README", "on average, # % at worst, but for one size", "papers", "resident", "at worst.*: # %"),
    ("docs/models", "within # % on average and .* but for one size", "papers", "resident", "on average: # %"),
    ("docs/models", "on average and # % at worst, but for one size", "papers", "resident", "at worst.*: # %"),
    ("docs/models", "within # % on average, and .* if shapes are left out", "papers", "products", "on average: # %"),
    ("docs/models", "within # % if shapes are left out", "papers", "products", "without shapes, # %"),
    ("README", "would take # to # % of what they took", "papers", "resident: constants", "# to # %"),
    ("docs/clock", "PyTorch reached # to # %", "papers", "resident: constants", "# to # %"),
    ("README", "two stages on the CPU were predicted within # %", "pipelines", "steps of stages", "worst error is # %"),
    ("README", "two ranks within # % on one host and # % over", "ranks", "steps of ranks", "worst error is # %"),
    ("README", "up to # % above", "planner", "planner drawn 200", "worst at most .*: # %"),
    ("README", "# % on average of 200 drawn steps, # % in the median", "planner", "planner drawn 200",
     "on average at most .*: # %, in the median # %"),
    ("README", "10,000 operators take up to # s of processors", "planner", "planner", "10,000 operators .*: # s"),
]


def pieces(document, name):
    """Returns the text of the document's pieces whose names begin so."""
    text = (ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(rf"<!-- {name}.*?-->\n(.*?)<!-- end -->", text, re.DOTALL))


def figures(pattern, text):
    """Returns what stands for # in all matches of the pattern, as texts."""
    matches = re.finditer(pattern.replace("#", r"(\d+(?:\.\d+)?)"), text)
    return [group for match in matches for group in match.groups()]


def quoted_as(quote, found):
    """Returns what a sentence with as many figures should say of those found, each with as many decimals."""
    if len(found) > len(quote):
        found = sorted(found, key=float)
        found = [found[0], found[-1]][-len(quote):]
    return [f"{float(figure):.{len(like.partition('.')[2])}f}" for figure, like in zip(found, quote)]


def check(bench, table, document):
    name, *options = bench.split()
    return subprocess.run([ROOT / "bench" / name, *options, "--rows", ROOT / "bench" / table, "--check", document],
                          capture_output=True, text=True)


class Figures(unittest.TestCase):
    def test_documents_print_what_the_tables_hold(self):
        for bench, table, document, _ in PIECES:
            with self.subTest(bench):
                done = check(bench, table, ROOT / "docs" / f"{document}.md")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_another_figure_is_found(self):
        for bench, table, document, piece in PIECES:
            text = (ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8")
            figure = re.compile(r"\d").search(text, text.index("Goal", text.index(f"<!-- {piece} -->")))
            changed = text[:figure.start()] + str(9 - int(figure[0])) + text[figure.end():]
            with self.subTest(bench), tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as file:
                file.write(changed)
                file.flush()
                done = check(bench, table, file.name)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"the results '{piece}' differ", done.stdout)

    def test_sentences_quote_the_tables(self):
        for page, sentence, document, name, pattern in QUOTES:
            with self.subTest(f"{page}: {sentence}"):
                text = " ".join((ROOT / f"{page}.md").read_text(encoding="utf-8").split())
                quote = figures(sentence, text)
                self.assertEqual(len(quote), sentence.count("#"), "the sentence must be there once")
                self.assertEqual(quote, quoted_as(quote, figures(pattern, pieces(document, name))))

    def test_every_piece_has_its_bench(self):
        """Those of bench/papers and of tools/readme-table have tests of their own."""
        known = {(document, piece) for _, _, document, piece in PIECES}
        for path in sorted((ROOT / "docs").glob("*.md")):
            for piece in re.findall(r"<!-- (.+) -->", path.read_text(encoding="utf-8")):
                if piece != "end" and path.stem != "papers":
                    self.assertIn((path.stem, piece), known)

    def test_some_rows_are_measured_and_the_others_kept(self):
        """The bench of moving stages, with a pstar-plan that knows its answer."""
        table = ROOT / "bench/pipelines/moving.csv"
        moving = {"stage_parts": 1, "schedule": "gpipe", "micro_batch": 7, "step_seconds": 3.5, "bound_seconds": 3.25}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            planner, copy = folder / "pstar-plan", folder / "moving.csv"
            answer = json.dumps({"moving": moving})
            planner.write_text(f"#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\necho '{answer}' > $1\n")
            planner.chmod(0o755)
            shutil.copy(table, copy)
            subprocess.run([ROOT / "bench/pipelines/moving", "--programs", folder, "-o", copy, "--only", "2"],
                           stdout=subprocess.DEVNULL)
            rows, before = (path.read_text().splitlines() for path in (copy, table))
            self.assertEqual([row for row in rows if not row.startswith("2,")],
                             [row for row in before if not row.startswith("2,")])
            self.assertEqual([row.split(",")[8:12] for row in rows if row.startswith("2,")],
                             [["gpipe", "7", "3.5", "3.25"]])


if __name__ == "__main__":
    unittest.main()
