"""Runs a training script on PyTorch's meta device, which has shapes but no memory and computes
nothing, until a step is recorded."""
import functools
import os
import runpy
import sys
import traceback

import torch
from torch import nn
from torch.optim import optimizer as optimizers
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, resolve_name
from torch.utils import checkpoint as checkpoints

from . import _alone, _session
from ._autocast import Autocast
from ._kernels import use_gpu_kernels
from ._leaving import let_saved_leave
from ._observer import tensors_in
from ._reads import Endless, Reads
from ._rounds import Annotator
from ._values import Values, chosen_places, is_drawn, moved, no_modes, values_of


def _number(tensor):
    """Returns what an element of unknown value is taken to be. A half is neither 0 nor 1, so that programs may
    divide by it, by 1 less it and by its logarithm. Of conditions, all() and isfinite() are taken to be true, as
    of numbers of a loop that trains well."""
    if tensor.dtype == torch.bool:
        return getattr(tensor, "holds", False)
    return 0.5 if tensor.is_floating_point() or tensor.is_complex() else 1


def _values(tensor):
    """Returns a tensor in memory with the elements as far as they are known, and others that are made up."""
    values = values_of(tensor)
    if values is None:
        return torch.full(tensor.shape, _number(tensor), dtype=tensor.dtype, device="cpu")
    return values.clone()


_VALUES = {"item", "__float__", "__format__", "__int__", "__index__", "__bool__", "tolist", "numpy", "__array__"}
_FACTORS = {"alpha", "beta", "value"}  # which operators read, where they are tensors
_MOVES = {"to", "cuda", "cpu", "xpu", "type"}


def _is_device(value):
    if isinstance(value, torch.device) or type(value) is int:
        return True
    return isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda", "mps", "xpu")


def _full_lengths(padded, batch_first):
    """Returns lengths of rows without padding: what the program says of them has no values."""
    steps, rows = (1, 0) if batch_first else (0, 1)
    return torch.full((padded.shape[rows],), padded.shape[steps], dtype=torch.int64, device="cpu")


def _first_sentence(error):
    """Returns what PyTorch says first. It may go on for many lines."""
    return str(error).partition("\n")[0].partition(". ")[0]


class _Lacking(NotImplementedError):
    """An operator has no kernel on the meta device."""


def _lacks_kernel(error):
    return isinstance(error, NotImplementedError) or "meta tensor" in str(error)


class _OnMeta(TorchFunctionMode):
    """Puts every tensor on the meta device, whatever device the program asks for. Values that the
    program reads are made up."""

    def __init__(self):
        super().__init__()
        self.autocast = Autocast()
        self.reads = Reads()
        self.lacking = None  # the last error of this kind, which the program or PyTorch may have caught
        optimizers.register_optimizer_step_post_hook(self.reads.step)

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        keywords = dict(keywords or {})
        name = getattr(function, "__name__", "")
        if function is torch.randperm:  # samplers read its values
            return function(*arguments, **{**keywords, "device": "cpu"})
        first = arguments[0] if arguments else None
        if isinstance(first, torch.Tensor) and first.device.type == "meta":
            if name in _VALUES:
                return self.read(name, first, arguments[1:] if name == "__format__" else ())
            if name in ("cuda", "cpu", "xpu", "pin_memory"):
                return first
        if name == "allclose" and any(tensor.is_meta and values_of(tensor) is None for tensor in tensors_in(arguments)):
            return True
        if name == "_pack_padded_sequence":
            padded, _, batch_first = arguments
            arguments = (padded, _full_lengths(padded, batch_first), batch_first)
        if name in ("__getitem__", "__setitem__"):
            arguments = (first, chosen_places(arguments[1], name == "__getitem__"), *arguments[2:])
        if name in _MOVES:
            arguments = tuple("meta" if _is_device(value) else value for value in arguments)
        if keywords.get("device") is not None:
            keywords["device"] = "meta"
        keywords.pop("pin_memory", None)
        keywords.update((key, _values(value).item()) for key, value in keywords.items()
                        if key in _FACTORS and isinstance(value, torch.Tensor) and value.is_meta)
        arguments, keywords = self.autocast.arguments(name, arguments, keywords)
        return self.call(function, name, arguments, keywords)

    def read(self, name, tensor, arguments):
        """Returns what the program reads of a tensor."""
        if name != "__format__":
            frame = sys._getframe(2)
            if is_drawn(tensor):
                self.reads.note_drawn(frame)
            if is_drawn(tensor) or values_of(tensor) is None:
                self.reads.note_round(frame)
        with no_modes():
            values = _values(tensor)
            if name == "__array__":
                return values.numpy()
            return getattr(values, name)(*arguments)

    def call(self, function, name, arguments, keywords):
        values = Values(function, name, arguments, keywords)
        try:
            result = function(*arguments, **keywords)
        except RuntimeError as error:
            if not _lacks_kernel(error):
                raise
            if values.complete:
                if values.is_drawn():
                    self.reads.note_shape(name)
                return values.instead()
            self.lacking = _Lacking(f"{resolve_name(function) or name} does not run on the meta device; record the "
                                    f"loop on a device instead: {_first_sentence(error)}")
            raise self.lacking from error
        if isinstance(result, torch.Tensor) and name in ("all", "_is_all_true", "isfinite"):
            result.holds = True
        values.follow(result)
        first = arguments[0] if arguments else None
        if isinstance(result, torch.Tensor) and result.device.type != "meta" and \
                not (isinstance(first, torch.Tensor) and name != "to"):
            return moved(result)
        return result


