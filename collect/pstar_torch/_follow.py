"""Carries a plan out in a training loop: pstar_torch.follow."""
import contextlib
import functools
import inspect
import threading

import torch

from ._activations import Activations
from ._binding import Bound, Gradient
from ._library import NO_ADDRESS
from ._masters import Masters
from ._memory import Chunks
from ._observer import model_tensors, with_inner
from ._plan import Plan
from ._saved import Saved
from ._session import Session
from ._settings import Settings
from ._watch import Watch


class _Silent:
    """Stands for the collector's domain: nothing is recorded."""
    start = end = push = pop = staticmethod(lambda *_: None)

    @staticmethod
    def event(category, text, payload):
        return _Silent()

    @staticmethod
    def declare(text, payload=0):
        pass


def _needs_closure(optimizer):
    """Whether the optimizer cannot step without a function that calls forward and backward."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


class Follower(Session):
    """From follow() to stop(). The first iteration is observed; all later ones follow the plan."""

    def __init__(self, model, optimizers, plan_path, trace_path):
        for optimizer in optimizers:
            if _needs_closure(optimizer):
                raise ValueError(f"{type(optimizer).__name__} needs a closure, which it may call "
                                 "several times in a step")
        self.plan = Plan(plan_path, trace_path)
        tensors, wholes, _ = model_tensors(model.named_parameters(), optimizers, [])
        if wholes:
            raise ValueError("an optimizer trains several parameters as one tensor in whose memory "
                             "they lie, which is not followed: give it the parameters themselves")
        if [name for name, _ in tensors] != self.plan.tensors:
            raise ValueError("the plan is for a model with other parameters")
        self.chunks = None
        self.moved = []         # of each iteration that followed the plan: bytes and copies
        self.next = 0           # the moment that follows
        self.busy = False       # with our own work, which nothing watches
        self.current = []       # what the current operator of the plan uses
        self.pieces = None      # moments that operators outside of modules begin: (next, end)
        self.watch = Watch(self)  # of the first iteration, and of what is outside of modules
        self.saved = Saved(self)  # within an iteration
        self.hidden = None      # parameters by group, within the optimizer's step
        self.settings = None    # of an optimizer that is not PyTorch's, within its step
        super().__init__(_Silent, model, optimizers, 1, -1)
        devices = {parameter.device.type for parameter in model.parameters()}
        if devices - {"cpu"}:
            raise ValueError(f"parameters are on {', '.join(sorted(devices))}: plans are carried "
                             "out on the CPU only")

        for module in model.modules():
            self.handles.append(module.register_state_dict_pre_hook(self.check_readable))
            self.handles.append(module.register_load_state_dict_pre_hook(self.check_readable))
        for optimizer in with_inner(self.optimizers):
            if hasattr(optimizer, "_optimizer_state_dict_pre_hooks"):
                self.handles.append(optimizer.register_state_dict_pre_hook(self.check_readable))
                self.handles.append(optimizer.register_load_state_dict_pre_hook(self.check_readable))

    # ---- events of the loop ----

    def check_readable(self, *_):
        """Called before a state is saved or loaded."""
        if self.mode == "record" and self.chunks is not None:
            raise RuntimeError("the model's parameters and states are where the plan has them: save "
                               "and load within `with follower.gathered():`")

    def fail(self, error):
        """The loop cannot go on: some of its parameters are nowhere that it knows of."""
        self.watch.stop()
        self.saved.leave()
        if self.hidden is not None:
            self.give_parameters()
        self.close()
        raise error

    def before_forward(self, index, module, arguments, keywords):
        if self.mode == "gathered":
            return
        if self.mode in ("observe", "record"):
            self.saved.check_hooks()
            if self.inside and threading.get_ident() != self.thread:
                raise ValueError(f"{self.names[index][1]} runs in another thread than the iteration "
                                 "began in, where nothing sees its operators")
        if self.mode == "record" and not self.inside and not torch.is_grad_enabled():
            raise RuntimeError("the model's parameters are where the plan has them: evaluate within "
                               "`with follower.gathered():`")
        super().before_forward(index, module, arguments, keywords)
        if self.again():
            with self.unwatched():
                self.saved.lend(module)

    def after_forward(self, index, module, arguments, result):
        if self.again():
            with self.unwatched():
                self.saved.take_back(module)
        super().after_forward(index, module, arguments, result)

    def again(self):
        """Whether the plan is followed in a module that backward computes again."""
        return self.mode == "record" and self.inside and self.chunks is not None and \
            torch._C._current_graph_task_id() != -1

    def bound_of(self, parameter):
        return self.bound.get(("param", self.observer.index.get(id(parameter))))

    def diverge(self, what):
        raise RuntimeError(f"iteration {self.iteration} differs from the first one, which the plan "
                           f"needs to be the same: {what}")

    def begin_iteration(self, given):
        self.saved.check_begin()
        self.thread = threading.get_ident()
        if self.chunks is not None:
            for bound in self.bound.values():
                bound.check_held()
            self.masters.check_returned()
        super().begin_iteration(given)
        if self.mode == "record":
            if self.chunks is None:
                self.begin_plan()
                self.watch.start()
            else:
                self.watch.stop()
            self.next = 0
            self.saved.enter()

    def end_iteration(self):
        if self.mode == "record":
            self.saved.leave()
            self.watch.stop()
            self.advance(len(self.plan.moments) - 1)
            for gradient in self.gradients.values():
                gradient.end()
            self.moved.append(self.chunks.take_moved())
        super().end_iteration()
        if self.mode == "record" and self.chunks is not None and \
                torch._C._len_torch_dispatch_stack() == 0:
            self.watch.start()

    def switch(self, moment):
        """Called by events. Updates wait for the optimizer's step, which takes them one by one."""
        if self.mode != "record" or self.chunks is None:
            return
        if self.pieces is not None:
            self.advance(self.pieces[1] - 1)
            self.pieces = None
            if self.iteration > self.first:
                self.watch.stop()
        if moment < 0 or self.step_of(moment) is not None:
            return
        self.advance(moment)
        if moment in self.divided:
            self.pieces = moment + 1, moment + self.divided[moment]
            self.watch.start()

    def begin_step(self, i):
        super().begin_step(i)
        if self.mode == "record" and self.inside:
            self.take_parameters(i)
            try:
                self.check_trained(i)
                self.advance(self.steps[i].stop - 1)
            except BaseException as error:
                self.fail(error)

    def after_step(self, i, optimizer, arguments, keywords):
        if self.mode == "record" and self.inside:
            self.give_parameters()
        super().after_step(i, optimizer, arguments, keywords)

    # ---- moments ----

    @contextlib.contextmanager
    def unwatched(self):
        """What runs within is our own work."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    def advance(self, moment):
        """Performs the moments up to this one, whose operator the program is about to run."""
        with self.unwatched():
            while self.next <= moment:
                self.next += 1
                self.chunks.step(self.next - 1)

    def run(self, moment):
        """Called between the copies before a moment and those behind it. Operators run in the
        program afterwards, except for the optimizer's, which runs here."""
        self.current = []
        for kind, tensor, _ in self.plan.moments[moment].accesses:
            bound = self.bound.get((kind, tensor))
            if bound is not None:
                bound.place(*self.locate(kind, tensor, self.plan.moments[moment].on_host))
                self.current.append(bound)
        step = self.step_of(moment)
        if step is not None:
            self.busy = False
            try:
                for index in {tensor for _, tensor, _ in self.plan.moments[moment].accesses}:
                    self.update(self.optimizers[step], index)
                    with self.unwatched():
                        self.masters.updated(index)
                for bound in self.current:
                    bound.check_held()
            finally:
                self.busy = True

    def begin_piece(self, bound):
        """Performs the moments up to the next one of this segment that uses a tensor, if it has
        one."""
        begin, end = self.pieces or (0, 0)
        for moment in range(max(begin, self.next), end):
            if any(access[:2] == (bound.kind, bound.index)
                   for access in self.plan.moments[moment].accesses):
                self.advance(moment)
                return

    def moment_name(self):
        return self.plan.moments[self.next - 1].name

    def locate(self, kind, tensor, on_host):
        chunk, offset = self.places[kind, tensor]
        if on_host:
            return self.chunks.pool, self.plan.home[chunk] + offset
        return self.chunks.arena, self.chunks.address(chunk) + offset

    def left(self, chunk):
        for bound in self.inside_chunk.get(chunk, ()):
            bound.leave()

    # ---- the optimizer, parameter by parameter ----

    def take_parameters(self, i):
        """Hides the parameters from the step that the program called. What that step changes beside them
        is changed already."""
        groups = self.optimizers[i].param_groups
        self.hidden = [(group, group["params"]) for group in groups]
        if not self.is_own(i):
            with self.unwatched():
                self.settings = Settings(self.optimizers[i])
        for group in groups:
            group["params"] = []

    def give_parameters(self):
        for group, parameters in self.hidden:
            group["params"] = parameters
        self.hidden = None
        if self.settings is not None:
            with self.unwatched():
                self.settings.end()
            self.settings = None

    def check_trained(self, i):
        """Checks that the plan has a moment for each parameter that the step would change."""
        planned = {tensor for moment in self.steps[i]
                   for _, tensor, _ in self.plan.moments[moment].accesses}
        for _, parameters in self.hidden:
            for parameter in parameters:
                index = self.observer.tensor_of(parameter)
                if parameter.grad is not None and index not in planned:
                    name = "a parameter" if index is None else self.plan.tensors[index]
                    self.diverge(f"the step of {type(self.optimizers[i]).__name__} now trains {name}")

    def is_elementwise(self, moment):
        """Whether the moment belongs to a step of several parameters at once that has the bits of
        one step for each: those of PyTorch's own optimizers do (foreach=True, fused=True)."""
        step = self.step_of(moment)
        return step is not None and self.is_own(step)

    def is_own(self, i):
        """Whether an optimizer's step is PyTorch's."""
        return type(self.optimizers[i]).step.__module__.startswith("torch.optim.")

    def step_of(self, moment):
        """Returns the number of the optimizer whose step has the moment, or None."""
        return next((i for i, moments in enumerate(self.steps) if moment in moments), None)

    def update(self, optimizer, index):
        step = type(optimizer).step
        step = getattr(step, "__wrapped__", step)  # without the hooks, which the program's call has
        groups = set()
        for number, (group, parameters) in enumerate(self.hidden):
            group["params"] = [p for p in parameters if self.observer.tensor_of(p) == index]
            if group["params"]:
                groups.add(number)
        try:
            step(optimizer)
            with self.unwatched():
                self.keep_states(index)
                if self.settings is not None:
                    self.settings.part_done(groups)
        finally:
            for group, _ in self.hidden:
                group["params"] = []

    @torch.no_grad()
    def keep_states(self, index):
        """Copies states that the step has made anew to where the plan has the old ones."""
        for kind, states, key in self.states.get(index, ()):
            made, old = states.get(key), self.bound[kind, index].holders[0]
            if made is None or made is old:
                continue
            if made.shape != old.shape or made.dtype != old.dtype:
                raise RuntimeError(f"{key} of {self.plan.tensors[index]} has another shape or type than in "
                                   "the first iteration")
            old.copy_(made)
            states[key] = old

    # ---- from the observed iteration to the plan ----

    @torch.no_grad()
    def begin_plan(self):
        """Moves all model data into the plan's memories, at the end of the observed iteration."""
        self.check_moments()
        self.saved.activations = Activations(self.plan, self.observed, self.observer.packs)
        self.bind()
        self.busy = True
        self.chunks = Chunks(self.plan, self.left, self.run)
        self.fill()
        self.chunks.load()
        self.busy = False

    def check_moments(self):
        """Checks that the loop is the recorded one, and that its parts outside of modules can be
        divided."""
        declared, plan = self.observed.moments, self.plan
        if self.observer.paused:
            raise ValueError("the loop uses torch.func, which forbids the hooks that save parameters "
                             "as their places in the plan")
        mine = [moment.name for moment in declared]
        there = [moment.name for moment in plan.moments]
        steps = [moment.steps for moment in declared]
        first = steps.index(True) if any(steps) else len(steps)
        if any(moment.phase == "backward" for moment in declared[first:]):
            if self.steps_within_backward():
                raise ValueError("an optimizer steps within backward, which is not followed: let it "
                                 "step when backward has ended")
            raise ValueError("a backward comes after the step of an optimizer, as where two models "
                             "train in turns, which is not followed: all optimizers must step when "
                             "the last backward has ended")
        self.steps = [self.moments_of_step(i) for i in range(len(self.optimizers))]
        self.divided = {}
        for first, count, alone in self.observed.fused:
            if not alone and not self.is_elementwise(first):
                raise ValueError(f"{declared[first].name} and others work on several parameters at "
                                 "once, by operators that cannot be divided among them")
            if declared[first].phase == "backward":
                raise ValueError(f"backward of what is computed from several parameters outside of "
                                 f"modules ({declared[first].name}) is not followed")
            self.divided[first] = count
        if len(there) == len(mine):
            for step in self.steps:  # a plan may change the order of a step's updates
                if sorted(mine[step.start:step.stop]) == sorted(there[step.start:step.stop]):
                    mine[step.start:step.stop] = there[step.start:step.stop]
        if mine != there:
            different = next((i for i, (a, b) in enumerate(zip(mine, there)) if a != b),
                             min(len(mine), len(there)))
            raise ValueError(
                "the plan is for another loop, or places updates within backward or in the step of "
                "another optimizer: operator "
                f"{different} is {mine[different] if different < len(mine) else 'missing'!r} here "
                f"and {there[different] if different < len(there) else 'missing'!r} in the plan")

    def steps_within_backward(self):
        """Whether an optimizer has stepped in the observed iteration while backward ran."""
        running = False
        for event, *which in self.keys:
            running = which == ["begin"] if event == "backward" else running
            if event == "step" and running:
                return True
        return False

    def moments_of_step(self, i):
        """Returns the range of an optimizer's updates."""
        events = self.observed.events
        first = events[self.keys.index(("step", i))]
        if first is None or first < 0:
            return range(0)
        others = [events[self.keys.index(("step", other))] for other in range(i + 1,
                                                                              len(self.optimizers))]
        ends = [other for other in others if other is not None and other > first]
        declared = self.observed.moments
        ends += [m for m in range(first, len(declared)) if not declared[m].steps]
        return range(first, min(ends, default=len(declared)))

    def bind(self):
        """Finds the program's tensor for every tensor of the plan's lists."""
        self.bound, self.gradients = {}, {}
        self.states = {}  # by tensor: (list, the optimizer's states of the parameter, key)
        used = {access[:2] for moment in self.plan.moments for access in moment.accesses}
        for index, (_, parameters) in enumerate(self.observer.tensors):
            self.add(Bound("param", index, parameters))
            if parameters[0].requires_grad:
                if len(parameters) > 1:
                    raise ValueError(f"{self.plan.tensors[index]} is several parameters in one "
                                     "memory, which have several gradients")
                if ("grad", index) not in used:
                    self.handles.append(parameters[0].register_post_accumulate_grad_hook(
                        functools.partial(self.on_gradient_of_unused, index)))
                    continue
                gradient = self.gradients[index] = Gradient(index, parameters[0])
                self.add(gradient)
                parameters[0].grad = None
                self.handles.append(parameters[0].register_post_accumulate_grad_hook(
                    functools.partial(self.on_gradient, gradient)))
        having = {id(state): states for optimizer in with_inner(self.optimizers)
                  for states in optimizer.state.values() if isinstance(states, dict)
                  for state in states.values()}
        for index, key, state, kind in self.observer.find_states():
            if kind is not None:
                self.add(Bound(kind, index, [state]))
            if kind is not None and id(state) in having:
                self.states.setdefault(index, []).append((kind, having[id(state)], key))
        self.masters = Masters(self)
        self.nowhere = {bound.nowhere.untyped_storage()._cdata: bound
                        for bound in self.bound.values()}

    def add(self, bound):
        if bound.index in self.observer.sparse:
            raise ValueError(f"the gradient of {self.plan.tensors[bound.index]} is sparse, and a "
                             "plan moves dense ones")
        place = self.plan.find(bound.kind, bound.index)
        name = self.plan.tensors[bound.index]
        if place is None:
            raise ValueError(f"the plan has no {bound.kind} of {name}")
        room = self.plan.room(bound.kind, bound.index)
        if bound.nbytes > room:
            raise ValueError(f"{bound.kind} of {name} has {bound.nbytes} bytes, and the plan has "
                             f"room for {room}: in a trace all elements of a list have one width")
        bound.name = name
        self.bound[bound.kind, bound.index] = bound

    def on_gradient_of_unused(self, index, _):
        if self.mode == "record":
            self.diverge(f"{self.plan.tensors[index]} has a gradient")

    def on_gradient(self, gradient, parameter):
        if self.mode == "record" and self.chunks is not None and parameter.grad is not None:
            with self.unwatched():
                gradient.accept(parameter)

    def fill(self):
        """Copies parameters and states to where they are when an iteration begins, and lets the
        program's own memory go."""
        self.places, self.inside_chunk = {}, {}
        for key, bound in self.bound.items():
            chunk, offset = self.places[key] = self.plan.find(*key)
            self.inside_chunk.setdefault(chunk, []).append(bound)
            home, start = self.plan.home[chunk], self.plan.start[chunk]
            if bound.kind != "grad":
                if home != NO_ADDRESS:
                    bound.view(self.chunks.pool, home + offset).copy_(bound.holders[0])
                elif start != NO_ADDRESS:
                    bound.view(self.chunks.arena, start + offset).copy_(bound.holders[0])
                else:
                    raise ValueError(f"the plan keeps {bound.kind} of "
                                     f"{self.plan.tensors[bound.index]} nowhere")
            bound.set(bound.nowhere)

    # ---- between iterations ----

    @contextlib.contextmanager
    def gathered(self):
        """Within it, between two steps, all parameters and states can be read and written: for
        evaluation, saving, loading and clipping of weights."""
        if self.inside:
            raise RuntimeError("gathered() within an iteration")
        before = self.mode
        if before == "record":
            self.mode = "gathered"
        try:
            if self.chunks is not None:
                self.chunks.flush()
                for key, bound in self.bound.items():
                    if bound.kind != "grad":
                        chunk, _ = self.places[key]
                        bound.place(*self.locate(*key, self.plan.home[chunk] != NO_ADDRESS))
            yield
        finally:
            if self.chunks is not None:
                self.chunks.refresh()
                self.chunks.take_moved()
                for bound in self.bound.values():
                    bound.leave()
            self.mode = before

    def stop(self):
        """Gives the program its parameters and states in memory of their own. The loop may go on
        without the plan."""
        if self.mode is None:
            return
        self.watch.stop()
        if self.chunks is not None:
            with self.gathered():
                copies = [(bound, bound.holders[0].detach().clone())
                          for bound in self.bound.values() if bound.kind != "grad"]
            for bound, copy in copies:
                bound.set(copy)
            self.chunks.free()
            self.chunks = None
        self.plan.free()
        self.close()
