#!/usr/bin/env python3
"""Loops that pstar_torch.follow refuses: each raises an error that says why.

    torch_refused.py FOLDER_OF_PROGRAMS

Returns 77 where PyTorch is missing.
"""
import contextlib
import os
import pathlib
import sys
import tempfile
import threading

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.checkpoint import checkpoint
except ImportError:
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from torch_follow import (LOOPS, REFUSED, STEPS, Clipped, Frozen, Loop, Masters, Scaled, make,  # noqa: E402
                          optimizers_in, planned, pstar_torch, tokens_of)
from torch_training import check  # noqa: E402


class Stacked(Loop):
    """An operator reads all gradients."""

    def before_step(self, model):
        torch.cat([p.grad.flatten() for p in model.parameters()]).norm()


class InBackward(Loop):
    """Each parameter has an optimizer, which steps when its gradient is there."""

    def optimizer(self, model):
        optimizers = [torch.optim.AdamW([p], lr=1e-2) for p in model.parameters()]
        for optimizer, parameter in zip(optimizers, model.parameters()):
            def step(_, optimizer=optimizer):
                optimizer.step()
                optimizer.zero_grad()
            parameter.register_post_accumulate_grad_hook(step)
        return optimizers

    def train(self, model, optimizer, after=lambda step: None):
        for step in range(STEPS):
            self.loss(model, tokens_of(step)).backward()


class InTurns(Loop):
    """The norms step before the others, whose gradients are of another forward, as where two models
    train in turns."""

    def optimizer(self, model):
        first = [p for name, p in model.named_parameters() if "norm" in name]
        others = [p for name, p in model.named_parameters() if "norm" not in name]
        return [torch.optim.AdamW(first, lr=1e-2), torch.optim.AdamW(others, lr=1e-2)]

    def train(self, model, optimizer, after=lambda step: None):
        for step in range(STEPS):
            for each in optimizer:
                self.loss(model, tokens_of(step)).backward()
                each.step()
                each.zero_grad()


class NamedAsGradients(InTurns):
    """The parameter that steps first has a name that begins as that of other work on gradients."""

    def optimizer(self, model):
        others = [p for p in model.parameters() if p is not model.gradients_x]
        return [torch.optim.AdamW([model.gradients_x], lr=1e-2),
                torch.optim.AdamW(others, lr=1e-2)]


class Skipped(Scaled):
    """Gradients of the third step overflow, so that the GradScaler skips it."""

    def loss(self, model, tokens):
        self.step_number = getattr(self, "step_number", 0) + 1
        return super().loss(model, tokens) * (float("inf") if self.step_number == 3 else 1)


class Around(Loop):
    """The whole model runs within a checkpoint."""

    def loss(self, model, tokens):
        return F.cross_entropy(checkpoint(model, tokens, use_reentrant=False).flatten(0, 1),
                               tokens.flatten())


class Transformed(Loop):
    """torch.func, which forbids hooks on what autograd saves, has a part in the loss."""

    def loss(self, model, tokens):
        loss = super().loss(model, tokens)
        return loss + torch.func.grad(lambda scale: (scale * scale).sum())(model.gradients_x).sum()


class OnCpu(Loop):
    """The loop itself keeps elsewhere what autograd saves."""

    def loss(self, model, tokens):
        with torch.autograd.graph.save_on_cpu():
            return super().loss(model, tokens)


class Replaced(Loop):
    """Parameters get new memory behind the step."""

    def train(self, model, optimizer, after=lambda step: None):
        def replace(_):
            for parameter in model.parameters():
                parameter.data = torch.full_like(parameter.data, 0.05)
        return super().train(model, optimizer, replace)


class InThread(Loop):
    """A block runs in a thread of its own."""

    def make(self):
        model = super().make()
        block = model.blocks[1]
        inner, block.forward = block.forward, lambda *given: self.join(inner, given)
        return model

    def join(self, inner, given):
        results = []
        thread = threading.Thread(target=lambda: results.append(inner(*given)))
        thread.start()
        thread.join()
        return results[0]


class Scripted(Loop):
    """A part of the model takes no hooks."""

    def make(self):
        model = super().make()
        model.blocks[1].up = torch.jit.script(model.blocks[1].up)
        return model


