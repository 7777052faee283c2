#!/usr/bin/env python3
"""bench/gpu/run goes through all of its parts where there is no GPU, with tiny models.

    gpu_bench.py FOLDER_OF_PROGRAMS

Before that: what it reads from tables of a GPU's activity, from tables made by hand; and that a part
whose time is up leaves no process behind and what it had found. Returns 77 where PyTorch is missing.
"""

import gzip
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

if not importlib.util.find_spec("torch"):
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "gpu"))
import links  # noqa: E402
import offloading  # noqa: E402
import sanitizing  # noqa: E402
import smoke  # noqa: E402
import speed  # noqa: E402
from bench import Bench, Failed  # noqa: E402

MS = 1_000_000
FILES, BYTES = 20, 16 << 20  # that a run may leave, and of each


def kernels_of_steps(count):
    """Steps of 10 ms: forward 3, backward 4, update 3; a kernel is on for 8 of 10 of the time."""
    names = ["embed_forward_kernel", "product", "loss_kernel", "product", "product", "product",
             "embed_positions_kernel", "adamw_kernel", "adamw_kernel", "adamw_kernel"]
    return [((10 * step + i) * MS, (10 * step + i) * MS + MS * 8 // 10, name)
            for step in range(count) for i, name in enumerate(names)]


class Links(unittest.TestCase):
    def test_phases_of_kernels(self):
        # Fetches throughout, of 1 MB a ms in 9 of 10 of the time; in the update as much down.
        fetches = [(i * MS, i * MS + MS * 9 // 10, 1_000_000, 1) for i in range(40)]
        stores = [(10 * MS * step + (i + 7) * MS, 10 * MS * step + (i + 8) * MS, 500_000, 2)
                  for step in range(4) for i in range(3)]
        found = list(links.of_kernels(kernels_of_steps(4), sorted(fetches + stores)))
        self.assertEqual(len(found), 3)  # nothing tells where the last one ends
        phases = links.by_phase(found)
        self.assertAlmostEqual(phases["forward"]["seconds"], 0.0028)
        self.assertAlmostEqual(phases["backward"]["seconds"], 0.004)
        self.assertAlmostEqual(phases["update"]["seconds"], 0.0032)
        self.assertAlmostEqual(phases["backward"]["compute_seconds"], 0.0032)
        self.assertAlmostEqual(sum(phase["h2d"]["bytes"] for phase in phases.values()), 10e6)
        self.assertAlmostEqual(phases["update"]["d2h"]["bytes"], 1.5e6)
        self.assertAlmostEqual(phases["update"]["d2h"]["busy_seconds"], 0.003)
        self.assertEqual(phases["forward"]["d2h"]["bytes"], 0)

        platform = {name: dict(points=[dict(bytes=1e6, seconds=2e-3), dict(bytes=1e6, seconds=1e-3)])
                    for name in ("h2d", "d2h")}
        platform["h2d_both"] = dict(points=[dict(bytes=1e6, seconds=1.25e-3)])
        rates = links.rates(phases, platform, dict(forward=1.0))
        self.assertEqual(rates["forward"]["bound_by"], "host")
        self.assertEqual(rates["update"]["bound_by"], "h2d")
        self.assertAlmostEqual(rates["update"]["h2d"]["probe_rate"], 0.8e9)  # both directions
        self.assertAlmostEqual(rates["backward"]["h2d"]["probe_rate"], 1e9)
        self.assertAlmostEqual(rates["backward"]["h2d"]["of_probe"], 1.0, delta=0.03)
        self.assertAlmostEqual(rates["backward"]["h2d"]["of_probe_while_busy"], 1 / 0.9, delta=0.03)

    def test_kernels_have_the_names_that_are_looked_for(self):
        sources = "".join(path.read_text() for path in sorted((ROOT / "engine" / "cuda").glob("*.cu")))
        kernels = set(re.findall(r"__global__[^(]*(?:\([^)]*\)[^(]*?)?\b(\w+)\(struct", sources))
        for name in (links.FIRST, links.LOSS, links.LAST_OF_BACKWARD):
            self.assertEqual(len([kernel for kernel in kernels if name in kernel]), 1, f"{name}: {sorted(kernels)}")

    def test_a_trace_without_phases_fails(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(
                offloading, "collect_planned", lambda bench, job: list(links.of_kernels([], []))):
            bench = bench_in(self, folder)
            bench.begin("offloaded", 60)
            with self.assertRaisesRegex(Failed, "no whole iteration"):
                offloading.measure_links(bench, [])

    def test_busy(self):
        spans = [(0, 10), (5, 7), (8, 20), (30, 40)]
        self.assertEqual(links.busy(spans, 0, 100), 30)
        self.assertEqual(links.busy(spans, 6, 35), 19)
        self.assertEqual(links.carried([(0, 10, 100), (20, 30, 50)], 5, 25), 75)


def bench_in(test, folder, device="cpu"):
    bench = Bench(pathlib.Path(folder), pathlib.Path(folder), device)
    test.addCleanup(shutil.rmtree, bench.folder)
    return bench


class Failures(unittest.TestCase):
    def test_what_comes_after_goes_on(self):
        def part(bench):
            with bench.going_on("a program"):
                bench.call("false")
            with bench.going_on("its output"):
                json.loads("no JSON")
            bench.found["after"] = 1

        run = load_run()
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(run.PARTS, part=(part, 60)):
            bench = bench_in(self, folder)
            self.assertFalse(run.run_part(bench, "part"))
            found = json.loads(bench.results.read_text())["part"]
        self.assertEqual((found["failed"], found["after"]), ("a program, its output", 1))
        self.assertIn("false ended with 1", found["failures"]["a program"])
        self.assertIn("JSONDecodeError", found["failures"]["its output"])

    def test_logs_of_the_library_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(self, folder)
            bench.begin("logs", 60)
            for said in ("refused a product", ""):
                bench.call("bash", "-c", f"echo {said} > ${{CUBLASLT_LOG_FILE//%i/$$}}")
            bench.keep_logs()
            self.assertEqual((pathlib.Path(folder) / "cublaslt.log").read_text(), "refused a product\n")
            self.assertEqual(list(bench.folder.glob("cublaslt*")), [])


class Busiest(unittest.TestCase):
    def test_kernels_of_a_recorded_trace(self):
        """A step of GPT-2 124M on an H200: AdamW takes the most time, in 148 launches."""
        packed = (ROOT / "tests/data/h200/gpt2-124m.pstar.gz").read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(self, folder)
            bench.programs = pathlib.Path(Parts.programs)
            bench.begin("busiest", 60)
            (bench.folder / "recorded.pstar").write_bytes(gzip.decompress(packed))
            kernels = speed.kernels_a_step(bench, "recorded.pstar", [1, 1])
            last = speed.kernels_a_step(bench, "recorded.pstar", [0.001])
        self.assertIn("adamw_kernel", kernels[0]["name"])
        self.assertEqual(kernels[0]["calls"], 148 / 2)
        self.assertAlmostEqual(kernels[0]["seconds"], 0.001156478 / 2)
        self.assertEqual(len(kernels), 29)
        self.assertEqual([k["seconds"] for k in kernels], sorted((k["seconds"] for k in kernels), reverse=True))
        self.assertEqual([k["name"] for k in last], [kernels[0]["name"]])  # updates come last


def load_run():
    loader = importlib.machinery.SourceFileLoader("gpu_bench_run", str(ROOT / "bench" / "gpu" / "run"))
    run = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(run)
    return run


class Continued(unittest.TestCase):
    """A call that ends within a part: the next one goes on with the row that was cut off."""

    @staticmethod
    def part(bench):
        for row in bench.rows(("fails", "slow", "quick")):
            with bench.going_on(row):
                bench.found.setdefault("begun", []).append(row)
                if row == "fails":
                    bench.call("false")
                if row == "slow" and bench.ends < float("inf"):
                    bench.call("sleep", "600")
                bench.goal(f"{row} ends", True)

    def test_goes_on_with_the_row_that_was_cut_off(self):
        run = load_run()
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second, \
                unittest.mock.patch.dict(run.PARTS, part=(self.part, 60)):
            bench = Bench(pathlib.Path(first), pathlib.Path(first), "cpu", None, 2)
            self.addCleanup(shutil.rmtree, bench.folder)
            run.run_part(bench, "part")
            found = json.loads(bench.results.read_text())["part"]
            self.assertEqual((found["unfinished"], found["done"]), (True, ["fails"]))
            self.assertNotIn("slow", found.get("failures", {}))
            self.assertFalse(bench.is_done("part"))
            bench.made("machine.json", lambda: (bench.folder / "machine.json").write_text("{}"))

            again = Bench(pathlib.Path(second), pathlib.Path(second), "cpu", pathlib.Path(first))
            self.addCleanup(shutil.rmtree, again.folder)
            run.run_part(again, "part")
            found = json.loads(again.results.read_text())["part"]
            self.assertEqual((found["done"], found["begun"]), (["fails", "slow", "quick"], ["fails", "slow", "slow", "quick"]))
            self.assertNotIn("unfinished", found)
            self.assertEqual(found["goals"], {"slow ends": True, "quick ends": True})
            self.assertEqual(found["failed"], "fails")
            self.assertTrue(again.is_done("part"))
            again.made("machine.json", lambda: self.fail("the platform is there"))
            self.assertEqual((again.folder / "machine.json").read_text(), "{}")

    def test_without_pytorch_the_rest_is_measured(self):
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.object(speed, "median_of", lambda *_: 0.5), \
                unittest.mock.patch.object(Bench, "steps", lambda *_, **__: []):
            bench = bench_in(self, folder)
            bench.has_torch = False
            bench.begin("resident", 60)
            speed.resident(bench, ("124M",))
            self.assertEqual(bench.found["124M"]["ours"]["median_seconds"], 0.5)
            self.assertIn("124M of PyTorch", bench.found["left_out"])
            self.assertNotIn("failures", bench.found)

    def test_a_device_that_cannot_be_loaded_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(self, folder)
            bench.begin("smoke", 60)
            self.assertIn("libpstar-cuda.so is in none", smoke.load_device(bench)[0])
            (pathlib.Path(folder) / "libpstar-cuda.so").write_text("no library")
            self.assertIn("libpstar-cuda.so: ", smoke.load_device(bench)[0])

    def test_operators_without_times_are_waited_for(self):
        asked = []

        def program(bench, *command, environment=None):
            asked.append((environment or {}).get("PSTAR_CUDA_SYNC"))
            with sqlite3.connect(bench.folder / "a.pstar") as database:
                database.executescript("CREATE TABLE IF NOT EXISTS operators (duration_ns); DELETE FROM operators;"
                                       f"INSERT INTO operators VALUES ({'7' if environment else 'NULL'})")

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(Bench, "program", program):
            bench = bench_in(self, folder)
            bench.begin("timed", 60)
            speed.timed(bench, "a.pstar", "1:2", [])
            self.assertEqual(asked, [None, "1"])
            self.assertIn("CUPTI has none of 1 operators", str(bench.found["left_out"]))

    def test_less_memory_than_the_machine_has(self):
        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.object(offloading, "available_bytes", lambda: 20 << 30):
            bench = bench_in(self, folder, "cuda")
            bench.begin("offloaded", 60)
            layers, budget = offloading.large_model(bench)
            self.assertLess(layers * 14 * 12 * 1600 * 1600, 0.9 * (20 << 30))
            self.assertAlmostEqual(4 * budget / (0.85 * (20 << 30)), 1, places=3)
            self.assertIn("20.0 GiB available", bench.found["left_out"]["a model of 64 GiB"])


class TimeIsUp(unittest.TestCase):
    def test_processes_end_and_findings_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(self, folder)
            bench.begin("slow", 1.5)
            bench.found["first"] = 1
            bench.show("found something")
            with self.assertRaisesRegex(Failed, "was stopped"):
                bench.call("bash", "-c", "sleep 600 & echo $! > child; wait")
            child = int((bench.folder / "child").read_text())
            for _ in range(100):  # it is nobody's child now, and may be waited for by init
                if not alive(child):
                    break
                time.sleep(0.05)
            self.assertFalse(alive(child))
            self.assertEqual(json.loads(bench.results.read_text())["slow"]["first"], 1)


class Libraries(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("nvidia"), "PyTorch came without CUDA's libraries")
    def test_programs_find_those_of_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            bench = bench_in(self, folder)
            bench.begin("libraries", 60)
            found = bench.call("bash", "-c", "for d in ${LD_LIBRARY_PATH//:/ }; do ls $d; done").stdout.split()
            for name in ("libcudart.so", "libcublasLt.so", "libcupti.so"):
                self.assertTrue(any(file.startswith(name) for file in found), name)


class Sanitized(unittest.TestCase):
    def test_what_a_tool_finds_is_a_goal_that_is_missed(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder) / sanitizing.SANITIZER
            tool.write_text("#!/bin/sh\n[ $2 = memcheck ] && exit 0\necho a race\nexit 99\n")
            tool.chmod(0o755)
            bench = bench_in(self, folder, "cuda")
            bench.begin("sanitized", 60)
            with unittest.mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                sanitizing.sanitized(bench)
            self.assertEqual(len(bench.found["goals"]), 16)
            for goal, kept in bench.found["goals"].items():
                self.assertEqual(kept, "memcheck" in goal)
            self.assertEqual(bench.found["2 times 2 heads of 64, bf16, racecheck"], "a race\n")


def alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Parts(unittest.TestCase):
    programs = None

    def call(self, folder, *options):
        run = subprocess.run([sys.executable, ROOT / "bench" / "gpu" / "run", "--programs", self.programs, "-o", folder,
                              "--device", "cpu", *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        results = json.loads((pathlib.Path(folder) / "results.json").read_text())
        failed = {name: part["failed"] for name, part in results.items() if "failed" in part}
        self.assertEqual((run.returncode, failed), (0, {}), run.stdout[-3000:])
        return results

    def test_all_on_the_cpu(self):
        with tempfile.TemporaryDirectory() as before, tempfile.TemporaryDirectory() as folder:
            first = self.call(before, "--parts", "smoke,probe,offloaded")
            self.assertEqual(list(first), ["smoke", "probe", "offloaded"])
            results = self.call(folder, "--continue", before)
            self.assertEqual(len(results), 19)
            self.assertEqual({name: results[name] for name in first}, first)
            files = list(pathlib.Path(folder).iterdir())
            self.assertLessEqual(len(files), FILES)
            self.assertLess(max(file.stat().st_size for file in files), BYTES)
            # The CPU device's copies are in the trace of the planned run.
            self.assertGreater(sum(phase["h2d"]["bytes"] for phase in results["offloaded"]["phases"].values()), 0)


if __name__ == "__main__":
    Parts.programs = os.path.abspath(sys.argv.pop(1))
    unittest.main()
