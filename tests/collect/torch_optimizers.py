#!/usr/bin/env python3
"""Optimizers that are not PyTorch's, in loops that follow a plan: those that count their steps, that keep
more than states of parameters, and that make states anew. Loops that train other parameters than in the
first iteration are refused.

    torch_optimizers.py FOLDER_OF_PROGRAMS [LOOP]...

Returns 77 where PyTorch is missing.
"""
import collections
import os
import pathlib
import sys
import tempfile

try:
    import torch
except ImportError:
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import torch_follow  # noqa: E402
from torch_follow import LOOPS, Loop, make, planned, pstar_torch  # noqa: E402
from torch_training import Trace, check  # noqa: E402


class Counting(torch.optim.Optimizer):
    """Adam whose groups count the steps, and that keeps a decay and a sum of its own."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-2, "step": 0, "seen": torch.zeros(1)})
        self.state["decay"] = torch.ones(1)
        self.state["shared"] = {"steps": 0}
        self.total = 0.0

    @torch.no_grad()
    def step(self, closure=None):
        self.total += 1.0
        self.state["decay"].mul_(0.9)
        self.state["shared"]["steps"] += 1
        for group in self.param_groups:
            group["step"] += 1
            group["seen"].add_(0.5)
            scale = self.state["decay"].item() / (1 - 0.9**group["step"]) / group["seen"].item()
            scale /= self.total * self.state["shared"]["steps"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["mean"] = torch.zeros_like(parameter)
                state["mean"].lerp_(parameter.grad, 0.1)
                parameter.sub_(state["mean"], alpha=group["lr"] * scale)


class Anew(torch.optim.Optimizer):
    """Makes new states in each step."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-2})

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            mean = state.get("mean", torch.zeros_like(parameter))
            state["mean"] = 0.9 * mean + 0.1 * parameter.grad
            parameter.sub_(state["mean"], alpha=self.param_groups[0]["lr"])


class Summing(Counting):
    """Its own number depends on the parameters that come before."""

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            self.total += parameter.grad.abs().sum().item()
            parameter.sub_(parameter.grad, alpha=1e-2 / self.total)


class Lookahead(torch.optim.Optimizer):
    """Has an optimizer that takes the steps, and moves slow parameters behind every second one. It makes no
    Optimizer of itself."""

    def __init__(self, parameters):
        self._optimizer_step_pre_hooks = collections.OrderedDict()
        self._optimizer_step_post_hooks = collections.OrderedDict()
        self.base = torch.optim.AdamW(parameters, lr=1e-2)
        self.param_groups, self.defaults = self.base.param_groups, {}
        self.state = collections.defaultdict(dict)
        self.steps = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.base.step()
        self.steps += 1
        for group in self.param_groups:
            for parameter in group["params"] if self.steps % 2 == 0 else ():
                slow = self.state[parameter].setdefault("slow", torch.zeros_like(parameter))
                parameter.copy_(slow.lerp_(parameter, 0.5))

    def state_dict(self):
        return self.base.state_dict()


class With(Loop):
    def __init__(self, optimizer):
        self.make_optimizer = optimizer

    def optimizer(self, model):
        parameters = list(model.parameters())
        return self.make_optimizer([{"params": parameters[:5]}, {"params": parameters[5:]}])


class Anews(Loop):
    def optimizer(self, model):
        return Anew(model.parameters())

    def train(self, model, optimizer, after=lambda step: None):
        def look(step):
            after(step)
            if step == 3 and after.__name__ == "after":  # the loop follows a plan
                check(all(state["mean"].untyped_storage().nbytes() != 4 * state["mean"].numel()
                          for state in optimizer.state.values() if state["mean"].numel() > 1),
                      "anew: states lie beside the plan's memory")
        return super().train(model, optimizer, look)


class Sums(Loop):
    def optimizer(self, model):
        return Summing(model.parameters())


class Later(Loop):
    """Biases are trained from the third step on."""

    def make(self):
        model = super().make()
        for block in model.blocks:
            block.up.bias.requires_grad_(False)
        return model

    def train(self, model, optimizer, after=lambda step: None):
        def unfreeze(step):
            after(step)
            if step == 1:
                for block in model.blocks:
                    block.up.bias.requires_grad_(True)
                self.join(model, optimizer)
        return super().train(model, optimizer, unfreeze)

    def join(self, model, optimizer):
        optimizer.add_param_group({"params": [block.up.bias for block in model.blocks], "lr": 1e-3})


class Unfrozen(Later):
    """The optimizer has the biases from the beginning."""

    def optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=1e-2)

    def join(self, model, optimizer):
        pass


FOLLOWED = {"counting": With(Counting), "anew": Anews(), "lookahead": With(Lookahead)}
REFUSED = {"sums": (Sums(), "changes its 'total' with every parameter"),
           "later": (Later(), "now trains blocks.0.up.bias"),
           "unfrozen": (Unfrozen(), "now trains blocks.0.up.bias")}
LOOPS.update(FOLLOWED, **{name: loop for name, (loop, _) in REFUSED.items()})
torch_follow.RECORDER = pathlib.Path(__file__).resolve()


def check_refused(programs, kind, text):
    planned(programs, kind, 0.5)
    model, optimizer = make(LOOPS[kind])
    pstar_torch.follow(model, optimizer, "plan.json", f"{kind}.pstar")
    try:
        LOOPS[kind].train(model, optimizer)
    except (RuntimeError, ValueError) as error:
        check(text in str(error), f"{kind}: {error}")
    else:
        check(False, f"{kind} follows a plan")


def main():
    programs = os.path.abspath(sys.argv[1])
    if sys.argv[2:3] == ["record"]:
        torch_follow.record(sys.argv[3])
        return
    os.environ.setdefault("PSTAR_LIBRARY", f"{programs}/libpstar-core.so")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for kind in sys.argv[2:] or (*FOLLOWED, *REFUSED):
            if kind in REFUSED:
                check_refused(programs, kind, REFUSED[kind][1])
                continue
            torch_follow.follow(kind, programs, 0.1)
            trace, model = Trace(f"{kind}.pstar"), LOOPS[kind].make()
            check(trace.bytes("exp_avg") == 4 * sum(p.numel() for p in model.parameters()), f"{kind}: states")


if __name__ == "__main__":
    main()
