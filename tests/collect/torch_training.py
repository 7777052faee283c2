#!/usr/bin/env python3
"""PyTorch training loops that pstar_torch annotates, under the real collector.

    torch_training.py FOLDER_OF_PROGRAMS

Each loop trains three times in one process: without annotations, with them (recorded), and under
PyTorch's own profiler of memory. The losses must be the same bits, the trace must have every
parameter, gradient and state with its bytes, and its peak must be the profiler's. Returns 77 where
PyTorch is missing.
"""
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.checkpoint import checkpoint
except ImportError:
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "collect"))
import pstar_torch  # noqa: E402

WIDTH, HEADS, TOKENS, VOCABULARY, BATCH, LAYERS, STEPS = 64, 4, 32, 512, 4, 2, 4
LISTS = ("param", "grad", "master", "exp_avg", "exp_avg_sq")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.after = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        shape = (BATCH, TOKENS, 3, HEADS, WIDTH // HEADS)
        q, k, v = self.qkv(self.before(x)).view(shape).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.out(a.transpose(1, 2).reshape(x.shape)), 0.1)
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(nn.Module):
    def __init__(self, tied, again):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.again = again
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, x):
        h = self.tokens(x) + self.positions(torch.arange(TOKENS))
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False) if self.again else block(h)
        return self.head(self.norm(h))


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
                                  nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
                                  nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


class Loop:
    """A plain GPT; subclasses change parts of it."""
    micro_batches, frozen, evaluates, clips, keeps = 1, (), False, False, False

    def model(self):
        return GPT(tied=False, again=False)

    def optimizer(self, parameters):
        return torch.optim.AdamW(parameters, lr=1e-3)

    def batch(self):
        return (torch.randint(0, VOCABULARY, (BATCH, TOKENS)),) * 2

    def train(self, around, steps=STEPS):
        """Returns the losses. `around` makes a context from the model, the optimizer and a step."""
        torch.manual_seed(1)
        model = self.model()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not name.startswith(self.frozen or "-"))
        optimizer = self.optimizer([p for p in model.parameters() if p.requires_grad])
        return [self.step(model, optimizer, around(model, optimizer, step))
                for step in range(steps)]

    def step(self, model, optimizer, context):
        losses = []
        with context:
            optimizer.zero_grad(set_to_none=not self.keeps)
            for _ in range(self.micro_batches):
                x, y = self.batch()
                loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
                loss.backward()
                losses.append(loss.item().hex())
            if self.clips:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if self.evaluates:
            with torch.no_grad():
                model.eval()(self.batch()[0])
                model.train()
        return losses


class Hard(Loop):
    micro_batches, frozen, clips = 3, ("blocks.0",), True

    def model(self):
        return GPT(tied=True, again=True)


class Convolutions(Loop):
    evaluates, keeps = True, True

    def model(self):
        return CNN()

    def optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    def batch(self):
        return torch.randn(8, 3, 16, 16), torch.randint(0, VOCABULARY, (8,))


LOOPS = {"gpt": Loop, "hard": Hard, "convolutions": Convolutions}


class Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def annotated(model, optimizer, step):
    if step == 0:
        pstar_torch.annotate(model, optimizer)
    return Nothing()


def profiled_peak(loop):
    """Returns the peak bytes of tensors in the third step, from PyTorch's profiler."""
    from torch.profiler import ProfilerActivity, profile, record_function
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        loop.train(lambda model, optimizer, step: record_function(f"step {step}"), steps=3)
    events = profiler.profiler.kineto_results.events()
    step = next(event for event in events if event.name() == "step 2")
    live, peak = 0, 0
    for time, nbytes in sorted((event.start_ns(), event.nbytes()) for event in events
                               if event.name() == "[memory]"):
        live += nbytes
        if step.start_ns() <= time <= step.end_ns():
            peak = max(peak, live)
    return peak


