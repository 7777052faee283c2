"""Whether the machine, the libraries and the first steps work at all, in a minute."""

import ctypes
import os
import pathlib
import shutil
import sys
import time

import correctness
import sanitizing
from bench import GIB, Failed, available_bytes
from collecting import said_by

DEVICE = "libpstar-cuda.so"
LIBRARIES = ("libcudart.so", "libcublasLt.so", "libcupti.so")
STEPS, CHECKED_STEPS = 5, 2


def library(name):
    """Returns where a library of CUDA is, or None."""
    places = [*filter(None, os.environ["LD_LIBRARY_PATH"].split(":")), "/usr/local/cuda/lib64",
              "/usr/local/cuda/extras/CUPTI/lib64", "/usr/lib/x86_64-linux-gnu"]
    found = [file for place in places for file in sorted(pathlib.Path(place).glob(name + "*"))]
    return found[0] if found else None


def read_all(files):
    """Reads files once, so that what is measured later does not wait for a cold file system. Returns
    bytes and seconds."""
    begin, total = time.monotonic(), 0
    for file in files:
        with open(file, "rb") as stream:
            while piece := stream.read(16 << 20):
                total += len(piece)
    return dict(bytes=total, seconds=round(time.monotonic() - begin, 2))


def machine(bench):
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = available_bytes()
    bench.found["machine"] = dict(
        gpu=said_by("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"),
        cores=os.cpu_count(), memory_bytes=total, available_bytes=available)
    bench.show(f"{bench.found['machine']['gpu']}; {os.cpu_count()} cores; {available / GIB:.1f} GiB of memory are "
               f"available of {total / GIB:.1f}")


def load_device(bench):
    """Returns why the library of the CUDA device cannot be loaded: it wants the version of CUDA that it was
    built with."""
    places = (bench.programs, bench.programs.parent / "lib" / "pstar")
    device = next((place / DEVICE for place in places if (place / DEVICE).exists()), None)
    if not device:
        return [f"{DEVICE} is in none of {', '.join(map(str, places))}"]
    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    said = bench.call(sys.executable, "-c", load, device, allowed=(0, 1))
    return said.stderr.strip().splitlines()[-1:] if said.returncode else []


def libraries(bench):
    found = {name: library(name) for name in LIBRARIES}
    files = [*bench.programs.glob("pstar-*"), *bench.programs.glob("libpstar-*.so"), *filter(None, found.values())]
    bench.found["libraries"] = {name: str(file) for name, file in found.items()}
    bench.found["cold_read"] = read_all([file for file in files if file.is_file()])
    bench.found["programs"] = bench.program("pstar-run", "--version").stdout.strip()
    bench.show(f"read {bench.found['cold_read']['bytes'] / 1e6:.0f} MB in {bench.found['cold_read']['seconds']} s")
    missing = [name for name, file in found.items() if not file]
    for file in filter(None, found.values()):
        try:
            ctypes.CDLL(str(file))
        except OSError as error:
            missing.append(str(error))
    missing += load_device(bench)
    if bench.gpu and missing:
        raise Failed(f"not found, or cannot be loaded: {', '.join(missing)}")


def steps(bench, precision):
    job = bench.job(bench.model("124M", layers=2), batch=2, sequence=256, precision=precision)
    losses, on_cpu = correctness.losses(bench, job, STEPS), correctness.of_cpu(bench, job, STEPS)
    worst, allowed = correctness.worst(losses, on_cpu), correctness.ALLOWED[precision]
    bench.found[precision] = dict(losses=losses, cpu=on_cpu, worst=worst)
    bench.goal(f"{precision}: losses of {STEPS} steps within {allowed} of the CPU device's", worst <= allowed)
    bench.show(f"{precision}: {losses}, {worst:.2g} from the CPU device's")


def memcheck(bench):
    """Two steps under compute-sanitizer, with a small model."""
    sanitizer = sanitizing.find()
    if not bench.gpu or not sanitizer:
        bench.leave_out("memcheck", f"needs a GPU and {sanitizing.SANITIZER}")
        return
    width, heads, batch = sanitizing.SHAPES[0]
    job = bench.job(sanitizing.small_model(bench, width, heads), batch=batch, sequence=sanitizing.SEQUENCE)
    sanitizing.check(bench, sanitizer, "memcheck", f"{CHECKED_STEPS} steps, bf16", job)


def smoke(bench):
    free = shutil.disk_usage(bench.folder).free
    bench.found["disk_bytes"] = free
    bench.with_torch("every comparison with PyTorch")
    ways = dict(machine=machine, libraries=libraries, fp32=lambda bench: steps(bench, "fp32"),
                bf16=lambda bench: steps(bench, "bf16"), memcheck=memcheck)
    for name in bench.rows(ways):
        with bench.going_on(name):
            ways[name](bench)
