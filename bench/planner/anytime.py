"""Stops searches after some seconds, and compares their plans with those of whole searches."""

import shutil
import tempfile
import time

import judged
from draw import PLATFORMS
from planning import plan
from programs import Programs

LIMITS = (1, 2, 5, 10)  # seconds
APART = 0.10  # from the last plan
TRAFFIC = 10  # seconds elapsed to plan for traffic

# Model, machine, device memory, options of the step.
STEPS = [
    ("patrickstar-12b", "h100-80gb", "80GiB", "--batch 4 --seq 1024 --recompute all --micro-batches 4"),
    ("patrickstar-60b", "a100-40gb", "40GiB", "--batch 8 --seq 1024 --recompute all"),
    ("patrickstar-175b", "a100-40gb", "40GiB", "--batch 4 --seq 1024 --recompute all"),
    ("patrickstar-175b", "h100-80gb", "60GiB", "--batch 8 --seq 1024 --recompute all"),
]


def add_options(group):
    group.add_argument("--anytime", action="store_true", help="stop searches after 1, 2, 5 and 10 seconds instead")


def planned(programs, objective, options):
    """Returns a plan's seconds a step, whether it verifies, and the seconds elapsed to plan it."""
    begun = time.monotonic()
    certificate, _, verified = plan(programs, objective, options)
    return certificate["time"]["achieved_ns"] * 1e-9, verified, time.monotonic() - begun


def plan_step(programs, model, machine, memory, step):
    """Returns a row: the seconds of a step by plans of searches of some seconds, and of a whole one."""
    shutil.copy(PLATFORMS / f"{machine}.json", programs.folder / "platform.json")
    config = PLATFORMS.parent / "models/configs" / f"{model}.json"
    platform = ["--platform", "platform.json"]
    programs.call("pstar-trace", "synth", "--model", config, "--precision", "bf16", *step.split(), *platform,
                  "-o", "run.pstar")
    options = ["--device-memory", memory, "--host-memory", "unlimited", *platform]
    row = dict(model=model, machine=machine, device=memory, step=step)
    checks = []
    for limit in LIMITS:
        row[f"after_{limit}"], verified, _ = planned(programs, "time", [*options, "--time-limit", limit])
        checks.append(verified)
    row["last"], verified, row["seconds"] = planned(programs, "time", options)
    _, for_traffic, row["traffic_seconds"] = planned(programs, "traffic", options)
    return row | dict(verified=all(checks) and verified and for_traffic) | judged.here()


def behind(row, limit):
    return row[f"after_{limit}"] / row["last"] - 1


def print_row(row):
    shares = " ".join(f"{behind(row, limit):8.2%}" for limit in LIMITS)
    print(f"{row['model']:17} {row['machine']:10} {row['device']:>7} {row['last']:9.4f} {shares} {row['seconds']:7.1f} "
          f"{row['traffic_seconds']:9.1f}  {judged.verdict(meets_goals(row))}"
          f"{'' if row['verified'] else '  NOT VERIFIED'}", flush=True)


def meets_goals(row):
    return (row["verified"] and row["traffic_seconds"] <= TRAFFIC
            and all(behind(row, limit) <= APART for limit in LIMITS))


def measure(options):
    """Plans all steps, and returns their rows."""
    heads = " ".join(f"{f'{limit} s':>8}" for limit in LIMITS)
    print(f"{'model':17} {'machine':10} {'device':>7} {'plan s':>9} {heads} {'whole s':>7} {'traffic s':>9}", flush=True)
    rows = []
    for step in STEPS:
        with tempfile.TemporaryDirectory(prefix="pstar-anytime-") as folder:
            rows.append(plan_step(Programs(options.programs, folder), *step))
        print_row(rows[-1])
    return rows


def judge(rows):
    goals, verified = judged.Goals(), sum(row["verified"] for row in rows)
    goals.judge("every plan verifies", f"{verified} of {len(rows)}", verified == len(rows))
    for limit in LIMITS:
        worst = max(behind(row, limit) for row in rows)
        goals.judge(f"after {limit} s at most {APART:.0%} behind the last plan", f"{worst:.2%}", worst <= APART)
    longest = max(row["traffic_seconds"] for row in rows)
    goals.judge(f"planned for traffic within {TRAFFIC} s", f"{longest:.1f} s", longest <= TRAFFIC)
    return goals
