"""The kernels' tests on the GPU: every kernel beside the CPU's, with its name and the first wrong element; and
times of kernels that have two forms.
"""

import re

TESTS = ("rows", "parts", "gradient", "attention", "grouped", "operators", "times")
SKIPPED = 77


def folder_of(bench):
    packed = bench.programs.parent / "tests" / "kernels"  # of an unpacked archive
    return packed if packed.is_dir() else bench.programs / "tests" / "engine" / "cuda"


def run_test(bench, name):
    # A failed test ends by SIGABRT.
    done = bench.call(folder_of(bench) / f"test_gpu_{name}", "-m", "slow", allowed=range(-64, 256))
    said = (done.stdout + done.stderr).strip()
    if done.returncode == SKIPPED:
        bench.leave_out(name, said.splitlines()[-1] if said else "skipped")
        return
    passed = len(re.findall(r"^ok ", done.stdout, re.MULTILINE))
    bench.found[name] = dict(passed=passed, status=done.returncode)
    if times := re.findall(r"^(?:# )?times: (.*)$", done.stdout, re.MULTILINE):
        bench.found[name]["times"] = times
    if done.returncode:
        bench.found[name]["said"] = said[-3000:]
    bench.goal(f"{name}: the kernels compute what the CPU's do", done.returncode == 0 and passed > 0)
    bench.show(f"{name}: {passed} tests passed" + (f", then: {said[-600:]}" if done.returncode else ""))


def kernels(bench):
    for name in bench.rows(TESTS):
        with bench.going_on(name):
            run_test(bench, name)
    if bench.gpu and bench.found.get("left_out"):
        bench.goal("the kernels' tests run on this GPU", False)
