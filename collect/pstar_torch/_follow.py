"""Carries a plan out in a training loop: pstar_torch.follow."""
import contextlib
import functools

import torch

from ._binding import Bound, Gradient
from ._declarations import Declarations
from ._library import NO_ADDRESS
from ._memory import Chunks
from ._observer import model_tensors
from ._plan import Plan
from ._session import Session
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


class Follower(Session):
    """From follow() to stop(). The first iteration is observed; all later ones follow the plan."""

    def __init__(self, model, optimizer, plan_path, trace_path):
        self.plan = Plan(plan_path, trace_path)
        if [name for name, _ in model_tensors(model, [optimizer], [])] != self.plan.tensors:
            raise ValueError("the plan is for a model with other parameters")
        self.chunks = None
        self.moved = []         # of each iteration that followed the plan: bytes and copies
        self.next = 0           # the moment that follows
        self.busy = False       # with our own work, which nothing watches
        self.current = []       # what the current operator of the plan uses
        self.pieces = None      # moments that operators outside of modules begin: (next, end)
        self.watch = Watch(self)  # of the first iteration, and of what is outside of modules
        self.saved = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)
        self.saving = False     # within an iteration, `saved` is active
        self.hidden = None      # parameters by group, within the optimizer's step
        super().__init__(_Silent, model, [optimizer], 1, -1)
        devices = {parameter.device.type for parameter in model.parameters()}
        if devices - {"cpu"}:
            raise ValueError(f"parameters are on {', '.join(sorted(devices))}: plans are carried "
                             "out on the CPU only")

    # ---- events of the loop ----

    def fail(self, error):
        """The loop cannot go on: some of its parameters are nowhere that it knows of."""
        self.watch.stop()
        if self.saving:
            self.saved.__exit__()
            self.saving = False
        if self.hidden is not None:
            self.give_parameters()
        self.close()
        raise error

    def before_forward(self, index, module, arguments, keywords):
        if self.mode == "gathered":
            return
        if self.mode == "record" and not self.inside and not torch.is_grad_enabled():
            raise RuntimeError("the model's parameters are where the plan has them: evaluate within "
                               "`with follower.gathered():`")
        super().before_forward(index, module, arguments, keywords)

    def diverge(self, what):
        raise RuntimeError(f"iteration {self.iteration} differs from the first one, which the plan "
                           f"needs to be the same: {what}")

    def begin_iteration(self, given):
        super().begin_iteration(given)
        if self.mode == "record":
            if self.chunks is None:
                self.begin_plan()
                self.watch.start()
            self.next = 0
            self.saved.__enter__()
            self.saving = True

    def end_iteration(self):
        if self.mode == "record":
            self.saved.__exit__()
            self.saving = False
            self.watch.stop()
            self.advance(len(self.plan.moments) - 1)
            for gradient in self.gradients.values():
                gradient.end()
            self.moved.append(self.chunks.take_moved())
        super().end_iteration()

    def switch(self, moment):
        """Called by events. Updates wait for the optimizer's step, which takes them one by one."""
        if self.mode != "record" or self.chunks is None:
            return
        if self.pieces is not None:
            self.advance(self.pieces[1] - 1)
            self.pieces = None
            if self.iteration > self.first:
                self.watch.stop()
        if moment < 0 or moment >= self.updates:
            return
        self.advance(moment)
        if moment in self.divided:
            self.pieces = moment + 1, moment + self.divided[moment]
            self.watch.start()

    def begin_step(self, i):
        super().begin_step(i)
        if self.mode == "record" and self.inside:
            self.take_parameters()
            try:
                self.advance(len(self.plan.moments) - 1)
            except BaseException as error:
                self.fail(error)

    def after_step(self, i, optimizer, arguments, keywords):
        if self.mode == "record" and self.inside:
            self.give_parameters()
        super().after_step(i, optimizer, arguments, keywords)

    # ---- moments ----

    def advance(self, moment):
        """Performs the moments up to this one, whose operator the program is about to run."""
        self.busy = True
        try:
            while self.next <= moment:
                self.next += 1
                self.chunks.step(self.next - 1)
        finally:
            self.busy = False

    def run(self, moment):
        """Called between the copies before a moment and those behind it. Operators run in the
        program afterwards, except for the optimizer's, which runs here."""
        self.current = []
        for kind, tensor, _ in self.plan.moments[moment].accesses:
            bound = self.bound.get((kind, tensor))
            if bound is not None:
                bound.place(*self.locate(kind, tensor, self.plan.moments[moment].on_host))
                self.current.append(bound)
        if moment >= self.updates:
            self.busy = False
            try:
                for index in {tensor for _, tensor, _ in self.plan.moments[moment].accesses}:
                    self.update(index)
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

    def take_parameters(self):
        """Hides the parameters from the step that the program called."""
        groups = self.optimizers[0].param_groups
        self.hidden = [group["params"] for group in groups]
        for group in groups:
            group["params"] = []

    def give_parameters(self):
        for group, parameters in zip(self.optimizers[0].param_groups, self.hidden):
            group["params"] = parameters
        self.hidden = None

    def update(self, index):
        optimizer = self.optimizers[0]
        step = type(optimizer).step
        step = getattr(step, "__wrapped__", step)  # without the hooks, which the program's call has
        for group, parameters in zip(optimizer.param_groups, self.hidden):
            group["params"] = [p for p in parameters if self.observer.index.get(id(p)) == index]
        try:
            step(optimizer)
        finally:
            for group in optimizer.param_groups:
                group["params"] = []

    # ---- tensors that autograd saves ----

    def pack(self, tensor):
        """Saves the place of a parameter, or of a part of it, instead of its memory now."""
        if self.chunks is None or tensor.device.type != "cpu":
            return tensor
        address = self.chunks.arena.address_of(tensor)
        if address is None:
            return tensor
        for bound in self.current:
            if bound.covers(self.chunks.arena, address):
                return (bound, address - bound.where[1], tensor.dtype, tensor.shape,
                        tensor.stride())
        raise RuntimeError(f"autograd saves a tensor of shape {tuple(tensor.shape)} from memory that "
                           f"{self.moment_name()} does not use")

    def unpack(self, saved):
        if isinstance(saved, torch.Tensor):
            return saved
        bound, offset, dtype, shape, stride = saved
        if bound.where is None:
            raise RuntimeError(f"{self.plan.tensors[bound.index]} is not there for "
                               f"{self.moment_name()}")
        memory, address = bound.where
        self.busy = True
        try:
            typed = memory.bytes[address + offset:address + bound.nbytes].view(dtype)
            return torch.as_strided(typed, shape, stride, typed.storage_offset())
        finally:
            self.busy = False

    # ---- from the observed iteration to the plan ----

    @torch.no_grad()
    def begin_plan(self):
        """Moves all model data into the plan's memories, at the end of the observed iteration."""
        self.check_moments()
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
        self.updates = self.observed.events[self.keys.index(("step", 0))]
        mine = [moment.name for moment in declared]
        there = [moment.name for moment in plan.moments]
        if not self.nests and any(name.startswith("recompute ") for name in mine):
            raise ValueError("checkpoints that are not reentrant keep views of parameters between "
                             "operators: use_reentrant=True")
        self.divided = {}
        for first, count, alone in self.observed.fused:
            if not alone:
                raise ValueError(f"{declared[first].name} and others work on several parameters at "
                                 "once: make the optimizer, and clip, with foreach=False")
            if declared[first].phase == "backward":
                raise ValueError(f"backward of what is computed from several parameters outside of "
                                 f"modules ({declared[first].name}) is not followed")
            self.divided[first] = count
        if mine[:self.updates] != there[:self.updates] or sorted(mine) != sorted(there):
            different = next((i for i, (a, b) in enumerate(zip(mine, there)) if a != b),
                             min(len(mine), len(there)))
            raise ValueError(
                "the plan is for another loop, or places updates within backward: operator "
                f"{different} is {mine[different] if different < len(mine) else 'missing'!r} here "
                f"and {there[different] if different < len(there) else 'missing'!r} in the plan")

    def bind(self):
        """Finds the program's tensor for every tensor of the plan's lists."""
        self.bound, self.gradients = {}, {}
        for index, (_, parameters) in enumerate(self.observer.tensors):
            self.add(Bound("param", index, parameters))
            if parameters[0].requires_grad:
                if len(parameters) > 1:
                    raise ValueError(f"{self.plan.tensors[index]} is several parameters in one "
                                     "memory, which have several gradients")
                gradient = self.gradients[index] = Gradient(index, parameters[0])
                self.add(gradient)
                parameters[0].grad = None
                self.handles.append(parameters[0].register_post_accumulate_grad_hook(
                    functools.partial(self.on_gradient, gradient)))
        for index, _, state, kind in self.observer.find_states():
            if kind is not None:
                self.add(Bound(kind, index, [state]))
        self.nowhere = {bound.nowhere.untyped_storage()._cdata: bound
                        for bound in self.bound.values()}

    def add(self, bound):
        place = self.plan.find(bound.kind, bound.index)
        name = self.plan.tensors[bound.index]
        if place is None:
            raise ValueError(f"the plan has no {bound.kind} of {name}")
        if place.offset + bound.nbytes > self.plan.chunks[place.chunk].copy_bytes:
            raise ValueError(f"{bound.kind} of {name} has {bound.nbytes} bytes, more than in the "
                             "plan: parameters of several types are not followed")
        self.bound[bound.kind, bound.index] = bound

    def on_gradient(self, gradient, parameter):
        if self.mode == "record" and self.chunks is not None and parameter.grad is not None:
            self.busy = True
            try:
                gradient.accept(parameter)
            finally:
                self.busy = False

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
        """Within it, between two steps, all parameters and states can be read: for evaluation and
        saving. What is written there is lost."""
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
                self.chunks.take_moved()
                for bound in self.bound.values():
                    bound.leave()
            self.mode = before

    def stop(self):
        """Gives the program its parameters and states in memory of their own. The loop may go on
        without the plan."""
        if self.mode is None:
            return
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
