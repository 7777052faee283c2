#!/usr/bin/env python3
"""Small tensors keep their values on PyTorch's meta device, so that programs decide by them as elsewhere.

    torch_values.py FOLDER_OF_PROGRAMS

Returns 77 where PyTorch is missing.
"""
import importlib.util
import pathlib
import sys
import tempfile

if not importlib.util.find_spec("torch"):
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from torch_meta import plan  # noqa: E402
from torch_training import Trace, check  # noqa: E402

LOOP = """
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
optimizer = {}
for step in range(6):
    model(torch.ones(8, 16)).square().mean().backward()
    {}
    optimizer.step()
    {}
    optimizer.zero_grad()
"""
HEAD = "import torch\nfrom torch import nn\n"
# Each line asks for values that are known, and for one that is not: None.
KNOWN = """
import numpy
lengths = torch.tensor([3, 5, 2])
assert lengths.max().item() == 5 and lengths.tolist() == [3, 5, 2] and (lengths > 1).all()
assert not (lengths > 2).all()
part = lengths[1:]
part.add_(1)
lengths[0] = 9
assert lengths.tolist() == [9, 6, 3] and part.tolist() == [6, 3]
assert numpy.allclose([float(rate) for rate in torch.linspace(0, 0.2, 5)], [0, 0.05, 0.1, 0.15, 0.2])
mask = torch.arange(10)[None] < lengths[:, None]
assert mask.sum().item() == 18 and torch.randn(3, 10, 7)[mask].shape == (18, 7)
assert mask.nonzero().shape == (18, 2) and mask.to("cuda").cpu().long().cumsum(1)[0, -1] == 9
assert nn.functional.one_hot(torch.arange(4))[2].tolist() == [0, 0, 1, 0]
assert torch.from_numpy(numpy.arange(3)).sum() == 3 and torch.as_tensor(numpy.arange(3)).tolist() == [0, 1, 2]
assert [int(part.sum()) for part in torch.arange(6).split(2)] == [1, 5, 9]
assert torch.repeat_interleave(torch.arange(3), lengths - 2).tolist() == [0] * 7 + [1] * 4 + [2]
filled = torch.empty(2)
torch.add(torch.tensor([1.0, 2.0]), 1, out=filled)
assert filled.tolist() == [2.0, 3.0] and float(torch.tensor(2.0).to(torch.bfloat16)) == 2.0
"""
# What is written by something of unknown value is unknown, also where it is seen from another tensor.
UNKNOWN = """
unknown = torch.randn(2000, 2000) @ torch.randn(2000, 3)
total = torch.full((3,), 7.0)
row, copy = total[:2], total.clone()
total.add_(unknown[0])
assert total.tolist() == [0.5] * 3 and row.tolist() == [0.5] * 2 and copy.tolist() == [7.0] * 3
total.fill_(2.0)
assert total.tolist() == [2.0] * 3
total.data.add_(unknown[0])
assert total.tolist() == [0.5] * 3
places = torch.randperm(4).sort().values.add_(1)
assert places.tolist() == [1, 2, 3, 4]
some, ended = unknown[0] > 0, torch.full((3,), True)
assert (some | ended).all() and (some & ended).tolist() == [False] * 3 and (row.long() & ~(some | ended)[:2]).max() == 0
assert torch.allclose(unknown, unknown) and unknown.allclose(unknown)
assert not torch.isnan(unknown).any() and torch.isfinite(unknown).all()
"""
# Which elements are the largest is not known, so each place is chosen as often; and a mask holds everywhere.
CHOSEN = """
scores = torch.randn(2000, 2000) @ torch.randn(2000, 8)
chosen = scores.topk(2, -1).indices
for expert in range(8):
    assert torch.where(chosen == expert)[0].shape == (500,)
for places in (scores.argmax(-1), scores.max(dim=1).indices, scores.max(1, True)[1][:, 0], chosen[:, 0] // 2):
    assert torch.bincount(places, minlength=8).max() in (250, 500)
assert scores.T.topk(2, dim=0).indices.shape == (2, 2000) and (scores.T.topk(2, 0)[1] == chosen.T).all()
hit = nn.functional.one_hot(chosen, 8).sum((0, 1)).nonzero()
assert torch.randn(8, 4)[hit[3, 0]].shape == (4,)
assert scores[scores > 0].shape == (16000,) and scores[scores[:, 0] > 0, 2:].shape == (2000, 6)
assert scores.max().shape == () and torch.max(scores, scores).shape == scores.shape
"""
# What is drawn is the same each time: a fraction in the middle, many spread evenly, integers at the end.
DRAWN = """
assert torch.rand(1).item() == 0.5 and torch.empty(1).uniform_(0, 4).item() == 2.0
assert torch.randint(8, 40, (2,)).tolist() == [39] * 2 and torch.randint(high=4, size=(1,)) == 3
assert torch.randint_like(torch.arange(3), 5).tolist() == [4] * 3 and torch.empty(1).long().random_(7).item() == 6
assert torch.bernoulli(torch.tensor([0.2, 0.8])).tolist() == [0, 1] and torch.empty(1).bernoulli_(0.9) == 1
tokens = torch.randint(0, 100, (16, 512))
masked = torch.bernoulli(torch.full(tokens.shape, 0.15)).bool()
tokens[~masked] = -100
for count in (tokens[masked].numel(), (torch.rand(16, 512) < 0.15).sum().item(), (tokens != -100)[:4].sum() * 4):
    assert 1200 < count < 1260, count
"""
OPTIMIZERS = {
    "tensor": ("torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3))", "", ""),
    "captured": ("torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3, device='cuda'), capturable=True)",
                 "nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)", ""),
    "lists": ("torch.optim.Adam(model.parameters(), lr=torch.tensor(1e-3), foreach=True, capturable=True)", "", ""),
    "fused": ("torch.optim.SGD(model.parameters(), lr=torch.tensor(1e-3), momentum=0.9, fused=True)", "", ""),
    "planned": ("torch.optim.Adam(model.parameters(), lr=torch.tensor(1e-3), fused=True)\n"
                "schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))", "",
                "schedule.step(); assert abs(optimizer.param_groups[0]['lr'].item() * (2 + step) - 1e-3) < 1e-8"),
}
# Rows of drawn lengths, and layers that are left out by chance.
LENGTHS = HEAD + """
model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    rows = [torch.ones(int(torch.randint(8, 40, (1,))), dtype=torch.long) for _ in range(4)]
    model(nn.utils.rnn.pad_sequence(rows, True)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
DEPTH = HEAD + """
class Layer(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.inner, self.rate = nn.Linear(16, 16), rate
    def forward(self, x):
        if torch.rand(1).item() < self.rate:
            return x
        return x + self.inner(x)
rates = [rate.item() for rate in torch.linspace(0, 0.4, 4)]
model = nn.Sequential(*map(Layer, rates), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    model(torch.ones(8, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# torch.Tensor() makes tensors in memory, whatever the default device is.
IN_MEMORY = HEAD + """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.Tensor(16).fill_(1.0))
        self.register_buffer("shift", torch.Tensor(16).zero_())
        assert self.scale.is_meta and self.shift.tolist() == [0.0] * 16
    def forward(self, x):
        return x * self.scale + self.shift
model = nn.Sequential(Scaled(), nn.Linear(16, 16))
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    model(torch.ones(8, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Ends elsewhere, but not where all numbers are the same.
WAITING = HEAD + "while torch.rand(1) > 0.3:\n    pass\n"
COUNTING = HEAD + "import itertools\nfor _ in itertools.count():\n    torch.rand(1).item()\n"
# Ends elsewhere: a fixed point is found, and a text comes to its end. Here nothing is computed.
FIXED_POINT = HEAD + """
def moves(x):
    return x.norm() > 1e-3
unknown = torch.randn(2000, 2000)
x = unknown @ unknown[0]
while not x.isnan().any():
    if not moves(x):
        x = x / 2
"""
# The same value is read as often, but a step comes in between, or each `for` ends.
STEPS = HEAD + """
unknown = torch.randn(2000, 2000) @ torch.randn(2000, 3)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters())
step = 0
while step < 6:
    step += 1
    model(unknown).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    value, k = unknown[0, 0], 0
    while k < 1100 and not value > 0:
        k += 1
    while True:
        for _ in range(1100 if step == 1 else 1):
            value.item()
        break
"""


def run(folder, programs, name, text):
    """Returns the trace of a script's step, and what was said."""
    (folder / f"{name}.py").write_text(text)
    status, out, errors = plan(programs, folder, f"{name}.py")
    check(status == 0, f"{name}: {status}: {out}{errors}")
    return Trace(folder / f"{name}.pstar"), errors


def check_values(folder, programs):
    loop = LOOP.format("torch.optim.AdamW(model.parameters())", "", "")
    for name, lines, of in (("known", KNOWN, None), ("unknown", UNKNOWN, None), ("drawn", DRAWN, "drawn.py, line"),
                            ("chosen", CHOSEN, "they decide what where returns")):
        trace, errors = run(folder, programs, name, HEAD + lines + loop)
        said = "drawn numbers" in errors and "drawn numbers" in trace.meta["unknown"]
        check(said == (of is not None) and (of or "") in errors, f"{name}: {errors}{trace.meta['unknown']}")
    check("masks of unknown values" in errors, errors)


def check_rates(folder, programs):
    """A learning rate that is a tensor changes nothing but the rate."""
    for name, lines in OPTIMIZERS.items():
        trace, _ = run(folder, programs, name, HEAD + LOOP.format(*lines))
        nbytes = 4 * (16 * 64 + 64 + 64 * 16 + 16)
        for kind in ("param", "grad", "exp_avg", "exp_avg_sq"):
            expected = 0 if (name, kind) == ("fused", "exp_avg_sq") else nbytes
            check(trace.bytes(kind) == expected, f"{name}: {kind} has {trace.bytes(kind)} bytes")


def check_chance(folder, programs):
    """The step has the longest rows and, where it is likelier, all layers, and says that they are drawn."""
    trace, errors = run(folder, programs, "lengths", LENGTHS)
    check(int(trace.meta["sequence"]) == 39 and "lengths.py, line 7 reads some" in errors, f"{trace.meta}{errors}")
    trace, errors = run(folder, programs, "depth", DEPTH)
    found = sum(name.startswith("forward") and name.endswith("inner") for name, *_ in trace.operators)
    check(found == 4 and "depth.py, line 9 reads some" in errors, f"{found} layers: {errors}")
    (folder / "counting.py").write_text(COUNTING)
    status, _, errors = plan(programs, folder, "counting.py")
    check(status == 1 and "counting.py, line 5 reads drawn numbers for the 50000th" in errors, f"{status}: {errors}")


def check_waiting(folder, programs):
    """A `while` that waits for an unknown value ends the run, and is named; others go on."""
    for name, text, line in (("fixed_point", FIXED_POINT, 8), ("waiting", WAITING, 3)):
        (folder / f"{name}.py").write_text(text)
        status, _, errors = plan(programs, folder, f"{name}.py")
        check(status == 1 and f"the `while` in {name}.py, line {line} has read a value 1000 times" in errors,
              f"{status}: {errors}")
    _, errors = run(folder, programs, "steps", STEPS)
    check("steps.py, line 14 has read one 500 times" in errors, errors)


def check_memory(folder, programs):
    """Parameters and buffers that were made in memory lie on the device."""
    trace, _ = run(folder, programs, "memory", IN_MEMORY)
    uses = {(trace.operators[moment][0], kind) for moment, tensor, kind, _ in trace.accesses
            if trace.names[tensor] == "0.scale"}
    check(uses >= {("forward 0", "param"), ("backward 0", "grad")}, f"the uses of the scale are {uses}")
    check("on cpu" not in trace.meta["unknown"], trace.meta["unknown"])


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        check_values(pathlib.Path(folder), programs)
        check_rates(pathlib.Path(folder), programs)
        check_chance(pathlib.Path(folder), programs)
        check_waiting(pathlib.Path(folder), programs)
        check_memory(pathlib.Path(folder), programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
