#!/usr/bin/env python3
"""bench/planner/planner plans tiny instances that it draws, and what it keeps can be planned again.

    drawn.py FOLDER_OF_PROGRAMS
"""

import argparse
import contextlib
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench" / "planner"), str(ROOT / "bench")]
import anytime  # noqa: E402
import scaling  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop()).resolve()
SPENT = {"cpu_seconds", "draw_seconds", "rival_seconds", "day", "load"}


class Drawn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bench(self, *options):
        """Returns what the bench prints, and its rows without processor times. Goals may be missed."""
        table = self.folder / "rows.csv"
        done = subprocess.run(
            [ROOT / "bench/planner/planner", "--programs", PROGRAMS, "--drawn", "2", "--seed", "1",
             "--largest", "2e6", "-o", table, *options], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertEqual(done.stderr, "")
        with open(table, newline="") as file:
            return done.stdout, [{key: value for key, value in row.items() if key not in SPENT}
                                 for row in csv.DictReader(file)]

    def test_instances_are_drawn_alone_or_together_and_kept(self):
        text, rows = self.bench()
        self.assertIn("PASS  every plan verifies: 2 of 2", text)
        self.assertNotEqual(rows[0]["width"] + rows[0]["link"], rows[1]["width"] + rows[1]["link"])
        _, alone = self.bench("--only", "2", "--keep", self.folder / "kept")
        self.assertEqual(alone, rows[1:])
        self.check_kept(self.folder / "kept" / "2")

    def test_instances_with_a_disk(self):
        text, rows = self.bench("--nvme", "--keep", self.folder / "kept")
        self.assertIn("PASS  every plan verifies: 2 of 2", text)
        for row in rows:
            self.assertLessEqual(float(row["nvme_write"]), float(row["nvme_read"]))
        _, alone = self.bench("--nvme", "--only", "2", "--keep", self.folder / "alone")
        self.assertEqual(alone, rows[1:])
        self.check_kept(self.folder / "alone" / "2")

    def check_kept(self, kept):
        """What is kept gives the same figures again."""
        row = json.loads((kept / "row.json").read_text())
        path = f"{PROGRAMS}:{os.environ['PATH']}"
        subprocess.run(["sh", "run.sh"], cwd=kept, check=True, capture_output=True,
                       env=dict(os.environ, PATH=path))
        certificate = json.loads((kept / "plan.json").read_text())["certificate"]
        self.assertAlmostEqual(certificate["time"]["achieved_ns"] * 1e-9, row["time"], places=12)
        rival = json.loads((kept / "rival.json").read_text())["results"][0]
        self.assertAlmostEqual(rival["iteration_seconds"], row["rival_time"], places=12)


class Scaling(unittest.TestCase):
    def test_cost_of_an_operator_where_they_double(self):
        small, large = (dict(operators=operators, cpu_seconds=seconds) for operators, seconds in ((100, 1), (400, 9)))
        self.assertAlmostEqual(scaling.doubling(small, large), 1.5)  # 10 and 22.5 ms, doubled twice

    def test_growing_steps_are_planned(self):
        text = io.StringIO()
        tiny = [(64, "a100-40gb", "50%", "", [(1, 1), (2, 1)])]
        with unittest.mock.patch.object(scaling, "FAMILIES", tiny), contextlib.redirect_stdout(text):
            scaling.judge(scaling.measure(argparse.Namespace(programs=PROGRAMS)))
        self.assertIn("PASS  every plan verifies: 2 of 2", text.getvalue())


class Anytime(unittest.TestCase):
    def test_stopped_searches_are_compared(self):
        text = io.StringIO()
        tiny = [("demo-11m", "a100-40gb", "20%", "--batch 1 --seq 64 --recompute all")]
        with unittest.mock.patch.object(anytime, "STEPS", tiny), contextlib.redirect_stdout(text), \
                unittest.mock.patch.object(anytime, "LIMITS", (0.001,)):
            anytime.judge(anytime.measure(argparse.Namespace(programs=PROGRAMS)))
        self.assertIn("PASS  every plan verifies: 1 of 1", text.getvalue())
        self.assertIn("  after 0.001 s at most 10% behind the last plan: ", text.getvalue())


if __name__ == "__main__":
    unittest.main()
