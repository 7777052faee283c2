"""How fast the CUDA device is: the probe, resident training beside PyTorch, and plans beside their
predictions.
"""

import json
import os
import statistics

STEPS, UNCOUNTED = 10, 3
EXACT = ("h2d_bytes", "d2h_bytes", "evictions", "peak_device_bytes")
PREDICTED_GOAL, RESIDENT_GOAL, RESIDENT_AIM = 0.05, 0.85, 0.95
BATCHES = {"124M": 16, "355M": 8, "774M": 8, "1.5B": 4}


def median_of(steps, key="iteration_seconds"):
    return statistics.median(step[key] for step in steps)


def probe(bench):
    """Makes this machine's platform file, from which the later parts predict."""
    bench.program("pstar-run", "--device", bench.device, "--probe", "-o", "machine.json")
    bench.keep("machine.json")
    bench.found["largest points"] = {key: curve["points"][-1] for key, curve in bench.read("machine.json").items()
                                     if isinstance(curve, dict) and "points" in curve}


def platform_of(bench):
    """Returns the platform file of this call or of an earlier one."""
    return bench.made("machine.json", lambda: bench.program("pstar-run", "--device", bench.device, "--probe", "-o",
                                                            "machine.json"))


def speed_of(seconds, tokens):
    return dict(seconds=seconds, median_seconds=statistics.median(seconds),
                tokens_per_second=tokens / statistics.median(seconds))


def resident_beside_pytorch(bench, size):
    """Both programs take the steps of a round in turns. PyTorch's process stays alive, so that it
    compiles once."""
    batch = BATCHES[size]
    compiled = ["--compile"] if bench.gpu else []
    seconds = dict(ours=[], torch=[])
    found = bench.found[size] = dict(batch=batch, rounds=seconds)
    batch_here, sequence = bench.scaled(batch, 1024)
    job = bench.job(bench.model(size), batch=batch)
    if not bench.with_torch(f"{size} of PyTorch"):
        for _ in range(bench.rounds):
            seconds["ours"].append(median_of(bench.steps(job, STEPS, UNCOUNTED)))
        found["ours"] = speed_of(seconds["ours"], batch_here * sequence)
        bench.show(f"{size}: {found['ours']['tokens_per_second']:.0f} tokens/s")
        return
    with bench.server(bench.torch_command(size, "--clip", "--serve", *compiled, batch=batch, steps=STEPS)) as ask:
        first = ask("")  # includes compilation
        for number in range(bench.rounds):
            seconds["ours"].append(median_of(bench.steps(job, STEPS, UNCOUNTED)))
            seconds["torch"].append(ask("")["median_seconds"])
            bench.show(f"{size}, round {number + 1}: {seconds['ours'][-1]:.4f} s beside {seconds['torch'][-1]:.4f}")
    found["compiling_seconds"] = first["seconds"][0]
    found |= {side: speed_of(values, batch_here * sequence) for side, values in seconds.items()}
    found["of_pytorchs_speed"] = statistics.median(t / o for t, o in zip(seconds["torch"], seconds["ours"]))
    bench.goal_of_speed(f"{size}: at least {RESIDENT_GOAL} of PyTorch's speed", found["of_pytorchs_speed"] >= RESIDENT_GOAL)
    bench.show(f"{size}: {found['of_pytorchs_speed']:.3f} of PyTorch's speed ({RESIDENT_AIM} is aimed at), "
               f"{found['ours']['tokens_per_second']:.0f} tokens/s beside {found['torch']['tokens_per_second']:.0f}")


def resident(bench, sizes):
    for size in bench.rows(sizes):
        with bench.going_on(size):
            resident_beside_pytorch(bench, size)


def resident_first(bench):
    resident(bench, ("124M",))


def resident_others(bench):
    resident(bench, ("355M", "774M", "1.5B"))


BUSIEST = 30  # kernels of a step that are kept
LAST = 3  # steps of the run that they are of


