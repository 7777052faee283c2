#!/usr/bin/env python3
"""What a step on the meta device keeps for backward is what kernels of GPUs keep.

    torch_kernels.py FOLDER_OF_PROGRAMS

Returns 77 where PyTorch is missing.
"""
import collections
import pathlib
import sys
import tempfile

try:
    import torch
except ImportError:
    sys.exit(77)

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]
from torch_meta import recorded  # noqa: E402
from torch_training import check  # noqa: E402

ROWS, WIDTH = 128, 64
# Three layers, of which the last one may run again. NORM and DROP are filled in.
SCRIPT = f"""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear, self.drop = NORM, nn.Linear({WIDTH}, {WIDTH}, bias=False), DROP
    def forward(self, x):
        return x + self.drop(self.linear(self.norm(x)))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))
    def forward(self, x):
        x = self.layers[1](self.layers[0](x))
        return checkpoint(self.layers[2], x, use_reentrant=False) if AGAIN else self.layers[2](x)
model = Model().bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(5):
    model(torch.ones({ROWS}, {WIDTH}, dtype=torch.bfloat16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ELEMENTS = ROWS * WIDTH
# Layers whose activations wait on the host for backward.
LEAVING = f"""
import torch
from torch import nn
from torch.autograd import graph
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear({WIDTH}, {WIDTH}), nn.GELU())
    def forward(self, x):
        with HOOKS:
            return self.inner(x)
model = nn.Sequential(*(Layer() for _ in range(4)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(5):
    model(torch.ones({32 * ROWS}, {WIDTH}, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Recognises texts of at most 7 letters in 48 places.
SPEECH = """
import torch
from torch import nn
model = nn.Linear(16, 30)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(5):
    lengths = torch.tensor([5, 7, 6, 7])
    x = model(torch.randn(48, 4, 16)).log_softmax(-1)
    nn.CTCLoss(zero_infinity=True)(x, torch.randint(1, 30, TARGETS), torch.full((4,), 48), lengths).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
HOOKS = ("graph.save_on_cpu()", "graph.save_on_cpu(pin_memory=True)",
         "graph.saved_tensors_hooks(lambda t: (t.device, t.to('cpu')), lambda t: t[1].to(t[0]))",
         "graph.saved_tensors_hooks(lambda t: torch.empty(t.shape, device='cpu').copy_(t), lambda t: t.cuda())")


def kept(folder, programs, norm, drop, again=False):
    """Returns the sizes of what is kept for backward, with their numbers."""
    text = SCRIPT.replace("NORM", norm).replace("DROP", drop).replace("AGAIN", str(again))
    trace = recorded(folder, programs, "kernels", text)
    return collections.Counter(nbytes for _, nbytes, _, _, saved in trace.buffers if saved), trace


def check_leaving(folder, programs):
    """What the program keeps on the host is not on the device, and comes back one layer at a time."""
    nbytes = 4 * 32 * ELEMENTS
    stays = max(recorded(folder, programs, "leaving", LEAVING.replace("HOOKS", "torch.enable_grad()")).non_model)
    check(stays >= 8 * nbytes, f"{stays} bytes stay")
    for hooks in HOOKS:
        trace = recorded(folder, programs, "leaving", LEAVING.replace("HOOKS", hooks))
        check(max(trace.non_model) < 5.1 * nbytes, f"{hooks}: {max(trace.non_model)} bytes stay, of {nbytes}")
        host = 8 * nbytes + 3 * 4 * WIDTH * WIDTH  # inputs of eight functions, and three weights
        check(f"on cpu: {host} bytes" in trace.meta["unknown"], f"{hooks}: {trace.meta['unknown']}, not {host}")


def check_speech(folder, programs):
    """The loss keeps a number for each place and each state of the texts, and backward makes as many beside the
    gradient."""
    sums, x = 4 * 4 * 48 * (2 * 7 + 1), 4 * 4 * 48 * 30
    for targets in ("(4, 9)", "(25,)"):
        trace = recorded(folder, programs, "speech", SPEECH.replace("TARGETS", targets))
        mine = [nbytes for _, nbytes, _, _, saved in trace.buffers if saved and nbytes in (sums, x)]
        check(sorted(mine) == [sums, x], f"{mine} bytes are kept, not {sums} and {x}")
        check(max(trace.non_model) >= 2 * (sums + x), f"{max(trace.non_model)} bytes in backward")


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    norm, drop = f"nn.RMSNorm({WIDTH})", "nn.Dropout(0.1)"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plain, _ = kept(folder, programs, "nn.Identity()", "nn.Identity()")
        dropped, _ = kept(folder, programs, "nn.Identity()", drop)
        check(dropped - plain == {ELEMENTS: 3} and not plain - dropped,
              f"dropout keeps {dropped - plain}, not a mask of a byte an element")
        functional, _ = kept(folder, programs, "nn.Identity()", "lambda x: torch.dropout(x, 0.1, True)")
        check(functional == dropped, f"torch.dropout keeps {functional}, and the module {dropped}")
        normed, whole = kept(folder, programs, norm, "nn.Identity()")
        check(normed - plain == {4 * ROWS: 3, 2 * ELEMENTS: 3} or not hasattr(torch, "_fused_rms_norm"),
              f"norms keep {normed - plain}, not a number a row and what the products take")
        again, recomputed = kept(folder, programs, norm, drop, again=True)
        check(4 * ELEMENTS not in again and again[ELEMENTS] == 2, f"with a layer that runs again {again} are kept")
        check(max(recomputed.non_model) < max(whole.non_model) + 3 * ELEMENTS, "a layer that runs again keeps more")
        check_leaving(folder, programs)
        check_speech(folder, programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
