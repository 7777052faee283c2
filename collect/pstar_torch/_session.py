"""Marks the operators of a training loop by hooks: on modules, on backward, on optimizers."""
import atexit
import functools
import os
import sys
import threading
import weakref

import torch
from torch.amp import GradScaler

from ._declarations import Declarations
from ._nvtx import ITERATION
from ._observer import Observer, tensors_in, within_compiled_call


class GivenUp(BaseException):
    """Ends a program that runs only to be recorded."""


def give_up(error):
    """Says that nothing will be recorded. Programs that run for more than that go on."""
    if ends_program:
        raise GivenUp(f"{type(error).__name__}: {error}")
    print(f"pstar_torch: {type(error).__name__}: {error}: training goes on unannotated",
          file=sys.stderr)


class Segment:
    """The work between two events of the hooks."""

    def __init__(self, name, phase, module, micro_batch, inside=True):
        self.name, self.phase, self.module = name, phase, module
        self.micro_batch = micro_batch
        self.inside = inside  # of a module; what runs outside is divided by parameters
        self.thread = threading.get_ident()


def _guarded(hook):
    """Keeps our failures away from the program, unless `fail` raises them."""
    @functools.wraps(hook)
    def call(self, *arguments, **keywords):
        if torch.compiler.is_compiling():  # in compiled code modules have no boundaries
            return None
        if self.mode is not None:
            try:
                return hook(self, *arguments, **keywords)
            except Exception as error:
                self.fail(error)
        return None
    return call


_sessions = weakref.WeakSet()
ends_program = False  # when the window ends


class Recorded(SystemExit):
    """Ends a program whose window has ended."""


def is_open():
    return any(session.mode is not None for session in _sessions)


def _forget_sessions():
    for session in _sessions:
        session.mode = None


os.register_at_fork(after_in_child=_forget_sessions)  # the child is not traced


