"""Annotates a PyTorch training loop for pstar-collect.

    import pstar_torch
    pstar_torch.annotate(model, optimizer)      # before the loop

    pstar-collect -o run.pstar -- python3 train.py

One file that depends only on torch; `pip install ./collect` installs it. Without pstar-collect
annotate() does nothing, so that the loop can keep the two lines. With it, the
iteration before the recorded ones is observed: a dispatch mode sees every ATen operator, and
identifies by storages which parameters, gradients and optimizer states each one touches, and when
activations come and go. This becomes the declarations of docs/formats.md. The recorded iterations
only have hooks that mark where operators begin; after them all hooks are removed.

    python3 -m pstar_torch snapshot.pickle -o snapshot.json

converts a snapshot of torch.cuda.memory's history to a file for pstar-trace import.
"""
import argparse
import collections
import contextlib
import ctypes
import functools
import io
import json
import os
import pickle
import re
import resource
import sys
import threading
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

DECLARATION, ITERATION, OPERATOR = 1, 2, 3  # categories of the domain "pstar"
STATE_LISTS = ("exp_avg", "exp_avg_sq", "master")  # the optimizer's states, in its order
FILLS = {"zero_", "fill_"}
OVERWRITES = FILLS | {"copy_", "normal_", "uniform_", "bernoulli_", "random_"}
PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def annotate(model, *optimizers):
    """Annotates the iterations that train `model`. Each ends with a step of the last optimizer.

    Call it once before the first iteration, when the model is on its device and the optimizers
    have its parameters. Never fails: an error is printed once, and training goes on.
    """
    library, window = (os.environ.get(name)
                       for name in ("NVTX_INJECTION64_PATH", "PSTAR_COLLECT_ITERATIONS"))
    if not library or not window or window == "all":
        return
    try:
        if any(session.mode is not None for session in _sessions):
            raise ValueError("annotate must be called only once")
        first, end = map(int, window.split(":"))
        if first == 0:
            raise ValueError("iteration 0 cannot be recorded, because the iteration before the "
                             "recorded one is observed; use --iterations 1:2")
        _Session(_Nvtx(library), model, optimizers, first, end)
    except Exception as error:
        _say(error)


def _say(error):
    print(f"pstar_torch: {type(error).__name__}: {error}: training goes on unannotated",
          file=sys.stderr)


# ---- NVTX: the work of its header in a C program -------------------------------------------------


class _Attributes(ctypes.Structure):
    """nvtxEventAttributes_t"""
    _fields_ = [("version", ctypes.c_uint16), ("size", ctypes.c_uint16),
                ("category", ctypes.c_uint32), ("color_type", ctypes.c_int32),
                ("color", ctypes.c_uint32), ("payload_type", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("payload", ctypes.c_uint64),
                ("message_type", ctypes.c_int32), ("message", ctypes.c_void_p)]


_GetTable = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p),
                             ctypes.POINTER(ctypes.c_uint))
_GetExport = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)


class _Callbacks(ctypes.Structure):
    """NvtxExportTableCallbacks"""
    _fields_ = [("size", ctypes.c_size_t), ("get_table", _GetTable)]


class _Nvtx:
    """The domain "pstar" in the tool that NVTX_INJECTION64_PATH names."""
    CALLBACKS = 1                # NVTX_ETID_CALLBACKS
    SIZES = {1: 16, 5: 16}       # functions of the modules CORE and CORE2
    PAYLOAD_UINT64, ASCII, REGISTERED = 1, 1, 3
    kept = []                    # the tool has pointers to all of it until the process ends

    def __init__(self, library):
        tables = {}
        for module, size in self.SIZES.items():
            slots = (ctypes.c_void_p * size)()
            table = (ctypes.c_void_p * (size + 1))(
                *(ctypes.addressof(slots) + i * ctypes.sizeof(ctypes.c_void_p)
                  for i in range(size)))
            tables[module] = slots, table

        def get_table(module, table, size):
            if module not in tables:
                return 0
            table[0] = ctypes.addressof(tables[module][1])
            size[0] = self.SIZES[module]
            return 1

        callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _GetTable(get_table))
        export = _GetExport(
            lambda which: ctypes.addressof(callbacks) if which == self.CALLBACKS else None)
        tool = ctypes.CDLL(library)
        self.kept.append((tables, callbacks, export, tool))
        initialize = tool.InitializeInjectionNvtx2
        initialize.argtypes = [_GetExport]
        if not initialize(export):
            raise RuntimeError(f"{library} records nothing")
        slots = tables[5][0]
        attributes = ctypes.POINTER(_Attributes)

        def function(slot, result, *arguments):
            if not slots[slot]:
                raise RuntimeError(f"{library} lacks function {slot} of NVTX's domains")
            return ctypes.CFUNCTYPE(result, *arguments)(slots[slot])

        handle = ctypes.c_void_p
        self._mark = function(1, None, handle, attributes)
        name_category = function(8, None, handle, ctypes.c_uint32, ctypes.c_char_p)
        self._register = function(10, handle, handle, ctypes.c_char_p)
        self.domain = function(12, handle, ctypes.c_char_p)(b"pstar")
        # Called around every operator, so without Python frames in between.
        self.start, self.end, self.push, self.pop = (
            functools.partial(call, self.domain) for call in (
                function(2, ctypes.c_uint64, handle, attributes),
                function(3, None, handle, ctypes.c_uint64),
                function(4, ctypes.c_int, handle, attributes), function(5, ctypes.c_int, handle)))
        for category, name in enumerate((b"declaration", b"iteration", b"operator"), 1):
            name_category(self.domain, category, name)

    def event(self, category, text, payload):
        """Returns attributes that can be passed to push and start repeatedly."""
        message = self._register(self.domain, text.encode())
        return _Attributes(3, ctypes.sizeof(_Attributes), category, 0, 0, self.PAYLOAD_UINT64, 0,
                           payload, self.REGISTERED, message)

    def declare(self, text, payload=0):
        line = text.replace("\n", " ").encode()
        attributes = _Attributes(3, ctypes.sizeof(_Attributes), DECLARATION, 0, 0,
                                 self.PAYLOAD_UINT64, 0, payload, self.ASCII,
                                 ctypes.cast(ctypes.c_char_p(line), ctypes.c_void_p))
        self._mark(self.domain, attributes)


