#!/usr/bin/env python3
"""Traces that were recorded on an H200 are valid, and steps replayed from such traces take the time that was measured.

    recorded_gpu.py FOLDER_OF_PROGRAMS

The traces are in tests/data/h200; the platform's file and the measured steps in bench/results/h200.
"""

import csv
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
TRACES, RESULTS = ROOT / "tests/data/h200", ROOT / "bench/results/h200"
REPLAYED = ROOT / "bench/gpu/replayed"
WITHIN, SYNTHETIC_WITHIN = 0.05, 0.10
ATTENTION = 0.283  # of the rate of products, in gpt2-355m
SHAPES = {"gpt2-124m": (12, 768, 12, 4), "gpt2-355m": (24, 1024, 16, 8)}

# What each holds: model data, bytes a parameter, kernels a step.
EXPECTED = {"gpt2-124m": (124_475_904, 14, 693), "torch-124m": (124_475_904, 16, None),
            "gpt2-355m": (354_871_296, 14, None)}


class Recorded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name in EXPECTED:
            packed = (TRACES / f"{name}.pstar.gz").read_bytes()
            (pathlib.Path(cls.folder.name) / f"{name}.pstar").write_bytes(gzip.decompress(packed))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, name, *arguments):
        done = subprocess.run([PROGRAMS / name, *map(str, arguments)], cwd=self.folder.name, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_traces_hold_what_ran(self):
        for name, (parameters, each, kernels) in EXPECTED.items():
            with self.subTest(name):
                self.run_program("pstar-trace", "check", f"{name}.pstar")
                info = json.loads(self.run_program("pstar-trace", "info", f"{name}.pstar", "--json").stdout)
                self.assertEqual(info["model_bytes"], parameters * each)
                self.assertTrue(info["machine"].endswith("NVIDIA H200"), info["machine"])
                for phase in info["phases"]:
                    self.assertGreater(phase["seconds"], 0, phase)
                device, = info["activity"]["devices"] if info.get("activity") else [None]
                if kernels:
                    self.assertEqual(device["kernels"], kernels)

    def test_measured_steps_are_predicted_as_documents_say(self):
        """Those of policies within 5 %; the document says how far the others are off."""
        table = pathlib.Path(self.folder.name) / "replayed.csv"
        subprocess.run([REPLAYED, "--programs", PROGRAMS, "-o", table], capture_output=True, check=False)
        rows, before = ([*csv.DictReader(file.read_text().splitlines())] for file in (table, RESULTS / "replayed.csv"))
        self.assertEqual(len(rows), len(before))
        for row, old in zip(rows, before):
            with self.subTest(row["way"]):
                for key in ("predicted", "bound"):
                    self.assertAlmostEqual(float(row[key] or 0), float(old[key] or 0), delta=2e-4)
                if "--policy" in row["way"]:
                    self.assertAlmostEqual(float(row["predicted"]) / float(row["measured"]), 1, delta=WITHIN)

    def test_synthetic_steps_take_what_was_recorded(self):
        """With the share of the rate that attention reached in one of the traces."""
        platform = json.loads((RESULTS / "machine.json").read_text())
        platform["framework"] = dict(source="recorded", products=1.0, attention=ATTENTION, passes=1.0)
        (pathlib.Path(self.folder.name) / "framework.json").write_text(json.dumps(platform))
        for name, (layers, width, heads, batch) in SHAPES.items():
            config = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], activation_function="gelu_new",
                          n_layer=layers, n_embd=width, n_head=heads, n_positions=1024, vocab_size=50304, embd_pdrop=0.0,
                          attn_pdrop=0.0, resid_pdrop=0.0)
            (pathlib.Path(self.folder.name) / "config.json").write_text(json.dumps(config))
            self.run_program("pstar-trace", "synth", "--model", "config.json", "--batch", batch, "--seq", 1024, "--precision",
                             "bf16", "--platform", "framework.json", "-o", "synthetic.pstar")
            synthetic, recorded = (self.seconds_of(trace) for trace in ("synthetic", name))
            with self.subTest(name):
                self.assertAlmostEqual(synthetic / recorded, 1, delta=SYNTHETIC_WITHIN)

    def seconds_of(self, trace):
        info = json.loads(self.run_program("pstar-trace", "info", f"{trace}.pstar", "--json").stdout)
        return sum(phase["seconds"] for phase in info["phases"])

    def test_a_recorded_loop_of_pytorch_gets_a_plan(self):
        self.run_program("pstar-plan", "torch-124m.pstar", "--device-memory", "80%", "--platform", RESULTS / "machine.json",
                         "-o", "torch.json")
        self.run_program("pstar-plan", "torch-124m.pstar", "--verify", "torch.json")


if __name__ == "__main__":
    unittest.main()