class Session:
    """From annotate() to the end of the window. `mode` is the purpose of the current iteration:
    "wait", "observe" or "record"; None after the window."""

    def __init__(self, nvtx, model, optimizers, first, end):
        self.nvtx, self.first, self.end = nvtx, first, end
        self.model, self.optimizers = model, [_unwrapped(optimizer) for optimizer in optimizers]
        self.named = weakref.WeakValueDictionary(model.named_parameters())
        self.mode = "wait"
        _sessions.add(self)
        self.iteration = -1       # the current one, or the last
        self.inside = False       # an iteration
        self.stepping = False     # an optimizer
        self.nests = False        # a backward runs another one, as reentrant checkpoints do
        self.steps_in_backward = False
        self.skipped = False      # a GradScaler has skipped the step of the observed iteration
        self.expected = False     # a step of an optimizer, which a GradScaler may skip
        self.unseen = 0           # steps before the first forward that was seen
        self.observer = self.observed = None
        self.open = None          # the operator's range: thread, id of a start-end range or None
        self.names, self.handles, self.installed = _hooked_modules(model), [], False
        self.whole = nvtx.event(ITERATION, "iteration", 0)
        self.backward, self.scaled_step = torch.autograd.backward, GradScaler.step
        try:
            self.begin()
        except Exception:
            self.close()
            raise

    def begin(self):
        """Adds the hooks that are used from the beginning."""
        if not self.optimizers:
            raise ValueError("annotate(model, optimizer): the optimizer is missing")
        for module, name in self.names:
            if isinstance(module, torch.jit.ScriptModule):
                raise ValueError(f"{name} is a module of torch.jit.script, which takes no hooks")
        for i, optimizer in enumerate(self.optimizers):
            if not getattr(type(optimizer).step, "hooked", False):  # of a wrapper that made no Optimizer
                optimizer._patch_step_function()
            self.handles.append(optimizer.register_step_pre_hook(
                functools.partial(self.before_step, i)))
            self.handles.append(optimizer.register_step_post_hook(
                functools.partial(self.after_step, i)))
        if self.first == 1:
            self.install()
        atexit.register(_say_unended, weakref.ref(self))

    def parameters(self):
        """Returns the model's parameters with their names. Within functional_call the model has
        computed tensors in their places, which are no parameters."""
        return [(name, now if isinstance(now, torch.nn.Parameter) else self.named.get(name, now))
                for name, now in self.model.named_parameters()]

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
            if nested:
                self.nests = True
            else:
                self.backward_event("begin")
            result = self.backward(*arguments, **keywords)
            if not nested:
                self.backward_event("end")
            return result
        torch.autograd.backward = self.patch = backward

        @functools.wraps(self.scaled_step)
        def step(scaler, optimizer, *arguments, **keywords):
            self.expect_step(optimizer)
            result = self.scaled_step(scaler, optimizer, *arguments, **keywords)
            self.miss_step()
            return result
        GradScaler.step = self.scaled_patch = step

    def fail(self, error):
        """Called with an error of ours in a hook."""
        self.close()
        give_up(error)

    def close(self):
        self.mode = None
        if self.observer is not None:
            self.observer.leave()
        for handle in self.handles:
            handle.remove()
        if self.installed and torch.autograd.backward is self.patch:
            torch.autograd.backward = self.backward
        if self.installed and GradScaler.step is self.scaled_patch:
            GradScaler.step = self.scaled_step

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
        effect = "the operators after this point have no times"
        if self.observer.device.type == "meta":
            effect = "the trace has the observed one"
        print(f"pstar_torch: iteration {self.iteration} differs from the observed one ({what}): "
              f"{effect}", file=sys.stderr)

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
        if not self.skipped:
            self.iteration += 1
        self.whole.payload = self.iteration
        self.position, self.micro_batch, self.went_back = 0, 0, False
        self.stack, self.last_backward, self.diverged = [], None, False
        self.steps_in_backward = False
        if self.iteration == self.first - 1:
            self.mode, self.keys = "observe", []
            self.observer = Observer(self)
            self.observer.enter()
            self.batch, self.sequence = _batch_of(given)
        elif self.iteration == self.first:
            self.observed = Declarations(self.observer, self)
            self.mode = "record"
        if not self.skipped:
            self.nvtx.push(self.whole)
        self.skipped = False

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
            if ends_program:
                raise Recorded(0)

    @_guarded
    def before_forward(self, index, module, arguments, keywords):
        if self.stepping:
            raise RuntimeError("the optimizer calls its closure again within a step")
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
        shapes = () if self.stack else tuple(
            tuple(tensor.shape) for tensor in tensors_in([*arguments, *keywords.values()]))
        self.stack.append((index, again))
        self.event(("forward", index, *shapes), lambda: self.forward_segment(index, again))

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
        return Segment(f"recompute {name}" if again else f"forward {name}",
                        "backward" if again else "forward", name, self.micro_batch)

    def resumed_segment(self, again):
        """Returns the segment after a module: that of its caller, or of the backward that had to
        recompute it, or of the work outside of all modules."""
        if self.stack and self.stack[-1][1] == again:
            return self.forward_segment(*self.stack[-1])
        if again and self.last_backward is not None:
            return self.backward_segment(self.last_backward)
        return Segment("forward loss", "forward", "", self.micro_batch, inside=False)

    def backward_segment(self, module):
        return Segment(f"backward {module}", "backward", module, self.micro_batch)

    def mark(self, value):
        """Marks the tensors' nodes: when backward reaches them, its work belongs to the segment
        that made the tensors."""
        position = self.position - 1
        if position < 0:
            return
        for tensor in (value,) if isinstance(value, torch.Tensor) else tensors_in(value):
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
                   else Segment("update gradients", "update", "", 0, inside=False))
        if which == "end" and self.steps_in_backward:
            self.end_iteration()

    @_guarded
    def before_step(self, i, optimizer, arguments, keywords):
        closure = arguments[1] if len(arguments) > 1 else keywords.get("closure")
        if closure is None:
            self.begin_step(i)
            return None
        around = self.around(closure, i)
        if len(arguments) > 1:
            return (arguments[0], around, *arguments[2:]), keywords
        return arguments, {**keywords, "closure": around}

    def around(self, closure, i):
        """Returns a closure that lets the step begin after the closure, which has forward and
        backward."""
        @functools.wraps(closure)
        def call():
            result = closure()
            self.begin_step(i)
            return result
        return call

    @_guarded
    def begin_step(self, i):
        if self.mode == "observe" and within_compiled_call():
            raise RuntimeError("the optimizer's step is compiled, where no hooks run: train without "
                               "torch.compile while collecting")
        self.stepping, self.expected = True, False
        if self.inside:
            if self.mode == "observe":
                self.observer.claim_gradients(self.optimizers[i])
            self.event(("step", i), lambda: Segment("update", "update", "", 0, inside=False))

    @_guarded
    def expect_step(self, optimizer):
        """Called before a GradScaler's step."""
        self.expected = self.inside and _unwrapped(optimizer) in self.optimizers

    @_guarded
    def miss_step(self):
        """Called after a GradScaler's step, which skips the optimizer's where gradients have
        overflown. Without a step there is no whole iteration: it is observed again."""
        if not self.expected:
            return
        self.expected = False
        if self.mode == "observe":
            self.inside, self.skipped = False, True
            self.observer.leave()
        elif not self.diverged:
            self.diverge("the GradScaler skipped the optimizer's step")

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
            self.step_done(i, last)
        elif last and self.mode == "wait":
            self.unseen += 1  # one alone may be a step too many of the iteration before
            if self.unseen == 2:
                raise RuntimeError("the optimizer has stepped twice, and no forward of the model "
                                   "was seen before (in compiled code there are no modules: train "
                                   "without torch.compile while collecting, or import a file of "
                                   "PyTorch's profiler, which sees compiled code)")

    def step_done(self, i, last):
        """Ends the iteration, or lets backward go on if the optimizer steps within it."""
        if torch._C._current_graph_task_id() != -1:
            self.steps_in_backward = True
            self.event(("stepped", i), lambda: self.backward_segment(self.last_backward or "loss"))
            return
        self.event(("stepped", i),
                   lambda: Segment("update gradients", "update", "", 0, inside=False))
        if last:
            self.end_iteration()


