"""What small tensors of the meta device would hold: constants, numbers that are drawn, and what is computed of them.
Programs decide by such numbers which layers run, how long sequences are, and at what rate they learn."""
import contextlib
import pathlib

import torch

from ._observer import FILLS, tensors_in
from ._remarks import remark

_MOST = 1 << 20  # elements of a tensor whose values are kept
_MAKERS = {"arange", "as_tensor", "empty", "empty_strided", "eye", "full", "linspace", "logspace", "ones", "rand",
           "randint", "randn", "range", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros"}


def _spread(result):
    """Returns fractions that are spread evenly over the interval from 0 to 1, in each part of a tensor, too. The
    first one is in the middle."""
    places = torch.arange(result.numel(), dtype=torch.float64).view(result.shape)
    return (0.5 + 0.6180339887498949 * places).frac().clamp(max=0.99)


def _half(*_):
    return 0.5


def _last(_, arguments, keywords):
    """Returns the largest integer that randint or random_ may draw; None if its range has no end."""
    numbers = [value for value in arguments if type(value) is int]
    end = keywords.get("high", keywords.get("to", numbers[-1] if numbers else None))
    return None if end is None else end - 1


def _fractions(result, *_):
    return _spread(result)


def _between(result, arguments, keywords):
    """Returns what stands for the numbers of uniform_."""
    begin = arguments[1] if len(arguments) > 1 else keywords.get("from", 0.0)
    end = arguments[2] if len(arguments) > 2 else keywords.get("to", 1.0)
    return begin + (end - begin) * _spread(result)


def _chosen(result, arguments, keywords):
    """Returns what stands for the numbers of Bernoulli, who draws 1 with this probability. Of few elements, the
    likelier number."""
    share = arguments[1] if len(arguments) > 1 else keywords.get("p", arguments[0])
    return (_spread(result) < share).to(result.dtype)


# What stands for drawn numbers, so that the step is the same each time, takes the likelier branch of a condition,
# has the longest sequence, and masks the share of elements that it should.
_DRAWN = {"rand": _fractions, "rand_like": _fractions, "uniform_": _between, "randn": _half, "randn_like": _half,
          "normal_": _half, "randint": _last, "randint_like": _last, "random_": _last, "bernoulli": _chosen,
          "bernoulli_": _chosen}


# Operators that choose places along a dimension, of the largest or smallest elements, and the argument that says
# which dimension.
_CHOOSE = {"argmax": 1, "argmin": 1, "max": 1, "min": 1, "topk": 2}


# Operators whose result is this element wherever one of the arguments is, whatever the other one is.
_ABSORBING = {"__or__": True, "logical_or": True, "bitwise_or": True, "__and__": False, "logical_and": False,
              "bitwise_and": False}


class _Group:
    """Tensors that share bytes, and when their values were last known."""

    def __init__(self, version, drawn):
        self.version, self.drawn = version, drawn


class _Known:
    def __init__(self, values, group):
        self.values, self.group = values, group


def _known(tensor):
    """Returns what is known of a tensor; None if nothing is, or if something unseen has written it since."""
    if not tensor.is_meta:
        return _Known(tensor.detach(), _Group(None, False)) if _is_small(tensor) else None
    known = getattr(tensor, "pstar_known", None)
    return known if known is not None and known.group.version == tensor._version else None


def values_of(tensor):
    """Returns a tensor's values in memory; None if they are unknown."""
    known = _known(tensor)
    return None if known is None else known.values


def is_drawn(tensor):
    """Whether known values depend on numbers that were drawn."""
    known = _known(tensor)
    return known is not None and known.group.drawn


def _forget(tensor):
    vars(tensor).pop("pstar_known", None)


def _is_small(tensor):
    return tensor.layout == torch.strided and tensor.numel() <= _MOST and not tensor.is_inference()


def set_values(tensor, values, drawn=False):
    """Notes what a new tensor of the meta device would hold."""
    if _is_small(tensor):
        tensor.pstar_known = _Known(values, _Group(tensor._version, drawn))


@contextlib.contextmanager
def no_modes():
    """Lets no mode see what is computed, and casts nothing."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        before = torch.is_autocast_enabled("cpu")
        torch.set_autocast_enabled("cpu", False)
        try:
            yield
        finally:
            torch.set_autocast_enabled("cpu", before)


class Values:
    """One call of a function: computes in memory what it does to tensors whose values are known."""

    def __init__(self, function, name, arguments, keywords):
        self.function, self.name = function, name
        self.arguments, self.keywords = arguments, keywords
        given = list(tensors_in([arguments, keywords]))
        self.known = {id(tensor): (tensor, _known(tensor)) for tensor in given}
        self.shaped = (name in FILLS or name.endswith("_like") or name.startswith("new_")) and \
            all(self.known[id(tensor)][1] for tensor in given[1:])  # only the shape of the first one matters
        self.complete = bool(given) and all(known is not None for _, known in self.known.values())
        self.applies = self.complete or self.shaped or name in _MAKERS
        if torch._C._functorch.peek_interpreter_stack() is not None:
            self.applies = self.complete = False
        elif function in (torch.Tensor.data.__get__, torch.Tensor.data.__set__) or name == "set_":
            self.applies = self.complete = False
            _forget(given[0])  # it is written through `data` without a new version

    def in_memory(self, value):
        if isinstance(value, torch.Tensor):
            _, known = self.known[id(value)]
            return torch.empty(value.shape, dtype=value.dtype, device="cpu") if known is None else known.values
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(map(self.in_memory, value))
        if isinstance(value, dict):
            return {key: self.in_memory(part) for key, part in value.items()}
        if isinstance(value, torch.device) or isinstance(value, str) and value == "meta":
            return "cpu"
        return value

    def compute(self):
        """Returns the function's result in memory."""
        with no_modes():
            arguments, keywords = self.in_memory(self.arguments), self.in_memory(self.keywords)
            result = self.function(*arguments, **keywords)
            stand_in = _DRAWN[self.name](result, arguments, keywords) if self.name in _DRAWN else None
            if stand_in is not None:
                (result.copy_ if isinstance(stand_in, torch.Tensor) else result.fill_)(stand_in)
        return result

    def follow(self, result):
        """Computes after the function has run on the meta device, and notes the values."""
        results = list(tensors_in(result))
        written = [(given, known) for given, known in self.known.values()
                   if known and given.is_meta and given._version != known.group.version]
        if not self.complete and self.name in _ABSORBING and isinstance(result, torch.Tensor):
            self.absorb(result)
            return
        if not self.complete and self.name in _CHOOSE:
            self.choose(results[-1])
            return
        on_meta = written or any(tensor.is_meta for tensor in results)
        if not self.applies or not on_meta or not all(map(_is_small, results)):
            return
        if self.shaped and not self.complete and not all(_is_small(tensor) for tensor, _ in self.known.values()):
            return
        try:
            found = list(tensors_in(self.compute()))
        except Exception:  # whatever it is, the values are unknown
            return
        drawn = self.name in _DRAWN or self.is_drawn()
        for given, known in written:
            known.group.version, known.group.drawn = given._version, drawn
        if [(tensor.shape, tensor.dtype) for tensor in results] == [(some.shape, some.dtype) for some in found]:
            for tensor, values in zip(results, found):
                self.note(tensor, values, drawn)

    def absorb(self, result):
        """Notes the values where one argument alone decides them, as where a text ends at its last place."""
        element = _ABSORBING[self.name]
        for given, known in self.known.values():
            with no_modes():
                decides = known is not None and given.shape == result.shape and \
                    (element is False or result.dtype == torch.bool) and bool((known.values == element).all())
                if decides:
                    set_values(result, torch.full(result.shape, element, dtype=result.dtype), known.group.drawn)

    def choose(self, places):
        """Notes places that are spread evenly, as those of experts among tokens, where it is not known which elements
        are the largest."""
        place = _CHOOSE[self.name]
        dims = [self.keywords.get("dim", -1 if self.name == "topk" else None), *self.arguments[place:place + 1]]
        given = self.arguments[0] if self.arguments else places
        if type(dims[-1]) is not int or given.dim() == 0 or not _is_small(places):
            return
        with no_modes():
            several = places.movedim(dims[-1], -1) if self.name == "topk" else places
            chosen = (torch.arange(places.numel()) % given.shape[dims[-1]]).view(several.shape)
            set_values(places, chosen.movedim(-1, dims[-1]) if self.name == "topk" else chosen, drawn=True)

    def is_drawn(self):
        return any(known and known.group.drawn for _, known in self.known.values())

    def note(self, tensor, values, drawn):
        """Notes the values of a result, which may share the bytes of what was given."""
        key = values.untyped_storage()._cdata
        for given, known in self.known.values():
            if given.is_meta and known and known.values.untyped_storage()._cdata == key:
                tensor.pstar_known = _Known(values, known.group)
                return
        if tensor.is_meta:
            set_values(tensor, values, drawn)

    def instead(self):
        """Returns the result on the meta device of a function that cannot run there, where all that it reads is
        known."""
        result = self.compute()
        for given, known in self.known.values():
            if result is known.values:  # of an operator that writes what is given
                return given
        return _on_meta(result, self.is_drawn())


def moved(tensor):
    """Returns a tensor on the meta device for one in memory."""
    result = tensor.to("meta")
    if isinstance(tensor, torch.nn.Parameter):
        result = torch.nn.Parameter(result, tensor.requires_grad)
    set_values(result, tensor.detach())
    return result


def program_line(frame):
    """Returns the file and line of the program that called; None if PyTorch did."""
    path = frame.f_code.co_filename
    if pathlib.Path(torch.__file__).parent in pathlib.Path(path).parents:
        return None
    return f"{path}, line {frame.f_lineno}"


def _on_meta(result, drawn):
    if isinstance(result, torch.Tensor):
        tensor = torch.empty_like(result, device="meta")
        set_values(tensor, result, drawn)
        return tensor
    if isinstance(result, tuple):
        return tuple(_on_meta(part, drawn) for part in result)
    return result


def chosen_places(index, reads):
    """Returns an index in which the places where masks hold stand for the masks, and numbers for tensors of one, as
    far as these are known. Where an operator reads, masks of unknown values hold everywhere."""
    if isinstance(index, tuple):
        return tuple(place for part in index for place in _places(part, reads))
    places = _places(index, reads)
    return places[0] if len(places) == 1 else tuple(places)


def _places(part, reads):
    if not isinstance(part, torch.Tensor) or not part.is_meta or (part.dtype == torch.bool) == (part.dim() == 0):
        return [part]
    values = values_of(part)
    if values is None and part.dim() > 0 and reads:
        remark("masks of unknown values: elements that are chosen by them are taken to be all that there are")
        return [torch.empty(part.numel(), dtype=torch.int64, device="meta") for _ in range(part.dim())]
    if values is None or values.is_floating_point():
        return [part]
    with no_modes():
        if part.dim() == 0:
            return [values.item()]
        places = values.nonzero(as_tuple=True)
    return list(_on_meta(places, is_drawn(part)))
