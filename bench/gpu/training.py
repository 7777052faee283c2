"""The CUDA device: the same numbers as the CPU's and PyTorch's, the bytes that were predicted, and how
fast."""

import json
import os
import statistics

from bench import SIZES

EXACT = ("h2d_bytes", "d2h_bytes", "evictions", "peak_device_bytes")
PREDICTED_GOAL, RESIDENT_GOAL, FSDP_GOAL, BOUND_GOAL = 0.05, 0.85, 2.0, 0.10
GIB = 2**30


def median_of(steps, key="iteration_seconds"):
    return statistics.median(step[key] for step in steps)


def probe(bench):
    """This machine's platform file, which the parts after it predict from."""
    bench.program("pstar-run", "--device", bench.device, "--probe", "-o", "machine.json")
    bench.keep("machine.json")
    return {key: curve["points"][-1] for key, curve in bench.read("machine.json").items()
            if isinstance(curve, dict) and "points" in curve}


def platform_of(bench):
    if not (bench.folder / "machine.json").exists():
        probe(bench)
    return "machine.json"


def losses(bench, job, steps):
    return [step["loss"] for step in bench.steps(job, steps, uncounted=0)]


def correct(bench):
    """Losses over 50 steps beside the CPU device's, and bit for bit the same under every plan."""
    found, model = dict(goals={}), bench.model("124M", layers=2)
    shape = dict(batch=2, sequence=64)
    for precision, allowed in dict(fp32=1e-4, bf16=1e-2).items():
        job = bench.job(model, precision=precision, **shape)
        ours = losses(bench, job, 50)
        on_cpu = ["cpu" if part == bench.device else part for part in job]
        theirs = losses(bench, on_cpu, 50)
        worst = max(abs(a / b - 1) for a, b in zip(ours, theirs))
        found[precision] = dict(losses=ours, cpu=theirs, worst=worst)
        found["goals"][f"{precision} losses within {allowed} of the CPU's"] = worst <= allowed
        for budget in ("60%", "30%"):
            for extra in ([], ["--host-update"], ["--recompute", "all"]):
                plain = losses(bench, [*job, *extra], 6)
                planned = losses(bench, [*job, *extra, "--device-memory", budget_bytes(bench, job, budget)], 6)
                found["goals"][f"{precision} {budget} {' '.join(extra)}: the same bits"] = plain == planned
    return found


def budget_bytes(bench, job, share):
    """Between the least that fits and everything resident."""
    dry = json.loads(bench.program("pstar-run", *job, "--dry-run", "--json").stdout)
    least, most = dry["least_device_bytes"], dry["device_bytes"]
    return int(least + (most - least) * float(share.rstrip("%")) / 100)


def resident(bench):
    """Step time of GPT-2's sizes, everything on the device, beside PyTorch in the same run, in turns."""
    found = dict(goals={})
    for size in SIZES if bench.gpu else ["124M"]:
        batch = {"124M": 16, "355M": 8, "774M": 4, "1.5B": 2}[size]
        seconds = dict(ours=[], torch=[])
        for _ in range(3):
            seconds["ours"].append(median_of(bench.steps(bench.job(bench.model(size), batch=batch))))
            compiled = ["--compile"] if bench.gpu else []
            seconds["torch"].append(bench.torch(size, *compiled, batch=batch)["median_seconds"])
        ratio = statistics.median(t / o for t, o in zip(seconds["torch"], seconds["ours"]))
        found[size] = dict(batch=batch, seconds=seconds, of_pytorchs_speed=ratio)
        found["goals"][f"{size}: at least {RESIDENT_GOAL} of PyTorch's speed"] = ratio >= RESIDENT_GOAL
        print(f"{size}: {ratio:.2f} of PyTorch's speed", flush=True)
    return found


def planned_steps(bench, job, trace, *options, emit):
    """The plan's figures, and the steps that it takes."""
    bench.program(*emit, trace, "--platform", platform_of(bench), *options)
    predicted = bench.read("plan.json")["predicted"]
    return predicted, bench.steps([*job, "--plan", "plan.json"], steps=9)


