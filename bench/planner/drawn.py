"""Plans instances that are drawn at random (draw.py), and prints how gaps are distributed."""

import json
import math
import pathlib
import shlex
import shutil
import statistics
import sys
import tempfile

import draw
import judged
import rivals
from planning import EQUAL, children_seconds, gap, plan
from programs import Programs
from scaling import judge_seconds

MEAN, NINETIETH, WORST = 0.04, 0.08, 0.12
KEPT = 10  # of the widest gaps
GIB = 1 << 30
NO_PLAN = dict(bound=None, time=None, gap=math.inf, cpu_seconds=0.0, verified=False)


def add_options(group):
    group.add_argument("--drawn", type=int, metavar="N", help="plan N drawn instances instead")
    group.add_argument("--nvme", action="store_true", help="give each host too little memory, and a disk")
    group.add_argument("--seed", type=int, default=1, help="what they follow from; default: 1")
    group.add_argument("--largest", type=float, default=draw.LARGEST, metavar="PARAMETERS",
                       help="the largest model that is drawn; default: 200e9")
    group.add_argument("--keep", metavar="FOLDER", help="keep each instance that misses a goal, and the worst "
                                                        "ten, with the commands that run it again")
    group.add_argument("--without-rivals", action="store_true", help="compare plans with their bounds alone")


class Run:
    """Plans one instance after the other in a folder, which each of them overwrites."""

    def __init__(self, options, folder):
        self.options = options
        self.programs = Programs(options.programs, folder)
        self.kept = pathlib.Path(options.keep) if options.keep else None

    def row(self, number):
        begun = children_seconds()
        draw_instance = draw.NvmeInstance if self.options.nvme else draw.Instance
        instance = draw_instance(self.programs, self.options.seed, number, self.options.largest)
        row, rival = dict(draw_seconds=children_seconds() - begun), []
        try:
            row |= self.plan(instance)
            if not self.options.without_rivals:
                columns, rival = rivals.compete(instance)
                row |= columns
        except SystemExit as failure:
            print(failure, file=sys.stderr)
            row = NO_PLAN | row
        row = instance.names() | row | judged.here()
        if self.kept:
            self.keep(instance, row, rival)
        return row

    def plan(self, instance):
        certificate = None
        while not certificate:
            certificate, seconds, verified = plan(self.programs, "time", instance.budgets(), (0, 3))
            if not certificate:
                instance.enlarge()
        time = certificate["time"]
        return dict(bound=time["lower_bound_ns"] * 1e-9, time=time["achieved_ns"] * 1e-9,
                    gap=gap(certificate["gap"]["time"], time["achieved_ns"]), cpu_seconds=seconds,
                    verified=verified)

    def keep(self, instance, row, rival):
        """Keeps every instance. What is neither among the worst nor misses a goal goes at the end."""
        folder = self.kept / str(instance.number)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "platform.json"):
            shutil.copy(self.programs.folder / name, folder / name)
        (folder / "row.json").write_text(json.dumps(row, indent=1) + "\n")
        lines = [f"# Instance {instance.number} of seed {self.options.seed}: gap {row['gap']:.2%}. "
                 "Call it in its folder, with the programs in PATH.",
                 shlex.join(["pstar-trace", "synth", *instance.step.job(), "-o", "run.pstar"]),
                 shlex.join(["pstar-plan", "run.pstar", *instance.budgets(), "-o", "plan.json"])]
        if rival:
            shutil.copy(self.programs.folder / "plan.json", folder / "layout.json")
            lines += [f"# The fastest rival: {ratio(row):.4f} times as long.", *map(shlex.join, rival)]
        (folder / "run.sh").write_text("\n".join(lines) + "\n")

    def prune(self, rows):
        for row in rows:
            if row not in widest(rows) and meets_goals(row):
                shutil.rmtree(self.kept / str(row["number"]))


def ratio(row):
    """Returns the seconds of the fastest rival beside the plan's; infinity if none fits."""
    return row["rival_time"] / row["time"] if row.get("rival_time") else math.inf


def meets_goals(row):
    return row["verified"] and row["gap"] <= WORST and ratio(row) >= 1 - EQUAL


def print_header():
    print(f"{'':3} {'model':24} {'step':30} {'machine':9} {'up, down GB/s':>13} {'device GiB':>10} {'of all':>6} "
          f"{'host GiB':>8} {'disk GB/s':>11} {'operators':>9} {'bound s':>10} {'plan s':>10} {'gap':>7} {'CPU s':>6}  fastest rival",
          flush=True)


