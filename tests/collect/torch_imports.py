#!/usr/bin/env python3
"""Imports what PyTorch's profiler and its observer of execution traces record of loops with frozen
parameters, with activation checkpointing, and with optimizers of different states.

    torch_imports.py FOLDER_OF_PROGRAMS

The traces must have the bytes of the parameters, gradients and states of the program, or be refused.
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
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule
    from torch.utils.checkpoint import checkpoint
except ImportError:
    sys.exit(77)

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "collect"),
                str(pathlib.Path(__file__).resolve().parent)]
from torch_training import Trace, check  # noqa: E402

WIDTH, VOCABULARY, BATCH, TOKENS, LAYERS = 64, 512, 4, 32, 3
SMALL = 0.02  # the share of biases and norms, which an import does not see if they are frozen


class Block(nn.Module):
    def __init__(self, adapted):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.adapter = nn.Sequential(nn.Linear(WIDTH, 2, bias=False),
                                     nn.Linear(2, 4 * WIDTH, bias=False)) if adapted else None

    def forward(self, x):
        h = self.norm(x)
        h = self.up(h) + self.adapter(h) if self.adapter else self.up(h)
        return x + self.down(F.gelu(h))


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(kind == "adapters") for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        if kind == "adapters":
            for name, parameter in self.named_parameters():
                parameter.requires_grad_("adapter" in name)

    def forward(self, x):
        h = self.tokens(x)
        for block in self.blocks:
            h = block(h) if self.kind == "adapters" else \
                checkpoint(block, h, use_reentrant=self.kind == "reentrant")
        return self.head(h)


# Optimizers with the states that an import must find, and what it must say.
OPTIMIZERS = {
    "adagrad": (torch.optim.Adagrad, {}, 1, None),
    "rmsprop": (torch.optim.RMSprop, {"weight_decay": 0.1}, 1, None),
    "rmsprop_momentum": (torch.optim.RMSprop, {"momentum": 0.9}, 2, None),
    "rmsprop_all": (torch.optim.RMSprop, {"momentum": 0.9, "centered": True, "foreach": True}, 3,
                    None),
    "sgd": (torch.optim.SGD, {}, 0, None),
    "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9, "foreach": True}, 1, None),
    "sgd_fused": (torch.optim.SGD, {"fused": True}, 1, "whether the fused SGD has momentum"),
    "amsgrad": (torch.optim.AdamW, {"amsgrad": True}, 3, None),
    "amsgrad_foreach": (torch.optim.Adam, {"amsgrad": True, "foreach": True}, 3, None),
    "adamax": (torch.optim.Adamax, {}, 2, None),
    "adafactor": (torch.optim.Adafactor, {}, 0, "the states of Adafactor"),
}


def record(kind, folder, optimizer_class=torch.optim.AdamW, options=None):
    """Trains and records two steps in both ways."""
    torch.manual_seed(1)
    model = Model(kind)
    optimizer = optimizer_class([p for p in model.parameters() if p.requires_grad], lr=1e-3,
                                **(options or {}))

    def step():
        x = torch.randint(0, VOCABULARY, (BATCH, TOKENS))
        F.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    step()
    observer = ExecutionTraceObserver()
    observer.register_callback(str(folder / f"{kind}.chakra.json"))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True,
                 execution_trace_observer=observer, schedule=schedule(wait=0, warmup=1, active=2),
                 on_trace_ready=lambda p: p.export_chrome_trace(
                     str(folder / f"{kind}.json"))) as profiler:
        for _ in range(3):
            step()
            profiler.step()
    return model


def import_file(programs, folder, *arguments):
    """Returns the trace and what was said about it, or None if it was refused."""
    path = folder / "imported.pstar"
    path.unlink(missing_ok=True)
    done = subprocess.run([programs / "pstar-trace", "import", *arguments, "-o", path],
                          capture_output=True, text=True, cwd=folder)
    check((done.returncode == 0) == path.exists(), done.stderr)
    if done.returncode:
        return None, done.stderr
    subprocess.run([programs / "pstar-trace", "check", path], check=True,
                   stdout=subprocess.DEVNULL)
    return Trace(path), done.stdout


def check_bytes(what, trace, model):
    """Checks the lists' bytes. Of frozen parameters, biases and norms are missing."""
    trained = 4 * sum(p.numel() for p in model.parameters() if p.requires_grad)
    whole = 4 * sum(p.numel() for p in model.parameters())
    for kind in ("grad", "exp_avg", "exp_avg_sq"):
        check(trace.bytes(kind) == trained, f"{what}: {kind}: {trace.bytes(kind)} of {trained}")
    missing = whole - trace.bytes("param")
    check(0 <= missing <= SMALL * whole * (trained < whole), f"{what}: {missing} bytes are missing")


def check_optimizers(programs, folder):
    for name, (kind, options, states, expected) in OPTIMIZERS.items():
        model = record("checkpointed", folder, kind, options)
        trace, said = import_file(programs, folder, "checkpointed.json")
        check(trace is not None, f"{name}: {said}")
        trained = 4 * sum(p.numel() for p in model.parameters())
        kept = sum(trace.bytes(kind) for kind in ("master", "exp_avg", "exp_avg_sq"))
        check(kept == states * trained, f"{name}: {kept / trained} states instead of {states}")
        check("states of the optimizer" not in said and (expected or "") in said, f"{name}: {said}")


def main():
    programs = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = {kind: record(kind, folder) for kind in ("adapters", "reentrant", "checkpointed")}
        for kind, model in models.items():
            for files in ([f"{kind}.json"], [f"{kind}.chakra.json", "--times", f"{kind}.json"]):
                trace, said = import_file(programs, folder, *files)
                check(trace is not None, f"{files}: {said}")
                check_bytes(" ".join(files), trace, model)
            check(kind != "adapters" or "frozen parameters other than" in said, said)
            check(kind != "reentrant" or "3 inputs of reentrant checkpoints" in said, said)
        trace, said = import_file(programs, folder, "adapters.chakra.json")
        check_bytes("adapters without times", trace, models["adapters"])
        trace, said = import_file(programs, folder, "checkpointed.chakra.json")
        check(trace is None and "nothing follows backward" in said, f"without times: {said}")
        check_optimizers(programs, folder)
    print(json.dumps({kind: len(list(model.parameters())) for kind, model in models.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
