"""The program's parameters, gradients and optimizer states, as tensors whose bytes a plan moves."""
import torch

from ._observer import bytes_of


class Bound:
    """One tensor of a list. Its holders are the program's tensors, whose memory `place` sets. While
    the plan does not have the bytes where an operator may use them, each element reads as NaN, all
    from one element of memory, which nothing can write."""

    def __init__(self, kind, index, holders):
        self.kind, self.index, self.holders = kind, index, holders
        first = holders[0]
        if not _is_dense(first):
            raise ValueError(f"a tensor of shape {tuple(first.shape)} does not fill its memory")
        self.shape = torch.empty_strided(first.shape, first.stride(), dtype=first.dtype,
                                         device="meta")
        value = float("nan") if first.dtype.is_floating_point else 0
        self.nowhere = torch.full((), value, dtype=first.dtype).expand(first.shape)
        self.nbytes = bytes_of(first)
        self.where = None     # (memory, address) of the bytes now
        self.views = {}       # by (memory, address)
        self.held = None      # the view that the holders have
        self.name = None      # of the tensor, for messages

    def view(self, memory, address):
        key = id(memory), address
        if key not in self.views:
            self.views[key] = memory.view(address, self.shape)
        return self.views[key]

    def place(self, memory, address):
        if self.where != (memory, address):
            self.set(self.view(memory, address))
            self.where = memory, address

    def leave(self):
        if self.where is not None:
            self.set(self.nowhere)
            self.where = None

    def set(self, view):
        self.check_held()
        self.held = view
        for holder in self.holders:
            holder.data = view

    def check_held(self):
        """Raises an error if the program gave a holder other memory, which nothing tells us."""
        if self.held is not None and any(holder.data_ptr() != self.held.data_ptr()
                                         for holder in self.holders):
            raise RuntimeError(f"{self.kind} of {self.name} was given other memory than the plan's, "
                               "as by p.data = ...: write into it, as p.data.copy_(...) does within "
                               "the optimizer's step")

    def covers(self, memory, address):
        return self.where is not None and self.where[0] is memory and \
            self.where[1] <= address < self.where[1] + max(self.nbytes, 1)


class Gradient(Bound):
    """A gradient. Backward makes it; its first bytes are copied into the chunk, and what follows is
    added there. The program sees None before the first and after the step."""

    def __init__(self, index, parameter):
        self.parameter, self.tensor = parameter, torch.empty_strided(
            parameter.shape, parameter.stride(), dtype=parameter.dtype)
        super().__init__("grad", index, [self.tensor])
        self.tensor.data = self.nowhere

    def accept(self, parameter):
        """Called when backward has added to the parameter's gradient."""
        made = parameter.grad
        if made is self.tensor:
            return
        if made.is_sparse or made.dtype != self.tensor.dtype:
            raise ValueError("sparse gradients and gradients of other types than their parameters "
                             "cannot be moved by a plan")
        if self.where is None:
            raise RuntimeError("the plan has no room for the gradient here")
        self.tensor.copy_(made)
        parameter.grad = self.tensor

    def end(self):
        self.parameter.grad = None


def _is_dense(tensor):
    """Whether the elements fill a contiguous range, in some order of the dimensions."""
    expected = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride()), key=lambda d: (d[1], d[0])):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
