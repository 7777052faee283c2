#!/usr/bin/env python3
"""Unusual PyTorch training loops under the real collector: each is recorded as it is, or refused
with the reason.

    torch_loops.py FOLDER_OF_PROGRAMS

Every loop trains once without annotations and once with them, and the losses must be the same bits.
Returns 77 where PyTorch is missing.
"""
import json
import math
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

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "collect"),
                str(pathlib.Path(__file__).resolve().parent)]
import pstar_torch  # noqa: E402
from torch_training import Trace, check  # noqa: E402

WIDTH, CLASSES, BATCH, STEPS = 64, 10, 16, 3


class Layer(nn.Module):
    """A linear layer, optionally frozen and with an adapter of low rank, as LoRA's."""

    def __init__(self, adapted):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.adapted = adapted
        if adapted:
            self.linear.requires_grad_(False)
            self.down, self.up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)

    def forward(self, x):
        y = self.linear(x)
        return F.gelu(y + self.up(self.down(x)) if self.adapted else y)


def make_model(adapted=False):
    torch.manual_seed(1)
    return nn.Sequential(Layer(adapted), Layer(adapted), nn.Linear(WIDTH, CLASSES))


def loss_of(model, step, rows=BATCH):
    torch.manual_seed(step)
    x, y = torch.randn(rows, WIDTH), torch.randint(0, CLASSES, (rows,))
    return F.cross_entropy(model(x), y)


def train(model, optimizers, annotated, rows=lambda step: BATCH):
    if annotated:
        pstar_torch.annotate(model, *optimizers)
    losses = []
    for step in range(STEPS):
        loss = loss_of(model, step, rows(step))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item().hex())
    return losses


def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


# ---- The loops ----------------------------------------------------------------------------------


def adapters(annotated):
    model = make_model(adapted=True)
    return train(model, [torch.optim.AdamW(trained(model), lr=1e-3)], annotated)


def two_optimizers(annotated):
    model = make_model()
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    return train(model, [torch.optim.SGD(matrices, lr=0.1, momentum=0.9),
                         torch.optim.AdamW(others, lr=1e-3)], annotated)


def in_backward(annotated):
    """Each parameter's optimizer steps as soon as its gradient is there."""
    model = make_model()
    optimizers = {p: torch.optim.AdamW([p], lr=1e-3) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    if annotated:
        pstar_torch.annotate(model, *optimizers.values())
    losses = []
    for number in range(STEPS):
        loss = loss_of(model, number)
        loss.backward()
        losses.append(loss.item().hex())
    return losses


def begin(annotated):
    """Returns a model and its AdamW."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if annotated:
        pstar_torch.annotate(model, optimizer)
    return model, optimizer


def closure(annotated):
    """The step calls forward and backward, as PyTorch Lightning's does."""
    model, optimizer = begin(annotated)
    losses = []
    for number in range(STEPS):
        def forward_and_backward():
            loss = loss_of(model, number)
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss.item().hex())
            return loss
        optimizer.step(forward_and_backward)
    return losses


def compiled_layers(annotated):
    """The layers are compiled in their places, and the model is not."""
    model = make_model()
    for layer in model[:2]:
        layer.compile(backend="eager")
    return train(model, [torch.optim.AdamW(model.parameters(), lr=1e-3)], annotated)


def compiled_step(annotated):
    """The optimizer's step is compiled, and the model is not."""
    model, optimizer = begin(annotated)
    step, losses = torch.compile(lambda: optimizer.step(), backend="eager"), []
    for number in range(STEPS):
        loss = loss_of(model, number)
        loss.backward()
        step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    return losses


class Wrapper(torch.optim.Optimizer):
    """Hands everything on, without the hooks of an optimizer, as Accelerate's does."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self, closure=None):
        self.optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)


def wrapped(annotated):
    model = make_model()
    return train(model, [Wrapper(torch.optim.AdamW(model.parameters(), lr=1e-3))], annotated)


def lengths(annotated):
    """The recorded batch is larger than the observed one."""
    model = make_model()
    return train(model, [torch.optim.AdamW(model.parameters(), lr=1e-3)], annotated,
                 lambda step: BATCH * (1 + step))


class Slope(nn.Module):
    """The gradient of a network by its input, which torch.func computes: it allows no hooks on what
    autograd saves."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))

    def forward(self, x):
        return torch.vmap(torch.func.grad(lambda row: self.net(row).squeeze(-1)))(x)


def transformed(annotated):
    torch.manual_seed(1)
    model = nn.Sequential(Slope(), nn.Linear(WIDTH, CLASSES))
    return train(model, [torch.optim.AdamW(model.parameters(), lr=1e-3)], annotated)


def transform(annotated):
    """torch.func computes the gradients themselves."""
    model, optimizer = begin(annotated)
    losses = []
    for number in range(STEPS):
        def loss_at(parameters):
            return loss_of(lambda x: torch.func.functional_call(model, parameters, (x,)), number)
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        gradients, loss = torch.func.grad_and_value(loss_at)(parameters)
        for name, parameter in model.named_parameters():
            parameter.grad = gradients[name]
        optimizer.step()
        losses.append(loss.item().hex())
    return losses