def _keep_within(mode):
    """Lets layers that run again in backward run within the mode, as the first time."""
    original = checkpoints.checkpoint

    @functools.wraps(original)
    def checkpoint(function, *arguments, **keywords):
        def run(*own, **named):
            if mode in _get_current_function_mode_stack():
                return function(*own, **named)
            with mode:
                return function(*own, **named)
        return original(run, *arguments, **keywords)
    checkpoints.checkpoint = checkpoint


def _allow_fused():
    """Lets optimizers be made that only devices have. Fused kernels know no meta device, so they step as others
    do; those that may be captured keep what they count on the device."""
    def unfuse(optimizer, *_):
        for group in optimizer.param_groups:
            if group.get("fused"):
                group["fused"] = False

    for module in [module for name, module in sys.modules.items() if name.startswith("torch.optim.")]:
        if hasattr(module, "_device_dtype_check_for_fused"):
            module._device_dtype_check_for_fused = lambda *_, **__: None
        if hasattr(module, "_get_capturable_supported_devices"):
            module._get_capturable_supported_devices = lambda *_, **__: ["meta"]
    torch.nn.utils.clip_grad._device_has_foreach_support = lambda _: True
    optimizers.register_optimizer_step_pre_hook(unfuse)


def _take_memory():
    """Puts tensors on the meta device, too, that a program makes of NumPy's arrays or by torch.Tensor(), which knows
    no default device."""
    from_numpy, make, register = torch.from_numpy, nn.Parameter.__new__, nn.Module.register_buffer
    torch.from_numpy = functools.wraps(from_numpy)(lambda array: moved(from_numpy(array)))

    @functools.wraps(make)
    def parameter(kind, data=None, requires_grad=True):
        return make(kind, data if data is None or data.is_meta else moved(data), requires_grad)

    @functools.wraps(register)
    def buffer(module, name, tensor, *arguments, **keywords):
        return register(module, name, tensor if tensor is None or tensor.is_meta else moved(tensor), *arguments,
                        **keywords)
    nn.Parameter.__new__, nn.Module.register_buffer = parameter, buffer


def _ignore_compile():
    """Lets torch.compile do nothing: compiled code has no modules whose operators could be told
    apart, and takes no time on the meta device."""
    def leave(model=None, **_):
        return model if model is not None else lambda function: function
    torch.compile = functools.wraps(torch.compile)(leave)
    nn.Module.compile = functools.wraps(nn.Module.compile)(lambda *_, **__: None)


def _disable_scalers():
    """Lets each GradScaler do nothing: gradients have no values that could overflow, and a step that
    it skips would not be recorded."""
    original = torch.amp.GradScaler.__init__

    @functools.wraps(original)
    def make(self, *arguments, **keywords):
        original(self, *arguments[:5], **{**keywords, "enabled": False})
    torch.amp.GradScaler.__init__ = make


def _where(error, script):
    """Returns the script and its line that led to an error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if frame.filename == script]
    return f"{script}, line {lines[-1]}" if lines else script


def run(arguments):
    """The command: `python3 -m pstar_torch --meta SCRIPT [ARGUMENTS]`, under pstar-collect."""
    if not arguments:
        print("pstar_torch: --meta SCRIPT [ARGUMENTS]: the script is missing", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    _session.ends_program = True
    Annotator()
    _allow_fused()
    _take_memory()
    _ignore_compile()
    _disable_scalers()
    use_gpu_kernels()
    let_saved_leave()
    torch.set_default_device("meta")
    _alone.pretend_gpu()
    _alone.pretend_rank()
    _alone.ignore_anomalies()
    torch.get_default_device = lambda: torch.device("cpu")  # generators are made for it
    mode = _OnMeta()
    _keep_within(mode)
    try:
        with mode:
            runpy.run_path(arguments[0], run_name="__main__")
    except (_Lacking, Endless) as error:
        print(f"pstar_torch: {arguments[0]}: {error}", file=sys.stderr)
        return 1
    except _session.Recorded:
        return 0
    except _session.GivenUp as error:
        print(f"pstar_torch: {arguments[0]}: {error}", file=sys.stderr)
        return 1
    except SystemExit as end:  # of the script's own
        if end.code not in (None, 0):
            print(f"pstar_torch: {arguments[0]}: the script exited with {end.code} before a step "
                  "was recorded", file=sys.stderr)
            return 1
    except Exception as error:
        before = f" (before that, {mode.lacking})" if mode.lacking else ""
        print(f"pstar_torch: {_where(error, arguments[0])}: {type(error).__name__}: {error}{before}",
              file=sys.stderr)
        return 1
    print("pstar_torch: the script ended before a step was recorded: its loop must have four steps "
          "or more of each optimizer, whose class must be one of torch.optim or derived from its Optimizer",
          file=sys.stderr)
    return 1