# ---- The hooks and their view of an iteration ----------------------------------------------------


class _Segment:
    """The work between two events of the hooks."""

    def __init__(self, name, phase, module, micro_batch, inside=True):
        self.name, self.phase, self.module = name, phase, module
        self.micro_batch = micro_batch
        self.inside = inside  # of a module; what runs outside is divided by parameters
        self.thread = threading.get_ident()


def _guarded(hook):
    """Keeps our failures away from the program."""
    @functools.wraps(hook)
    def call(self, *arguments, **keywords):
        if torch.compiler.is_compiling():  # in compiled code modules have no boundaries
            return
        if self.mode is not None:
            try:
                hook(self, *arguments, **keywords)
            except Exception as error:
                _say(error)
                self.close()
    return call


_sessions = weakref.WeakSet()


def _forget_sessions():
    for session in _sessions:
        session.mode = None


os.register_at_fork(after_in_child=_forget_sessions)  # the child is not traced


class _Session:
    """From annotate() to the end of the window. `mode` is the purpose of the current iteration:
    "wait", "observe" or "record"; None after the window."""

    def __init__(self, nvtx, model, optimizers, first, end):
        self.nvtx, self.first, self.end = nvtx, first, end
        self.model, self.optimizers = model, optimizers
        self.mode = "wait"
        _sessions.add(self)
        self.iteration = -1       # the current one, or the last
        self.inside = False       # an iteration
        self.stepping = False     # an optimizer
        self.unseen = 0           # steps before the first forward that was seen
        self.observer = self.observed = None
        self.open = None          # the operator's range: thread, id of a start-end range or None
        self.names, self.handles, self.installed = _hooked_modules(model), [], False
        self.whole = nvtx.event(ITERATION, "iteration", 0)
        self.backward = torch.autograd.backward
        if not optimizers:
            raise ValueError("annotate(model, optimizer): the optimizer is missing")
        for i, optimizer in enumerate(optimizers):
            self.handles.append(optimizer.register_step_pre_hook(
                functools.partial(self.before_step, i)))
            self.handles.append(optimizer.register_step_post_hook(
                functools.partial(self.after_step, i)))
        if first == 1:
            self.install()

    def __reduce__(self):
        """Copies of the model, in memory or in a file, get hooks that do nothing."""
        return _inert_session, ()

    def install(self):
        """Adds the costly hooks, used from the observed iteration on."""
        for index, (module, _) in enumerate(self.names):
            self.handles.append(module.register_forward_pre_hook(
                functools.partial(self.before_forward, index), with_kwargs=True))
            self.handles.append(module.register_forward_hook(
                functools.partial(self.after_forward, index), always_call=True))
        self.installed = True

        @functools.wraps(self.backward)
        def backward(*arguments, **keywords):
            nested = torch._C._current_graph_task_id() != -1
            if not nested:
                self.backward_event("begin")
            result = self.backward(*arguments, **keywords)
            if not nested:
                self.backward_event("end")
            return result
        torch.autograd.backward = self.patch = backward

    def close(self):
        self.mode = None
        if self.observer is not None:
            self.observer.leave()
        for handle in self.handles:
            handle.remove()
        if self.installed and torch.autograd.backward is self.patch:
            torch.autograd.backward = self.backward

    # Each hook is an event with a key as its name. In the observed iteration it begins a segment;
    # in the recorded ones it begins the operator made from that segment.

    def event(self, key, make):
        position = self.position
        self.position += 1
        if self.mode == "observe":
            self.keys.append(key)
            self.observer.begin(make())
        elif not self.diverged:
            if position >= len(self.keys) or self.keys[position] != key:
                self.diverge(f"{key} came in place of "
                             f"{self.keys[position] if position < len(self.keys) else 'the end'}")
            elif self.observed.events[position] is not None:
                self.switch(self.observed.events[position])

    def diverge(self, what):
        self.diverged = True
        self.switch(-1)
        print(f"pstar_torch: iteration {self.iteration} differs from the observed one "
              f"({what}): the operators after this point have no times", file=sys.stderr)

    def switch(self, moment):
        """Ends the open operator and begins that of `moment`; -1 begins none."""
        if self.open is not None:
            thread, range_id = self.open
            if range_id is not None:
                self.nvtx.end(range_id)
            elif thread == threading.get_ident():
                self.nvtx.pop()
            else:
                raise RuntimeError("an operator ends in another thread than it began in")
            self.open = None
        if moment >= 0:
            event, crosses = self.observed.ranges[moment]
            if crosses:
                self.open = None, self.nvtx.start(event)
            else:
                self.nvtx.push(event)
                self.open = threading.get_ident(), None

    def begin_iteration(self, given):
        self.inside = True
        self.iteration += 1
        self.whole.payload = self.iteration
        self.position, self.micro_batch, self.went_back = 0, 0, False
        self.stack, self.last_backward, self.diverged = [], None, False
        if self.iteration == self.first - 1:
            self.mode, self.keys = "observe", []
            self.observer = _Observer(self)
            self.observer.enter()
            self.batch, self.sequence = _batch_of(given)
        elif self.iteration == self.first:
            self.observed = _Declarations(self.observer, self)
            self.mode = "record"
        self.nvtx.push(self.whole)

    def end_iteration(self):
        self.inside = False
        if self.mode == "observe":
            self.observer.finish()
            self.observer.leave()
        else:
            if not self.diverged and self.position != len(self.keys):
                self.diverge(f"it ended after {self.position} of {len(self.keys)} events")
            self.switch(-1)
        self.nvtx.pop()
        if self.iteration + 1 == self.end:
            self.close()

    @_guarded
    def before_forward(self, index, module, arguments, keywords):
        if self.stepping:
            raise RuntimeError("the optimizer's step has a closure")
        if not self.inside:
            if not torch.is_grad_enabled():
                return  # an evaluation
            self.begin_iteration((arguments, keywords))
        again = torch._C._current_graph_task_id() != -1
        if not again:
            if not self.stack and self.went_back:
                self.micro_batch += 1
                self.went_back = False
            for given in (*arguments, *keywords.values()):
                self.mark(given)
        self.stack.append((index, again))
        self.event(("forward", index), lambda: self.forward_segment(index, again))

    @_guarded
    def after_forward(self, index, module, arguments, result):
        if not self.inside:
            return
        while self.stack and self.stack[-1][0] != index:
            self.stack.pop()
        again = self.stack.pop()[1] if self.stack else False
        if not again:
            self.mark(result)
        self.event(("after", index), lambda: self.resumed_segment(again))

    def forward_segment(self, index, again):
        name = self.names[index][1]
        return _Segment(f"recompute {name}" if again else f"forward {name}",
                        "backward" if again else "forward", name, self.micro_batch)

    def resumed_segment(self, again):
        """Returns the segment after a module: that of its caller, or of the backward that had to
        recompute it, or of the work outside of all modules."""
        if self.stack and self.stack[-1][1] == again:
            return self.forward_segment(*self.stack[-1])
        if again and self.last_backward is not None:
            return self.backward_segment(self.last_backward)
        return _Segment("forward loss", "forward", "", self.micro_batch, inside=False)

    def backward_segment(self, module):
        return _Segment(f"backward {module}", "backward", module, self.micro_batch)

    def mark(self, value):
        """Marks the tensors' nodes: when backward reaches them, its work belongs to the segment
        that made the tensors."""
        position = self.position - 1
        if position < 0:
            return
        for tensor in (value,) if isinstance(value, torch.Tensor) else _tensors(value):
            node = tensor.grad_fn
            if node is None or "pstar" in node.metadata:
                continue
            node.metadata["pstar"] = True
            module = self.observer.segments[position].module if self.mode == "observe" else None
            node.register_prehook(functools.partial(self.on_node, self.iteration, position, module))

    @_guarded
    def on_node(self, iteration, position, module, gradients):
        if not self.inside or iteration != self.iteration:
            return
        self.last_backward = module or "loss"
        self.event(("node", position), lambda: self.backward_segment(self.last_backward))

    @_guarded
    def backward_event(self, which):
        if not self.inside:
            return
        if self.mode == "observe":
            self.observer.follow(which == "begin")
        self.stack.clear()
        self.went_back, self.last_backward = True, "loss"
        self.event(("backward", which), lambda: self.backward_segment("loss") if which == "begin"
                   else _Segment("update gradients", "update", "", 0, inside=False))

    @_guarded
    def before_step(self, i, optimizer, arguments, keywords):
        self.stepping = True
        if self.inside:
            self.event(("step", i), lambda: _Segment("update", "update", "", 0, inside=False))

    @_guarded
    def after_step(self, i, optimizer, arguments, keywords):
        self.stepping = False
        last = i + 1 == len(self.optimizers)
        if self.mode == "wait" and not self.installed:
            if not last:
                return
            self.iteration += 1  # counted by the collector, too
            self.nvtx.push(self.whole)
            self.nvtx.pop()
            if self.iteration + 2 == self.first:
                self.install()
        elif self.inside:
            self.event(("stepped", i),
                       lambda: _Segment("update gradients", "update", "", 0, inside=False))
            if last:
                self.end_iteration()
        elif last and self.mode == "wait":
            self.unseen += 1  # one alone may be a step too many of the iteration before
            if self.unseen == 2:
                raise RuntimeError("the optimizer has stepped twice, and no forward of the model "
                                   "was seen before (in compiled code there are no modules: train "
                                   "without torch.compile while collecting)")


