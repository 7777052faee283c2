#!/usr/bin/env python3
"""Layers of a loop that pstar does not describe, recomputed by its planner and by PyTorch.

    torch_recompute.py FOLDER_OF_PROGRAMS

A loop is recorded as it is, and with some of its layers under torch.utils.checkpoint. The least memory
of a plan that recomputes them must be that of the recording in which they are recomputed, within 2 %.
A plan whose budget needs recomputation must verify, and the settings that it emits for fully_shard
must train to the same losses and run the named layers twice. A loop that does not recompute refuses to
follow such a plan. Returns 77 where PyTorch is missing.
"""
import importlib.util
import os
import pathlib
import re
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

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "collect"),
                str(pathlib.Path(__file__).resolve().parent)]
import pstar_torch  # noqa: E402
from torch_training import check  # noqa: E402

WIDTH, LAYERS, WORDS, BATCH, TOKENS, STEPS = 32, 6, 40, 8, 24, 3
LINK = ("--link", "h2d=4GB/s,d2h=4GB/s")


class Layer(nn.Module):
    """Attention without a product of its own, and two products."""

    def __init__(self):
        super().__init__()
        self.before, self.norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.runs = 0

    def forward(self, x):
        self.runs += 1
        y = self.before(x)
        x = x + F.softmax(y @ y.transpose(1, 2), dim=-1) @ y
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """Two stacks, whose layers have the same numbers in their names."""

    def __init__(self, again):
        super().__init__()
        self.again = again
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.ModuleList(Layer() for _ in range(LAYERS // 2))
        self.decoder = nn.ModuleList(Layer() for _ in range(LAYERS - LAYERS // 2))
        self.head = nn.Linear(WIDTH, WORDS)

    def layers(self):
        return [*self.encoder, *self.decoder]

    def forward(self, x):
        x = self.embed(x)
        for number, layer in enumerate(self.layers()):
            x = (checkpoint(layer, x, use_reentrant=False) if number in self.again else layer(x))
        return self.head(x)


def make(again=()):
    torch.manual_seed(1)
    return Model(again)


def train(model, optimizer):
    torch.manual_seed(2)
    losses = []
    for _ in range(STEPS):
        x = torch.randint(0, WORDS, (BATCH, TOKENS))
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)


def record(again):
    model = make(again)
    optimizer = adamw(model)
    pstar_torch.annotate(model, optimizer)
    train(model, optimizer)


def run(programs, program, *arguments):
    done = subprocess.run([f"{programs}/{program}", *arguments], encoding="utf-8", check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout + done.stderr


def recorded(programs, name, again):
    """Records the loop with these layers recomputed. Returns the trace's file."""
    status, text = run(programs, "pstar-collect", "-o", f"{name}.pstar", "--", sys.executable,
                       str(pathlib.Path(__file__).resolve()), programs, "record",
                       *map(str, again))
    check(status == 0, f"{name}: recording: {text}")
    return f"{name}.pstar"


def least(programs, trace, *options):
    """Returns the least bytes of any plan, and the choices that it takes."""
    status, text = run(programs, "pstar-plan", trace, "--device-memory", "1KiB",
                       "--offload-activations", "traced", *options, "-o", "none.json")
    found = re.search(r"nothing fits: ([\d.]+) (KiB|MiB) of device memory would fit \((.*?)\)", text)
    check(status == 3 and found, f"{trace}: {text}")
    return float(found[1]) * (1024 if found[2] == "KiB" else 1 << 20), found[3]


def check_need(programs, plain):
    """What the planner reckons with is what PyTorch takes."""
    every = recorded(programs, "every", range(LAYERS))
    half = recorded(programs, "half", range(LAYERS // 2))
    planned, choices = least(programs, plain)
    check("recomputed layers: all" in choices, f"the least need takes {choices}")
    measured, _ = least(programs, every, "--recompute", "traced")
    check(abs(planned / measured - 1) < 0.02, f"{planned} bytes are reckoned, {measured} measured")
    rest, _ = least(programs, half)
    check(abs(rest / measured - 1) < 0.02, f"{rest} bytes beside recorded ones, {measured} measured")
    kept, _ = least(programs, plain, "--recompute", "traced")
    partly, _ = least(programs, half, "--recompute", "traced")
    check(measured < 0.6 * kept, f"recomputation saves too little to tell: {measured} of {kept}")
    return (partly + kept) / 2


def recomputed_units(folder):
    specification = importlib.util.spec_from_file_location("fsdp2", folder / "fsdp2.py")
    fsdp2 = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(fsdp2)
    return fsdp2


def check_plan(programs, plain, budget):
    folder = pathlib.Path.cwd()
    status, text = run(programs, "pstar-plan", plain, "--device-memory", str(int(budget)), *LINK,
                       "--offload-activations", "traced", "-o", "plan.json", "--emit", "fsdp2")
    check(status == 0, text)
    told = re.search(r"recomputed layers: ([\d,-]+); layers that may offload: none; ", text)
    check(told, f"no layers are recomputed: {text}")
    check("recomputation of" not in text, f"the settings lack it: {text}")
    status, text = run(programs, "pstar-plan", "--verify", "plan.json", plain, *LINK)
    check(status == 0 and "valid" in text, text)

    import torch.distributed as distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    fsdp2 = recomputed_units(folder)
    alone, model = make(), make()
    wanted = train(alone, adamw(alone))
    fsdp2.shard(model, pin_memory=False)
    losses = train(model, adamw(model))
    check(losses == wanted, f"{losses} are not {wanted}")
    twice = [name for name, layer in model.named_modules()
             if isinstance(layer, Layer) and layer.runs == 2 * STEPS]
    check(twice and twice == fsdp2.RECOMPUTED, f"{twice} ran twice, not {fsdp2.RECOMPUTED}")
    distributed.destroy_process_group()


def check_follow(plain):
    model = make()
    try:
        pstar_torch.follow(model, adamw(model), "plan.json", plain)
    except ValueError as error:
        check("--recompute traced" in str(error), f"{error}")
        return
    check(False, "a loop that recomputes nothing follows a plan that does")


def main():
    programs = sys.argv[1]
    if sys.argv[2:3] == ["record"]:
        record({int(number) for number in sys.argv[3:]})
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        plain = recorded(programs, "plain", ())
        budget = check_need(programs, plain)
        check_plan(programs, plain, budget)
        check_follow(plain)
        os.chdir("/")


if __name__ == "__main__":
    main()
