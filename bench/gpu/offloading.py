"""Models larger than the device, beside the planner's bound and beside PyTorch."""

import json
import os
import re

import links
from bench import GIB, Failed, available_bytes
from speed import PREDICTED_GOAL, compare, median_of, platform_of, timed

BOUND_GOAL, FSDP_GOAL, LINK_GOAL = 0.10, 2.0, 0.90
HOST_SHARE = 0.85  # of the available host memory that a model may take
BATCH = 8
PLAN, TIMELINE = "offloaded.json", "offloaded-timeline.json"


def large_model(bench):
    """Returns the layers of a model and the device memory: a quarter of the model data, at 14 bytes
    per parameter. A machine with less memory than that trains a smaller model with less."""
    if not bench.gpu:
        layers = 4
        job = bench.job(bench.model("1.5B", layers=layers), "--recompute", "all", batch=BATCH)
        return layers, bench.budget(job, 0.25)
    a_layer = 14 * 12 * 1600 * 1600
    data = min(4 * 16 * GIB, HOST_SHARE * available_bytes())
    if data < 4 * 16 * GIB:
        bench.leave_out("a model of 64 GiB", f"the host has {available_bytes() / GIB:.1f} GiB available: the model has "
                        f"{data / GIB:.1f} GiB")
    return int(data // a_layer), int(data / 4)


def collect_planned(bench, job):
    """Traces the planned run. On a GPU it is not annotated, because kernels and copies say enough."""
    run = [bench.programs / "pstar-run", *job, "--plan", PLAN, "--steps", 5]
    if bench.gpu:
        bench.collect_alone("planned.pstar", run)
    else:
        bench.program("pstar-collect", "-o", "planned.pstar", "--iterations", "2:5", "--", *run)
    bench.keep_packed("planned.pstar")
    return links.iterations(bench, "planned.pstar")


def measure_links(bench, job):
    """Measures the third iteration and later ones."""
    found = collect_planned(bench, job)[2 if bench.gpu else 0:]
    if not found:
        raise Failed("the trace of the planned run has no whole iteration, so no phase can be measured")
    phases = links.by_phase(found)
    work = links.timeline_work(bench.folder / TIMELINE)
    bench.found["phases"] = links.rates(phases, bench.read(platform_of(bench)), work["host"])
    for name, phase in phases.items():
        bench.show(f"{name}: {phase['seconds']:.3f} s, bound by {phase['bound_by']}; of the probe's rate "
                   + ", ".join(f"{d} {100 * phase[d]['of_probe']:.0f} %" for d in links.DIRECTIONS))
        if phase["bound_by"] in links.DIRECTIONS:
            bench.goal_of_speed(f"{name}: {phase['bound_by']} at 90 % of the probe's rate at least",
                                phase[phase["bound_by"]]["of_probe"] >= LINK_GOAL)


def make_plan(bench, job, budget):
    """Makes the plan and its timeline from a trace."""
    timed(bench, "large.pstar", "1:3", [*job, "--recompute", "all", "--device-memory", budget, "--look-ahead", 8, "--steps", 3])
    bench.program("pstar-plan", "large.pstar", "--device-memory", budget, "--platform", platform_of(bench), "-o",
                  PLAN, "--timeline", TIMELINE, "--time-limit", 60)
    bench.keep(TIMELINE)
    bench.keep_packed("large.pstar")


def train_planned(bench, job, layers):
    plan = bench.read(PLAN)
    steps = bench.steps([*job, "--plan", PLAN], steps=6, uncounted=2)
    ours = bench.found["plan"] = compare(plan, steps)
    ours["tokens_per_second"] = median_of(steps, "tokens_per_second")
    bound = bench.found["bound_seconds"] = plan["certificate"]["time"]["lower_bound_ns"] * 1e-9
    work = links.timeline_work(bench.folder / TIMELINE)
    bench.found["bound_work_seconds"] = {resource: sum(phases.values()) for resource, phases in work.items()}
    bench.goal("bytes moved and peaks are those predicted", ours["bytes_equal"])
    bench.goal_of_speed("within 10 % of the bound", ours["measured"] <= bound * (1 + BOUND_GOAL))
    bench.goal_of_speed("time within 5 % of the prediction", abs(ours["error"]) <= PREDICTED_GOAL)
    bench.show(f"{layers} layers: {ours['measured']:.3f} s a step, bound {bound:.3f}, stall "
               f"{ours['stall']['measured']:.3f} (predicted {ours['stall']['predicted']:.3f})")
    compare_with_torch(bench)


def offloaded(bench):
    """Trains a model of four times the budget with the planner's plan."""
    if "layers" not in bench.found:  # a later call takes the plan of the first
        layers, budget = large_model(bench)
        bench.found |= dict(layers=layers, device_memory_bytes=budget, batch=BATCH)
    layers, budget = bench.found["layers"], bench.found["device_memory_bytes"]
    job = bench.job(bench.model("1.5B", layers=layers), batch=BATCH)
    ways = dict(plan=lambda: make_plan(bench, job, budget), steps=lambda: train_planned(bench, job, layers),
                phases=lambda: measure_links(bench, job))
    for row in bench.rows(ways):
        if row == "plan":
            bench.made(PLAN, ways[row])
        else:
            for file in (PLAN, TIMELINE):
                bench.made(file, ways["plan"])
            with bench.going_on(row):
                ways[row]()


def compare_with_torch(bench):
    """Compares the two parts if both have figures."""
    ours = bench.parts.get("offloaded", {}).get("plan")
    fsdp = bench.parts.get("offloaded-torch", {}).get("fsdp", {}).get("median_seconds")
    if ours and fsdp:
        bench.found["faster_than_fsdp"] = fsdp / ours["measured"]
        bench.goal_of_speed("at least twice as fast as FSDP's offload", fsdp >= FSDP_GOAL * ours["measured"])


def offloaded_torch(bench):
    """Trains the same model with PyTorch under the same cap, with recomputation: AdamW on the host,
    and FSDP."""
    if not bench.with_torch("everything"):
        return
    ours = bench.parts.get("offloaded", {})  # the same model, if that part came first
    layers, budget = large_model(bench) if "layers" not in ours else (ours["layers"], ours["device_memory_bytes"])
    batch, sequence = bench.scaled(BATCH, 1024)
    # Without this, fragmentation would reach the cap sooner.
    whole = os.environ | {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    for way in bench.rows(("fsdp", "adam")):
        with bench.going_on(way):
            found = bench.found[way] = bench.torch("1.5B", "--offload", way, "--recompute", "--memory", budget / GIB,
                                                   "--uncounted", 2, layers=layers, batch=BATCH, steps=6,
                                                   environment=whole)
            found["tokens_per_second"] = batch * sequence / found["median_seconds"]
            bench.show(f"{way}: {found['median_seconds']:.3f} s a step")
    compare_with_torch(bench)


def wide_model(bench):
    """Returns a config for the search over the number of layers, and both budgets."""
    width, heads = (4096, 32) if bench.gpu else (64, 2)
    config = json.loads(bench.model("1.5B").read_text()) | dict(n_layer=48, n_embd=width, n_head=heads)
    (bench.folder / "wide.json").write_text(json.dumps(config))
    if not bench.gpu:
        return "wide.json", 2 << 20, 8 << 20
    device = bench.read(platform_of(bench))["device_bytes"]
    return "wide.json", device - GIB // 4, int(0.9 * available_bytes())


def largest(bench):
    """Trains the largest model that the planner finds for the machine for some steps."""
    config, device, host = wide_model(bench)
    sequence = bench.scaled(1, 1024)[1]
    said = bench.program("pstar-plan", "--max-model", config, "--platform", platform_of(bench), "--batch", 1, "--seq",
                         sequence, "--precision", "bf16", "--device-memory", device, "--host-memory", host).stdout
    bench.found |= dict(device_memory_bytes=device, host_memory_bytes=host, said=said)
    bench.show(said)
    layers = int(re.search(r"gpt2 (\d+)x", said)[1])
    (bench.folder / "largest.json").write_text(json.dumps(bench.read(config) | dict(n_layer=layers)))
    recompute = "all" if "all layers computed again" in said else "none"
    bench.program("pstar-trace", "synth", "--model", "largest.json", "--batch", 1, "--seq", sequence, "--precision",
                  "bf16", "--recompute", recompute, "--platform", platform_of(bench), "-o", "largest.pstar")
    bench.program("pstar-plan", "largest.pstar", "--device-memory", device, "--host-memory", host, "--platform",
                  platform_of(bench), "-o", "plan.json", "--time-limit", 60)
    job = bench.job("largest.json", "--plan", "plan.json", batch=1)
    steps = bench.steps(job, steps=2, uncounted=1)
    bench.found |= dict(layers=layers, seconds=median_of(steps), loss=steps[-1]["loss"],
                        tokens_per_second=median_of(steps, "tokens_per_second"))
