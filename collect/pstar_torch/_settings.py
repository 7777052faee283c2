"""Numbers that an optimizer's step changes beside parameters and their states, such as a count of the steps.
A step that is taken for one parameter after the other changes them once."""
import torch


def _is_number(value):
    """Whether it is a number, a text or nothing, or a list of such, or a tensor of one element."""
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and not value.requires_grad
    if isinstance(value, (list, tuple)):
        return all(_is_number(part) and not isinstance(part, torch.Tensor) for part in value)
    return value is None or isinstance(value, (bool, int, float, complex, str))


def _copy(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    return list(value) if isinstance(value, list) else value


def _same(one, other):
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    return type(one) is type(other) and one == other


def _places(optimizer):
    """Yields (what has the value, key, the number of the group or None) of an optimizer and of one in it."""
    for part in (optimizer, *vars(optimizer).values()):
        if isinstance(part, torch.optim.Optimizer):
            yield from ((vars(part), key, None) for key in vars(part))
            for key, value in part.state.items():
                if not isinstance(key, torch.Tensor):
                    yield from ((value, inner, None) for inner in value) if isinstance(value, dict) \
                        else ((part.state, key, None),)
    for number, group in enumerate(optimizer.param_groups):
        yield from ((group, key, number) for key in group if key != "params")


class Settings:
    """From the beginning of an optimizer's step to its end."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.before = self.read()
        self.after = {}  # by place: (owner, key, value, whether the group was that of the parameter)

    def read(self):
        found = {}
        for owner, key, group in _places(self.optimizer):
            if _is_number(owner[key]):
                found[id(owner), key] = owner, key, group, owner[key], _copy(owner[key])
        return found

    @staticmethod
    def write(owner, key, value, copy):
        """Sets a value again. A tensor stays the same object."""
        if isinstance(value, torch.Tensor):
            value.copy_(copy)
            owner[key] = value
        else:
            owner[key] = copy

    @torch.no_grad()
    def part_done(self, groups):
        """Called after the step for one parameter, which is in these groups: the next one finds what it
        found."""
        for place, (owner, key, group, value, copy) in self.read().items():
            mine = group is None or group in groups
            known = self.after.get(place)
            if known is not None and known[-1] and mine and not _same(known[3], copy):
                raise RuntimeError(
                    f"a step of {type(self.optimizer).__name__} changes its {key!r} with every parameter, "
                    "and a plan takes the step for one parameter after the other")
            if known is None or mine:
                self.after[place] = owner, key, value, copy, mine
            if place in self.before:
                self.write(owner, key, *self.before[place][3:])

    @torch.no_grad()
    def end(self):
        for owner, key, value, copy, _ in self.after.values():
            self.write(owner, key, value, copy)
