"""Lets what a program keeps on the host for backward leave the meta device, as save_on_cpu does and other hooks on
saved tensors. Its bytes lie in memory that is never touched."""
import functools

import torch
from torch.autograd import graph
from torch.overrides import TorchFunctionMode


def _asked(name, arguments, keywords):
    """Returns whether a function moves a tensor to the host; None if it moves none."""
    if name in ("cpu", "cuda", "xpu"):
        return name == "cpu"
    if name != "to":
        return None
    places = [value for value in (*arguments[1:], keywords.get("device"))
              if isinstance(value, (str, torch.device)) or type(value) is int]
    return torch.device(places[0]).type == "cpu" if places else None


class _Leaving(TorchFunctionMode):
    """Knows two devices, the host and the meta device, which stands for all others."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords, name = dict(keywords or {}), getattr(function, "__name__", "")
        keywords.pop("pin_memory", None)
        first = arguments[0] if arguments else None
        if keywords.get("device") is not None and torch.device(keywords["device"]).type != "cpu":
            keywords["device"] = "meta"
        if not isinstance(first, torch.Tensor):
            return function(*arguments, **keywords)
        if name == "pin_memory" or name == "copy_" and first.is_meta != arguments[1].is_meta:
            return first
        to_host = _asked(name, arguments, keywords)
        if to_host is None:
            return function(*arguments, **keywords)
        dtypes = [value for value in (*arguments, keywords.get("dtype")) if isinstance(value, torch.dtype)]
        if to_host != first.is_meta:
            return first.to(dtypes[0]) if dtypes else first
        return torch.empty_like(first, dtype=dtypes[0] if dtypes else None, device="cpu" if to_host else "meta")


def _within(hook):
    @functools.wraps(hook)
    def call(*arguments):
        with _Leaving():
            return hook(*arguments)
    return call


def let_saved_leave():
    """Checkpoints save no tensors, and run layers again in their hooks, which are left alone."""
    original = graph.saved_tensors_hooks.__init__

    @functools.wraps(original)
    def make(self, pack_hook, unpack_hook):
        if type(self) in (graph.saved_tensors_hooks, graph.save_on_cpu):
            pack_hook, unpack_hook = _within(pack_hook), _within(unpack_hook)
        original(self, pack_hook, unpack_hook)
    graph.saved_tensors_hooks.__init__ = make
