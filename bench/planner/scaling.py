"""Plans steps of more and more operators, and holds the processor seconds to goals."""

import json
import math
import shutil
import tempfile

import judged
from draw import PLATFORMS
from planning import plan
from programs import Programs

GROWTH = 1.5  # of the seconds an operator, where the operators double
OPERATORS, SECONDS = 10000, 20

# Width, machine, device memory, options of the step, and pairs of layers and micro-batches.
FAMILIES = [
    (512, "v100-yard", "20%", "", [(layers, 1) for layers in (25, 50, 100, 200, 400)]),
    (1024, "a100-40gb", "20%", "--recompute all", [(layers, 1) for layers in (25, 50, 100, 200, 400)]),
    (1024, "h100-80gb", "30%", "", [(25, micro_batches) for micro_batches in (1, 2, 4, 8, 16)]),
]


def add_options(group):
    group.add_argument("--scaling", action="store_true", help="plan steps of more and more operators instead")


def plan_step(programs, width, machine, memory, options, layers, micro_batches):
    """Returns a row: the operators of a step, and the seconds to plan it."""
    config = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], n_layer=layers, n_embd=width,
                  n_head=width // 64, n_positions=512, vocab_size=50257)
    (programs.folder / "config.json").write_text(json.dumps(config))
    shutil.copy(PLATFORMS / f"{machine}.json", programs.folder / "platform.json")
    platform = ["--platform", "platform.json"]
    programs.call("pstar-trace", "synth", "--model", "config.json", "--batch", 4, "--seq", 512,
                  "--precision", "bf16", "--micro-batches", micro_batches, *options.split(), *platform,
                  "-o", "run.pstar")
    info = json.loads(programs.call("pstar-trace", "info", "run.pstar", "--json").stdout)
    certificate, seconds, verified = plan(programs, "time", ["--device-memory", memory, "--host-memory", "unlimited", *platform])
    return dict(width=width, machine=machine, layers=layers, micro_batches=micro_batches,
                operators=info["operators"], gap=certificate["gap"]["time"], cpu_seconds=seconds,
                verified=verified) | judged.here()


def cost(row):
    return row["cpu_seconds"] / row["operators"]


def print_row(row):
    growth = f"{row['growth']:6.2f}" if row["growth"] else ""
    meets_goals = row["verified"] and (row["growth"] or 0) <= GROWTH
    print(f"{row['machine'][:9]:9} {row['layers']:6} {row['width']:5} {row['micro_batches']:13} "
          f"{row['operators']:9} {row['gap']:7.2%} {row['cpu_seconds']:7.1f} {cost(row) * 1e3:11.3f} {growth:>8}"
          f"  {judged.verdict(meets_goals)}{'' if row['verified'] else '  NOT VERIFIED'}", flush=True)


def doubling(before, row):
    """Returns by how much an operator's seconds grow where the operators become twice as many."""
    return (cost(row) / cost(before)) ** (1 / math.log2(row["operators"] / before["operators"]))


def measure(options):
    """Plans all families, and returns their rows."""
    print(f"{'machine':9} {'layers':>6} {'width':>5} {'micro-batches':>13} {'operators':>9} {'gap':>7} {'CPU s':>7} "
          f"{'ms/operator':>11} {'doubling':>8}", flush=True)
    rows = []
    for *family, sizes in FAMILIES:
        before = None
        for layers, micro_batches in sizes:
            with tempfile.TemporaryDirectory(prefix="pstar-scaling-") as folder:
                row = plan_step(Programs(options.programs, folder), *family, layers, micro_batches)
            row["growth"] = doubling(before, row) if before else None
            print_row(row)
            before = row
            rows.append(row)
    return rows


def judge_seconds(goals, rows):
    """Judges what OPERATORS take by the longest an operator takes in steps of at least half as many."""
    costs = [cost(row) for row in rows if row["operators"] >= OPERATORS / 2]
    longest = max(costs, default=0.0) * OPERATORS
    goals.judge(f"{OPERATORS:,} operators planned within {SECONDS} s of processors",
                f"{longest:.1f} s at worst in {len(costs)} of at least half as many", longest <= SECONDS)


def judge(rows):
    goals, verified = judged.Goals(), sum(row["verified"] for row in rows)
    growth = max(row["growth"] or 0 for row in rows)
    goals.judge("every plan verifies", f"{verified} of {len(rows)}", verified == len(rows))
    goals.judge(f"an operator takes at most {GROWTH} times as long where they double", f"{growth:.2f}", growth <= GROWTH)
    judge_seconds(goals, rows)
    return goals
