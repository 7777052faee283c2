"""The collector on a GPU: whole traces of programs that nobody changed, and what they cost."""

import json
import os
import platform
import statistics
import subprocess
import sys

from bench import ROOT, Failed, within

PEAK_GOAL, OVERHEAD_GOAL = 0.01, 0.02


def said_by(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except OSError as error:
        return str(error)


def machine(bench):
    return dict(
        gpu=said_by("nvidia-smi", "--query-gpu=name,memory.total,driver_version,pcie.link.gen.max,"
                    "pcie.link.width.max", "--format=csv,noheader"),
        nvcc=said_by("nvcc", "--version").splitlines()[-1:],
        torch=said_by(sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)"),
        cpu=next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), ""),
        cores=os.cpu_count(), memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        kernel=platform.release(), programs=bench.program("pstar-run", "--version").stdout.strip())


def annotated_environment():
    return os.environ | {"PYTHONPATH": str(ROOT / "collect")}


def collected(bench, trace, command, *options, environment=None):
    """The trace's summary, once it has been checked, and what the command printed."""
    done = bench.program("pstar-collect", "-o", trace, *options, "--", *command, environment=environment)
    bench.program("pstar-trace", "check", trace)
    return json.loads(bench.program("pstar-trace", "info", trace, "--json").stdout), done


def first_device(summary):
    devices = (summary.get("activity") or {}).get("devices") or []
    if not devices:
        raise Failed(f"no device in the trace: {summary.get('missing')}")
    return devices[0]


def collect_whole_run(bench, size, found):
    """Nothing annotated, every record kept: what PyTorch counts itself must be in it."""
    told = bench.torch(size, "--count-kernels", steps=6)
    command = bench.torch_command(size, steps=6)
    summary, done = collected(bench, "plain.pstar", command, "--iterations", "all")
    device = first_device(summary)
    printed = json.loads(done.stdout.splitlines()[-1])
    found["plain"] = dict(torch=told, device=device, reserved=printed["peak_reserved"])
    found["goals"]["kernels of a step are all counted"] = bool(
        device["steps"] and device["steps"]["kernels"] == told["kernels"])
    found["goals"]["peak bytes of the segments within 1 %"] = within(
        device["memory"]["peak_bytes"], printed["peak_reserved"], PEAK_GOAL)


def collect_tensors(bench, size, found):
    command = bench.torch_command(size, steps=6)
    summary, done = collected(bench, "tensors.pstar", command, "--iterations", "all", "--visible-tensors")
    printed = json.loads(done.stdout.splitlines()[-1])
    device = first_device(summary)
    found["tensors"] = dict(device=device, allocated=printed["peak_allocated"])
    found["goals"]["peak bytes of the tensors within 1 %"] = within(
        device["memory"]["peak_bytes"], printed["peak_allocated"], PEAK_GOAL)


def collect_annotated(bench, size, found):
    """Names for everything; the model's bytes are the parameters' and their states'."""
    command = bench.torch_command(size, "--annotate", steps=5)
    summary, done = collected(bench, "annotated.pstar", command, environment=annotated_environment())
    parameters = json.loads(done.stdout.splitlines()[-1])["parameters"]
    found["annotated"] = {key: summary[key] for key in
                          ("tensors", "operators", "model_bytes", "non_model_peak_bytes", "phases", "missing")}
    found["goals"]["every parameter, gradient and state has its bytes"] = (
        summary["model_bytes"] == 16 * parameters)


def collect_ours(bench, size, found):
    job = bench.job(bench.model(size))
    summary, _ = collected(bench, "ours.pstar", [bench.programs / "pstar-run", *job, "--steps", 4],
                           "--iterations", "2:3")
    found["ours"] = {key: summary[key] for key in ("tensors", "operators", "model_bytes", "phases", "activity")}
    bench.program("pstar-plan", "ours.pstar", "--device-memory", "90%", "-o", "ours.json")


