"""Activations that a plan lets leave the device between forward and backward."""
import collections
import ctypes

import torch


class Activation:
    """What autograd saves of one storage. Its bytes are copied into the plan's chunk when the first
    tensor of it is saved."""

    def __init__(self, number, nbytes, save, restores, kept):
        self.number, self.nbytes, self.save, self.restores = number, nbytes, save, restores
        self.kept = kept      # moments that restore it for later ones, too
        self.chunk = None
        self.there = False    # in this iteration it was saved


class Part:
    """A tensor in an activation, which autograd has in the place of the tensor."""

    def __init__(self, activation, tensor):
        self.activation = activation
        self.dtype, self.shape, self.stride = tensor.dtype, tensor.shape, tensor.stride()
        self.offset = tensor.storage_offset()


def _in_plan(plan):
    """Returns {(save, restores): [buffers]} of what the plan's chunks hold."""
    moments = collections.defaultdict(list)
    for number, moment in enumerate(plan.moments):
        for kind, buffer, _ in moment.accesses:
            if kind == "activation":
                moments[buffer].append(number)
    found = collections.defaultdict(list)
    for buffer in sorted(moments):
        found[moments[buffer][0], tuple(moments[buffer][1:])].append(buffer)
    return found


def _observed(declarations):
    """Yields the activations of the observed iteration."""
    uses = collections.defaultdict(list)
    for number, moment, kind in declarations.uses:
        uses[number].append((moment, kind))
    for number, mine in uses.items():
        save = next(moment for moment, kind in mine if kind == "save")
        restores = [moment for moment, kind in mine if kind == "restore"]
        kept = {mine[i][0] for i in range(len(mine) - 1)
                if mine[i][1] == "restore" and mine[i + 1][1] == "use"}
        yield Activation(number, declarations.buffers[number][1], save, tuple(restores), kept)


class Activations:
    def __init__(self, plan, declarations, packs):
        """Finds the plan's activations among those that were observed. `packs` is what autograd
        saved then, in order."""
        wanted, found = _in_plan(plan), {}
        for activation in _observed(declarations):
            same = wanted.get((activation.save, activation.restores))
            fits = [buffer for buffer in same or ()
                    if plan.chunks[plan.find("activation", buffer).chunk].copy_bytes
                    >= activation.nbytes > plan.chunks[plan.find("activation", buffer).chunk]
                    .copy_bytes - 256]
            if fits:
                same.remove(fits[0])
                activation.chunk = plan.find("activation", fits[0]).chunk
                found[activation.number] = activation
        if any(wanted.values()):
            raise ValueError("the plan lets activations leave the device that this loop does not "
                             "save for backward")
        self.packs, self.count = packs, 0
        self.by_pack = {i: found[declarations.numbers[storage]]
                        for i, (storage, _, _) in enumerate(packs)
                        if declarations.numbers.get(storage) in found}

    def begin(self):
        self.count = 0
        for activation in self.by_pack.values():
            activation.there = False

    def pack(self, tensor, follower):
        """Called with each tensor that autograd saves. Returns a Part; None if the plan leaves the
        tensor to autograd."""
        number, self.count = self.count, self.count + 1
        if not self.by_pack:
            return None
        if number >= len(self.packs) or self.packs[number][1:] != (tensor.dtype, tensor.shape):
            follower.diverge(f"autograd saves a tensor of shape {tuple(tensor.shape)}")
        activation = self.by_pack.get(number)
        if activation is None:
            return None
        if not activation.there:
            self.copy(activation, tensor.untyped_storage(), follower)
        return Part(activation, tensor)

    @staticmethod
    def copy(activation, storage, follower):
        address = follower.chunks.address(activation.chunk)
        if storage.nbytes() != activation.nbytes or address is None or \
                follower.next - 1 != activation.save:
            follower.diverge(f"an activation of {storage.nbytes()} bytes is saved in "
                             f"{follower.moment_name()}")
        ctypes.memmove(follower.chunks.arena.begin + address, storage.data_ptr(),
                       activation.nbytes)
        activation.there = True

    @staticmethod
    def unpack(part, follower):
        """Returns the tensor where it lies, or a copy if later operators use it, too."""
        activation, arena = part.activation, follower.chunks.arena
        address, moment = follower.chunks.address(activation.chunk), follower.next - 1
        if address is None or moment not in activation.restores:
            follower.diverge(f"backward needs an activation in {follower.moment_name()}, where the "
                             "plan does not have it")
        with follower.unwatched():
            whole = arena.bytes[address:address + activation.nbytes]
            typed = whole[:activation.nbytes // part.dtype.itemsize * part.dtype.itemsize] \
                .view(part.dtype)
            there = torch.as_strided(typed, part.shape, part.stride,
                                     typed.storage_offset() + part.offset)
            return there.clone() if moment in activation.kept else there

    def covers(self, address, follower):
        """Whether bytes of the arena are those of an activation that the current operator has."""
        moment = follower.next - 1
        for activation in self.by_pack.values():
            begin = follower.chunks.address(activation.chunk)
            if (moment == activation.save or moment in activation.restores) and \
                    begin is not None and begin <= address < begin + activation.nbytes:
                return True
        return False