def print_row(row):
    model = f"{row['layers']} x {row['width']}, {row['vocabulary']}{' tied' * row['tied']}"
    recomputed = {0: "", row["layers"]: " again all"}.get(row["recomputed"], f" again {row['recomputed']}")
    step = (f"{row['precision']}/{row['bytes_per_parameter']} {row['micro_batches']} x {row['batch']} x "
            f"{row['sequence']}{recomputed}{' h.emb.' * row['host_embedding']}")
    link = row["link"].replace("h2d=", "").replace("d2h=", " ").replace("GB/s", "")
    host = f"{row['host'] / GIB:8.2f}" if row["host"] else "any"
    disk = f"{row['nvme_read'] / 1e9:5.2f} {row['nvme_write'] / 1e9:5.2f}" if row.get("nvme_read") else "none"
    times = "NO PLAN".rjust(29)
    if row["time"]:
        times = f"{row['bound']:10.4g} {row['time']:10.4g} {row['gap']:7.2%}"
    rival = f"{ratio(row):.3f} x {row['rival']}" if row.get("rival") else ""
    print(f"{row['number']:3} {model:24} {step:30} {row['machine'][:9]:9} {link:>13} {row['device'] / GIB:10.3f} "
          f"{row['device'] / (row['model_bytes'] + row['peak']):6.1%} {host:>8} {disk:>11} {row['operators']:9} {times} "
          f"{row['cpu_seconds']:6.1f}  {judged.verdict(meets_goals(row))}  {rival}"
          f"{'' if row['verified'] else '  NOT VERIFIED'}", flush=True)


def widest(rows):
    return sorted(rows, key=lambda row: row["gap"], reverse=True)[:KEPT]


def percentile(values, share):
    return sorted(values)[math.ceil(share * len(values)) - 1]


def print_distribution(rows):
    print(f"{len(rows)} instances, {sum(row['redraws'] for row in rows)} redraws")
    print("widest: " + ", ".join(f"{row['number']} with {row['gap']:.0%}" for row in widest(rows)))
    spent = {what: sum(row.get(key) or 0 for row in rows) for what, key in
             (("draw", "draw_seconds"), ("plan", "cpu_seconds"), ("sweep rivals", "rival_seconds"))}
    print("seconds of processors: " + ", ".join(f"{seconds:.0f} to {what}" for what, seconds in spent.items()))


def judge(rows):
    print_distribution(rows)
    goals, gaps = judged.Goals(), [row["gap"] for row in rows]
    verified = sum(row["verified"] for row in rows)
    goals.judge("every plan verifies", f"{verified} of {len(rows)}", verified == len(rows))
    goals.judge(f"gap on average at most {MEAN:.0%}",
                f"{statistics.mean(gaps):.2%}, in the median {statistics.median(gaps):.2%}", statistics.mean(gaps) <= MEAN)
    goals.judge(f"90th percentile at most {NINETIETH:.0%}", f"{percentile(gaps, 0.9):.2%}",
                percentile(gaps, 0.9) <= NINETIETH)
    goals.judge(f"worst at most {WORST:.0%}", f"{max(gaps):.2%}", max(gaps) <= WORST)
    judge_seconds(goals, rows)
    ratios = [ratio(row) for row in rows if row.get("rival")]
    if ratios:
        behind = [str(row["number"]) for row in rows if ratio(row) < 1 - EQUAL]
        figure = f"{len(behind)} of {len(rows)} are: {', '.join(behind)}".rstrip(": ")
        goals.judge("never slower than a rival", f"{figure}; the fastest takes {min(ratios):.3f} to {max(ratios):.3f} "
                    f"times as long, in the median {statistics.median(ratios):.3f}", not behind)
    return goals


def measure(options):
    """Plans the instances, and returns their rows."""
    chosen = map(int, options.only.split(",")) if options.only else range(1, options.drawn + 1)
    rows = []
    print_header()
    for number in chosen:
        with tempfile.TemporaryDirectory(prefix="pstar-drawn-") as folder:
            work = Run(options, folder)
            rows.append(work.row(number))
        print_row(rows[-1])
        judged.write(options.output, rows)
    if options.keep:
        work.prune(rows)
    return rows