def kernels_a_step(bench, trace, seconds):
    """Returns the kernels that take the most time in the last steps of a trace, with calls and seconds a step. `seconds` are
    what these steps took. What ran before them is left out: a program that compiles tries kernels."""
    kernels = bench.query(trace, "SELECT value, COUNT(*), SUM(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL "
                          "JOIN StringIds ON id = demangledName WHERE start >= (SELECT MAX(end) FROM CUPTI_ACTIVITY_KIND_KERNEL) "
                          f"- {round(1e9 * sum(seconds))} GROUP BY value ORDER BY 3 DESC LIMIT {BUSIEST}")
    return [dict(name=name, calls=calls / len(seconds), seconds=1e-9 * busy / len(seconds)) for name, calls, busy in kernels]


def busiest(bench):
    """Keeps what each kernel of a resident step takes, ours and compiled PyTorch's."""
    if not bench.gpu:
        bench.leave_out("everything", "needs a GPU")
        return
    batch = BATCHES["124M"]
    ours = [bench.programs / "pstar-run", *bench.job(bench.model("124M"), batch=batch), "--steps", 6, "--log", "run.jsonl"]
    ways = dict(ours=(ours, lambda said: [step["iteration_seconds"] for step in bench.log()]))
    if bench.with_torch("PyTorch's kernels"):
        ways["torch"] = (bench.torch_command("124M", "--clip", "--compile", batch=batch, steps=6),
                         lambda said: json.loads(said.splitlines()[-1])["seconds"])
    for way in bench.rows(ways):
        with bench.going_on(way):
            command, seconds_of = ways[way]
            said = bench.collect_alone("busiest.pstar", command)
            bench.found[way] = kernels_a_step(bench, "busiest.pstar", seconds_of(said)[-LAST:])
            seconds = sum(kernel["seconds"] for kernel in bench.found[way])
            bench.show(f"{way}: {1e3 * seconds:.1f} ms a step in the {len(bench.found[way])} busiest kernels")


PRODUCTS = "products.txt"


def timed_products(bench):
    """Compares steps with cuBLASLt's first choice for each product and with the quickest of eight, in turns.
    The choices are kept, so that two runs with them have the same bits."""
    size = "124M"
    job = bench.job(bench.model(size), "--data-order", "sequential", batch=BATCHES[size])
    timed = os.environ | {"PSTAR_CUDA_PRODUCTS": str(bench.output / PRODUCTS)}
    bench.steps(job, UNCOUNTED, 0, environment=timed)  # chooses
    rounds, losses = dict(first_choice=[], quickest=[]), []
    bench.found["rounds"] = rounds
    for number in range(bench.rounds):
        rounds["first_choice"].append(median_of(bench.steps(job, STEPS, UNCOUNTED)))
        steps = bench.steps(job, STEPS, UNCOUNTED, environment=timed)
        rounds["quickest"].append(median_of(steps))
        losses.append([step["loss"] for step in steps])
        bench.show(f"round {number + 1}: {rounds['first_choice'][-1]:.4f} s, {rounds['quickest'][-1]:.4f} with the quickest")
    bench.found["of_the_first_choices_time"] = statistics.median(q / f for f, q in zip(rounds["first_choice"],
                                                                                       rounds["quickest"]))
    bench.goal("runs with kept choices have the same losses", all(row == losses[0] for row in losses))


# ---- plans ----

def placed(plan):
    """Returns what the plan leaves on the host, and what may leave the device."""
    choices = plan.get("choices", {})
    updates = choices.get("host_update") or [False]
    return dict(tensors_updated_on_the_host=sum(updates) / len(updates),
                layers_recomputed=sum(choices.get("recompute", [])), layers_offloaded=sum(choices.get("offload", [])))


def compare(plan, steps):
    """Compares the measured steps of a plan with its predictions."""
    told, seconds = plan["predicted"], median_of(steps)
    return dict(predicted=told["iteration_seconds"], measured=seconds,
                error=told["iteration_seconds"] / seconds - 1,
                stall=dict(predicted=told["stall_seconds"], measured=median_of(steps, "stall_seconds")),
                bytes_equal=all(step[key] == told[key] for step in steps for key in EXACT), **placed(plan))