def _say_unended(reference):
    """Called when the program ends. Says why there was no whole iteration, if it began one."""
    session = reference()
    if session is not None and session.mode in ("wait", "observe") and session.inside:
        name = type(session.optimizers[-1]).__name__
        print(f"pstar_torch: an iteration began, and no step() of {name} ended it: pass the optimizer "
              "whose step() the loop calls last", file=sys.stderr)


def _unwrapped(optimizer):
    """Returns the optimizer within a wrapper, such as those of Accelerate and Lightning."""
    inner = getattr(optimizer, "optimizer", None)
    return _unwrapped(inner) if isinstance(inner, torch.optim.Optimizer) else optimizer


def _inert_session():
    session = Session.__new__(Session)
    session.mode = None
    return session


def _hooked_modules(model):
    """Returns (module, name) of each module whose hooks run. Those of compiled modules do not, but for
    those of the wrapper that torch.compile makes."""
    found, hidden = [], set()
    for name, module in model.named_modules():
        compiled = getattr(module, "_compiled_call_impl", None) is not None
        if compiled or hasattr(module, "_orig_mod"):
            hidden.update(id(inner) for inner in module.modules() if compiled or inner is not module)
        if id(module) not in hidden:
            found.append((module, name or type(module).__name__))
    return found


def _batch_of(given):
    """Returns sequences and tokens of the model's first input; 1 token if it has no sequence."""
    tensor = next(tensors_in(given), None)
    shape = tensor.shape if tensor is not None else ()
    tokens = len(shape) == 3 or (len(shape) == 2 and not tensor.is_floating_point())
    return max(1, shape[0]) if shape else 1, max(1, shape[1]) if tokens else 1
