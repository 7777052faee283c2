"""The collector on a GPU: whole traces of unchanged programs, and the cost of collecting."""

import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys

from bench import ROOT, Failed, within

PEAK_GOAL, OVERHEAD_GOAL, LONG_KERNELS, SAMPLE_BYTES = 0.01, 0.02, 50e-6, 5_000_000
LIBRARIES_GOAL = 256 << 20


def said_by(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
        return done.stdout.strip() or "".join(done.stderr.strip().splitlines()[-1:])  # the reason
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)


def processor():
    with open("/proc/cpuinfo") as file:
        return next((line.split(":", 1)[1].strip() for line in file if "model name" in line), "")


# Measures what pinning host memory costs: time, and device memory for page tables.
PINNING = """
import json, time, torch
pool = torch.ones(8 << 30, dtype=torch.uint8)
before, begin = torch.cuda.mem_get_info()[0], time.perf_counter()
error = torch.cuda.cudart().cudaHostRegister(pool.data_ptr(), pool.numel(), 1)
seconds = time.perf_counter() - begin
print(json.dumps(dict(bytes=pool.numel(), seconds=seconds, error=str(error),
                      device_bytes=before - torch.cuda.mem_get_info()[0])))
"""


def machine(bench):
    bench.found |= dict(
        gpu=said_by("nvidia-smi", "--query-gpu=name,memory.total,driver_version,pcie.link.gen.max,"
                    "pcie.link.width.max", "--format=csv,noheader"),
        nvcc=said_by("nvcc", "--version").splitlines()[-1:],
        torch=said_by(sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)"),
        pinning=said_by(sys.executable, "-c", PINNING) if bench.gpu and bench.has_torch else "", cpu=processor(), cores=os.cpu_count(),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), kernel=platform.release())
    bench.show(f"{bench.found['gpu']}; PyTorch {bench.found['torch']}; pinning {bench.found['pinning']}")
    bench.found |= dict(programs=bench.program("pstar-run", "--version").stdout.strip(),
                        library_bytes=bench.dry_run(bench.job(bench.model("124M")))["library_bytes"])
    if bench.gpu:
        bench.goal("pstar-run finds the device, whose driver holds some of its memory", bench.found["library_bytes"] > 0)


def annotated_environment():
    return os.environ | {"PYTHONPATH": str(ROOT / "collect")}


def collected(bench, trace, command, *options, environment=None):
    """Checks the trace. Returns its summary and the output of the command."""
    done = bench.program("pstar-collect", "-o", trace, *options, "--", *command, environment=environment)
    bench.program("pstar-trace", "check", trace)
    return json.loads(bench.program("pstar-trace", "info", trace, "--json").stdout), done


def first_device(summary):
    devices = (summary.get("activity") or {}).get("devices") or []
    if not devices:
        raise Failed(f"no device in the trace: {summary.get('missing')}")
    return devices[0]


def collect_whole_run(bench, size):
    """Nothing is annotated and every record is kept. The trace must contain what PyTorch itself counts. It
    has in addition what libraries allocate themselves: what is left when PyTorch says what it holds."""
    told = bench.torch(size, "--count-kernels", steps=6)
    command = bench.torch_command(size, steps=6)
    summary, done = collected(bench, "plain.pstar", command, "--iterations", "all")
    device = first_device(summary)
    printed = json.loads(done.stdout.splitlines()[-1])
    others = device["memory"]["live_bytes"] - printed["left"]
    bench.found["plain"] = dict(torch=told, device=device, reserved=printed["peak_reserved"], of_libraries=others)
    bench.goal("kernels of a step are all counted",
               device["steps"] and device["steps"]["kernels"] == told["kernels"])
    bench.goal("peak bytes of the segments within 1 %",
               within(device["memory"]["peak_bytes"] - others, printed["peak_reserved"], PEAK_GOAL))
    bench.goal(f"libraries allocate at most {LIBRARIES_GOAL >> 20} MiB", 0 <= others <= LIBRARIES_GOAL)