def lbfgs(annotated):
    model = make_model()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    if annotated:
        pstar_torch.annotate(model, optimizer)
    losses = []
    for number in range(STEPS):
        def forward_and_backward():
            optimizer.zero_grad()
            loss = loss_of(model, number)
            loss.backward()
            return loss
        losses.append(optimizer.step(forward_and_backward).item().hex())
    return losses


def sharded(annotated):
    """FSDP2 in one process."""
    import torch.distributed as distributed
    from torch.distributed.fsdp import fully_shard
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    model = make_model()
    for layer in (*model, model):
        fully_shard(layer)
    losses = train(model, [torch.optim.AdamW(model.parameters(), lr=1e-3)], annotated)
    distributed.destroy_process_group()
    return losses


def make_teacher():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(WIDTH, 8 * WIDTH), nn.BatchNorm1d(8 * WIDTH),
                         nn.Linear(8 * WIDTH, CLASSES)).eval().requires_grad_(False)


def distilled(annotated):
    """A teacher answers before the model's forward, and an average of the model moves after the
    step. Both lie beside the model, and do nothing within the iteration."""
    model, teacher = make_model(), make_teacher()
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if annotated:
        pstar_torch.annotate(model, optimizer)
    losses = []
    for number in range(STEPS):
        torch.manual_seed(number)
        x = torch.randn(BATCH, WIDTH)
        with torch.no_grad():
            wanted = teacher(x).softmax(-1)
        loss = F.cross_entropy(model(x), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        losses.append(loss.item().hex())
    return losses


def skipped(annotated):
    """A GradScaler skips the first two steps, whose gradients overflow."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, backoff_factor=0.5)
    if annotated:
        pstar_torch.annotate(model, optimizer)
    losses = []
    for number in range(STEPS + 2):
        optimizer.zero_grad()
        loss = loss_of(model, number) * (math.inf if scaler.get_scale() > 2 else 1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item().hex())
        with torch.no_grad():
            loss_of(model, number)  # an evaluation
    return losses


class Perturbed(torch.optim.Optimizer):
    """Steps by a method of its own, and has an optimizer that takes the step."""

    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def second_step(self):
        self.inner.step()
        self.inner.zero_grad()


def unended(annotated):
    model = make_model()
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer = Perturbed(inner)
    if annotated:
        pstar_torch.annotate(model, optimizer)
    losses = []
    for number in range(STEPS):
        loss = loss_of(model, number)
        loss.backward()
        optimizer.second_step()
        losses.append(loss.item().hex())
    return losses


LOOPS = {loop.__name__: loop for loop in (distilled, skipped, unended, transformed, transform,
                                          adapters, two_optimizers, in_backward, closure, wrapped,
                                          compiled_layers, compiled_step,
                                          lengths, lbfgs, sharded)}


# ---- What the traces must hold ------------------------------------------------------------------


def collect(programs, name, folder):
    """Returns the trace, or None if there is none, and what was said about it."""
    path = folder / f"{name}.pstar"
    done = subprocess.run([programs / "pstar-collect", "-o", path, "--", sys.executable, __file__,
                           "--loop", name], capture_output=True, text=True)
    said = json.loads(done.stdout.splitlines()[-1])
    same = said["plain"] == said["annotated"]
    if name == "compiled_step":  # hooks break what is compiled up, which then rounds otherwise
        same = all(abs(float.fromhex(a) - float.fromhex(b)) < 1e-6 for a, b in zip(said["plain"], said["annotated"]))
    check(same, f"{name}: losses {said} differ")
    if not path.exists():
        return None, done.stderr
    subprocess.run([programs / "pstar-trace", "check", path], check=True,
                   stdout=subprocess.DEVNULL)
    return Trace(path), done.stderr


def whole(programs, name, folder, budget="60%"):
    """Collects a loop that must be recorded completely, and plans it."""
    trace, said = collect(programs, name, folder)
    check(trace is not None and not said, f"{name}: {said}")
    check(all(duration for *_, duration in trace.operators), f"{name}: operators without times")
    plan = folder / "plan.json"
    for command in (["pstar-plan", folder / f"{name}.pstar", "--device-memory", budget, "-o", plan],
                    ["pstar-plan", "--verify", plan, folder / f"{name}.pstar"]):
        done = subprocess.run([programs / command[0], *command[1:]], capture_output=True, text=True)
        check(done.returncode == 0, f"{name}: {done.stderr}")
    return trace, json.loads(plan.read_text())


def size(parameters):
    return 4 * sum(parameter.numel() for parameter in parameters)


def check_adapters(programs, folder):
    trace, plan = whole(programs, "adapters", folder)
    model = make_model(adapted=True)
    check(trace.bytes("param") == size(model.parameters()), "adapters: parameters")
    for kind in ("grad", "exp_avg", "exp_avg_sq"):
        check(trace.bytes(kind) == size(trained(model)),
              f"adapters: {kind} has {trace.bytes(kind)} bytes, not {size(trained(model))}")
    needed = size(model.parameters()) + 3 * size(trained(model))
    # The durations decide the layout, and chunks of some layouts have a few bytes to spare.
    check(plan["host_bytes"] <= 1.1 * needed < 3 * size(model.parameters()),
          f"adapters: {plan['host_bytes']} bytes of the host's, but the model has {needed}")


def check_two_optimizers(programs, folder):
    trace, _ = whole(programs, "two_optimizers", folder)
    parameters = list(make_model().parameters())
    vectors = [p for p in parameters if p.dim() != 2]
    check((trace.bytes("exp_avg"), trace.bytes("exp_avg_sq")) == (size(parameters), size(vectors)),
          "two_optimizers: the states are not momentum_buffer and exp_avg, and exp_avg_sq")


def check_in_backward(programs, folder):
    trace, _ = whole(programs, "in_backward", folder)
    parameters = list(make_model().parameters())
    for kind in ("grad", "exp_avg", "exp_avg_sq"):
        check(trace.bytes(kind) == size(parameters), f"in_backward: {kind}")
    updates = [name for name, phase, *_ in trace.operators if phase == "update"]
    check(sorted(updates) == sorted(f"update {name}" for name in trace.tensors),
          f"in_backward: the updates are {updates}")


def check_like_plain(programs, name, folder):
    """A loop whose iteration is the plain one's in other clothes."""
    trace, _ = whole(programs, name, folder)
    check(trace.bytes("exp_avg") == size(make_model().parameters()), f"{name}: states")
    late = f"old gradients: {size(make_model().parameters())} bytes" in trace.meta["unknown"]
    check(late == (name == "closure"), f"{name}: {trace.meta['unknown']}")
    phases = [phase for _, phase, *_ in trace.operators]
    check(phases == sorted(phases, key=("forward", "backward", "update").index),
          f"{name}: phases {phases}")


def check_distilled(programs, folder):
    trace, _ = whole(programs, "distilled", folder)
    beside = {name: nbytes for name, nbytes, first, last, _ in trace.buffers
              if "beside the model" in name and (first, last) == (0, len(trace.operators) - 1)}
    teacher = make_teacher()
    expected = {"Sequential beside the model (9 tensors)":
                sum(t.numel() * t.element_size()
                    for t in (*teacher.parameters(), *teacher.buffers())),
                "AveragedModel beside the model (7 tensors)": size(make_model().parameters()) + 8}
    check(beside == expected, f"distilled: {beside} lies beside the model, not {expected}")


def check_skipped(programs, folder):
    check_like_plain(programs, "skipped", folder)
    trace = Trace(folder / "skipped.pstar")
    forwards = [name for name, phase, *_ in trace.operators if phase == "forward"]
    check(int(trace.meta["micro_batches"]) == 1 and len(set(forwards)) == len(forwards),
          f"skipped: {trace.meta['micro_batches']} micro-batches: {forwards}")


def check_lengths(programs, folder):
    trace, said = collect(programs, "lengths", folder)
    check(not any(duration for *_, duration in trace.operators), "lengths: times of other shapes")
    check(f"({2 * BATCH}, {WIDTH})" in said and f"({BATCH}, {WIDTH})" in said, f"lengths: {said}")


def check_refused(programs, name, reason, folder):
    trace, said = collect(programs, name, folder)
    check(trace is None and said.count(reason) == 1, f"{name}: {said}")


def main():
    if sys.argv[1] == "--loop":
        torch.set_num_threads(1)
        loop = LOOPS[sys.argv[2]]
        print(json.dumps({"plain": loop(False), "annotated": loop(True)}))
        return 0
    programs = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_adapters(programs, folder)
        check_two_optimizers(programs, folder)
        check_in_backward(programs, folder)
        check_like_plain(programs, "closure", folder)
        check_like_plain(programs, "wrapped", folder)
        check_distilled(programs, folder)
        check_skipped(programs, folder)
        check_lengths(programs, folder)
        trace, _ = whole(programs, "transformed", folder, "90%")
        check({name for name, *_ in trace.operators} >= {"forward 0.net.0", "backward 0.net.0"},
              f"transformed: {trace.operators}")
        check_refused(programs, "transform", "within torch.func.grad or another transform", folder)
        trace, _ = whole(programs, "compiled_layers", folder)
        check(trace.bytes("exp_avg") == size(make_model().parameters()), "compiled layers: states")
        check_refused(programs, "compiled_step", "the optimizer's step is compiled", folder)
        check_refused(programs, "unended", "no step() of Perturbed ended it", folder)
        check_refused(programs, "lbfgs", "calls its closure again", folder)
        check_refused(programs, "sharded", "are shards (DTensor", folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
