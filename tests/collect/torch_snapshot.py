#!/usr/bin/env python3
"""Snapshots of PyTorch's memory on CUDA devices become traces.

    torch_snapshot.py PSTAR_TRACE

A snapshot needs a CUDA device to be made, so these are built here after the structure that
torch.cuda.memory._snapshot documents, by an allocator that hands out addresses of one segment at
random; what the trace must say is counted beside it. As PyTorch's, its history has the bytes that
were asked for, and its blocks are rounded up. Returns 77 where PyTorch is missing.
"""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile

if not importlib.util.find_spec("torch"):
    sys.exit(77)

HELPER = pathlib.Path(__file__).resolve().parents[2] / "collect" / "pstar_torch"
sys.path.insert(0, str(HELPER.parent))
from pstar_torch._snapshot import convert_snapshot  # noqa: E402

BASE, SLOT, SLOTS = 0x7F0000000000, 1 << 20, 64
FRAMES = [{"filename": "train.py", "line": 7, "name": "forward"}]


class Allocator:
    def __init__(self, seed, history):
        self.random = random.Random(seed)
        self.time = 1_700_000_000_000_000
        self.live = {}      # slot: bytes
        self.waiting = {}   # given back, but another stream still uses it
        self.trace = []
        self.segment = {"device": 0, "address": BASE, "total_size": SLOT * SLOTS, "stream": 0,
                        "segment_type": "large", "segment_pool_id": (0, 0)}
        self.peak = 0
        self.recording = False
        self.run(40)
        self.recording = True
        self.peak = self.bytes()
        self.run(history)

    def bytes(self):
        return sum(self.live.values()) + sum(self.waiting.values())

    def note(self, action, slot, size):
        self.time += self.random.randint(1, 50)
        if self.recording:
            self.trace.append({"action": action, "addr": BASE + slot * SLOT, "size": size,
                               "stream": 0, "time_us": self.time, "frames": FRAMES,
                               "pool_id": (0, 0)})

    def run(self, steps):
        for _ in range(steps):
            free = [s for s in range(SLOTS) if s not in self.live and s not in self.waiting]
            if free and self.random.random() < 0.55:
                slot, size = self.random.choice(free), self.random.randint(1, SLOT)
                self.live[slot] = size
                self.note("alloc", slot, size)
                self.peak = max(self.peak, self.bytes())
            elif self.live:
                slot = self.random.choice(list(self.live))
                self.waiting[slot] = self.live.pop(slot)
                self.note("free_requested", slot, self.waiting[slot])
            if self.waiting and self.random.random() < 0.8:
                slot = self.random.choice(list(self.waiting))
                self.note("free_completed", slot, self.waiting.pop(slot))

    def blocks(self):
        for slot in range(SLOTS):
            asked = self.live.get(slot) or self.waiting.get(slot) or 0
            used = -(-asked // 512) * 512
            if used > 0:
                yield {"address": BASE + slot * SLOT, "size": used, "requested_size": asked,
                       "state": "active_allocated" if slot in self.live
                       else "active_pending_free", "frames": FRAMES}
            if used < SLOT:
                yield {"address": BASE + slot * SLOT + used, "size": SLOT - used,
                       "requested_size": 0, "state": "inactive", "frames": []}

    def snapshot(self):
        segment = dict(self.segment, allocated_size=sum(self.live.values()),
                       active_size=self.bytes(), blocks=list(self.blocks()))
        return {"segments": [segment], "device_traces": [self.trace], "allocator_settings": {}}


def check(condition, what):
    if not condition:
        sys.exit(f"torch_snapshot: {what}")


def convert(path):
    """Runs in this process, because a new one would need seconds to import PyTorch."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        return convert_snapshot([str(path)]), errors.getvalue()


def check_command(folder):
    source, output = folder / "snapshot.pickle", folder / "named.json"
    subprocess.run([sys.executable, "-m", "pstar_torch", source, "-o", output], check=True,
                   cwd=HELPER.parent,
                   stdout=subprocess.DEVNULL)
    check(output.read_bytes() == (folder / "snapshot.json").read_bytes(), "the command differs")


def check_snapshot(program, folder, seed, history):
    allocator = Allocator(seed, history)
    source, converted = folder / "snapshot.pickle", folder / "snapshot.json"
    source.write_bytes(pickle.dumps(allocator.snapshot()))
    status, errors = convert(source)
    check(status == 0, f"seed {seed}: {errors}")
    trace = folder / "run.pstar"
    done = subprocess.run([program, "import", converted, "-o", trace], check=False,
                          capture_output=True, encoding="utf-8")
    if allocator.peak == 0:
        check(done.returncode == 2 and "there is no iteration" in done.stderr,
              f"seed {seed}: a snapshot without an allocation is imported: {done.stderr}")
        return
    check(done.returncode == 0, f"seed {seed}: {done.stderr}")
    subprocess.run([program, "check", trace], check=True, stdout=subprocess.DEVNULL)
    info = json.loads(subprocess.run([program, "info", "--json", trace], check=True,
                                     capture_output=True).stdout)
    memory = info["activity"]["devices"][0]["memory"]
    check(memory["live_bytes"] == allocator.bytes() and memory["peak_bytes"] == allocator.peak,
          f"seed {seed}: {memory} instead of {allocator.bytes()} live, {allocator.peak} at most")
    check(any("stack traces" in line for line in info["missing"]), info["missing"])


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for history in (0, 300):
            seed = int(os.environ.get("PSTAR_SEED", random.randrange(1 << 30))) + history
            print(f"seed {seed}")
            check_snapshot(sys.argv[1], folder, seed, history)
        check_command(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