def _inert_session():
    session = _Session.__new__(_Session)
    session.mode = None
    return session


def _hooked_modules(model):
    """Yields (module, name), except within compiled modules, which hooks would change."""
    found, hidden = [], set()
    for name, module in model.named_modules():
        if id(module) in hidden:
            continue
        found.append((module, name or type(module).__name__))
        if getattr(module, "_compiled_call_impl", None) is not None or hasattr(module, "_orig_mod"):
            hidden.update(id(inner) for inner in module.modules() if inner is not module)
    return found


def _batch_of(given):
    """Returns sequences and tokens of the model's first input; 1 token if it has no sequence."""
    tensor = next(_tensors(given), None)
    shape = tensor.shape if tensor is not None else ()
    tokens = len(shape) == 3 or (len(shape) == 2 and not tensor.is_floating_point())
    return max(1, shape[0]) if shape else 1, max(1, shape[1]) if tokens else 1


def _tensors(value, depth=4):
    """Yields all tensors in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth > 0 and isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _tensors(inner, depth - 1)


# ---- The observed iteration ----------------------------------------------------------------------


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
def _written(function):
    """Returns positions and names of the arguments that an ATen operator writes."""
    return frozenset(key for i, argument in enumerate(function._schema.arguments)
                     if argument.alias_info is not None and argument.alias_info.is_write
                     for key in (i, argument.name))


def _count_flops(function, arguments, keywords, result):
    """Returns FLOPs of matrix products, convolutions and attention; 0 for others."""
    from torch.utils.flop_counter import flop_registry
    count = flop_registry.get(function._overloadpacket)
    try:
        return int(count(*arguments, **keywords, out_val=result)) if count else 0
    except Exception:
        return 0


class _Observer(TorchDispatchMode):
    """Sees every ATen operator of forward and backward in every thread."""

    def __init__(self, session):
        super().__init__()
        self.session = session
        self.segments = []
        self.log = []      # (segment, what, of what): "alloc", "free" of a storage; "work"
        self.live = {}     # storages by the address of their C++ object
        self.seen = []     # all storages
        self.hooks = []
        self.remarks = []
        self.entered = False
        self.followed = False
        self.failure = None
        self.tensors = _model_tensors(session.model, session.optimizers, self.remarks)
        self.index = {}    # of parameters' tensors, by the id of the parameter
        for index, (name, parameters) in enumerate(self.tensors):
            for parameter in parameters:
                self.index[id(parameter)] = index
            self.claim(parameters[0], "param", index)
            if parameters[0].grad is not None:
                self.claim(parameters[0].grad, "grad", index)
            for parameter in parameters:
                if parameter.requires_grad and parameter.is_leaf:
                    self.hooks.append(parameter.register_post_accumulate_grad_hook(
                        functools.partial(self.on_gradient, index)))
        self.fixed = []    # (name, storage): what lives on, beside model data
        for name, buffer in session.model.named_buffers():
            storage = self.claim(buffer, "fixed")
            if storage is not None:
                self.fixed.append((name, storage))
        devices = [p[0].device for _, p in self.tensors for _ in range(p[0].numel() > 0)]
        self.device = max(set(devices), key=devices.count) if devices else torch.device("cpu")

    def enter(self):
        if torch._C._len_torch_dispatch_stack() > 0:
            raise RuntimeError("another dispatch mode is active where the iteration begins")
        self.__enter__()
        self.entered = True

    def leave(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()
        if not self.entered:
            return
        self.entered = False
        from torch.utils._python_dispatch import _pop_mode, _push_mode
        above = []  # modes that the program has entered within the iteration stay
        while torch._C._len_torch_dispatch_stack() > 0:
            mode = _pop_mode()
            if mode is self:
                break
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)

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
        self.segments.append(segment)

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

    def on_death(self, key, storage, _):
        storage.dead = True
        if self.live.get(key) is storage:
            del self.live[key]
        if self.session.inside and self.session.mode == "observe":
            self.log.append((self.segment(), "free", storage))

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
        if parameter.grad is not None and self.claim(parameter.grad, "grad", index) is None:
            self.remarks.append(f"sparse gradients: that of {self.tensors[index][0]} is not "
                                "counted")

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
        written, name = _written(function), function._overloadpacket.__name__
        reads = not name.endswith("_like") and not name.startswith("new_")
        touches, given = [], set()
        for place, value in [*enumerate(arguments), *keywords.items()]:
            for tensor in _tensors(value):
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
        for tensor in _tensors(result):
            results += 1
            storage = self.storage(tensor, made=True)
            if storage is not None and storage not in given:
                storage.maker, storage.flops = name, flops
                how = "overwrite" if given and reads else "fill"
                touches.append((storage, *_span(tensor), how))
                made.append(storage)
        if touches and (made or written or not results):  # else it has made but a view
            self.log.append((self.segment(), "work", (touches, flops)))

    def finish(self):
        """Called when the iteration has ended and the optimizers have their states."""
        self.widths = {"param": {}, "grad": {}}  # list: by tensor, bytes
        for index, (name, parameters) in enumerate(self.tensors):
            self.widths["param"][index] = _bytes(parameters[0])
            for parameter in parameters:
                if parameter.grad is not None and self.claim(parameter.grad, "grad", index):
                    self.widths["grad"][index] = _bytes(parameter.grad)
        self.states = {}   # list: the state's name in the optimizer
        lists = iter(STATE_LISTS)
        for key, found in self.find_states().items():
            fitting = [(index, state) for index, state in found if key != "step" and
                       state.numel() == self.tensors[index][1][0].numel()]
            most = sum(self.widths["grad"].values()) // 2
            name = None
            if fitting and sum(self.widths["grad"].get(index, 0) for index, _ in fitting) >= most:
                name = next(lists, None)
            if name is not None:
                self.states[name] = key
                self.widths[name] = {index: _bytes(state) for index, state in fitting}
                for index, state in fitting:
                    self.claim(state, name, index)
            listed = {id(state) for _, state in fitting} if name is not None else set()
            others = [state for _, state in found if id(state) not in listed]
            storages = [storage for storage in (self.claim(state, "fixed") for state in others)
                        if storage is not None]
            if storages:
                self.fixed.append((f"optimizer's {key} ({len(storages)} tensors)", *storages))

    def find_states(self):
        """Returns by name: (index of the tensor, the state)."""
        found = {}
        for optimizer in self.session.optimizers:
            for parameter, states in optimizer.state.items():
                for key, state in states.items():
                    if isinstance(state, torch.Tensor) and id(parameter) in self.index:
                        found.setdefault(key, []).append((self.index[id(parameter)], state))
        return found


def _bytes(tensor):
    return tensor.numel() * tensor.element_size()


def _model_tensors(model, optimizers, remarks):
    """Returns [(name, the parameters that share its bytes)]. Trained ones come first, in the
    model's order, so that chunks of gradients and states hold nothing else; then frozen ones; then
    those that only an optimizer has."""
    found = list(model.named_parameters())
    known = {id(parameter) for _, parameter in found}
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
    tensors = []
    for same in shared.values():
        tensors.append((same[0][0], [parameter for _, parameter in same]))
        if len(same) > 1:
            remarks.append(f"{', '.join(name for name, _ in same)} lie in the same bytes, and are "
                           "one tensor")
    tensors.sort(key=lambda tensor: not tensor[1][0].requires_grad)
    return tensors


# ---- From observations to declarations ----------------------------------------------------------


class _Moment:
    def __init__(self, segment, name, micro_batch):
        self.name, self.phase, self.micro_batch = name, segment.phase, micro_batch
        layer = re.search(r"(?:^|[. ])(\d+)(?:\.|$)", name)
        self.layer = int(layer[1]) if layer else -1
        self.accesses = {}  # (tensor, list): mode
        self.touched = {}   # storage: bytes
        self.flops = 0
        self.workspace = 0

    def add(self, touches, flops):
        for storage, begin, end, mode in touches:
            self.touched[storage] = max(self.touched.get(storage, 0), end - begin)
            for tensor, kind, mode_there in _accesses(storage, begin, end, mode):
                before = self.accesses.get((tensor, kind))
                if before is None:
                    self.accesses[tensor, kind] = mode_there
                elif before == "read" and mode_there != "read":
                    self.accesses[tensor, kind] = "update"
        self.flops += flops

    def bytes(self):
        return sum(self.touched.values())


def _accesses(storage, begin, end, mode):
    """Yields (tensor, list, mode) of the model data in these bytes."""
    if storage.kind in STATE_LISTS and mode in ("fill", "overwrite"):
        if mode == "fill":
            return  # a state is made once, in the optimizer's first step
        mode = "update"  # made of a gradient in the first step, changed by it in the others
    elif mode == "fill":
        mode = "overwrite"
    for first, after, tensor in storage.spans:
        if begin < after and first < end:
            covers = begin <= first and after <= end
            yield tensor, storage.kind, "update" if mode == "overwrite" and not covers else mode


class _Pieces:
    """Divides work outside of modules into one operator per parameter, or two per parameter if it
    reads all of them before it writes the first (clipping by a norm)."""

    def __init__(self, segment, names):
        self.segment, self.names = segment, names
        self.moments, self.early = [], []
        self.by_tensor, self.writes = {}, None
        self.current = 0
        self.alone = True  # it goes from one parameter to the next

    def add(self, touches, flops):
        found = [access for touch in touches for access in _accesses(*touch)]
        tensors = list(dict.fromkeys(tensor for tensor, _, _ in found))
        self.make(tensors, any(mode != "read" for _, _, mode in found))
        if len(tensors) > 1:
            self.alone = False
            for touch in touches:
                for tensor in {access[0] for access in _accesses(*touch)}:
                    self.moments[self.by_tensor[tensor]].add([self.part(touch, tensor)], 0)
            return
        if tensors:
            before, self.current = self.current, self.by_tensor[tensors[0]]
            self.alone = self.alone and self.current >= before
        if self.moments:
            self.moments[self.current].add(touches, flops)
        else:
            self.early.append((touches, flops))

    def make(self, tensors, writes):
        """Makes the pieces if there are none yet. An optimizer's step never gets two for each."""
        if tensors and writes != self.writes and self.segment.name != "update":
            self.by_tensor, self.writes = {}, writes
        for tensor in tensors:
            if tensor not in self.by_tensor:
                self.by_tensor[tensor] = len(self.moments)
                self.moments.append(_Moment(self.segment,
                                            f"{self.segment.name} {self.names[tensor]}",
                                            self.segment.micro_batch))

    @staticmethod
    def part(touch, tensor):
        """Returns the part of a touch, which may cover several tensors, that belongs to one."""
        storage, begin, end, mode = touch
        spans = [span for span in storage.spans if span[2] == tensor]
        return (storage, max(begin, min(span[0] for span in spans)),
                min(end, max(span[1] for span in spans)), mode)

    def finish(self):
        """Returns all pieces. Work before the first one is part of it."""
        for work in self.early:
            self.moments[0].add(*work)
        return self.moments


