#!/usr/bin/env python3
"""Documents print what the benches' tables of rows hold, and a figure that differs is found.

    figures.py
"""

import pathlib
import re
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
    ("checkpoints", "checkpoints.csv", "formats", "checkpoint-pauses"),
    ("storage", "storage.csv", "nvme", "storage"),
    ("planner/planner", "planner/measured.csv", "planner", "planner"),
    ("planner/planner --drawn 24", "planner/drawn.csv", "planner", "planner drawn 24"),
    ("planner/planner --drawn 200", "planner/drawn200.csv", "planner", "planner drawn 200"),
    ("planner/planner --scaling", "planner/scaling.csv", "planner", "planner scaling"),
]


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

    def test_every_piece_has_its_bench(self):
        """Those of bench/papers and of tools/readme-table have tests of their own."""
        known = {(document, piece) for _, _, document, piece in PIECES}
        for path in sorted((ROOT / "docs").glob("*.md")):
            for piece in re.findall(r"<!-- (.+) -->", path.read_text(encoding="utf-8")):
                if piece != "end" and path.stem != "papers":
                    self.assertIn((path.stem, piece), known)


if __name__ == "__main__":
    unittest.main()