def collect(bench):
    """A PyTorch run, as it is and annotated, and one of pstar-run."""
    found, size = dict(goals={}), "124M"
    if bench.gpu:
        collect_whole_run(bench, size, found)
        collect_tensors(bench, size, found)
    collect_annotated(bench, size, found)
    collect_ours(bench, size, found)
    for trace in ("annotated.pstar", "ours.pstar"):
        bench.call("gzip", "-9kf", trace)
        bench.keep(trace + ".gz")
    return found


def overhead(bench):
    """Step time without the collector, with it outside its window, and within; of long kernels and of
    short ones. Runs alternate."""
    found = dict(goals={})
    for name, shape in dict(long=("355M", 8, 1024), short=("124M", 1, 64)).items():
        size, batch, sequence = shape
        times = dict(alone=[], outside=[], within=[])
        for _ in range(3):
            for way in times:
                command = bench.torch_command(size, batch=batch, sequence=sequence, steps=16)
                if way != "alone":
                    window = "100:101" if way == "outside" else "all"
                    command = [bench.programs / "pstar-collect", "-o", "overhead.pstar", "--iterations", window,
                               "--", *command]
                done = bench.call(*command, allowed=(0, 1))
                times[way].append(json.loads(done.stdout.splitlines()[-1])["median_seconds"])
        middle = {way: statistics.median(seconds) for way, seconds in times.items()}
        found[name] = dict(times=times, outside=middle["outside"] / middle["alone"] - 1,
                           within=middle["within"] / middle["alone"] - 1)
    found["goals"]["long kernels: within 2 %"] = found["long"]["within"] <= OVERHEAD_GOAL
    return found


MEMORY_TABLE = "CUDA_GPU_MEMORY_USAGE_EVENTS"


def unknowns(bench):
    """What nobody could know without a GPU: when and with what an allocation is reported, whose CUPTI it
    is that is asked first, and whether the end of the program loses records."""
    if not bench.gpu:
        return dict(skipped="needs a GPU")
    small = bench.torch_command("124M", steps=4)
    collected(bench, "unknowns.pstar", small, "--iterations", "all")
    columns = [row[1] for row in bench.rows("unknowns.pstar", f"PRAGMA table_info({MEMORY_TABLE})")]
    sample = bench.rows("unknowns.pstar", f"SELECT * FROM {MEMORY_TABLE} ORDER BY start LIMIT 40")
    freed = bench.rows("unknowns.pstar", f"SELECT memoryOperationType, MIN(bytes), MAX(bytes), COUNT(*) "
                       f"FROM {MEMORY_TABLE} GROUP BY memoryOperationType")
    calls = bench.rows("unknowns.pstar",
                       f"SELECT m.start, r.start, r.end FROM {MEMORY_TABLE} m JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
                       "ON r.correlationId = m.correlationId LIMIT 40")
    held = bench.program("pstar-collect", "-o", "held.pstar", "--iterations", "all", "--",
                         *bench.torch_command("124M", "--count-kernels", steps=3), allowed=(0, 1))
    ends = {}
    for name, code in dict(exit="sys.exit(0)", _exit="os._exit(0)", kill="os.kill(os.getpid(), 9)").items():
        program = ("import os, sys, torch\nx = torch.ones(1 << 20, device='cuda')\n"
                   f"for _ in range(1000): x = x * 1.0001\n{code}\n")
        (bench.folder / "ends.py").write_text(program)
        bench.program("pstar-collect", "-o", f"ends-{name}.pstar", "--iterations", "all", "--", "python3",
                      "ends.py", allowed=tuple(range(256)) + (-9,))
        try:
            ends[name] = bench.rows(f"ends-{name}.pstar", "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")[0][0]
        except Exception as error:
            ends[name] = str(error)
    return dict(memory_columns=columns, memory_sample=sample, bytes_by_operation=freed,
                allocation_within_its_call=calls, beside_pytorchs_profiler=held.stderr[-2000:],
                kernels_of_1000_kept_at=ends)