class _Declarations:
    """Declares the observed iteration: operators, accesses and buffers. For the recorded iterations
    it keeps the operator that each event of the hooks begins."""

    def __init__(self, observer, session):
        self.observer, self.session, self.nvtx = observer, session, session.nvtx
        self.moments, self.fused = [], []
        self.events = []  # by event: the moment that it begins; None: it goes on; -1: none
        self.where = []   # by entry of the log: its moment
        self.place_segments()
        self.overwrite_zeroed_gradients()
        self.buffers = self.make_buffers()
        self.declare()
        self.ranges = self.make_ranges()

    def place_segments(self):
        observer = self.observer
        entries = [[] for _ in observer.segments]
        for entry in observer.log:
            entries[entry[0]].append(entry)
        for number, segment in enumerate(observer.segments):
            mine = entries[number]
            works = [work for _, what, work in mine if what == "work"]
            first = len(self.moments)
            if not works:
                key = self.session.keys[number]
                self.events.append(-1 if key == ("backward", "end") else None)
                self.where += [max(first - 1, 0)] * len(mine)
                continue
            self.events.append(first)
            tensors = {a[0] for touches, _ in works for t in touches for a in _accesses(*t)}
            if segment.inside or len(tensors) < 2:
                moment = _Moment(segment, segment.name, segment.micro_batch)
                self.moments.append(moment)
                for work in works:
                    moment.add(*work)
                self.where += [first] * len(mine)
            else:
                self.divide(segment, mine)

    def divide(self, segment, entries):
        first = len(self.moments)
        pieces = _Pieces(segment, [name for name, _ in self.observer.tensors])
        where = []
        for _, what, of in entries:
            if what == "work":
                pieces.add(*of)
            where.append(first + pieces.current)
        self.moments += pieces.finish()
        if not pieces.alone:  # times and temporaries are shares of the whole
            born = {of for _, what, of in entries if what == "alloc"}
            last = len(self.moments) - 1
            where = [last if what == "free" and of not in born else first
                     for _, what, of in entries]
        self.where += where
        self.fused.append((first, len(self.moments) - first, pieces.alone))

    def overwrite_zeroed_gradients(self):
        """Removes gradients that are zero when an iteration begins (set_to_none=False)."""
        zero = {index for index, (_, parameters) in enumerate(self.observer.tensors)
                for p in parameters if p.grad is not None and not p.grad.is_sparse
                and not p.grad.any()}
        for moment in self.moments:
            for tensor, kind in moment.accesses:
                if kind == "grad" and tensor in zero:
                    if moment.accesses[tensor, kind] == "update":
                        moment.accesses[tensor, kind] = "overwrite"
                    zero.discard(tensor)

    def counts(self, storage):
        """Returns whether it is non-model data on the device."""
        return (storage.kind is None and storage.device == self.observer.device
                and storage.nbytes > 0)

    def make_buffers(self):
        """Returns (name, bytes, first moment, last moment, saved, FLOPs). Storages that exist when
        the next iteration begins last until the same operator makes their successors."""
        end = len(self.moments) - 1
        first, last = self.lifetimes()
        backward = {storage for moment in self.moments if moment.phase == "backward"
                    for storage in moment.touched}
        user = {}
        for moment in self.moments:
            for storage in moment.touched:
                user.setdefault(storage, moment.name)
        buffers = [(name, sum(s.nbytes for s in storages), 0, end, 0, 0)
                   for name, *storages in self.observer.fixed
                   if storages[0].device == self.observer.device and storages[0].nbytes > 0]
        crossing = [0] * (end + 2)
        for storage in filter(self.counts, self.observer.seen):
            begin = first.get(storage, 0)
            final = last.get(storage, end)
            if storage.made and begin == final:
                continue
            module = user.get(storage, "").partition(" ")[2]
            name = f"{module} {storage.maker}" if storage.made else f"input of {module}"
            saved = storage.made and storage in backward and \
                self.moments[begin].phase == "forward" and final > begin
            buffers.append((name, storage.nbytes, begin, final, int(saved),
                            storage.flops if saved else 0))
            crossing[begin] += storage.nbytes
            crossing[final + 1] -= storage.nbytes
            if storage.made and not storage.dead and begin > 0:
                buffers.append((f"{name} of the iteration before", storage.nbytes, 0, begin, 0, 0))
        self.add_workspaces(crossing, buffers)
        return buffers

    def lifetimes(self):
        """Returns the moments in which storages come and go. A storage that goes before a new one
        has come is not part of that moment."""
        first, last, allocated = {}, {}, -1
        for (_, what, storage), moment in zip(self.observer.log, self.where):
            if what == "alloc":
                first[storage] = allocated = moment
            elif what == "free":
                begin = first.get(storage, 0)
                last[storage] = moment if allocated == moment else max(begin, moment - 1)
        return first, last

    def add_workspaces(self, crossing, buffers):
        """Sets the peak beside those buffers within each moment."""
        live = sum(s.nbytes for s in self.observer.seen if self.counts(s) and not s.made)
        peak = [0] * len(self.moments)
        for (_, what, storage), moment in zip(self.observer.log, self.where):
            if what != "work" and self.counts(storage):
                live += storage.nbytes if what == "alloc" else -storage.nbytes
                peak[moment] = max(peak[moment], live)
        around = 0
        for moment, most in enumerate(peak):
            around += crossing[moment]
            self.moments[moment].workspace = max(0, most - around)
        for start, count, alone in self.fused:
            if not alone:
                group = self.moments[start:start + count]
                whole, total = group[0].workspace, sum(m.bytes() for m in group) or 1
                for moment in group:
                    moment.workspace = whole * moment.bytes() // total
        for number, moment in enumerate(self.moments):
            if moment.workspace > 0:
                buffers.append((f"{moment.name} workspace", moment.workspace, number, number, 0, 0))

    def make_ranges(self):
        """Returns for each moment its event, and whether it ends in another thread."""
        segments = self.observer.segments
        begins = [(number, moment) for number, moment in enumerate(self.events)
                  if moment is not None]
        ranges = {}
        for (number, moment), after in zip(begins, [*begins[1:], (0, None)]):
            if moment >= 0:
                event = self.nvtx.event(OPERATOR, self.moments[moment].name, moment)
                ranges[moment] = event, segments[number].thread != segments[after[0]].thread
        return ranges

    def declare(self):
        declare, session = self.nvtx.declare, self.session
        tensors, widths, remarks = self.sizes()
        declare(f"meta producer PyTorch {torch.__version__}")
        declare(f"meta model {type(session.model).__name__}, "
                f"{sum(p.numel() for p in session.model.parameters())} parameters")
        declare(f"meta precision {self.precision()}")
        for key, value in (("batch", session.batch), ("sequence", session.sequence),
                           ("micro_batches", 1 + max(m.micro_batch for m in self.moments))):
            declare(f"meta {key}", value)
        for kind, width in widths.items():
            declare(f"meta element_bytes_{kind}", width)
        for line in [*self.observer.remarks, *remarks, *self.remarks()]:
            declare(f"meta unknown {line}")
        for index, (name, elements) in enumerate(tensors):
            declare(f"tensor {elements} {name}", index)
        accesses = 0
        for number, moment in enumerate(self.moments):
            declare(f"operator {moment.phase} {self.place(moment)} {moment.layer} "
                    f"{moment.micro_batch} {moment.flops} {moment.bytes()} 0 0 {moment.name}",
                    number)
            for (tensor, kind), mode in moment.accesses.items():
                declare(f"access {number} {kind} {mode}", tensor)
            accesses += len(moment.accesses)
        for first, count, _ in self.fused:
            declare(f"fused {first}", count)
        for number, (name, nbytes, first, last, saved, flops) in enumerate(self.buffers):
            declare(f"buffer {nbytes} {first} {last} {saved} {flops} {name}", number)
        for number in range(len(self.moments) if not self.buffers else 0):
            declare(f"moment {number}", 0)
        declare(f"declared {len(tensors)} {len(self.moments)} {accesses} {len(self.buffers)}")

    def place(self, moment):
        """An operator runs on the host if its model data lies there."""
        devices = {storage.device.type for storage in moment.touched if storage.spans}
        return "host" if devices == {"cpu"} and self.observer.device.type != "cpu" else "device"

    def precision(self):
        sizes = {}
        for _, parameters in self.observer.tensors:
            dtype = parameters[0].dtype
            sizes[dtype] = sizes.get(dtype, 0) + _bytes(parameters[0])
        dtype = max(sizes, key=sizes.get)
        return PRECISIONS.get(dtype, str(dtype).rpartition(".")[2])

    def sizes(self):
        """Returns tensors as (name, elements), the bytes of an element in each list, and where
        these differ from the program's: in a trace they are the same for all tensors."""
        found, widths, remarks = self.observer.widths, {}, []
        tensors = [(name, parameters[0].numel())
                   for name, parameters in self.observer.tensors]
        for kind, by_tensor in found.items():
            if not by_tensor:
                continue
            votes = {}
            for index, nbytes in by_tensor.items():
                width = nbytes // tensors[index][1]
                votes[width] = votes.get(width, 0) + nbytes
            widths[kind] = max(votes, key=votes.get)
            if kind == "param":  # one that is wider counts as so many more
                tensors = [(name, -(-found["param"][i] // widths[kind]))
                           for i, (name, _) in enumerate(tensors)]
            there = widths[kind] * sum(elements for _, elements in tensors)
            if there != sum(by_tensor.values()):
                remarks.append(f"{kind}: every tensor of a trace has each list, {there} bytes; the "
                               f"program has {sum(by_tensor.values())} (parameters that are "
                               "frozen, unused, or of another type)")
            state = self.observer.states.get(kind, kind)
            if state != kind:
                remarks.append(f"{kind}: it is what the optimizer calls {state}")
        return tensors, widths, remarks

    def remarks(self):
        """Yields what a trace of this kind cannot tell."""
        yield "FLOPs: those of matrix products, convolutions and attention alone"
        yield "non-model data: what PyTorch's kernels allocate within themselves is not seen"
        if any(moment.phase == "update" for moment in self.moments):
            yield ("times of updates: the optimizer's step is one range, divided among the "
                   "parameters by bytes")
        if any(not alone for _, _, alone in self.fused):
            yield ("temporaries of updates: the optimizer goes over all parameters at once; they "
                   "are shares by bytes")
        idle = set(range(len(self.observer.tensors)))
        for moment in self.moments:
            idle -= {tensor for tensor, kind in moment.accesses
                     if kind == "param" and moment.phase != "update"}
        if idle:
            names = [self.observer.tensors[index][0] for index in sorted(idle)]
            yield (f"uses of {len(idle)} parameters that no operator in forward and backward "
                   f"touches (unused, or within compiled code): {', '.join(names[:4])}"
                   f"{', ...' if len(names) > 4 else ''}")
        elsewhere = {}
        for storage in self.observer.seen:
            if storage.device != self.observer.device and not storage.spans:
                device = str(storage.device)
                elsewhere[device] = elsewhere.get(device, 0) + storage.nbytes
        for device, nbytes in elsewhere.items():
            yield f"non-model data on {device}: {nbytes} bytes over the iteration"
        if self.observer.device.type == "cuda":
            yield "library_bytes: what the driver and libraries hold"
            if torch.cuda.get_allocator_backend() == "native":
                yield ("addresses: PyTorch's native allocator shows the driver segments and not "
                       "tensors; pstar-collect --visible-tensors switches to one that shows each")


# ---- Snapshots of the allocator's history --------------------------------------------------------

_MOST_BYTES, _MOST_ADDRESS, _MOST_US = 1 << 53, 1 << 63, 46 * 10 ** 14  # what an import takes
# Actions that do not change what is handed out.
_OTHER_ACTIONS = {"oom", "snapshot", "annotate", "segment_alloc", "segment_free", "segment_map",
                  "segment_unmap"}
_ALLOCATED, _INACTIVE = "active_allocated", "inactive"
_WAITING = {"active_pending_free", "active_awaiting_free"}  # as it is, and as it is documented


class _Plain(pickle.Unpickler):
    """Unpickles only lists, dictionaries, texts and numbers, which a snapshot consists of."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module[:80]!r}.{name[:80]!r} is not allowed in a snapshot")


@contextlib.contextmanager
def _memory_for(nbytes):
    """Limits memory to what a snapshot of this size can need. A damaged pickle may ask for any
    amount: 16 bytes for each of 2^32 memo numbers."""
    limit, most = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    wanted = taken + (1 << 30) + 64 * nbytes
    limits = [wanted] + [old for old in (limit, most) if old != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _load_snapshot(path):
    with open(path, "rb") as file, _memory_for(os.path.getsize(path)), \
            contextlib.redirect_stderr(io.StringIO()):  # CPython tells of a bytearray that is cut
        try:
            return _Plain(file).load()
        except OSError:
            raise
        except MemoryError:
            raise ValueError("it needs more memory than a snapshot can take") from None
        except Exception as error:  # damaged pickles raise nearly all that there is
            raise ValueError(" ".join(f"{type(error).__name__}: {error}".split())) from None


def _wrong(where, what):
    return ValueError(where[0] + "".join(f"[{index}]" for index in where[1:]) + f": {what}")


def _member(where, thing, key, kind=int, end=_MOST_BYTES):
    """Returns thing[key] of type `kind`; a number must be in [0, end). `where` is its place."""
    if type(thing) is not dict:
        raise _wrong(where, f"expected a dictionary, found {type(thing).__name__}")
    if key not in thing:
        raise _wrong(where, f"'{key}' is missing")
    if type(thing[key]) is not kind:
        raise _wrong(where, f"'{key}' is of type {type(thing[key]).__name__}, not {kind.__name__}")
    if kind is int and not 0 <= thing[key] < end:
        raise _wrong(where, f"'{key}' is negative or too large")
    return thing[key]


def _history(device, trace, remarks):
    """Returns (action, microseconds, address, bytes) of allocations and frees in the allocator's
    order. Clocks of threads may differ from it a little."""
    history, time, late, others = [], 0, 0, set()
    for i, entry in enumerate(trace):
        where = "device_traces", device, i
        action = _member(where, entry, "action", str)
        if "time_us" in entry:
            given = _member(where, entry, "time_us", end=_MOST_US)
            late += given < time
            time = max(time, given)
        if action in ("alloc", "free_requested", "free_completed"):
            history.append((action, time, _member(where, entry, "addr", end=_MOST_ADDRESS),
                            _member(where, entry, "size")))
        elif action == "oom":
            free = _member(where, entry, "device_free") if "device_free" in entry else 0
            size = _member(where, entry, "size")
            remarks.append(f"device {device} had no room for {size} bytes, {free} were free")
        elif action not in _OTHER_ACTIONS:
            others.add(action)
    if late > 0:
        remarks.append(f"times: {late} of {len(trace)} events of device {device} have one before "
                       "that of the event before, and count as at that time")
    if others:
        remarks.append(f"actions in the history of device {device} that are not known: "
                       + ", ".join(sorted(f"{action[:40]!r}" for action in others)[:8]))
    return history


def _blocks(segments):
    """Returns by device {address: (state, requested bytes)} of the blocks in use at the end."""
    blocks = collections.defaultdict(dict)
    for i, segment in enumerate(segments):
        where = "segments", i
        address = _member(where, segment, "address", end=_MOST_ADDRESS)
        device = _member(where, segment, "device") if "device" in segment else 0
        for j, block in enumerate(_member(where, segment, "blocks", list)):
            place = *where, j
            state, size = _member(place, block, "state", str), _member(place, block, "size")
            if "address" in block:
                address = _member(place, block, "address", end=_MOST_ADDRESS)
            asked = "requested_size" if "requested_size" in block else "size"
            if state == _ALLOCATED or state in _WAITING:
                if address in blocks[device]:
                    raise _wrong(place, "another block has the same address")
                blocks[device][address] = state, _member(place, block, asked)
            elif state != _INACTIVE:
                raise _wrong(place, f"state {state[:40]!r} is not known")
            address += size
    return blocks


def _changes(history, blocks):
    """Returns (microseconds, address, bytes, negative for a free) of one device, in order. A block
    freed while another stream used it counts until that stream has finished."""
    waits = any(action == "free_completed" for action, *_ in history) or any(
        state in _WAITING for state, _ in blocks.values())
    frees = "free_completed" if waits else "free_requested"  # a history may leave actions out
    start = max(0, history[0][1] - 1) if history else 0
    changes, seen, before = [], set(), {}  # before: was there before the history began
    for action, time, address, nbytes in history:
        if action == frees and address not in seen:
            before[address] = nbytes
        if action in ("alloc", frees):
            changes.append((time, address, nbytes if action == "alloc" else -nbytes))
            seen.add(address)
    before.update((address, nbytes) for address, (_, nbytes) in blocks.items()
                  if address not in seen)
    return [(start, address, nbytes) for address, nbytes in before.items()] + changes


def _snapshot_events(snapshot, remarks):
    """Returns instants "[memory]", as PyTorch's profiler writes them."""
    traces = _member(("snapshot",), snapshot, "device_traces", list)
    blocks = _blocks(_member(("snapshot",), snapshot, "segments", list))
    for device in sorted(blocks):
        if device >= len(traces):
            raise ValueError(f"segments of device {device}, but histories of {len(traces)} devices")
    for device, trace in enumerate(traces):
        if type(trace) is not list:
            raise ValueError(f"device_traces[{device}] is not a list")
        total = 0
        changes = _changes(_history(device, trace, remarks), blocks[device])
        for time, address, nbytes in changes:
            total += nbytes
            yield {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": time, "pid": 0,
                   "tid": 0, "args": {"Addr": address, "Bytes": nbytes, "Device Type": 1,
                                      "Device Id": device, "Total Allocated": total}}
        if not trace and changes:
            remarks.append(f"the history of device {device}: it was not recorded "
                           "(torch.cuda.memory._record_memory_history)")


def _write_events(source, output, remarks, events):
    if os.path.exists(output) and os.path.samefile(source, output):
        raise OSError(f"{output}: that is the snapshot itself, name another file with -o")
    text = json.dumps({"schemaVersion": 1, "pstar_unknown": remarks, "traceEvents": events})
    try:
        with open(output, "w") as file:
            file.write(text)
    except OSError as error:
        raise OSError(f"{output}: cannot be written: {error.strerror}") from None


def convert_snapshot(arguments):
    """The command: converts a snapshot to a file that pstar-trace import reads."""
    parser = argparse.ArgumentParser(
        prog="pstar_torch", description="Makes a snapshot of PyTorch's memory on CUDA devices "
        "(torch.cuda.memory._dump_snapshot) into JSON for pstar-trace import.")
    parser.add_argument("snapshot")
    parser.add_argument("-o", "--output", help="default: the snapshot's name with .json")
    options = parser.parse_args(arguments)
    output = options.output or os.path.splitext(options.snapshot)[0] + ".json"
    remarks = ["where memory was asked for: a snapshot's stack traces, streams, segments, pools, "
               "annotations and host memory are not kept",
               "what the allocator adds to round up what it is asked for"]
    try:
        snapshot = _load_snapshot(options.snapshot)
        events = list(_snapshot_events(snapshot, remarks))
        _write_events(options.snapshot, output, remarks, events)
    except OSError as error:
        print(f"pstar_torch: {error}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"pstar_torch: {options.snapshot}: not a snapshot of PyTorch's memory: {error}",
              file=sys.stderr)
        return 2
    name = os.fsencode(output).decode(errors="backslashreplace")
    print(f"{name}: {len(events)} allocations and frees")
    return 0


if __name__ == "__main__":
    sys.exit(convert_snapshot(sys.argv[1:]))
