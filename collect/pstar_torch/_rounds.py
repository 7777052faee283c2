"""Annotates a loop that does not annotate itself, when it is known which optimizers step in a round."""
import gc
import sys

import torch
from torch import nn
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from . import _session, annotate

MOST_STEPS = 16  # of the optimizer that steps first, while others have not stepped


def _trained(optimizer):
    """Returns the ids of the parameters that an optimizer trains."""
    return {id(parameter) for group in getattr(optimizer, "param_groups", ())
            for parameter in group["params"] if parameter.requires_grad}


def _all_optimizers():
    return [found for found in gc.get_objects() if issubclass(type(found), torch.optim.Optimizer)]


class Annotator:
    """Annotates the outermost modules with parameters, and the optimizers that step in a round. A round
    is over when all have stepped and the first one steps again. An iteration ends with a step of an
    optimizer that steps once in a round, so annotations begin behind such a step."""

    def __init__(self):
        self.called, self.depth = [], 0
        self.steps = []    # optimizers in the order of their steps, in the first round
        self.order = None  # optimizers of a round, of which the last one steps once
        self.stepped = set()  # ids of their parameters
        self.waiting = []  # optimizers of other parameters, which have not stepped
        self.left_out = []  # those that nobody waits for any longer
        self.over = False
        self.handles = [modules.register_module_forward_pre_hook(self.enter),
                        modules.register_module_forward_hook(self.leave, always_call=True),
                        optimizers.register_optimizer_step_pre_hook(self.before_step),
                        optimizers.register_optimizer_step_post_hook(self.after_step)]

    def enter(self, module, arguments):
        if self.over:  # PyTorch calls hooks on modules from a list of its own, which may lose them meanwhile
            for handle in self.handles:
                handle.remove()
            return
        if self.depth == 0 and torch.is_grad_enabled() and module not in self.called and \
                any(parameter.requires_grad for parameter in module.parameters()):
            self.called.append(module)
        self.depth += 1

    def leave(self, module, arguments, result):
        self.depth -= 1

    def model(self):
        """Returns the module that was called, or all of them in one; None if there is none."""
        inner = {id(part) for module in self.called for part in module.modules() if part is not module}
        outer = [module for module in self.called if id(module) not in inner]
        if len(outer) < 2:
            return outer[0] if outer else None
        names = [type(module).__name__ for module in outer]
        return nn.ModuleDict({name if names.count(name) == 1 else f"{name}_{i}": module
                              for i, (name, module) in enumerate(zip(names, outer))})

    def before_step(self, optimizer, arguments, keywords):
        if self.order is None and self.steps and not self.waiting and optimizer is self.steps[0]:
            self.order = self.round()

    def after_step(self, optimizer, arguments, keywords):
        if self.over:
            return
        if self.order is None:
            self.add(optimizer)
        elif optimizer is self.order[-1]:
            self.annotate()

    def add(self, optimizer):
        """Notes a step of the first round. It begins again if the others are not waited for any longer."""
        if self.waiting and self.steps.count(optimizer) == MOST_STEPS and optimizer is self.steps[0]:
            self.left_out += self.waiting
            self.steps, self.stepped, self.waiting = [], set(), []
        self.steps.append(optimizer)
        self.stepped |= _trained(optimizer)
        if self.waiting:  # looking for objects takes its time
            self.waiting = self.without_step(self.waiting)
        if not self.waiting:
            self.waiting = self.without_step(_all_optimizers())

    def without_step(self, some):
        return [optimizer for optimizer in some
                if optimizer not in self.left_out and not _trained(optimizer) <= self.stepped]

    def round(self):
        """Returns the optimizers in the order of their first steps, but one that steps once last: the one
        that comes last."""
        order = list(dict.fromkeys(self.steps))
        once = [optimizer for optimizer in order if self.steps.count(optimizer) == 1]
        if not once:
            raise ValueError("each optimizer steps several times in a round, so nothing says where an "
                             "iteration ends: record a loop in which one of them steps once")
        order.append(order.pop(order.index(once[-1])))
        return order

    def annotate(self):
        """Ends the search."""
        self.over = True
        for optimizer in self.left_out:
            print(f"pstar_torch: an optimizer ({type(optimizer).__name__}) of {len(_trained(optimizer))} "
                  f"parameters did not step in {MOST_STEPS} steps of another one, and is left out",
                  file=sys.stderr)
        model = self.model()
        if not _session.is_open() and model is not None:
            annotate(model, *self.order)
