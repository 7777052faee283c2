"""The observed iteration: a dispatch mode that sees every ATen operator."""
import contextlib
import functools
import weakref

import torch
from torch.autograd import graph
from torch.utils._python_dispatch import TorchDispatchMode

from ._beside import Loose, other_modules
from ._masters import find_masters

STATE_LISTS = ("exp_avg", "exp_avg_sq", "master")  # the optimizer's states, in its order
FILLS = {"zero_", "fill_"}
OVERWRITES = FILLS | {"copy_", "normal_", "uniform_", "bernoulli_", "random_"}


def tensors_in(value, depth=4):
    """Yields all tensors in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth > 0 and isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(inner, depth - 1)


def _references(key):
    """Returns how many tensors have the storage at this address."""
    return torch._C._storage_Use_Count(key) - _of_wrapper()


@functools.lru_cache(maxsize=None)
def _of_wrapper():
    """Returns how many of a storage's references its object in Python has."""
    tensor = torch.empty(1)
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) - 1


class _Storage:
    """A storage during its life."""

    def __init__(self, nbytes, device, made):
        self.nbytes, self.device = nbytes, device
        self.made = made          # by an operator that we saw, which `maker` names
        self.maker, self.flops = "", 0
        self.kind = None          # None: non-model data; "param", "grad", a list of states; "fixed"
        self.spans = []           # of model data: (begin, end, index of the tensor)
        self.dead = False
        self.reference = None


def _span(tensor):
    """Returns the bytes of its storage that a tensor may touch."""
    width = tensor.element_size()
    begin = tensor.storage_offset() * width
    if tensor.numel() == 0:
        return begin, begin
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return begin, begin + (last + 1) * width


@functools.lru_cache(maxsize=None)
def written_by(function):
    """Returns positions and names of the arguments that an ATen operator writes."""
    return frozenset(key for i, argument in enumerate(function._schema.arguments)
                     if argument.alias_info is not None and argument.alias_info.is_write
                     for key in (i, argument.name))


@functools.lru_cache(maxsize=None)
def reads_values(function):
    """Whether an ATen operator reads its arguments, and not only their types and shapes."""
    name = function._overloadpacket.__name__
    return not name.endswith("_like") and not name.startswith("new_")


def divided(function, arguments, keywords):
    """Yields the arguments of an operator on lists of tensors, such as _foreach_mul_, for one tensor
    after the other: it computes the same for each. Yields what is given for other operators."""
    count = len(arguments[0]) if arguments and isinstance(arguments[0], (list, tuple)) else 0
    if "_foreach_" not in function._overloadpacket.__name__ or count < 2:
        yield arguments, keywords
        return
    for i in range(count):
        def part(value):
            return [value[i]] if isinstance(value, (list, tuple)) and len(value) == count else value
        yield tuple(map(part, arguments)), {name: part(v) for name, v in keywords.items()}


def _count_flops(function, arguments, keywords, result):
    """Returns FLOPs of matrix products, convolutions and attention; 0 for others."""
    from torch.utils.flop_counter import flop_registry
    count = flop_registry.get(function._overloadpacket)
    try:
        return int(count(*arguments, **keywords, out_val=result)) if count else 0
    except Exception:
        return 0


class Packed:
    """What autograd saves while it is observed: a tensor, and its storage."""

    def __init__(self, tensor, storage):
        self.tensor, self.storage = tensor, storage