def run_loop(name):
    """The traced program."""
    torch.set_num_threads(1)
    loop = LOOPS[name]()
    plain = loop.train(lambda *_: Nothing())
    recorded = loop.train(annotated)
    print(json.dumps({"plain": plain, "recorded": recorded, "peak": profiled_peak(loop)}))


# ---- What the traces must hold ------------------------------------------------------------------


class Trace:
    def __init__(self, path):
        database = sqlite3.connect(path)
        self.meta = dict(database.execute("SELECT key, value FROM meta"))
        self.tensors = dict(database.execute("SELECT name, elements FROM tensors"))
        partial = int(self.meta["schema_version"]) >= 4
        self.lists = {name: lists.split() for name, lists in database.execute(
            f"SELECT name, {'lists' if partial else repr(' '.join(LISTS))} FROM tensors")}
        self.names = dict(database.execute("SELECT id, name FROM tensors"))
        self.operators = list(database.execute(
            "SELECT name, phase, micro_batch, duration_ns FROM operators ORDER BY id"))
        self.accesses = list(database.execute(
            "SELECT operator, tensor, list, mode FROM accesses ORDER BY id"))
        self.buffers = list(database.execute(
            "SELECT name, bytes, first, last, saved FROM buffers ORDER BY id"))
        self.non_model = [n for n, in database.execute(
            "SELECT non_model_bytes FROM moments ORDER BY id")]
        database.close()

    def width(self, kind):
        return int(self.meta.get(f"element_bytes_{kind}") or 0)

    def bytes(self, kind):
        """Returns the bytes of the tensors that the list has."""
        return self.width(kind) * sum(elements for name, elements in self.tensors.items()
                                      if kind in self.lists[name])

    def peak(self, loop):
        """Returns the peak of live bytes. A gradient lives from its first write, unless kept."""
        fixed = sum(self.bytes(kind) for kind in LISTS if kind != "grad")
        born = {}
        for moment, tensor, kind, _ in self.accesses:
            if kind == "grad":
                born.setdefault(tensor, -1 if loop.keeps else moment)
        return max(fixed + there + sum(self.tensors[self.names[t]] * self.width("grad")
                                       for t, first in born.items() if first <= moment)
                   for moment, there in enumerate(self.non_model))


def check(condition, what):
    if not condition:
        sys.exit(f"torch_training: {what}")


def check_model(trace, loop, model):
    expected = {name: p.numel() for name, p in model.named_parameters()}
    check(trace.tensors == expected, f"tensors {trace.tensors} are not {expected}")
    trained = [name for name in expected if not name.startswith(loop.frozen or "-")]
    for name in trained:
        mine = [(trace.operators[m][1], kind, mode) for m, tensor, kind, mode in trace.accesses
                if trace.names[tensor] == name]
        check(("forward", "param", "read") in mine, f"no forward reads {name}")
        grads = [mode for phase, kind, mode in mine if kind == "grad" and phase == "backward"]
        check(grads[0] == "overwrite" and all(mode == "update" for mode in grads[1:]),
              f"the gradient of {name} is written as {grads}")
        for kind in LISTS:
            if kind != "grad" and trace.width(kind) > 0:
                check(("update", kind, "update") in mine, f"no update of {name}'s {kind}")
    return trained


def check_saved(trace):
    """Checks that the output of the first block's `up` is kept until backward of gelu has read it."""
    saved = [(nbytes, trace.operators[first][0], trace.operators[last][0])
             for name, nbytes, first, last, kept in trace.buffers
             if kept and name.startswith("blocks.0.up ")]
    expected = (4 * BATCH * TOKENS * 4 * WIDTH, "forward blocks.0.up", "backward blocks.0")
    check(expected in saved, f"{expected} is not in {saved}")
    for name, _, first, last, kept in trace.buffers:
        check(not kept or (trace.operators[first][1], trace.operators[last][1]) ==
              ("forward", "backward") or last == len(trace.operators) - 1,
              f"{name} is saved, from {first} to {last}")


