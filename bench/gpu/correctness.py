"""The CUDA device computes what the CPU device and PyTorch compute, and the same under every plan."""

import json
import random
import sys

from bench import HERE

STEPS, FEW_STEPS, PLANNED_STEPS = 50, 10, 6
ALLOWED = dict(fp32=1e-4, bf16=1e-2)
SHAPE = dict(batch=2, sequence=256)  # attention needs several of its tiles
# Width, heads and vocabulary of models that need other kernels or other ends of tiles, with dropout and two
# micro-batches. The last has enough heads for attention in bf16 to use its large blocks.
OTHERS = ((256, 2, 1000), (320, 4, 1001), (512, 8, 50257), (120, 6, 257), (640, 80, 1000))
OTHER_SHAPE, OTHER_STEPS = dict(batch=2, sequence=200), 10


def losses(bench, job, steps):
    return [step["loss"] for step in bench.steps(job, steps, uncounted=0)]


def worst(ours, theirs):
    """Returns the greatest relative difference."""
    return max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))


def initial_weights(bench, config):
    """Returns a folder with weights that all runs start from, made by a step that changes almost nothing."""
    if not (bench.folder / "start").exists():
        bench.program("pstar-run", *bench.job(config, "--lr", "1e-30", "--weight-decay", "0", precision="fp32", **SHAPE),
                  "--steps", 1, "--save", "start")
    return bench.folder / "start"


def of_cpu(bench, job, steps=STEPS):
    return losses(bench, ["cpu" if word == bench.device else word for word in job], steps)


def of_pytorch(bench, model, precision):
    """Runs PyTorch with the learning rates of the last run."""
    batch, sequence = bench.scaled(**SHAPE)
    followed = bench.call(sys.executable, HERE / "torch_follow.py", "--model", model, "--log", "run.jsonl", "--data",
                          "data.txt", "--batch", batch, "--seq", sequence, "--precision", precision, "--device",
                          bench.device)
    return json.loads(followed.stdout.splitlines()[-1])["losses"]


def beside_others(bench, model, precision, steps):
    """Compares steps of the device, the CPU device and PyTorch, with one start and one text."""
    job = bench.job(model, "--data-order", "sequential", precision=precision, **SHAPE)
    found = bench.found[precision] = dict(losses=losses(bench, job, steps), others={}, worst={})
    others = {"the CPU device": lambda: of_cpu(bench, job, steps)}
    if bench.with_torch(f"{precision}, PyTorch"):
        others["PyTorch"] = lambda: of_pytorch(bench, model, precision)
    for name, take_steps in others.items():
        with bench.going_on(f"{precision}, {name}"):
            found["others"][name] = take_steps()
            found["worst"][name] = worst(found["losses"], found["others"][name])
            bench.goal(f"{precision}: losses of {steps} steps within {ALLOWED[precision]} of {name}'s",
                       found["worst"][name] <= ALLOWED[precision])
    bench.show(f"{precision}: {found['worst']}")


def other_model(bench, width, heads, vocabulary):
    vocabulary = vocabulary if bench.gpu else bench.vocabulary
    config = json.loads(bench.model("124M", positions=OTHER_SHAPE["sequence"]).read_text())
    path = bench.folder / f"other-{width}.json"
    path.write_text(json.dumps(config | dict(n_layer=2, n_embd=width, n_head=heads, vocab_size=vocabulary,
                                             attn_pdrop=0.1, resid_pdrop=0.1, embd_pdrop=0.1)))
    return path


def other_shapes(bench, precision):
    """Compares heads of other widths with the CPU device; dropout draws the same random words on both."""
    found = bench.found.setdefault("other shapes", {})[precision] = {}
    steps = OTHER_STEPS if bench.gpu else 2
    for width, heads, vocabulary in OTHERS:
        job = bench.job(other_model(bench, width, heads, vocabulary), "--micro-batches", 2, precision=precision,
                        **OTHER_SHAPE)
        name = f"{heads} heads of {width // heads}"
        found[name] = worst(losses(bench, job, steps), of_cpu(bench, job, steps))
    bench.goal(f"{precision}: losses of {len(OTHERS)} other shapes within {ALLOWED[precision]} of the CPU device's",
               max(found.values()) <= ALLOWED[precision])
    bench.show(f"{precision}, other shapes: {found}")


def layers_of(draw, layers):
    chosen = [layer for layer in range(layers) if draw.random() < 0.5]
    return ",".join(map(str, chosen)) or "none"


def draw_placement(bench, draw, job, layers):
    """Returns options of a run that move its bytes differently and must not change a bit of its losses."""
    sizes = ["256KiB", "1MiB", "4MiB"] if bench.gpu else ["16KiB", "64KiB", "256KiB"]
    choices = ["--recompute", layers_of(draw, layers), "--offload-activations", layers_of(draw, layers)]
    choices += ["--host-update"] * draw.randrange(2)
    options = [*choices, "--chunk-size", draw.choice(sizes), "--policy", draw.choice(["opt", "lru", "fifo", "lfu"]),
               "--look-ahead", draw.choice([0, 1, 4, 16])]
    return [*options, "--device-memory", bench.budget([*job, *options], draw.uniform(0.05, 1))]


def under_plans(bench, config, precision, seed, plans):
    layers = bench.shape("124M", 4)[0]
    job = bench.job(config, precision=precision, **SHAPE)
    resident = losses(bench, job, PLANNED_STEPS)
    draw, same = random.Random(seed), []
    for _ in range(plans):
        options = draw_placement(bench, draw, job, layers)
        same.append((losses(bench, [*job, *options], PLANNED_STEPS) == resident, " ".join(map(str, options))))
    bench.found.setdefault(precision, {})["plans"] = same
    bench.goal(f"{precision}: the same bits under {len(same)} drawn plans", all(kept for kept, _ in same))
    bench.show(f"{precision}: {sum(kept for kept, _ in same)} of {len(same)} drawn plans give the same bits")


def twelve_bytes(bench, config):
    """With 12 bytes per parameter the upper half of a parameter is the model's and the lower half the
    optimizer's. The losses must be those of 14 bytes."""
    job = bench.job(config, "--clip", 0, **SHAPE)
    fourteen = losses(bench, job, STEPS)
    split = [*job, "--bytes-per-parameter", 12]
    bench.goal("12 bytes a parameter: the same bits as 14", losses(bench, split, STEPS) == fourteen)
    planned = [*split, "--device-memory", bench.budget(split, 0.3)]
    bench.goal("12 bytes a parameter, offloaded: the same bits", losses(bench, planned, STEPS) == fourteen)


def compare(bench, steps, plans, more):
    """Compares both precisions, row by row; `more` is whether other shapes and 12 bytes are compared, too."""
    config = bench.model("124M", layers=4, positions=bench.scaled(**SHAPE)[1])
    seed = bench.found.setdefault("seed", random.randrange(1 << 32))
    start = initial_weights(bench, config)
    rows = {}
    for precision in ALLOWED:
        rows[precision] = lambda p=precision: beside_others(bench, start, p, steps)
        rows[f"{precision}, drawn plans"] = lambda p=precision: under_plans(bench, config, p, seed, plans)
        if more:
            rows[f"{precision}, other shapes"] = lambda p=precision: other_shapes(bench, p)
    if more:
        rows["12 bytes a parameter"] = lambda: twelve_bytes(bench, config)
    for name in bench.rows(rows):
        with bench.going_on(name):
            rows[name]()


def short(bench):
    compare(bench, FEW_STEPS, 2, more=False)


def correct(bench):
    compare(bench, STEPS, 8 if bench.gpu else 3, more=True)