def collect_tensors(bench, size):
    command = bench.torch_command(size, steps=6)
    summary, done = collected(bench, "tensors.pstar", command, "--iterations", "all", "--visible-tensors")
    printed = json.loads(done.stdout.splitlines()[-1])
    device = first_device(summary)
    others = bench.found.get("plain", {}).get("of_libraries", 0)
    bench.found["tensors"] = dict(device=device, allocated=printed["peak_allocated"])
    bench.goal("peak bytes of the tensors within 1 %",
               within(device["memory"]["peak_bytes"] - others, printed["peak_allocated"], PEAK_GOAL))


def collect_annotated(bench, size):
    """Everything is named. The model's bytes must be those of parameters and their states."""
    command = bench.torch_command(size, "--annotate", steps=5)
    summary, done = collected(bench, "annotated.pstar", command, environment=annotated_environment())
    parameters = json.loads(done.stdout.splitlines()[-1])["parameters"]
    bench.found["annotated"] = {key: summary[key] for key in
                                ("tensors", "operators", "model_bytes", "non_model_peak_bytes", "phases", "missing")}
    bench.goal("every parameter, gradient and state has its bytes", summary["model_bytes"] == 16 * parameters)


def collect_ours(bench, size):
    job = bench.job(bench.model(size))
    summary, _ = collected(bench, "ours.pstar", [bench.programs / "pstar-run", *job, "--steps", 4],
                           "--iterations", "2:3")
    bench.found["ours"] = {key: summary[key] for key in ("tensors", "operators", "model_bytes", "phases", "activity",
                                                         "library_bytes")}
    bench.program("pstar-plan", "ours.pstar", "--device-memory", "90%", "-o", "ours.json")


def keep_small(bench, trace):
    bench.call("gzip", "-9kf", trace)
    bench.keep(trace + ".gz")
    bench.goal(f"{trace} is below 5 MB", (bench.output / f"{trace}.gz").stat().st_size < SAMPLE_BYTES)


def collect(bench):
    """Collects a run of pstar-run, and a PyTorch run, annotated and unchanged. The two small traces are
    kept."""
    ways = {"ours.pstar": collect_ours}
    if bench.with_torch("traces of PyTorch"):
        ways["annotated.pstar"] = collect_annotated
        if bench.gpu:
            ways |= {"plain.pstar": collect_whole_run, "tensors.pstar": collect_tensors}
    for trace in bench.rows(ways):
        with bench.going_on(trace):
            ways[trace](bench, "124M")
            if trace in ("ours.pstar", "annotated.pstar"):
                keep_small(bench, trace)


# ---- overhead ----

STEPS, WINDOW = 20, (10, 15)
BEFORE, INSIDE = slice(4, 9), slice(11, 14)  # steps completely outside the window, and inside it
SHAPES = dict(long=("355M", 16, 1024), short=("124M", 1, 64))


def overhead_round(bench, shape, times):
    """Returns the steps without the collector, with it and a window marked by ranges, and with it and
    a window that it finds."""
    size, batch, sequence = shape
    for way in ("alone", "marked", "found"):
        marks = ["--marks"] if way == "marked" else []
        command = bench.torch_command(size, *marks, batch=batch, sequence=sequence, steps=STEPS)
        if way != "alone":
            command = [bench.programs / "pstar-collect", "-o", f"{way}.pstar", "--iterations",
                       "{}:{}".format(*WINDOW), "--", *command]
        done = bench.call(*command, allowed=(0, 1))  # 1 means that no trace was written
        if not done.stdout:
            raise Failed(f"{way}: {done.stderr.strip()[-1500:]}")
        seconds = json.loads(done.stdout.splitlines()[-1])["seconds"]
        times.setdefault(f"{way}, before the window", []).append(statistics.median(seconds[BEFORE]))
        times.setdefault(f"{way}, in the window", []).append(statistics.median(seconds[INSIDE]))


def kernels_of(bench, trace):
    """Returns the kernels of a step and their mean time, or None if nothing was recorded."""
    try:
        (count, mean), = bench.query(trace, "SELECT COUNT(*), AVG(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL")
    except sqlite3.OperationalError:
        return None
    return dict(a_step=count / (WINDOW[1] - WINDOW[0]), mean_seconds=mean * 1e-9) if count else None