def collect(programs, name, folder):
    path = folder / f"{name}.pstar"
    done = subprocess.run([programs / "pstar-collect", "-o", path, "--", sys.executable, __file__,
                           "--loop", name], capture_output=True, text=True)
    check(done.returncode == 0, f"{name}: {done.stderr}")
    check("pstar" not in done.stderr, f"{name}: {done.stderr}")
    return path, json.loads(done.stdout.splitlines()[-1])


def check_loop(programs, name, folder):
    loop = LOOPS[name]()
    path, said = collect(programs, name, folder)
    check(said["plain"] == said["recorded"], f"{name}: losses {said} differ")
    subprocess.run([programs / "pstar-trace", "check", path], check=True)
    trace = Trace(path)
    trained = check_model(trace, loop, loop.model())
    check(int(trace.meta["micro_batches"]) == loop.micro_batches, "micro-batches")
    check(all(duration for *_, duration in trace.operators), "an operator has no time")
    ours, theirs = trace.peak(loop), said["peak"]
    print(f"{name}: peak {ours} bytes, by PyTorch's profiler {theirs}")
    check(abs(ours - theirs) <= theirs / 100, f"{name}: the peaks differ")
    if name == "gpt":
        check_saved(trace)
        info = json.loads(subprocess.run([programs / "pstar-trace", "info", "--json", path],
                                         check=True, capture_output=True).stdout)
        check(info["model_bytes"] == 16 * sum(trace.tensors.values()), "model bytes")
    if name == "hard":
        names = [operator for operator, *_ in trace.operators]
        check("recompute blocks.1.up" in names and "recompute blocks.0.up" in names,
              "no operator computes again")
        frozen = [name for name, lists in trace.lists.items() if lists == ["param"]]
        check(sorted(frozen) == sorted(set(trace.tensors) - set(trained)),
              f"{frozen} have parameters only")
    return path


def check_plan(programs, path, folder):
    plan = folder / "plan.json"
    for command in (["pstar-sim", path, "--device-memory", "60%,100%", "--chunk-size", "256KiB"],
                    ["pstar-plan", path, "--device-memory", "60%", "-o", plan],
                    ["pstar-plan", "--verify", plan, path]):
        done = subprocess.run([programs / command[0], *command[1:]], capture_output=True, text=True)
        check(done.returncode == 0, f"{command}: {done.stderr}")


def check_without_collector():
    for variable in ("NVTX_INJECTION64_PATH", "PSTAR_COLLECT_ITERATIONS"):
        os.environ.pop(variable, None)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    backward = torch.autograd.backward
    for library in (None, "/nonexistent.so"):
        if library is not None:
            os.environ.update(NVTX_INJECTION64_PATH=library, PSTAR_COLLECT_ITERATIONS="1:2")
        pstar_torch.annotate(model, optimizer)
        check(not model._forward_hooks and not model._forward_pre_hooks and
              torch.autograd.backward is backward, "annotate does something without a collector")


def train_compiled():
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pstar_torch.annotate(model, optimizer)
    compiled = torch.compile(model, backend="eager")
    for _ in range(3):
        compiled(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return 0


def check_compiled(programs, folder):
    """Checks that there is no trace and that the reason is printed once."""
    path = folder / "compiled.pstar"
    done = subprocess.run([programs / "pstar-collect", "-o", path, "--", sys.executable, __file__,
                           "--compiled"], capture_output=True, text=True)
    check(done.returncode == 1 and not path.exists(), f"compiled: {done.stderr}")
    check(done.stderr.count("torch.compile while collecting") == 1, f"compiled: {done.stderr}")


def main():
    if sys.argv[1] == "--loop":
        return run_loop(sys.argv[2])
    if sys.argv[1] == "--compiled":
        return train_compiled()
    programs = pathlib.Path(sys.argv[1])
    check_without_collector()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        paths = [check_loop(programs, loop, folder) for loop in LOOPS]
        check_plan(programs, paths[0], folder)
        check_compiled(programs, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