class Flattened(Loop):
    """The optimizer has one tensor, of which the parameters are views."""

    def optimizer(self, model):
        whole = nn.Parameter(torch.cat([p.detach().flatten() for p in model.parameters()]))
        begin = 0
        for parameter in model.parameters():
            end = begin + parameter.numel()
            parameter.data = whole.data[begin:end].view_as(parameter)
            begin = end
        return torch.optim.AdamW([whole], lr=1e-2)


class NeedsClosure(Loop):
    """The optimizer calls forward and backward itself, and knows no parameter by itself."""

    def optimizer(self, model):
        return torch.optim.LBFGS(model.parameters())


class NotReturned(Masters):
    """The parameters stay as they are after the second step."""

    def give_back(self, model, step):
        if step != 1:
            super().give_back(model, step)


class OtherShapes(Loop):
    def loss(self, model, tokens):
        self.step = getattr(self, "step", 0) + 1
        return super().loss(model, tokens[:, :8] if self.step == 3 else tokens)


def refusals(programs):
    """What cannot follow a plan says why, and raises."""
    for kind, text in REFUSED.items():
        planned(programs, kind, 0.02)  # a plan with more room may keep what would be refused
        model, optimizer = make(LOOPS[kind])
        follower = pstar_torch.follow(model, optimizer, "plan.json", f"{kind}.pstar")
        try:
            LOOPS[kind].train(model, optimizer)
        except (ValueError, RuntimeError) as error:
            check(text in str(error), str(error))
        else:
            check(False, f"{kind} follows a plan")
        with contextlib.suppress(RuntimeError):  # an operator of the program may have raised the error
            follower.fail(RuntimeError())
    for kind, other, text in (("scaled", Skipped(), "skipped the optimizer's step"),
                              ("masters", NotReturned(), "has not written it back behind the step")):
        planned(programs, kind, 0.5)
        model, optimizer = make(LOOPS[kind])
        pstar_torch.follow(model, optimizer, "plan.json", f"{kind}.pstar")
        try:
            other.train(model, optimizer)
        except RuntimeError as error:
            check(text in str(error), str(error))
        else:
            check(False, f"{type(other).__name__} follows the plan")
    planned(programs, "plain", 0.5)
    cases = ((Stacked(), ValueError, "cannot be divided"),
             (Clipped(), ValueError, "another loop"),
             (OtherShapes(), RuntimeError, "differs"),
             (InBackward(), ValueError, "steps within backward"),
             (InTurns(), ValueError, "comes after the step of an optimizer"),
             (NamedAsGradients(), ValueError, "comes after the step of an optimizer"),
             (OnCpu(), ValueError, "save_on_cpu"),
             (Around(), ValueError, "within a checkpoint"),
             (Transformed(), ValueError, "uses torch.func"),
             (Scripted(), ValueError, "torch.jit.script"),
             (NeedsClosure(), ValueError, "needs a closure"),
             (Flattened(), ValueError, "several parameters as one tensor"),
             (Replaced(), RuntimeError, "was given other memory"),
             (InThread(), IndexError, ""),  # what the thread has not returned
             (Frozen(), ValueError, "other parameters"))
    for loop, kind, text in cases:
        name, follower = type(loop).__name__, None
        try:
            model, optimizer = make(loop)
            follower = pstar_torch.follow(model, optimizers_in(optimizer), "plan.json",
                                          "plain.pstar")
            loop.train(model, optimizer)
        except kind as error:
            check(text in str(error), f"{name}: {error}")
        else:
            check(False, f"{name} follows the plan")
        if isinstance(loop, InThread):
            follower.stop()  # the refusal has ended that thread alone
    model, optimizer = make(LOOPS["plain"])
    with open("plan.json", "r+", encoding="utf-8") as file:
        file.truncate(100)
    for plan in ("plan.json", "missing.json"):
        try:
            pstar_torch.follow(model, optimizer, plan, "plain.pstar")
        except ValueError as error:
            check(plan in str(error), str(error))
        else:
            check(False, f"{plan} is followed")


def main():
    programs = os.path.abspath(sys.argv[1])
    os.environ.setdefault("PSTAR_LIBRARY", f"{programs}/libpstar-core.so")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        refusals(programs)


if __name__ == "__main__":
    main()