def judge_overhead(bench, name, times):
    found, middle = bench.found[name], {way: statistics.median(seconds) for way, seconds in times.items()}
    found["kernels"] = kernels_of(bench, "marked.pstar")
    found["overhead"] = {f"{way}, {when}": middle[f"{way}, {when}"] / middle[f"alone, {when}"] - 1
                         for way in ("marked", "found") for when in ("before the window", "in the window")}
    if found["kernels"] and found["kernels"]["mean_seconds"] >= LONG_KERNELS:
        bench.goal(f"{name}: at most 2 % in the window, kernels averaging 50 us or more",
                   found["overhead"]["marked, in the window"] <= OVERHEAD_GOAL)


def overhead(bench):
    """Measures steps of long and of short kernels round by round, so that a run that is cut off stays
    balanced."""
    if not bench.with_torch("everything"):
        return
    rows = [(f"round {number + 1} of {bench.rounds}, {name}", name) for number in range(bench.rounds) for name in SHAPES]
    for row, name in bench.rows(rows):
        found = bench.found.setdefault(name, dict(shape=SHAPES[name], times={}))
        overhead_round(bench, SHAPES[name], found["times"])
        judge_overhead(bench, name, found["times"])
        bench.show(f"{row}: {found['overhead']}")
    if bench.gpu:
        bench.goal("long kernels average 50 us or more", (bench.found["long"]["kernels"] or {}).get("mean_seconds", 0)
                   >= LONG_KERNELS)


# ---- what cannot be known without a GPU ----

MEMORY_TABLE = "CUDA_GPU_MEMORY_USAGE_EVENTS"


def allocations(bench):
    """Records when allocations and frees are reported, and with which values."""
    small = bench.torch_command("124M", steps=4)
    collected(bench, "unknowns.pstar", small, "--iterations", "all")
    columns = [row[1] for row in bench.query("unknowns.pstar", f"PRAGMA table_info({MEMORY_TABLE})")]
    sample = bench.query("unknowns.pstar", f"SELECT * FROM {MEMORY_TABLE} ORDER BY start LIMIT 40")
    freed = bench.query("unknowns.pstar", f"SELECT memoryOperationType, MIN(bytes), MAX(bytes), COUNT(*) "
                       f"FROM {MEMORY_TABLE} GROUP BY memoryOperationType")
    calls = bench.query("unknowns.pstar",
                       f"SELECT m.start, r.start, r.end FROM {MEMORY_TABLE} m JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
                       "ON r.correlationId = m.correlationId LIMIT 40")
    bench.found |= dict(memory_columns=columns, memory_sample=sample, bytes_by_operation=freed,
                        allocation_within_its_call=calls)


def beside_a_profiler(bench):
    held = bench.program("pstar-collect", "-o", "held.pstar", "--iterations", "all", "--",
                         *bench.torch_command("124M", "--count-kernels", steps=3), allowed=(0, 1))
    bench.found["beside_pytorchs_profiler"] = held.stderr[-2000:]


def ends(bench):
    """Counts how many of 1000 kernels are kept if the program ends at once."""
    kept = bench.found["kernels_of_1000_kept_at"] = {}
    for name, code in dict(exit="sys.exit(0)", _exit="os._exit(0)", kill="os.kill(os.getpid(), 9)").items():
        program = ("import os, sys, torch\nx = torch.ones(1 << 20, device='cuda')\n"
                   f"for _ in range(1000): x = x * 1.0001\n{code}\n")
        (bench.folder / "ends.py").write_text(program)
        bench.program("pstar-collect", "-o", f"ends-{name}.pstar", "--iterations", "all", "--",
                      sys.executable, "ends.py", allowed=range(-64, 256))
        try:
            kept[name] = bench.query(f"ends-{name}.pstar", "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")[0][0]
        except sqlite3.Error as error:
            kept[name] = str(error)


def unknowns(bench):
    """Answers what cannot be known without a GPU: when and how an allocation is reported, which CUPTI
    client is asked first, and whether the end of the program loses records."""
    if not bench.gpu:
        bench.leave_out("everything", "needs a GPU")
        return
    if not bench.with_torch("everything"):
        return
    findings = dict(allocations=allocations, profiler=beside_a_profiler, ends=ends)
    for name in bench.rows(findings):
        with bench.going_on(name):
            findings[name](bench)
