"""The two memories of a plan on the CPU device, and the copies between them."""
import ctypes

import torch

from ._library import NO_ADDRESS, Mover

ALIGNMENT = 256


class Memory:
    """Bytes at a multiple of ALIGNMENT, of which tensors are views."""

    def __init__(self, size):
        whole = torch.empty(size + ALIGNMENT, dtype=torch.uint8)
        begin = -whole.data_ptr() % ALIGNMENT
        self.bytes = whole[begin:begin + size]
        self.begin = self.bytes.data_ptr()
        self.storage = whole.untyped_storage()._cdata

    def view(self, address, like):
        """Returns a tensor at an address with the type, shape and strides of another."""
        typed = self.bytes[address:address + like.numel() * like.element_size()].view(like.dtype)
        return typed.as_strided(like.shape, like.stride(), typed.storage_offset())

    def address_of(self, tensor):
        """Returns the address of the tensor's first byte; None if it lies elsewhere."""
        if tensor.untyped_storage()._cdata != self.storage:
            return None
        return tensor.data_ptr() - self.begin


class Chunks:
    """Carries out what the residency manager asks for, and counts it. `left` is called with each
    chunk whose bytes on the device are no longer there, and `run` with each moment."""

    def __init__(self, plan, left, run):
        self.plan, self.left, self.run = plan, left, run
        self.arena, self.pool = Memory(plan.arena_bytes), Memory(plan.pool_bytes)
        self.failure = None
        self.resident, self.occupied = {}, 0  # slots by chunk, and their sum
        self.moved = dict.fromkeys(("h2d_bytes", "d2h_bytes", "h2d_copies", "d2h_copies", "moves",
                                    "moved_bytes"), 0)
        self.peak = 0  # the most bytes of slots in use when an operator started
        kinds = dict(Mover._fields_)
        self.mover = Mover(*(kinds[name](self._guarded(getattr(self, f"_{name}")))
                             for name in kinds))
        for chunk, (home, start) in enumerate(zip(plan.home, plan.start)):
            if home == NO_ADDRESS and start != NO_ADDRESS:
                self._occupy(chunk)
        self.execution = plan.library.execution_new(plan.plan, plan.trace, ctypes.byref(self.mover),
                                                    None)

    def free(self):
        self.plan.library.execution_free(self.execution)
        self.execution = None

    def load(self):
        """Fetches the initial residency. These copies belong to no iteration."""
        self.plan.library.execution_load(self.execution)
        self.take_moved()

    def step(self, moment):
        self.plan.library.execution_step(self.execution, moment)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def flush(self):
        """Makes the host's copies of all chunks that have one valid."""
        self.plan.library.execution_flush(self.execution)

    def refresh(self):
        """Copies what was written into the pool after flush() to the device's copies, which belongs to no
        iteration."""
        for chunk in self.resident:
            if self.plan.home[chunk] != NO_ADDRESS:
                ctypes.memmove(self.arena.begin + self.address(chunk), self.pool.begin + self.plan.home[chunk],
                               self.plan.chunks[chunk].copy_bytes)

    def address(self, chunk):
        """Returns where the chunk lies in the arena; None if it is not there."""
        address = self.plan.library.execution_address(self.execution, chunk)
        return None if address == NO_ADDRESS else address

    def take_moved(self):
        """Returns what has moved since the last call, and the peak of the slots in use."""
        moved = {**self.moved, "peak_chunk_bytes": self.peak}
        self.moved, self.peak = dict.fromkeys(self.moved, 0), 0
        return moved

    def _guarded(self, function):
        """Keeps exceptions for `step`: they cannot pass through the C code that called."""
        def call(_, *arguments):
            try:
                if self.failure is None:
                    function(*arguments)
            except BaseException as failure:
                self.failure = failure
            return 0
        return call

    def _occupy(self, chunk):
        if chunk not in self.resident:
            self.resident[chunk] = self.plan.chunks[chunk].slot_bytes
            self.occupied += self.resident[chunk]

    def _leave(self, chunk):
        self.occupied -= self.resident.pop(chunk)
        self.left(chunk)

    def _fetch(self, copy, _):
        copy = copy.contents
        ctypes.memmove(self.arena.begin + copy.device_address, self.pool.begin + copy.host_address,
                       copy.copy_bytes)
        self.moved["h2d_bytes"] += copy.copy_bytes
        self.moved["h2d_copies"] += 1
        self._occupy(copy.chunk)

    def _write_back(self, copy, leaves, _):
        copy = copy.contents
        ctypes.memmove(self.pool.begin + copy.host_address, self.arena.begin + copy.device_address,
                       copy.copy_bytes)
        self.moved["d2h_bytes"] += copy.copy_bytes
        self.moved["d2h_copies"] += 1
        if leaves:
            self._leave(copy.chunk)

    def _allocate(self, copy):
        self._occupy(copy.contents.chunk)

    def _drop(self, chunk):
        self._leave(chunk)

    def _move(self, copy, source, _):
        copy = copy.contents
        ctypes.memmove(self.arena.begin + copy.device_address, self.arena.begin + source,
                       copy.copy_bytes)
        self.moved["moves"] += 1
        self.moved["moved_bytes"] += copy.copy_bytes
        self.left(copy.chunk)

    def _run(self, moment, *_):
        self.peak = max(self.peak, self.occupied)
        self.run(moment)
