#!/usr/bin/env python3
"""Loops whose memory is unlike a plain one's: the peak that a trace says is the one of PyTorch's own
profiler.

    torch_peaks.py FOLDER_OF_PROGRAMS [LOOP]...

Returns 77 where PyTorch is missing.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from torch_training import LISTS, Loop, Nothing, Trace, annotated, check, profiled_peak  # noqa: E402

WIDTH, CLASSES, BATCH = 64, 10, 256


class Layers(Loop):
    """Linear layers; each loop overrides what differs."""
    window = "1:2"
    close = 0.005  # how far the peaks may be from each other
    left_out = 0   # bytes of the program that a trace leaves out

    def model(self):
        return nn.Sequential(*(part for _ in range(4)
                               for part in (nn.Linear(WIDTH, WIDTH), nn.GELU())),
                             nn.Linear(WIDTH, CLASSES))

    def batch(self):
        return torch.randn(BATCH, WIDTH), torch.randint(0, CLASSES, (BATCH,))

    def check(self, trace):
        """Checks what else the trace must have."""


class Sum(nn.Module):
    """The sum of several layers, whose gradients by the input autograd adds in their place."""

    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        return sum(branch(x) for branch in self.branches)


class Sums(Layers):
    def model(self):
        return nn.Sequential(Sum(), Sum(), Sum(), nn.Linear(WIDTH, CLASSES))


class Anew(torch.optim.Optimizer):
    """Makes new states in each step, and then lets go of the old ones."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            for name, power in (("mean", 1), ("square", 2)):
                new = 0.1 * parameter.grad**power
                state[name] = 0.9 * state[name] + new if name in state else new
            parameter.sub_(1e-3 * state["mean"] / (state["square"].sqrt() + 1e-8))


class NewStates(Layers):
    """The first step has no old states, so a later one is observed."""
    window = "2:3"

    def optimizer(self, parameters):
        return Anew(list(parameters))


class Computed(Layers):
    """The layers compute with products of the parameters."""

    def step(self, model, optimizer, context):
        def call(x):
            products = {name: p * 1.0 for name, p in model.named_parameters()}
            return torch.func.functional_call(model, products, (x,))
        with context:
            x, y = self.batch()
            loss = F.cross_entropy(call(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss.item().hex()

    def check(self, trace):
        expected = {name: p.numel() for name, p in self.model().named_parameters()}
        check(trace.tensors == expected, f"computed: the tensors are {trace.tensors}")


class Flat(Layers):
    """The optimizer has one tensor, of which the parameters and their gradients are views. Its
    temporaries are shares of the whole in a trace, so the peaks are not compared."""
    close = 1

    def optimizer(self, parameters):
        whole = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
        whole.grad, begin = torch.zeros_like(whole), 0
        for parameter in parameters:
            end = begin + parameter.numel()
            parameter.data = whole.data[begin:end].view_as(parameter)
            parameter.grad = whole.grad[begin:end].view_as(parameter)
            begin = end
        return torch.optim.AdamW([whole], lr=1e-3)

    def step(self, model, optimizer, context):
        with context:
            x, y = self.batch()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        return loss.item().hex()

    def check(self, trace):
        parameters = dict(self.model().named_parameters())
        expected = {name: p.numel() for name, p in parameters.items()}
        check(trace.tensors == expected, f"flat: the tensors are {trace.tensors}")
        for kind in LISTS:
            nbytes = 4 * sum(expected.values()) if kind != "master" else 0
            check(trace.bytes(kind) == nbytes, f"flat: {kind} has {trace.bytes(kind)} bytes")


class Held(Layers):
    """A variable of the loop has the gradients until the next backward has made others. The peak of a trace
    is without them, and `unknown` says so."""
    close = 1

    def step(self, model, optimizer, context):
        with context:
            x, y = self.batch()
            loss = F.cross_entropy(model(x), y)
            self.gradients = torch.autograd.grad(loss, list(model.parameters()))
            for parameter, gradient in zip(model.parameters(), self.gradients):
                parameter.grad = gradient
            optimizer.step()
            optimizer.zero_grad()
        return loss.item().hex()

    def check(self, trace):
        nbytes = 4 * sum(p.numel() for p in self.model().parameters())
        check(f"old gradients: {nbytes} bytes" in trace.meta["unknown"], f"held: {trace.meta['unknown']}")


class Averaged(Layers):
    """A dictionary has averages of the weights, and an object the best ones. Data lies beside them, which a trace
    leaves out."""
    rows = 8000
    left_out = 4 * rows * WIDTH

    def optimizer(self, parameters):
        self.averages = {i: p.detach().clone() for i, p in enumerate(parameters)}
        self.best = Held()
        self.best.weights = [p.detach().clone() for p in parameters]
        self.data = torch.zeros(self.rows, WIDTH)
        return torch.optim.AdamW(parameters, lr=1e-3)

    def step(self, model, optimizer, context):
        losses = super().step(model, optimizer, context)
        for average, parameter in zip(self.averages.values(), model.parameters()):
            average.lerp_(parameter.detach(), 0.1)
        return losses

    def check(self, trace):
        parameters = list(self.model().parameters())
        beside = {name: nbytes for name, nbytes, *_ in trace.buffers if "beside" in name}
        expected = {f"copies of parameters beside the model ({2 * len(parameters)} tensors)":
                    8 * sum(p.numel() for p in parameters)}
        check(beside == expected, f"averaged: {beside} lies beside the model, not {expected}")
        check(f"other tensors: {self.left_out} bytes" in trace.meta["unknown"], trace.meta["unknown"])


LOOPS = {"sums": Sums(), "new states": NewStates(), "computed": Computed(), "flat": Flat(),
         "held": Held(), "averaged": Averaged()}


def run_loop(name):
    """The traced program."""
    torch.set_num_threads(1)
    loop = LOOPS[name]
    plain, recorded = loop.train(lambda *_: Nothing()), loop.train(annotated)
    print(json.dumps({"plain": plain, "recorded": recorded, "peak": profiled_peak(loop)}))


def check_loop(programs, name, folder):
    loop, path = LOOPS[name], folder / f"{name}.pstar"
    done = subprocess.run([programs / "pstar-collect", "--iterations", loop.window, "-o", path, "--",
                           sys.executable, __file__, "--loop", name], capture_output=True, text=True)
    check(done.returncode == 0 and "pstar" not in done.stderr, f"{name}: {done.stderr}")
    said = json.loads(done.stdout.splitlines()[-1])
    check(said["plain"] == said["recorded"], f"{name}: losses {said} differ")
    subprocess.run([programs / "pstar-trace", "check", path], check=True, stdout=subprocess.DEVNULL)
    trace = Trace(path)
    ours, theirs = trace.peak(loop) + loop.left_out, said["peak"]
    print(f"{name}: peak {ours} bytes, by PyTorch's profiler {theirs}")
    check(abs(ours - theirs) <= theirs * loop.close, f"{name}: the peaks differ")
    loop.check(trace)


def main():
    if sys.argv[1] == "--loop":
        run_loop(sys.argv[2])
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or LOOPS:
            check_loop(pathlib.Path(sys.argv[1]), name, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
