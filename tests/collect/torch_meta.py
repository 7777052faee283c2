#!/usr/bin/env python3
"""Training scripts on PyTorch's meta device: pstar-plan --torch says what they take on a GPU that
nobody has.

    torch_meta.py FOLDER_OF_PROGRAMS

Returns 77 where PyTorch is missing.
"""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

if not importlib.util.find_spec("torch"):
    sys.exit(77)

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "collect"),
                str(pathlib.Path(__file__).resolve().parent)]
from torch_training import Trace, check  # noqa: E402

# Nothing in this loop knows of pstar. It shuffles, reads its loss, clips, and asks for its device.
SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

width = int(sys.argv[1])
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(256, width), torch.randint(0, 10, (256,)))
model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loss_function = nn.CrossEntropyLoss()
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=32, shuffle=True):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if torch.isnan(loss):
            break
    print(epoch, loss.item())
"""
# There is no kernel of this operator on the meta device.
LACKING = """
import torch
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters())
for _ in range(5):
    torch.nonzero(layer(torch.ones(2, 4))).sum()
"""
# Its kernel reads values.
READING = LACKING.replace("torch.nonzero(layer(torch.ones(2, 4)))",
                          "torch.nn.functional.one_hot(layer(torch.ones(2, 4)).long())")
# Something else goes wrong where the program goes on without the operator.
WITHOUT = LACKING.replace("    torch.nonzero(layer(torch.ones(2, 4))).sum()", """    try:
        places = torch.nonzero(layer(torch.ones(2, 4)))
    except NotImplementedError:
        places = None
    places.sum()""")
# A GradScaler, which would skip steps whose made-up gradients seem to overflow, and an exit at the end.
SCALED = """
import sys
import torch
layer = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", 1024.0)
for _ in range(5):
    scaler.scale(layer(torch.ones(2, 64)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
sys.exit(0)
"""
# Two models in turns, and one whose parts are called without it.
TURNS = """
import torch
from torch import nn
makes = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))
judges = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizers = [torch.optim.Adam(part.parameters(), lr=1e-3) for part in (judges, makes)]
for _ in range(5):
    made = makes(torch.randn(4, 8))
    for optimizer, loss in zip(optimizers, (lambda: judges(made.detach()), lambda: judges(made))):
        loss().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
# Gradients are filled with zeros behind the step, and the rate of NAdam depends on a product that it
# reads: 1 less that product must not be zero.
ZEROED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
optimizer = torch.optim.{}(model.parameters(), lr=1e-3)
for _ in range(5):
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none={})
"""
# Data from NumPy, a step that is left out where the norm is infinite, checked distributions, and values
# that are read and printed.
READS = """
import math
import numpy
import torch
data = torch.from_numpy(numpy.zeros((100, 64), dtype="float32"))
layer = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
for _ in range(5):
    chosen = layer(data[torch.randint(0, 100, (16,))])
    loss = -torch.distributions.Categorical(logits=chosen).log_prob(torch.ones(16)).mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    if not torch.isfinite(norm) or torch.isnan(loss).any().item():
        continue
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss:.3f}", math.log(loss.item()), loss.detach().cpu().numpy().mean(),
          chosen.argmax(-1).tolist()[0])
"""
# A script for a GPU alone, with batches of two lengths.
DEVICES = """
import torch
torch.cuda.set_device(0)
torch.set_default_device("cuda")
layer = torch.nn.Linear(64, 64).cuda(torch.cuda.current_device())
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
for step in range(6):
    layer(torch.ones(2 + step % 2, 64, device="cuda:0")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
"""
# Compiled code has no modules; on the meta device it is not compiled.
COMPILED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
model.compile()
@torch.compile(fullgraph=True)
def loss_of(x):
    return torch.compile(model)(x).sum()
for _ in range(5):
    loss_of(torch.ones(2, 64)).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Asks for a GPU, its room and its streams, and measures how long it takes.
ON_GPU = """
import torch
assert torch.cuda.is_available() and torch.cuda.device_count(), "needs a GPU"
free, total = torch.cuda.mem_get_info()
print(torch.cuda.get_device_name(0), torch.cuda.get_device_properties(0).total_memory, free / total)
torch.cuda.manual_seed_all(1)
torch.autograd.set_detect_anomaly(True)
model = torch.nn.Linear(64, 64, device="cuda")
optimizer = torch.optim.AdamW(model.parameters())
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
stream = torch.cuda.Stream()
for _ in range(6):
    start.record()
    with torch.cuda.stream(stream):
        x = torch.ones(4, 64).cuda(non_blocking=True)
    torch.cuda.current_stream().wait_stream(stream)
    x.record_stream(torch.cuda.current_stream())
    with torch.autograd.detect_anomaly(check_nan=False):
        model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    end.record()
    torch.cuda.synchronize()
    print(start.elapsed_time(end), torch.cuda.max_memory_allocated() / 2**20, torch.cuda.memory_summary())
    torch.cuda.empty_cache()
"""
# The same loop on one rank, and as a launcher starts it on several: replicated, with shards, and from a parent.
RANKS = {"alone": """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
module = model
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(6):
    for _ in range(2):
        model(torch.randn(8, 64)).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
""", "replicated": """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).to(rank)
model = DDP(module, device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randn(96, 64))
for i, (x,) in enumerate(DataLoader(data, batch_size=8, sampler=DistributedSampler(data))):
    if i % 2 == 0:
        with model.no_sync():
            model(x.to(rank)).sum().backward()
        continue
    loss = model(x.to(rank)).sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.module.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    dist.barrier()
    print(dist.get_rank(), loss.item() / dist.get_world_size())