def timed(bench, trace, iterations, run):
    """Collects a run of pstar-run, whose operators must all have times. If CUPTI has none, the run waits for
    every operator, which is said: such times are those of a GPU that idles in between."""
    collect = ["pstar-collect", "-o", trace, "--iterations", iterations, "--", bench.programs / "pstar-run", *run]
    bench.program(*collect)
    (unknown,), = bench.query(trace, "SELECT COUNT(*) FROM operators WHERE duration_ns IS NULL")
    if unknown:
        bench.leave_out(f"{trace} with the device's times", f"CUPTI has none of {unknown} operators")
        bench.program(*collect, environment=os.environ | {"PSTAR_CUDA_SYNC": "1"})


def traced(bench, job, trace):
    timed(bench, trace, "3:6", [*job, "--steps", 6])
    factors = [float(value) for value, in bench.query(trace, "SELECT value FROM meta WHERE key = 'durations_scaled'")]
    bench.found.setdefault("scaled", {})[trace] = factors[0] if factors else None


def run_plan(bench, job, command, way):
    """Makes a plan, trains with it, and adds a row."""
    bench.program(*command, "--platform", platform_of(bench))
    plan = bench.read("plan.json")
    if command[0] == "pstar-plan":
        bench.keep_packed("plan.json", f"{command[1].removesuffix('.pstar')}-{command[3].rstrip('%')}-plan.json")
    row = compare(plan, bench.steps([*job, "--plan", "plan.json"], steps=9)) | dict(way=way)
    bench.found.setdefault("rows", []).append(row)
    bench.goal(f"{way}: bytes moved and peaks are those predicted", row["bytes_equal"])
    bench.goal_of_speed(f"{way}: time within 5 %", abs(row["error"]) <= PREDICTED_GOAL)
    bench.show(f"{way}: {row['measured']:.4f} s, predicted {100 * row['error']:+.2f} %, "
               f"bytes {'equal' if row['bytes_equal'] else 'DIFFER'}")


def ways_of(bench):
    """Returns, for each trace, the commands that make plans from it."""
    small, large = ("16MiB", "64MiB") if bench.gpu else ("64KiB", "256KiB")
    policies = [("--policy", policy, "--look-ahead", ahead, "--chunk-size", chunk)
                for policy, ahead, chunk in (("opt", 8, small), ("opt", 8, large), ("lru", 0, large))]
    strategies = [("--strategy", name, "--chunk-size", large) for name in ("zero-offload", "fsdp-offload", "interleave:2")]
    kept, leaving = "kept.pstar", "leaving.pstar"
    for budget in ("40%", "70%"):
        for way in [*policies, *strategies]:
            yield kept, ["pstar-sim", kept, "--device-memory", budget, *way, "--emit-plan", "plan.json"]
        yield kept, ["pstar-plan", kept, "--device-memory", budget, "-o", "plan.json"]
        yield leaving, ["pstar-plan", leaving, "--device-memory", budget, "-o", "plan.json", "--recompute", "traced",
                        "--offload-activations", "traced"]


def way_of(command):
    return " ".join(map(str, [command[0], *command[2:]]))


def predict(bench, commands):
    """Compares plans of policies, strategies and the planner with their measured steps."""
    job = bench.job(bench.model("355M"), batch=8)
    options = {"kept.pstar": [], "leaving.pstar": ["--offload-activations", "all"]}
    for way, trace, command in bench.rows([(way_of(command), trace, command) for trace, command in commands]):
        with bench.going_on(way):
            bench.made(trace, lambda trace=trace: traced(bench, [*job, *options[trace]], trace))
            run_plan(bench, job, command, way)


def predicted_six(bench):
    commands = list(ways_of(bench))
    predict(bench, [*commands[:2], *commands[3:5], *commands[6:8]])


def predicted(bench):
    """Compares the other plans, and judges all."""
    begun = bench.parts.get("predicted-six", {})
    before = begun.get("rows", []) if begun.get("device") == bench.device else []
    predict(bench, [(trace, command) for trace, command in ways_of(bench)
                    if way_of(command) not in [row["way"] for row in before]])
    rows = [*before, *bench.found.get("rows", [])]
    bench.goal("at least 12 plans, with offloaded activations and with updates on both sides",
               len(rows) >= 12 and any(row["layers_offloaded"] for row in rows)
               and any(0 < row["tensors_updated_on_the_host"] < 1 for row in rows))
