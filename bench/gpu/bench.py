"""The programs, PyTorch and the files that the parts of the GPU bench share."""

import contextlib
import gzip
import importlib.util
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# Layers, width and heads of GPT-2's four sizes, and of tiny models that replace them without a GPU.
SIZES = {"124M": (12, 768, 12), "355M": (24, 1024, 16), "774M": (36, 1280, 20), "1.5B": (48, 1600, 25)}
GIB = 2**30
TINY = (2, 64, 2)
TINY_BATCH, TINY_SEQUENCE = 2, 32


LOG_BYTES = 100_000  # kept of the log of a process


class Failed(Exception):
    pass


class OutOfTime(Failed):
    """The call has no time left. The next call goes on with the row that was cut off."""


def start(command, **how):
    """Starts a process in a group of its own, so that everything it starts can be ended with it."""
    return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True, process_group=0, **how)


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def end(process):
    kill(process)
    process.communicate()


def cuda_folders():
    """Returns the folders of CUDA's libraries in PyTorch's packages, because a machine may have no others."""
    packages = importlib.util.find_spec("nvidia")
    places = packages.submodule_search_locations if packages else []
    return [str(folder) for place in places for folder in sorted(pathlib.Path(place).glob("*/lib"))]


def group_bytes():
    """Returns how many bytes the control group of this process may still take, or infinity."""
    folders = {pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/sys/fs/cgroup/memory")}
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            path = line.split(":", 2)[2].lstrip("/")
            folders |= {folder / path for folder in tuple(folders)}
    left = float("inf")
    for folder in folders:
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            with contextlib.suppress(OSError, ValueError):  # "max" is no number
                left = min(left, int((folder / limit).read_text()) - int((folder / used).read_text()))
    return max(left, 0)


def available_bytes():
    """Returns the host memory that a run may take. A container may have less than the machine."""
    with open("/proc/meminfo") as file:
        unused = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    return int(min(unused, group_bytes()))


def keep_awake():
    """Keeps the GPU open. The driver shuts down a GPU that no program has open, and each program that
    follows would wait some seconds for it to start."""
    with contextlib.suppress(OSError):
        os.open("/dev/nvidia0", os.O_RDWR)  # until this process ends


class Bench:
    """One run of the bench. A part fills `found`, and `show` writes what it has found so far to the
    results file."""

    def __init__(self, programs, output, device, before=None, seconds=float("inf")):
        """`before` is the folder of an earlier call to go on from. The call ends after `seconds`."""
        self.programs, self.output, self.device = programs.resolve(), output.resolve(), device
        self.ends = time.monotonic() + seconds
        if before and before.resolve() != self.output:
            for file in filter(pathlib.Path.is_file, before.iterdir()):
                shutil.copyfile(file, self.output / file.name)
        self.has_torch = importlib.util.find_spec("torch") is not None
        self.gpu = device == "cuda"
        if self.gpu:
            keep_awake()
        self.rounds = 5 if self.gpu else 1  # rounds of measurements in turns
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pstar-gpu-"))
        self.results = self.output / "results.json"
        self.parts = json.loads(self.results.read_text()) if self.results.exists() else {}
        self.found, self.deadline = {}, None
        draws = random.Random(1)
        words = ["".join(chr(draws.randrange(97, 123)) for _ in range(draws.randrange(2, 9))) for _ in range(200)]
        self.text = " ".join(draws.choice(words) for _ in range(200_000))
        (self.folder / "data.txt").write_text(self.text)
        packed = self.programs.parent / "lib"  # of an unpacked archive
        libraries = [os.environ.get("LD_LIBRARY_PATH"), str(packed) if packed.is_dir() else None, *cuda_folders()]
        # For all started processes. cuBLASLt logs its errors, each process to a file of its own.
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
        os.environ["CUBLASLT_LOG_LEVEL"], os.environ["CUBLASLT_LOG_FILE"] = "1", str(self.folder / "cublaslt-%i.log")

    # ---- parts ----

    def begin(self, name, limit):
        if not self.parts.get(name, {}).pop("unfinished", False):
            self.parts[name] = dict(device=self.device, goals={})
        self.found = self.parts[name]
        self.deadline = min(time.monotonic() + limit, self.ends)

    def is_done(self, name):
        """Returns whether an earlier call came to the end of a part, which may have failed."""
        part = self.parts.get(name)
        return part is not None and part["device"] == self.device and not part.get("unfinished")

    def rows(self, rows):
        """Yields the rows of the part that no earlier call has done. A row is a name, or begins with it.
        What was found is saved behind each. A row that fails is done, unless the call's time was up."""
        done = self.found.setdefault("done", [])
        for row in rows:
            name = row if isinstance(row, str) else row[0]
            if name in done:
                continue
            if self.left() <= 0:
                raise self.late(f"before {name}")
            yield row
            done.append(name)
            self.save()

    def late(self, text):
        return (OutOfTime if self.deadline >= self.ends else Failed)(text)

    def left(self):
        """Returns the seconds that the part has left."""
        return self.deadline - time.monotonic()

    def show(self, text):
        print(text, flush=True)
        self.save()

    def keep_logs(self):
        """Adds what cuBLASLt has logged to a file of the results."""
        for log in sorted(self.folder.glob("cublaslt-*.log")):
            if said := log.read_text(errors="replace").strip():
                with open(self.output / "cublaslt.log", "a") as kept:
                    kept.write(said[:LOG_BYTES] + "\n")
            log.unlink()

    def save(self):
        fresh = self.results.with_suffix(".new")
        fresh.write_text(json.dumps(self.parts, indent=1) + "\n")
        fresh.replace(self.results)

    def goal(self, text, kept):
        """Records a goal. It is judged only on a GPU, unless it must hold for any figures."""
        self.found["goals"][text] = bool(kept)

    def goal_of_speed(self, text, kept):
        if self.gpu:
            self.goal(text, kept)

    @contextlib.contextmanager
    def going_on(self, name):
        """Ends a failure inside the block, so that it does not stop what follows: time on a GPU is
        expensive. The part counts as failed."""
        try:
            yield
        except OutOfTime:
            raise
        except Exception as error:
            if not isinstance(error, Failed):
                traceback.print_exc()
            self.found.setdefault("failures", {})[name] = f"{type(error).__name__}: {error}"[:2000]
            self.show(f"{name}: {error}")

    # ---- processes ----

    def call(self, *command, allowed=(0,), environment=None):
        """Runs a program and returns its output. Fails with its messages if it exits with another
        status than allowed, or if the part has no time left."""
        limit = self.left()
        process = start(command, cwd=self.folder, stderr=subprocess.PIPE, env=environment)
        try:
            printed, said = process.communicate(timeout=max(limit, 0.1))
        except subprocess.TimeoutExpired as late:
            raise self.late(f"{process.args[0]} {process.args[1:3]}... was stopped after {limit:.0f} s") from late
        finally:
            end(process) if process.returncode is None else None
        if process.returncode not in allowed:
            raise Failed(f"{' '.join(process.args)} ended with {process.returncode}: {said.strip()[-1500:]}")
        return subprocess.CompletedProcess(process.args, process.returncode, printed, said)

    def program(self, name, *arguments, **how):
        return self.call(self.programs / name, *arguments, **how)

    def collect_alone(self, trace, command):
        """Traces kernels and copies of a whole run, which is not annotated and so runs as it does alone. Returns what it prints."""
        return self.program("pstar-collect", "-o", trace, "--iterations", "all", "--", "env", "-u", "NVTX_INJECTION64_PATH", *command).stdout

    @contextlib.contextmanager
    def server(self, command):
        """Starts a program that answers each line with one line of JSON. ask(line) returns the answer."""
        with open(self.folder / "server.txt", "w+") as said:
            process = start(command, cwd=self.folder, stdin=subprocess.PIPE, stderr=said)
            stop = threading.Timer(max(self.left(), 0.1), kill, [process])
            stop.start()

            def ask(line):
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(line + "\n")
                    process.stdin.flush()
                answer = process.stdout.readline()
                if answer:
                    return json.loads(answer)
                said.seek(0)
                if self.left() <= 0:
                    raise self.late(f"{' '.join(process.args[:3])}... was stopped")
                raise Failed(f"{' '.join(process.args[:3])}... ended: {said.read().strip()[-1500:]}")

            try:
                yield ask
            finally:
                stop.cancel()
                end(process)

    def with_torch(self, what):
        """Returns whether PyTorch is there. If not, says that `what` is left out; the part goes on."""
        if not self.has_torch:
            self.leave_out(what, "PyTorch is not installed for this python3")
        return self.has_torch

    def leave_out(self, what, why):
        self.found.setdefault("left_out", {})[what] = why
        self.show(f"left out: {what}: {why}")

    # ---- models and jobs ----

    @property
    def vocabulary(self):
        return 50304 if self.gpu else 256

    def shape(self, size, layers=None):
        of_size, width, heads = SIZES[size] if self.gpu else TINY
        return layers or of_size, width, heads

    def scaled(self, batch, sequence):
        return (batch, sequence) if self.gpu else (min(batch, TINY_BATCH), min(sequence, TINY_SEQUENCE))

    def torch_command(self, size, *options, layers=None, batch=4, sequence=1024, steps=10):
        layers, width, heads = self.shape(size, layers)
        batch, sequence = self.scaled(batch, sequence)
        return [sys.executable, HERE / "torch_gpt.py", "--layers", layers, "--width", width, "--heads", heads,
                "--vocab", self.vocabulary, "--batch", batch, "--seq", sequence, "--steps", steps, "--data", "data.txt",
                "--device", self.device, *options]

    def torch(self, *arguments, environment=None, **shape):
        """Returns the JSON that torch_gpt.py prints."""
        done = self.call(*self.torch_command(*arguments, **shape), environment=environment)
        return json.loads(done.stdout.splitlines()[-1])

    def model(self, size, layers=None, positions=1024):
        """Writes a config.json of the size, with another number of layers if given."""
        layers, width, heads = self.shape(size, layers)
        config = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], activation_function="gelu_new",
                      n_layer=layers, n_embd=width, n_head=heads, n_positions=positions, vocab_size=self.vocabulary,
                      embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0)
        path = self.folder / f"gpt2-{size}-{layers}-{positions}.json"
        path.write_text(json.dumps(config))
        return path

    def job(self, model, *options, batch=4, sequence=1024, precision="bf16"):
        batch, sequence = self.scaled(batch, sequence)
        return ["--device", self.device, "--model", model, "--data", "data.txt", "--tokens", "bytes", "--batch",
                batch, "--seq", sequence, "--precision", precision, *options]

    def steps(self, job, steps=10, uncounted=3, environment=None):
        """Returns the log of each counted step."""
        self.program("pstar-run", *job, "--steps", steps, "--log", "run.jsonl", environment=environment)
        return self.log()[uncounted:]

    def log(self):
        """Returns the log of the last run, one entry per step."""
        lines = map(json.loads, (self.folder / "run.jsonl").read_text().splitlines())
        return [line for line in lines if "step" in line]

    def dry_run(self, job):
        return json.loads(self.program("pstar-run", *job, "--dry-run", "--json").stdout)

    def budget(self, job, share):
        """Returns a --device-memory between the least that fits and everything resident."""
        dry = self.dry_run(job)
        least, most = dry["least_device_bytes"], dry["device_bytes"]
        return dry["library_bytes"] + int(least + (most - least) * share)

    # ---- files ----

    def read(self, name):
        return json.loads((self.folder / name).read_text())

    def made(self, name, make):
        """Makes a file of the folder, unless this call or an earlier one has."""
        if not (self.folder / name).exists():
            if (self.output / name).exists():
                shutil.copy(self.output / name, self.folder / name)
            else:
                make()
                self.keep(name)
        return name

    def keep(self, name):
        """Copies a file of the folder into the results."""
        (self.output / name).write_bytes((self.folder / name).read_bytes())

    def keep_packed(self, name, as_name=None):
        """Copies a file of the folder into the results, compressed: what gpu/replayed needs to predict a step again."""
        (self.output / f"{as_name or name}.gz").write_bytes(gzip.compress((self.folder / name).read_bytes(), 1))

    def query(self, trace, query):
        """Queries a trace, which is an SQLite file with the tables of Nsight Systems."""
        with contextlib.closing(sqlite3.connect(self.folder / trace)) as database:
            return database.execute(query).fetchall()


def within(a, b, share):
    return abs(a - b) <= share * max(abs(a), abs(b))