dist.destroy_process_group()
""", "sharded": """
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
dist.init_process_group(backend="nccl")
torch.cuda.set_device(dist.get_rank())
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).cuda()
for layer in model:
    fully_shard(layer, mesh=mesh["dp"], mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(6):
    for _ in range(2):
        model(torch.randn(8, 64, device="cuda")).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
""", "spawned": """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

def train(rank, world):
    os.environ["MASTER_ADDR"] = "localhost"
    dist.init_process_group("nccl", rank=rank, world_size=world)
    model = FSDP(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)),
                 device_id=rank)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(6):
        for _ in range(2):
            model(torch.randn(8, 64).to(rank)).sum().backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses = [None] * world
        dist.all_gather_object(losses, rank)
        print(losses)

if __name__ == "__main__":
    world = torch.cuda.device_count()
    mp.spawn(train, args=(world,), nprocs=world, join=True)
"""}
# Rows of several lengths, whose values are unknown.
PACKED = """
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = torch.nn.LSTM(32, 64, batch_first=True)
        self.head = torch.nn.Linear(64, 10)
    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        hidden, read = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)
        assert hidden.shape == (4, 12, 64) and len(read) == 4, hidden.shape
        return self.head(hidden)
model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(5):
    model(torch.ones(4, 12, 32), torch.tensor([12, 6, 8, 10])).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Attention, in a layer whose activations are kept and in one that runs again.
ATTENDS = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
    def forward(self, x):
        q, k, v = (part.view(2, 256, 4, 16).transpose(1, 2) for part in self.inside(x).split(64, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(2, 256, 64))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept, self.again = Layer(), Layer()
    def forward(self, x):
        return checkpoint(self.again, self.kept(x), use_reentrant=False)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(6):
    model(torch.ones(2, 256, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# The same with scores that have a bias of their own, which is trained.
BIASED = ATTENDS.replace("is_causal=True", "self.bias").replace(
    "nn.Linear(64, 64)", "nn.Linear(64, 64)\n        self.bias = nn.Parameter(torch.zeros(1, 4, 256, 256))")
# Products in bf16, whose parameters are in fp32, and a layer that runs again.
AUTOCAST = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.out = nn.Linear(64, 256), nn.Linear(256, 64)
    def forward(self, x):
        return x + self.out(nn.functional.gelu(self.wide(x)))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(3)), nn.Linear(64, 10)
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=False) if i == 1 else layer(x)
        return self.head(x) @ torch.ones(10, 10)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(6):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.ones(128, 64)).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# As scripts for GPUs write it; sums and norms are in fp32.
AMP = AUTOCAST.replace('torch.autocast("cpu", dtype=torch.bfloat16)', "torch.cuda.amp.autocast()").replace(
    "return x + self", "return nn.functional.layer_norm(x, (64,)).softmax(-1) + self")
