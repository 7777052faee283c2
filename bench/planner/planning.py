"""Plans one trace and verifies the plan, for the parts of bench/planner/planner."""

import json
import resource
import sys

# Relative difference of plan and rival. One program predicts both to the nanosecond.
EQUAL = 1e-9


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def plan(programs, objective, options, allowed=(0,)):
    """Plans run.pstar. Returns the certificate, the processor seconds and whether the plan verifies.
    The certificate is None if nothing fits, which `allowed` must permit with 3."""
    begun = children_seconds()
    made = programs.call("pstar-plan", "run.pstar", *options, "--objective", objective, "-o", "plan.json",
                         allowed=allowed)
    seconds = children_seconds() - begun
    if made.returncode:
        return None, seconds, False
    check = programs.call("pstar-plan", "--verify", "plan.json", "run.pstar", allowed=(0, 1, 2))
    if check.returncode:
        print(f"planner: {check.stderr.strip()}", file=sys.stderr)
    certificate = json.loads((programs.folder / "plan.json").read_text())["certificate"]
    return certificate, seconds, check.returncode == 0


def gap(stated, achieved):
    """A certificate states null for a gap above a bound of 0."""
    return stated if stated is not None else float("inf") if achieved else 0.0
