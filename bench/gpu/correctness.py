"""The CUDA device computes what the CPU's and PyTorch do, and the same under every plan."""

import json
import random
import sys

from bench import HERE

STEPS, PLANNED_STEPS = 50, 6
ALLOWED = dict(fp32=1e-4, bf16=1e-2)
SHAPE = dict(batch=2, sequence=64)


def losses(bench, job, steps):
    return [step["loss"] for step in bench.steps(job, steps, uncounted=0)]


def worst(ours, theirs):
    """Greatest relative difference."""
    return max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))


def initial_weights(bench, config):
    """A folder with weights that all start from: those of a step that changes next to nothing."""
    bench.program("pstar-run", *bench.job(config, "--lr", "1e-30", "--weight-decay", "0", precision="fp32", **SHAPE),
                  "--steps", 1, "--save", "start")
    return bench.folder / "start"


def beside_others(bench, model, precision):
    """Fifty steps of the device, of the CPU device and of PyTorch, of one start and over one text."""
    job = bench.job(model, "--data-order", "sequential", precision=precision, **SHAPE)
    ours = losses(bench, job, STEPS)
    batch, sequence = bench.scaled(**SHAPE)
    followed = bench.call(sys.executable, HERE / "torch_follow.py", "--model", model, "--log", "run.jsonl", "--data",
                          "data.txt", "--batch", batch, "--seq", sequence, "--precision", precision, "--device",
                          bench.device)
    others = {"the CPU device": losses(bench, ["cpu" if word == bench.device else word for word in job], STEPS),
              "PyTorch": json.loads(followed.stdout.splitlines()[-1])["losses"]}
    found = bench.found[precision] = dict(losses=ours, others=others, worst={})
    for name, theirs in others.items():
        found["worst"][name] = worst(ours, theirs)
        bench.goal(f"{precision}: losses of {STEPS} steps within {ALLOWED[precision]} of {name}'s",
                   found["worst"][name] <= ALLOWED[precision])
    bench.show(f"{precision}: {found['worst']}")


def layers_of(draw, layers):
    chosen = [layer for layer in range(layers) if draw.random() < 0.5]
    return ",".join(map(str, chosen)) or "none"


def draw_placement(bench, draw, job, layers):
    """Options of a run that move its bytes differently, and must not change a bit of its losses."""
    sizes = ["256KiB", "1MiB", "4MiB"] if bench.gpu else ["16KiB", "64KiB", "256KiB"]
    choices = ["--recompute", layers_of(draw, layers), "--offload-activations", layers_of(draw, layers)]
    choices += ["--host-update"] * draw.randrange(2)
    options = [*choices, "--chunk-size", draw.choice(sizes), "--policy", draw.choice(["opt", "lru", "fifo", "lfu"]),
               "--look-ahead", draw.choice([0, 1, 4, 16])]
    return [*options, "--device-memory", bench.budget([*job, *options], draw.uniform(0.05, 1))]


def under_plans(bench, config, precision, seed):
    layers = bench.shape("124M", 4)[0]
    job = bench.job(config, precision=precision, **SHAPE)
    resident = losses(bench, job, PLANNED_STEPS)
    draw, same = random.Random(seed), []
    for _ in range(8 if bench.gpu else 3):
        options = draw_placement(bench, draw, job, layers)
        same.append((losses(bench, [*job, *options], PLANNED_STEPS) == resident, " ".join(map(str, options))))
    bench.found[precision]["plans"] = same
    bench.goal(f"{precision}: the same bits under {len(same)} drawn plans", all(kept for kept, _ in same))
    bench.show(f"{precision}: {sum(kept for kept, _ in same)} of {len(same)} drawn plans give the same bits")


def twelve_bytes(bench, config):
    """A parameter's upper half is the model's, its lower half the optimizer's: losses are the 14 bytes'."""
    job = bench.job(config, "--clip", 0, **SHAPE)
    fourteen = losses(bench, job, STEPS)
    split = [*job, "--bytes-per-parameter", 12]
    bench.goal("12 bytes a parameter: the same bits as 14", losses(bench, split, STEPS) == fourteen)
    planned = [*split, "--device-memory", bench.budget(split, 0.3)]
    bench.goal("12 bytes a parameter, offloaded: the same bits", losses(bench, planned, STEPS) == fourteen)


def correct(bench):
    config = bench.model("124M", layers=4, positions=bench.scaled(**SHAPE)[1])
    seed = bench.found["seed"] = random.randrange(1 << 32)
    start = initial_weights(bench, config)
    for precision in ALLOWED:
        beside_others(bench, start, precision)
        under_plans(bench, config, precision, seed)
    twelve_bytes(bench, config)