# A Trainer in bf16, which asks for a GPU.
TRAINER = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return {"input_ids": torch.arange(16), "labels": torch.arange(16)}
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100, n_positions=32))
arguments = TrainingArguments(output_dir="out", max_steps=8, bf16=True, gradient_checkpointing=True, report_to=[])
Trainer(model=model, args=arguments, train_dataset=Rows()).train()
"""
# Experts that run only if a row chooses them.
CHOSEN = """
import torch
gate, experts = torch.nn.Linear(64, 4), torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))
class Mixture(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = gate, experts
    def forward(self, x):
        best = self.gate(x).max(-1)
        return x * best.values[:, None] + sum(expert(x) for i, expert in enumerate(self.experts)
                                              if (best.indices == i).any())
model = Mixture()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(5):
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# The step calls its closure several times.
SEVERAL = """
import torch
layer = torch.nn.Linear(64, 64)
optimizer = torch.optim.LBFGS(layer.parameters())
def closure():
    optimizer.zero_grad()
    loss = layer(torch.ones(2, 64)).sum()
    loss.backward()
    return loss
for _ in range(5):
    optimizer.step(closure)
"""
SHORT = "import torch\n"
LEAVES = "import sys\nsys.exit('no data')\n"
# A progress bar stands before the reason, as libraries print them.
WRONG = """
import sys
import torch
print(" 20% of the steps", end="", file=sys.stderr)
torch.nn.Linear(4, 4)(torch.ones(2, 5))
"""
# Eight layers with 8 MiB of parameters, gradients and moments in all.
DEEP = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(6):
    optimizer.zero_grad()
    model(torch.ones(32, 256)).sum().backward()
    optimizer.step()
"""
# A fused optimizer, and a generator for the default device, as Accelerate makes one.
FUSED = """
import torch
torch.Generator(device=torch.get_default_device())
layer = torch.nn.Linear(64, 64)
optimizer = torch.optim.{}(layer.parameters(), lr=1e-3, fused=True)
for _ in range(5):
    layer(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def collected(programs, folder, script=SCRIPT):
    """Returns the trace of the script's step on this machine, with annotations in the script."""
    text = script.replace("\nfor ", "\nimport pstar_torch\npstar_torch.annotate(model, optimizer)\nfor ", 1)
    (folder / "here.py").write_text(text)
    subprocess.run([programs / "pstar-collect", "-o", "here.pstar", "--", sys.executable,
                    "here.py", "64"], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                   env={"PYTHONPATH": str(pathlib.Path(__file__).parents[2] / "collect")})
    return Trace(folder / "here.pstar")


def plan(programs, folder, script, *more):
    done = subprocess.run([programs / "pstar-plan", "--torch", script, "--platform", "rtx-4090",
                           *more], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def recorded(folder, programs, name, text):
    """Writes the script, and returns the trace of its step on the meta device."""
    (folder / f"{name}.py").write_text(text)
    status, out, errors = plan(programs, folder, f"{name}.py")
    check(status == 0, f"{name}: {status}: {out}{errors}")
    return Trace(folder / f"{name}.pstar")


def check_same(folder, programs):
    """On the meta device a step has the tensors, accesses and amounts that it has elsewhere."""
    status, out, errors = plan(programs, folder, "train.py 64", "--json", "answer.json")
    check(status == 0 and "everything resident" in out, f"{out}{errors}")
    meta, here = Trace(folder / "train.pstar"), collected(programs, folder)
    check(meta.tensors == here.tensors and meta.accesses == here.accesses, "accesses differ")
    check([name for name, *_ in meta.operators] == [name for name, *_ in here.operators],
          "operators differ")
    saved = [sorted(nbytes for _, nbytes, _, _, kept in trace.buffers if kept)
             for trace in (meta, here)]
    check(saved[0] == saved[1], f"saved activations {saved} differ")
    peaks = max(meta.non_model), max(here.non_model)
    check(abs(peaks[0] - peaks[1]) <= peaks[1] / 100, f"the peaks {peaks} differ")
    check(meta.meta["estimated"] == 1 and "4090" in meta.meta["machine"], "it is not retimed")
    check(all(duration for *_, duration in meta.operators), "an operator has no time")
    answer = json.loads((folder / "answer.json").read_text())
    check(answer["fits"] and answer["parameters"] == sum(meta.tensors.values()), f"{answer}")


def check_large(folder, programs):
    """A model that fits no machine here is recorded all the same."""
    status, out, _ = plan(programs, folder, "train.py 30000", "--time-limit", "2")
    trace = Trace(folder / "train.pstar")
    check(trace.bytes("param") > 10 << 30, f"{trace.bytes('param')} bytes of parameters")
    check(status in (0, 3) and "not looked at" in out, f"{status}: {out}")


def check_fused(folder, programs):
    for optimizer, lists in (("AdamW", 4), ("SGD", 2)):
        (folder / "fused.py").write_text(FUSED.format(optimizer))
        status, out, errors = plan(programs, folder, "fused.py")
        check(status == 0, f"{optimizer}: {status}: {out}{errors}")
        trace = Trace(folder / "fused.pstar")
        found = sum(trace.bytes(name) > 0 for name in ("param", "grad", "exp_avg", "exp_avg_sq"))
        check(found == lists, f"{optimizer}: {found} lists")


def check_scaled(folder, programs):
    (folder / "scaled.py").write_text(SCALED)
    status, out, errors = plan(programs, folder, "scaled.py")
    check(status == 0, f"{status}: {out}{errors}")
    check(int(Trace(folder / "scaled.pstar").meta["micro_batches"]) == 1, "the step is several")


def check_zeroed(folder, programs):
    """A gradient that is filled with zeros needs no memory before backward makes the next one."""
    found = {}
    for loop in (("AdamW", True), ("AdamW", False), ("NAdam", False)):
        (folder / "zeroed.py").write_text(ZEROED.format(*loop))
        status, out, errors = plan(programs, folder, "zeroed.py")
        check(status == 0, f"{loop}: {status}: {out}{errors}")
        found[loop] = sorted(Trace(folder / "zeroed.pstar").accesses)
        check(found[loop] == found["AdamW", True], f"{loop}: the accesses are {found[loop]}")


def check_reads(folder, programs):
    (folder / "reads.py").write_text(READS)
    status, out, errors = plan(programs, folder, "reads.py")
    check(status == 0, f"{status}: {out}{errors}")


def check_devices(folder, programs):
    (folder / "devices.py").write_text(DEVICES)
    status, out, errors = plan(programs, folder, "devices.py")
    check(status == 0 and "the trace has the observed one" in errors, f"{status}: {out}{errors}")


def check_compiled(folder, programs):
    (folder / "compiled.py").write_text(COMPILED)
    status, out, errors = plan(programs, folder, "compiled.py")
    check(status == 0, f"{status}: {out}{errors}")
    names = {name for name, *_ in Trace(folder / "compiled.pstar").operators}
    check({"forward 0", "backward 1"} <= names, f"operators {names}")


def check_gpu(folder, programs):
    """There is none, and nothing is asked of its driver."""
    recorded(folder, programs, "on_gpu", ON_GPU)


def check_attention(folder, programs):
    """Attention keeps what it keeps elsewhere, and no scores."""
    meta, here = recorded(folder, programs, "attends", ATTENDS), collected(programs, folder, ATTENDS)
    check(max(meta.non_model) == max(here.non_model), f"the peaks {max(meta.non_model)}, {max(here.non_model)} differ")
    cast = ATTENDS.replace("    model(torch", "    with torch.autocast('cpu'):\n        loss = model(torch").replace(
        ".sum().backward()", ".float().sum()\n    loss.backward()").replace("(q, k, v, is", "(q.float(), k, v, is")
    meta, here = recorded(folder, programs, "attends_cast", cast), collected(programs, folder, cast)
    check(max(meta.non_model) == max(here.non_model), f"peaks {max(meta.non_model)}, {max(here.non_model)} differ")
    biased, kept = recorded(folder, programs, "biased", BIASED), collected(programs, folder, BIASED)
    check(max(biased.non_model) < max(kept.non_model), "scores are kept")


def saved_bytes(trace):
    return sum(nbytes for _, nbytes, _, _, kept in trace.buffers if kept)


def check_autocast(folder, programs):
    """Autocast casts what it casts elsewhere, also in layers that run again."""
    meta, here = recorded(folder, programs, "cast", AUTOCAST), collected(programs, folder, AUTOCAST)
    check(sorted(meta.accesses) == sorted(here.accesses), "accesses differ")
    found = [(max(trace.non_model), saved_bytes(trace)) for trace in (meta, here)]
    check(found[0] == found[1], f"peaks and saved activations {found} differ")
    recorded(folder, programs, "amp", AMP)


def check_trainer(folder, programs):
    if importlib.util.find_spec("transformers") is None or importlib.util.find_spec("accelerate") is None:
        return
    check(int(recorded(folder, programs, "trainer", TRAINER).meta["micro_batches"]) == 1, "the step is several")


def check_packed(folder, programs):
    recorded(folder, programs, "packed", PACKED)


def check_ranks(folder, programs):
    """A loop of several ranks is recorded as one rank's that shares nothing."""
    found = {}
    for name, text in RANKS.items():
        (folder / "ranks.py").write_text(text)
        status, out, errors = plan(programs, folder, "ranks.py")
        check(status == 0, f"{name}: {status}: {out}{errors}")
        trace = Trace(folder / "ranks.pstar")
        buckets = [nbytes for name, nbytes, *_ in trace.buffers if name == "buckets"]
        check(buckets == [4 * 2 * 65 * 64] * (name == "replicated"), f"{name}: buckets of {buckets} bytes")
        found[name] = (sorted(trace.tensors.values()), int(trace.meta["micro_batches"]),
                       [operator.replace("module.", "") for operator, *_ in trace.operators])
        check(found[name] == found["alone"], f"{name}: {found[name]}, not {found['alone']}")


def check_chosen(folder, programs):
    """Two rows choose two of four experts. What the step does not use is named, because it may be used elsewhere."""
    (folder / "chosen.py").write_text(CHOSEN)
    status, out, errors = plan(programs, folder, "chosen.py")
    check(status == 0 and "uses 4 of 10 parameters nowhere (experts.2.weight" in errors,
          f"{status}: {out}{errors}")


def check_nvme(folder, programs):
    """What neither memory has room for lies in NVMe; as much as is offered is enough. The command
    that is printed works."""
    (folder / "deep.py").write_text(DEEP)
    budgets = ["--device-memory", "3MiB", "--host-memory", "3MiB"]
    status, out, errors = plan(programs, folder, "deep.py", *budgets, "--json", "answer.json")
    check(status == 3, f"{status}: {out}{errors}")
    options = [remedy["option"] for remedy in json.loads((folder / "answer.json").read_text())["would_fit"]]
    nvme = [option for option in options if option.startswith("--nvme-memory ")]
    check(len(nvme) == 1, f"{options}")
    status, out, errors = plan(programs, folder, "deep.py", *budgets, *nvme[0].split())
    check(status == 0 and "on the host and in NVMe" in out, f"{status}: {out}{errors}")
    command = next(line.split() for line in out.splitlines() if line.startswith("  pstar-plan "))
    done = subprocess.run([programs / command[0], *command[1:]], cwd=folder, capture_output=True, text=True)
    check(done.returncode == 0 and "in NVMe" in done.stdout, f"{command}: {done.stdout}{done.stderr}")


def check_turns(folder, programs):
    """All modules that are called from outside are the model."""
    (folder / "turns.py").write_text(TURNS)
    status, out, errors = plan(programs, folder, "turns.py")
    check(status == 0, f"{status}: {out}{errors}")
    trace = Trace(folder / "turns.pstar")
    expected = {f"Sequential_{i}.{layer}.{name}" for i in range(2) for layer in (0, 2)
                for name in ("weight", "bias")}
    check(set(trace.tensors) == expected, f"the tensors are {list(trace.tensors)}")
    names = {name for name, *_ in trace.operators}
    check({"forward Sequential_1.2", "backward Sequential_1.2"} <= names, f"operators {names}")


def check_refused(folder, programs):
    for name, text, reason in (("lacking.py", LACKING, "nonzero does not run on the meta device"),
                               ("reading.py", READING, "one_hot does not run on the meta device"),
                               ("without.py", WITHOUT, "'sum' (before that, torch.nonzero does not run on the meta"),
                               ("several.py", SEVERAL, "calls its closure again"),
                               ("short.py", SHORT, "before a step was recorded"),
                               ("leaves.py", LEAVES, "leaves.py: the script exited with no data"),
                               ("wrong.py", WRONG, "device: pstar_torch: wrong.py, line 5: Runtime")):
        (folder / name).write_text(text)
        status, _, errors = plan(programs, folder, name)
        check(status == 1 and reason in errors, f"{name}: {status}: {errors}")
    status, _, errors = plan(programs, folder, "nowhere.py")
    check(status == 2 and "no such script" in errors, f"{status}: {errors}")


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "train.py").write_text(SCRIPT)
        check_same(folder, programs)
        check_large(folder, programs)
        check_fused(folder, programs)
        check_scaled(folder, programs)
        check_zeroed(folder, programs)
        check_reads(folder, programs)
        check_devices(folder, programs)
        check_compiled(folder, programs)
        check_gpu(folder, programs)
        check_attention(folder, programs)
        check_autocast(folder, programs)
        check_trainer(folder, programs)
        check_packed(folder, programs)
        check_ranks(folder, programs)
        check_chosen(folder, programs)
        check_nvme(folder, programs)
        check_turns(folder, programs)
        check_refused(folder, programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
