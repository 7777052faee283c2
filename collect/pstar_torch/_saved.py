"""What autograd saves: of a plan's parameters their places, not their memory of the moment; and of
activations that a plan lets leave the device, the place in their chunks."""
import functools

import torch
import torch.utils.checkpoint as checkpoints

from ._activations import Part
from ._memory import ALIGNMENT, Memory

_INNER = ("_checkpoint_hook", "_recomputation_hook")  # of checkpoints that are not reentrant


class Saved:
    """Active between enter() and leave(). A parameter that an operator saves for backward may be
    elsewhere when backward comes, so the hooks save its place in the plan and find it again there.

    Checkpoints that are not reentrant have hooks of their own, which hide ours. What they save when
    they compute a module again gets a stand-in of one element, and the parameter is found when
    backward asks for it. They stop computing when the last tensor is saved, before the operator
    that saves it has run. So the plan has no operator there and need not have its parameter, which
    must look as if it were there: lend() gives it memory that nothing reads."""

    def __init__(self, follower):
        self.follower = follower
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack_next, self.unpack)
        self.activations = None  # of the plan; None in the observed iteration
        self.active = False
        self.stand_ins = {}  # by storage: the tensor, which keeps the storage, and the place
        self.lent = []       # (module, memory, address, bound)
        self.again = []      # (module, its parameters) of those that are computed again
        self.classes = [(name, getattr(checkpoints, name)) for name in _INNER
                        if hasattr(checkpoints, name)]

    def check_hooks(self):
        """Hooks of the program's own would save parameters where the plan has them for the moment.
        Those of checkpoints are wrapped."""
        top = torch._C._autograd._top_saved_tensors_default_hooks(True)
        if top is not None and not any(
                name in getattr(top[0], "__qualname__", "")
                for name in (*_INNER, "Saved.", "Observer.")):
            self.follower.fail(ValueError(
                "the program has hooks on what autograd saves, such as save_on_cpu, which hide it "
                "from the plan: let the plan offload activations instead"))

    def check_begin(self):
        """A checkpoint around the whole iteration's begin would remove our hooks in place of its
        own when it ends."""
        top = torch._C._autograd._top_saved_tensors_default_hooks(True)
        if top is not None and any(name in getattr(top[0], "__qualname__", "") for name in _INNER):
            raise ValueError("the first module of the iteration runs within a checkpoint that is not "
                             "reentrant, which is not followed: call checkpoint() within the forward "
                             "of a module")

    def enter(self):
        self.hooks.__enter__()
        self.activations.begin()
        self.active = True
        for name, original in self.classes:
            setattr(checkpoints, name, self.around(name, original))

    def leave(self):
        if not self.active:
            return
        self.active = False
        self.hooks.__exit__()
        for name, original in self.classes:
            setattr(checkpoints, name, original)
        for held in (self.stand_ins, self.lent, self.again):
            held.clear()

    def around(self, name, original):
        """Returns a class of hooks that saves stand-ins, or resolves them."""
        def make(*arguments, **keywords):
            hooks = original(*arguments, **keywords)
            pack, unpack = hooks.pack_hook, hooks.unpack_hook
            if name == "_recomputation_hook":
                hooks.pack_hook = functools.wraps(pack)(lambda x: pack(self.stand_in(x)))
            else:
                hooks.unpack_hook = functools.wraps(unpack)(lambda x: self.resolve(unpack(x)))
            return hooks
        return make

    def pack_next(self, tensor):
        """Called with each tensor that autograd saves. A node that has its own result must not keep
        it alive with its node."""
        part = self.activations.pack(tensor, self.follower)
        saved = self.pack(tensor) if part is None else part
        return saved.detach() if saved is tensor else saved

    def pack(self, tensor):
        """Returns the place of a parameter, or of a part of it: (bound, offset, type, shape,
        strides). Returns other tensors as they are."""
        follower = self.follower
        if follower.chunks is None or tensor.device.type != "cpu":
            return tensor
        self.begin_piece(tensor)
        absent = follower.nowhere.get(tensor.untyped_storage()._cdata)
        if absent is not None and tensor.shape == absent.shape.shape:
            return absent, 0, tensor.dtype, tensor.shape, absent.shape.stride()
        address = follower.chunks.arena.address_of(tensor)
        if address is None:
            found = self.find_lent(tensor)
            return tensor if found is None else (*found, tensor.dtype, tensor.shape,
                                                 tensor.stride())
        own = (bound for _, parameters in self.again for bound in parameters)
        for bound in (*follower.current, *own):
            if bound.covers(follower.chunks.arena, address):
                return (bound, address - bound.where[1], tensor.dtype, tensor.shape,
                        tensor.stride())
        raise RuntimeError(f"autograd saves a tensor of shape {tuple(tensor.shape)} from memory that "
                           f"{follower.moment_name()} does not use")

    def begin_piece(self, tensor):
        """Outside of modules, the first operator that uses a parameter begins its moment. Autograd
        saves the parameter before, so that it may be nowhere yet."""
        follower = self.follower
        if follower.pieces is None:
            return
        bound = follower.nowhere.get(tensor.untyped_storage()._cdata)
        address = follower.chunks.arena.address_of(tensor)
        if address is not None:
            bound = next((bound for bound in follower.bound.values()
                          if bound.covers(follower.chunks.arena, address)), None)
        if bound is not None and bound not in follower.current:
            follower.begin_piece(bound)

    def unpack(self, saved):
        if isinstance(saved, torch.Tensor):
            return saved
        follower = self.follower
        if isinstance(saved, Part):
            return self.activations.unpack(saved, follower)
        bound, offset, dtype, shape, stride = saved
        if bound.where is None and dtype == bound.nowhere.dtype:
            return bound.nowhere.as_strided(shape, (0,) * len(shape))  # for no operator to use
        if bound.where is None:
            raise RuntimeError(f"{follower.plan.tensors[bound.index]} is not there for "
                               f"{follower.moment_name()}")
        memory, address = bound.where
        with follower.unwatched():
            typed = memory.bytes[address + offset:address + bound.nbytes].view(dtype)
            return torch.as_strided(typed, shape, stride, typed.storage_offset())

    def stand_in(self, tensor):
        saved = self.pack(tensor)
        if saved is tensor:
            return tensor
        with self.follower.unwatched(), torch.no_grad():
            element = torch.zeros(1, dtype=tensor.dtype)
            stand_in = element.as_strided(tensor.shape, (0,) * tensor.dim())
        self.stand_ins[element.untyped_storage()._cdata] = stand_in, saved
        return stand_in

    def resolve(self, tensor):
        found = self.stand_ins.get(tensor.untyped_storage()._cdata)
        return tensor if found is None else self.unpack(found[1])

    def lend(self, module):
        """Called before a module that backward computes again."""
        own = [self.follower.bound_of(parameter) for parameter in module.parameters(recurse=False)]
        own = [bound for bound in own if bound is not None]
        self.again.append((module, own))
        missing = [bound for bound in own if bound.where is None]
        sizes = [-(-bound.nbytes // ALIGNMENT) * ALIGNMENT for bound in missing]
        memory, address = Memory(sum(sizes)), 0
        for bound, size in zip(missing, sizes):
            bound.set(memory.view(address, bound.shape))
            self.lent.append((module, memory, address, bound))
            address += size

    def take_back(self, module):
        for of, _, _, bound in self.lent:
            if of is module and bound.where is None:
                bound.set(bound.nowhere)
        self.lent = [loan for loan in self.lent if loan[0] is not module]
        self.again = [call for call in self.again if call[0] is not module]

    def find_lent(self, tensor):
        """Returns the parameter whose lent memory a tensor views, and the offset there; None if it
        views none."""
        for _, memory, begin, bound in self.lent:
            address = memory.address_of(tensor)
            if address is not None and begin <= address < begin + max(bound.nbytes, 1):
                return bound, address - begin
        return None