def compare(predicted, steps):
    seconds = median_of(steps)
    return dict(predicted=predicted["iteration_seconds"], measured=seconds,
                error=predicted["iteration_seconds"] / seconds - 1,
                stall=dict(predicted=predicted["stall_seconds"], measured=median_of(steps, "stall_seconds")),
                bytes_equal=all(step[key] == predicted[key] for step in steps for key in EXACT))


def traced(bench, job, trace):
    bench.program("pstar-collect", "-o", trace, "--iterations", "3:6", "--", bench.programs / "pstar-run", *job,
                  "--steps", 6)


def predicted(bench):
    """Twelve plans: policies and strategies, budgets and chunk sizes."""
    found, rows = dict(goals={}), []
    job = bench.job(bench.model("355M" if bench.gpu else "124M"), batch=8)
    traced(bench, job, "predicted.pstar")
    sizes = ["16MiB", "64MiB"] if bench.gpu else ["64KiB", "256KiB"]
    ways = [("--policy", "opt", "--look-ahead", "8"), ("--policy", "lru", "--look-ahead", "0"),
            ("--strategy", "zero-offload"), ("--strategy", "fsdp-offload")]
    for budget in ("40%", "70%"):
        for way in ways:
            for chunk in sizes if way[0] == "--policy" else sizes[:1]:
                options = ("--device-memory", budget, "--chunk-size", chunk, *way, "--emit-plan", "plan.json")
                row = compare(*planned_steps(bench, job, "predicted.pstar", *options, emit=["pstar-sim"]))
                rows.append(row | dict(budget=budget, chunk=chunk, way=" ".join(way)))
                print(rows[-1], flush=True)
    found["rows"] = rows
    found["goals"]["bytes moved and peaks are those predicted"] = all(row["bytes_equal"] for row in rows)
    found["goals"]["time within 5 %"] = all(abs(row["error"]) <= PREDICTED_GOAL for row in rows)
    return found


def offloaded(bench):
    """A model of four times the budget: beside the planner's bound, FSDP's offload and a plain one."""
    budget = 16 * GIB if bench.gpu else 8 << 20
    layers = 4 * budget // (14 * 12 * 1600 * 1600) if bench.gpu else 4
    job = bench.job(bench.model("1.5B", layers=layers), "--recompute", "all", "--device-memory", budget, batch=8)
    large = job[:-2]
    found = dict(goals={}, layers=layers, budget=budget)
    bench.program("pstar-run", *job, "--steps", 2, limit=450)
    bench.program("pstar-collect", "-o", "large.pstar", "--iterations", "1:3", "--", bench.programs / "pstar-run",
                  *job, "--steps", 3, limit=450)
    limits = ("--device-memory", budget)
    ours = compare(*planned_steps(bench, large, "large.pstar", *limits, "-o", "plan.json", emit=["pstar-plan"]))
    bound = bench.read("plan.json")["certificate"]["time"]["lower_bound_ns"] * 1e-9
    plain = compare(*planned_steps(bench, large, "large.pstar", *limits, "--strategy", "zero3-offload",
                                   "--emit-plan", "plan.json", emit=["pstar-sim"]))
    found |= dict(plan=ours, bound=bound, zero3_offload=plain)
    found["goals"]["within 10 % of the bound"] = ours["measured"] <= bound * (1 + BOUND_GOAL)
    if bench.gpu:
        fsdp = bench.torch("1.5B", "--layers", layers, "--fsdp-offload", "--memory", budget / GIB, batch=8,
                           steps=5)
        found["fsdp"] = fsdp
        found["goals"]["twice as fast as FSDP's offload"] = fsdp["median_seconds"] >= FSDP_GOAL * ours["measured"]
    return found


def largest(bench):
    """A model of GPT-2 XL's layers that takes four fifths of the host's memory: one step of it."""
    a_layer = 14 * 12 * 1600 * 1600
    layers = int(0.8 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / a_layer) if bench.gpu else 8
    budget = "60GiB" if bench.gpu else "64MiB"
    job = bench.job(bench.model("1.5B", layers=layers), "--recompute", "all", "--device-memory", budget, batch=1)
    steps = bench.steps(job, steps=2, uncounted=1, limit=450)
    return dict(layers=layers, seconds=median_of(steps), loss=steps[-1]["loss"])
