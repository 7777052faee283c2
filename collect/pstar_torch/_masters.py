"""Copies of a model's parameters in more bytes an element, which an optimizer trains in the place of the parameters:
the masters of a model in bf16. The program copies gradients to them before the step, and parameters back after it."""
import torch


def find_masters(named, optimizers):
    """Returns [(copy, parameter)] where the optimizers train one copy of some of the model's parameters each. Copies
    of one shape are in the order of the parameters. Returns nothing if an optimizer trains anything else beside the
    model."""
    own = {id(parameter): parameter for _, parameter in named}
    trained = {id(parameter): parameter for optimizer in optimizers for group in optimizer.param_groups
               for parameter in group["params"]}
    free = {}  # by shape: parameters without an optimizer
    for key, parameter in own.items():
        if parameter.requires_grad and key not in trained:
            free.setdefault(parameter.shape, []).append(parameter)
    found = []
    for key, copy in trained.items():
        if key in own:
            continue
        same = free.get(copy.shape)
        if not same or copy.element_size() < same[0].element_size() or not copy.is_floating_point():
            return []
        found.append((copy, same.pop(0)))
    wider = any(copy.element_size() > parameter.element_size() for copy, parameter in found)
    return found if wider else []


class Masters:
    """The copies in a loop that follows a plan. The plan's update of a parameter writes it, too, so the program's way
    back between two steps has nothing to do, where some of them are elsewhere: it is left out, and noted."""

    def __init__(self, follower):
        self.follower = follower
        self.copies = {index: copy for copy, index in follower.observer.masters}
        self.returned = set()  # indices of the parameters that the program has written since the step

    @torch.no_grad()
    def updated(self, index):
        """Called when the optimizer has changed a tensor's copy, where the plan has both."""
        if index in self.copies:
            self.follower.bound["param", index].holders[0].copy_(self.copies[index])
            self.returned.discard(index)

    def check_returned(self):
        """Called when an iteration begins."""
        missing = [self.follower.plan.tensors[index] for index in self.copies if index not in self.returned]
        if missing:
            raise RuntimeError(f"the optimizer has trained a copy of {missing[0]}, and the program has not written it "
                               "back behind the step: p.copy_(copy) for each parameter, before the next forward")

    def instead(self, function, arguments):
        """Called with each operator between two steps. Returns (result,) of one that belongs to the way back;
        None for others."""
        name = function._overloadpacket.__name__
        if name == "_to_copy" and self.of(arguments[0], "master") is not None:
            parameter = self.follower.bound["param", self.of(arguments[0], "master")]
            return (parameter.nowhere,)
        if name not in ("copy_", "_foreach_copy_"):
            return None
        into, of = arguments[:2] if name == "_foreach_copy_" else ([arguments[0]], [arguments[1]])
        found = [self.of(tensor, "param") for tensor in into]
        if None in found or any(index not in (self.of(tensor, "master"), self.of(tensor, "param"))
                                for index, tensor in zip(found, of)):
            return None
        self.returned.update(found)
        return (None if name == "_foreach_copy_" else arguments[0],)

    def of(self, tensor, kind):
        """Returns the index of the parameter that has a copy, if this is the whole of that one or of the copy."""
        bound = self.follower.watch.owner(tensor)
        whole = bound is not None and bound.kind == kind and bound.index in self.copies and \
            tensor.shape == bound.shape.shape
        return bound.index if whole else None
