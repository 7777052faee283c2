"""What a link did in each phase of an iteration, from a trace, and what the timeline of a plan predicts.

On a GPU the times are those of kernels and copies. Phases begin and end with the kernels of the embedding
and of the loss, so the run need not be annotated.
On the CPU device the times are those of the annotations.
"""

import json

ITERATION, OPERATOR, COPY = 2, 3, 4  # categories of annotations
DIRECTIONS = ("h2d", "d2h")
RESOURCES = ("compute", *DIRECTIONS, "host")
FIRST, LOSS, LAST_OF_BACKWARD = "embed_forward", "loss_kernel", "embed_positions"  # parts of kernel names


class Iteration:
    """phases: (name, begin, end); copies: {direction: [(begin, end, bytes)]}; compute: [(begin, end)].
    All times are in nanoseconds."""

    def __init__(self, phases, copies, compute):
        self.phases, self.copies, self.compute = phases, copies, compute


def of_kernels(kernels, copies):
    """Returns the iterations that were recorded whole. kernels: (begin, end, name); copies: (begin,
    end, bytes, CUPTI's kind); both ordered by begin."""
    begins = [begin for begin, _, name in kernels if FIRST in name]
    losses = [end for _, end, name in kernels if LOSS in name]
    backwards = [end for _, end, name in kernels if LAST_OF_BACKWARD in name]
    moved = {direction: [(b, e, n) for b, e, n, kind in copies if kind == number]
             for number, direction in enumerate(DIRECTIONS, 1)}
    compute = [(begin, end) for begin, end, _ in kernels]
    for begin, loss, backward, after in zip(begins, losses, backwards, begins[1:]):
        yield Iteration([("forward", begin, loss), ("backward", loss, backward), ("update", backward, after)],
                        moved, compute)


def of_annotations(ranges, phase_of_moment):
    """ranges: (begin, end, category, text, payload)."""
    copies = {direction: [(b, e, n) for b, e, category, text, n in ranges
                          if category == COPY and text.lower() == direction] for direction in DIRECTIONS}
    operators = [(b, e, phase_of_moment[moment]) for b, e, category, _, moment in ranges if category == OPERATOR]
    for begin, end, category, _, _ in ranges:
        if category != ITERATION:
            continue
        inside = [(b, e, phase) for b, e, phase in operators if begin <= b and e <= end]
        # Updates on the host may come first. The device's phases begin after them.
        starts = {phase: min(b for b, _, p in inside if p == phase) for phase in ("forward", "backward")}
        done = max(e for _, e, p in inside if p == "backward")
        yield Iteration([("forward", starts["forward"], starts["backward"]), ("backward", starts["backward"], done),
                         ("update", done, end)], copies, [(b, e) for b, e, _ in inside])


def iterations(bench, trace):
    tables = {name for name, in bench.query(trace, "SELECT name FROM sqlite_master")}
    if "CUPTI_ACTIVITY_KIND_KERNEL" in tables:
        kernels = bench.query(trace, "SELECT start, end, value FROM CUPTI_ACTIVITY_KIND_KERNEL "
                             "JOIN StringIds ON id = shortName ORDER BY start")
        copies = bench.query(trace, "SELECT start, end, bytes, copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start")
        return list(of_kernels(kernels, copies))
    ranges = bench.query(trace, "SELECT start, end, category, value, uint64Value FROM NVTX_EVENTS "
                        "JOIN StringIds ON id = textId WHERE eventType = 59 AND end IS NOT NULL ORDER BY start")
    return list(of_annotations(ranges, dict(bench.query(trace, "SELECT id, phase FROM operators"))))


def busy(spans, begin, end):
    """Returns the nanoseconds of the window in which at least one span was active. Spans are ordered
    by begin."""
    total, until = 0, begin
    for span in spans:
        first, last = max(span[0], until), min(span[1], end)
        if last > first:
            total, until = total + last - first, last
    return total


def carried(copies, begin, end):
    """Returns the bytes within the window. Copies that cross its ends count in proportion."""
    return sum(n * max(0, min(e, end) - max(b, begin)) / max(e - b, 1) for b, e, n in copies)


def by_phase(found):
    """Returns the mean over iterations: {phase: {seconds, compute_seconds, h2d: {bytes, busy_seconds},
    d2h: ...}}."""
    sums = {}
    for iteration in found:
        for phase, begin, end in iteration.phases:
            row = sums.setdefault(phase, dict(seconds=0, compute_seconds=0,
                                              **{d: dict(bytes=0, busy_seconds=0) for d in DIRECTIONS}))
            row["seconds"] += (end - begin) * 1e-9 / len(found)
            row["compute_seconds"] += busy(iteration.compute, begin, end) * 1e-9 / len(found)
            for direction in DIRECTIONS:
                copies = iteration.copies[direction]
                row[direction]["bytes"] += carried(copies, begin, end) / len(found)
                row[direction]["busy_seconds"] += busy(copies, begin, end) * 1e-9 / len(found)
    return sums


def peak(curve):
    """Returns the rate of the fastest copy, in bytes per second."""
    return max(amount / seconds for amount, seconds in points_of(curve))


def points_of(curve):
    return [(point["bytes"], point["seconds"]) if isinstance(point, dict) else point for point in curve["points"]]


def rates(phases, platform, host_seconds):
    """Adds to each phase the rates that were reached, the probe's rates, and the resource with the
    most work. If the other direction is busy for half of the time, the probe's rate is that of both
    directions at once."""
    alone = {d: peak(platform[d]) for d in DIRECTIONS}
    both = {d: peak(platform.get(f"{d}_both", platform[d])) for d in DIRECTIONS}
    for name, phase in phases.items():
        demands = dict(compute=phase["compute_seconds"], host=host_seconds.get(name, 0))
        for direction, other in (DIRECTIONS, DIRECTIONS[::-1]):
            row = phase[direction]
            shared = phase[other]["busy_seconds"] > phase["seconds"] / 2
            row["probe_rate"] = (both if shared else alone)[direction]
            row["rate"] = row["bytes"] / phase["seconds"]
            row["rate_while_busy"] = row["bytes"] / row["busy_seconds"] if row["busy_seconds"] else 0
            row["of_probe"] = row["rate"] / row["probe_rate"]
            row["of_probe_while_busy"] = row["rate_while_busy"] / row["probe_rate"]
            demands[direction] = row["bytes"] / row["probe_rate"]
        phase["demand_seconds"] = demands
        phase["bound_by"] = max(demands, key=demands.get)
    return phases


def timeline_work(path):
    """Returns the seconds that each resource works in the timeline of a plan: {resource: {phase:
    seconds}}."""
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    rows = {event["tid"]: event["args"]["name"].lower() for event in events if event["ph"] == "M"}
    work = {resource: {} for resource in RESOURCES}
    for event in events:
        resource = rows.get(event["tid"])
        if event["ph"] == "X" and resource in work:
            phase = event["args"].get("phase", "")
            work[resource][phase] = work[resource].get(phase, 0) + event["dur"] * 1e-6
    return work