class Observer(TorchDispatchMode):
    """Sees every ATen operator of forward and backward in every thread."""

    def __init__(self, session):
        super().__init__()
        if torch._C._functorch.peek_interpreter_stack() is not None:
            raise ValueError("the model's forward runs within torch.func.grad or another transform, "
                             "which hides what it computes: let backward() compute the gradients "
                             "while collecting")
        _of_wrapper()  # makes a tensor, which is not the program's
        self.session = session
        self.segments = []
        self.log = []      # (segment, what, of what): "alloc", "free", "save", "release", "restore"
                           # of a storage; "work"
        self.kept = {}     # storages that autograd and the program have: (address, tensors saved)
        self.packs = []    # what autograd saves: (storage, type, shape)
        self.saves = graph.saved_tensors_hooks(self.pack, self.unpack)
        self.disable = graph.disable_saved_tensors_hooks
        self.paused = False  # torch.func has run
        self.live = {}     # storages by the address of their C++ object
        self.seen = []     # all storages
        self.hooks = []
        self.remarks = []
        self.sparse = set()  # indices of tensors with sparse gradients
        self.entered = False
        self.followed = False
        self.failure = None
        self.sum = None    # the last operator, if autograd may have added gradients by it: (the
                           # first one's storage, the place of the sum's "alloc" in the log)
        self.tensors, self.wholes, self.masters = model_tensors(session.parameters(), session.optimizers,
                                                                self.remarks)
        self.widths = {"param": {}, "grad": {}}  # list: by tensor, bytes
        self.versions = {}  # of gradients when the step has ended, by the id of the parameter
        self.index = {}    # of parameters' tensors, by the id of the parameter
        for index, (name, parameters) in enumerate(self.tensors):
            for parameter in parameters:
                self.index[id(parameter)] = index
            self.claim(parameters[0], "param", index)
            self.on_gradient(index, parameters[0])
            for parameter in parameters:
                if parameter.requires_grad and parameter.is_leaf:
                    self.hooks.append(parameter.register_post_accumulate_grad_hook(
                        functools.partial(self.on_gradient, index)))
        self.master_of = {id(copy): index for copy, index in self.masters}
        for index, _, state, kind in self.find_states():  # a step may put others in their place
            self.claim(state, kind or "fixed", index if kind else None)
        self.fixed = []    # (name, storage): what lives on, beside model data
        for name, buffer in session.model.named_buffers():
            storage = self.claim(buffer, "fixed")
            if storage is not None:
                self.fixed.append((name, storage))
        devices = [p[0].device for _, p in self.tensors for _ in range(p[0].numel() > 0)]
        self.device = max(set(devices), key=devices.count) if devices else torch.device("cpu")
        self.fix_other_modules()
        self.loose = Loose(self)

    def fix_other_modules(self):
        """Counts what modules beside the model hold on its device: teachers, reference models,
        moving averages. They may do nothing within the iteration, and are there all the same."""
        known = {storage for _, *storages in self.fixed for storage in storages}
        for module in other_modules(self.session.model):
            storages = []
            for tensor in (*module.parameters(), *module.buffers()):
                storage = self.claim(tensor, "fixed") if tensor.device == self.device else None
                if storage is not None and storage.kind == "fixed" and storage not in known:
                    known.add(storage)
                    storages.append(storage)
            if any(storage.nbytes for storage in storages):
                self.fixed.append((f"{type(module).__name__} beside the model ({len(storages)} "
                                   "tensors)", *storages))

    def enter(self):
        if torch._C._len_torch_dispatch_stack() > 0:
            raise RuntimeError("another dispatch mode is active where the iteration begins")
        self.__enter__()
        self.sees_saves = hasattr(torch._C, "_storage_Use_Count") and not has_saving_hooks()
        if self.sees_saves:
            self.saves.__enter__()
            graph.disable_saved_tensors_hooks = self.without_saves
        self.entered = True

    def leave(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()
        if not self.entered:
            return
        if self.sees_saves:
            self.saves.__exit__()
            graph.disable_saved_tensors_hooks = self.disable
        self.entered = False
        if within_compiled_call():  # which has the mode again when it returns
            handle = self.session.model.register_forward_pre_hook(
                lambda *_: (handle.remove(), pop_mode(self)) and None)
        else:
            pop_mode(self)

    @contextlib.contextmanager
    def without_saves(self, *arguments):
        """Our hooks pause where the program forbids hooks, as torch.func does."""
        self.paused = True
        top = torch._C._autograd._top_saved_tensors_default_hooks(True)
        ours = self.entered and top is not None and top[0] == self.pack
        if ours:
            self.saves.__exit__()
        try:
            with self.disable(*arguments):
                yield
        finally:
            if ours:
                self.saves.__enter__()

    def follow(self, begins):
        """Activates the mode in a thread of the program that calls backward. In autograd's threads
        it is active already."""
        if begins and torch._C._len_torch_dispatch_stack() == 0:
            self.__enter__()
            self.followed = True
        elif not begins and self.followed:
            self.__exit__(None, None, None)
            self.followed = False

    def begin(self, segment):
        if self.failure is not None:
            raise self.failure
        self.find_released()
        self.sum = None
        self.segments.append(segment)

    def find_released(self):
        """Notes which storages autograd alone has by now."""
        for storage, (key, count) in list(self.kept.items()):
            if storage.dead or _references(key) <= count:
                del self.kept[storage]
                self.log.append((self.segment(), "release", storage))

    def segment(self):
        return len(self.segments) - 1

    def storage(self, tensor, made=False):
        """Returns the storage of a tensor; None if it has none (sparse tensors)."""
        try:
            storage = tensor.untyped_storage()
            key = storage._cdata
        except (NotImplementedError, RuntimeError):
            return None
        found = self.live.get(key)
        if found is None:
            found = _Storage(storage.nbytes(), storage.device, made)
            found.reference = weakref.ref(storage, functools.partial(self.on_death, key, found))
            self.live[key] = found
            self.seen.append(found)
            if made:
                self.log.append((self.segment(), "alloc", found))
        return found

    def pack(self, tensor):
        """Called with each tensor that autograd saves, unless hooks of the program's own are
        active. A node that has its own result must not keep it alive with its node."""
        storage = self.storage(tensor)
        self.packs.append((storage, tensor.dtype, tensor.shape))
        if storage is not None:
            plain = type(tensor) is torch.Tensor and not tensor.is_conj() and not tensor.is_neg()
            self.log.append((self.segment(), "save" if plain else "hide", storage))
            key = tensor.untyped_storage()._cdata
            self.kept[storage] = key, self.kept.get(storage, (key, 0))[1] + 1
        return Packed(tensor.detach(), storage)

    def unpack(self, packed):
        if packed.storage is not None and self.entered:
            self.log.append((self.segment(), "restore", packed.storage))
        return packed.tensor

    def on_death(self, key, storage, _):
        storage.dead = True
        if self.live.get(key) is storage:
            del self.live[key]
        if self.session.inside and self.session.mode == "observe":
            place = self.sum[1] if self.sum is not None and self.sum[0] is storage else len(self.log)
            self.log.insert(place, (self.segment(), "free", storage))

    def claim(self, tensor, kind, index=None):
        """Marks a tensor's storage as one of that kind, with the bytes of a tensor of the model."""
        storage = self.storage(tensor)
        if storage is None:
            return None
        if storage.kind is None or kind != "fixed":
            storage.kind = kind
        if index is not None:
            span = (*_span(tensor), index)
            if span not in storage.spans:
                storage.spans.append(span)
        return storage

    def on_gradient(self, index, parameter):
        if parameter.grad is None:
            return
        if self.claim(parameter.grad, "grad", index) is not None:
            self.widths["grad"][index] = bytes_of(parameter.grad)
        elif index not in self.sparse:
            self.sparse.add(index)
            self.remarks.append(f"sparse gradients: that of {self.tensors[index][0]} is not "
                                "counted")

    def claim_gradients(self, optimizer):
        """Sees the gradients that a step is going to use: a hook of the program may have made
        them, and the program may remove them before the iteration ends."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) in self.index:
                    self.on_gradient(self.index[id(parameter)], parameter)
                elif parameter.grad is not None and id(parameter) not in self.master_of:
                    for index, part in self.parts(parameter, parameter.grad):
                        self.claim(part, "grad", index)
                        self.widths["grad"][index] = bytes_of(part)

    def tensor_of(self, parameter):
        """Returns the index of the tensor that an optimizer trains by this parameter; None if it is none of the
        model's."""
        return self.index.get(id(parameter), self.master_of.get(id(parameter)))

    def parts(self, parameter, tensor):
        """Yields (index, part) of a gradient or state of an optimizer's parameter, which may be
        that of several tensors of the model."""
        if self.tensor_of(parameter) is not None:
            yield self.tensor_of(parameter), tensor
        for index, first, end in self.wholes.get(id(parameter), ()):
            yield index, tensor.detach().view(-1)[first:end]

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        result = function(*arguments, **keywords)
        if self.entered and self.session.mode is not None:
            try:
                self.note(function, arguments, keywords, result)
            except Exception as error:  # the program must not get it: the next hook does
                self.failure = self.failure or error
        return result

    def note(self, function, arguments, keywords, result):
        self.sum = None
        parts = list(divided(function, arguments, keywords))
        for i, (some, named) in enumerate(parts):
            self.note_part(function, some, named,
                           result[i:i + 1] if isinstance(result, (list, tuple))
                           and len(parts) > 1 else result)

    def note_part(self, function, arguments, keywords, result):
        written, name = written_by(function), function._overloadpacket.__name__
        reads = reads_values(function)
        touches, given = [], set()
        for place, value in [*enumerate(arguments), *keywords.items()]:
            for tensor in tensors_in(value):
                storage = self.storage(tensor)
                if storage is not None:
                    given.add(storage)
                    mode = "read" if place not in written else "update"
                    if mode == "update" and (place == "out" or name in OVERWRITES):
                        mode = "fill" if name in FILLS else "overwrite"
                    if mode == "read" and not reads:
                        continue
                    touches.append((storage, *_span(tensor), mode))
        made, results = [], 0
        flops = _count_flops(function, arguments, keywords, result)
        for tensor in tensors_in(result):
            results += 1
            storage = self.storage(tensor, made=True)
            if storage is not None and storage not in given:
                storage.maker, storage.flops = name, flops
                how = "overwrite" if given and reads else "fill"
                touches.append((storage, *_span(tensor), how))
                made.append(storage)
        if function is torch.ops.aten.add.Tensor and made and \
                torch._C._current_graph_task_id() != -1 and not torch.is_grad_enabled():
            self.note_sum(arguments[0])
        if touches and (made or written or not results):  # else it has made but a view
            self.log.append((self.segment(), "work", (touches, flops)))

    def note_sum(self, first):
        """Where several operators use a tensor, autograd adds the later gradients to the first one
        in its place, unless something else has the first one, too. While a dispatch mode is active
        it makes a new sum instead. If the first one goes at once, the sum takes its bytes."""
        self.sum = self.storage(first), len(self.log) - 1

    def finish(self):
        """Called when the iteration has ended and the optimizers have their states."""
        for index, (_, parameters) in enumerate(self.tensors):
            self.widths["param"][index] = bytes_of(parameters[0])
            for parameter in parameters:
                self.on_gradient(index, parameter)
                self.versions[id(parameter)] = _version(parameter.grad)
        self.loose.fix()
        self.states = {}   # list: the states' names in the optimizers
        others = {}        # by name: states that no list has
        for index, key, state, kind in self.find_states():
            if kind is None:
                others.setdefault(key, []).append(state)
                continue
            self.states.setdefault(kind, set()).add(key)
            self.widths.setdefault(kind, {})[index] = bytes_of(state)
            self.claim(state, kind, index)
        for key, states in others.items():
            storages = [storage for storage in (self.claim(state, "fixed") for state in states)
                        if storage is not None]
            if storages:
                self.fixed.append((f"optimizer's {key} ({len(storages)} tensors)", *storages))

    def is_zeroed(self, parameter):
        """Whether the gradient is zero when the next iteration begins. On the meta device, where it
        has no values, one that was written since the step counts as zero."""
        gradient = parameter.grad
        if gradient is None or gradient.is_sparse:
            return False
        if gradient.is_meta:
            return _version(gradient) != self.versions[id(parameter)]
        return not gradient.any()

    def find_states(self):
        """Yields (index of the tensor, name, state, list). The states of a parameter's shape go to
        the lists in their order in the optimizer, whatever their names; others to none."""
        for copy, index in self.masters:
            yield index, "master", copy, "master"
        for optimizer in with_inner(self.session.optimizers):
            for parameter, states in getattr(optimizer, "state", {}).items():
                free = [kind for kind in STATE_LISTS if kind != "master" or id(parameter) not in self.master_of]
                known = self.tensor_of(parameter) is not None or id(parameter) in self.wholes
                for key, state in states.items() if known else ():
                    if not isinstance(state, torch.Tensor):
                        continue
                    if key == "step" or state.numel() != parameter.numel() or not free:
                        yield self.tensor_of(parameter), key, state, None
                        continue
                    kind = free.pop(-1 if "master" in key else 0)
                    for index, part in self.parts(parameter, state):
                        yield index, key, part, kind


def with_inner(optimizers):
    """Returns the optimizers, and those that they have as attributes, which may have states of their own."""
    inner = [value for optimizer in optimizers for value in vars(optimizer).values()
             if issubclass(type(value), torch.optim.Optimizer)]
    return list({id(optimizer): optimizer for optimizer in (*optimizers, *inner)}.values())


def pop_mode(mode):
    """Ends a dispatch mode. Those that the program has entered since then stay."""
    from torch.utils._python_dispatch import _pop_mode, _push_mode
    above = []
    while torch._C._len_torch_dispatch_stack() > 0:
        top = _pop_mode()
        if top is mode:
            break
        above.append(top)
    for other in reversed(above):
        _push_mode(other)


def within_compiled_call():
    """Whether a function of torch.compile is running, also where its code is not compiled."""
    return torch._C._dynamo.eval_frame.get_eval_frame_callback() is not None


def has_saving_hooks():
    """Whether the program has hooks of its own on what autograd saves, which ours would hide."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def _version(gradient):
    """Returns what changes when something writes a gradient, or puts another one in its place."""
    return None if gradient is None else (id(gradient), gradient._version)


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def model_tensors(named, optimizers, remarks):
    """Returns [(name, the parameters that share its bytes)] for the model's parameters with their
    names. Trained ones come first, in the model's order, so that chunks of gradients and states hold
    nothing else; then frozen ones; then those that only an optimizer has, but no copies of others. Returns
    also what a parameter consists of if others fill its memory: by its id, (index, first element, end);
    and [(copy, index)] of the copies that an optimizer trains."""
    found = list(named)
    if any(hasattr(parameter, "to_local") for _, parameter in found):
        raise ValueError("the parameters are shards (DTensor, as FSDP2's fully_shard makes them), "
                         "whose gathering is not followed: collect the loop without fully_shard, "
                         "and let pstar-plan --gpus share the trace's parameters among ranks")
    masters = find_masters(found, optimizers)
    known = {id(parameter) for _, parameter in found} | {id(copy) for copy, _ in masters}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in known:
                    known.add(id(parameter))
                    found.append((f"parameter {len(known) - 1} of the optimizer", parameter))
    shared = {}
    for name, parameter in found:
        if parameter.numel() > 0:
            key = parameter.untyped_storage()._cdata, *_span(parameter)
            shared.setdefault(key, []).append((name, parameter))
    by_storage = {}
    for key in shared:
        by_storage.setdefault(key[0], []).append(key)
    parts = {key: inner for key in shared if (inner := _fillers(key, by_storage[key[0]]))}
    tensors = []
    for key, same in shared.items():
        if key in parts:
            continue
        tensors.append((same[0][0], [parameter for _, parameter in same]))
        if len(same) > 1:
            remarks.append(f"{', '.join(name for name, _ in same)} lie in the same bytes, and are "
                           "one tensor")
    tensors.sort(key=lambda tensor: not tensor[1][0].requires_grad)
    index = {id(parameters[0]): i for i, (_, parameters) in enumerate(tensors)}
    wholes = {}
    for key, inner in parts.items():
        name, whole = shared[key][0]
        remarks.append(f"{name} consists of {len(inner)} other parameters, which stand for it")
        width = whole.element_size()
        wholes[id(whole)] = [(index[id(shared[part][0][1])], (part[1] - key[1]) // width,
                              (part[2] - key[1]) // width) for part in inner]
    if masters:
        remarks.append("copies of parameters that the optimizer trains: they are the masters, and the way back from "
                       "them, after the step, is part of the updates")
    of = {id(parameter): i for i, (_, parameters) in enumerate(tensors) for parameter in parameters}
    return tensors, wholes, [(copy, of[id(parameter)]) for copy, parameter in masters]


def _fillers(key, keys):
    """Returns those places of a storage's parameters that fill another one's place without a gap,
    or nothing. A place is a storage, a first byte and an end."""
    _, place, end = key
    found = sorted(other for other in keys
                   if other != key and place <= other[1] and other[2] <= end)
    for _, first, after in found:
        if first != place:
            return []
        place = after
    return found if place == end else []
