"""A plan and the trace that it is for, as the follower reads them."""
import bisect
import collections
import ctypes
import json
import os

from ._library import NO_ADDRESS, Library

Place = collections.namedtuple("Place", "chunk offset")
Moment = collections.namedtuple("Moment", "name on_host accesses")  # accesses: (list, tensor, reads)


def recomputes(plan_path):
    """Returns whether the plan computes activations of a layer again."""
    with open(plan_path, encoding="utf-8") as file:
        return any(json.load(file).get("choices", {}).get("recompute", []))


class Plan:
    def __init__(self, plan_path, trace_path):
        """Raises ValueError if a file is damaged or the plan is for another trace."""
        self.library = Library()
        self.plan = self.trace = None
        self.ends = {}  # by list: (chunk, offset) of its tensors, in order
        try:
            self._read(os.fsencode(plan_path), os.fsencode(trace_path))
        except ValueError:
            self.free()
            raise

    def _read(self, plan_path, trace_path):
        library = self.library
        self.plan = library.plan_read(plan_path)
        recorded = library.trace_read(trace_path)
        try:
            self.trace = library.plan_trace(self.plan, recorded)
        finally:
            library.trace_free(recorded)
        self.layout = library.plan_layout(self.plan)
        self.tensors = [library.trace_tensor_name(self.trace, i).decode()
                        for i in range(library.trace_tensors(self.trace))]
        self.moments = [self._moment(m) for m in range(library.trace_moments(self.trace))]
        if recomputes(plan_path) and not any(m.name.startswith("recompute ") for m in self.moments):
            raise ValueError("the plan recomputes layers, and the recorded loop does not: make the "
                             "plan with --recompute traced, or checkpoint layers in the loop and "
                             "record it again")
        chunks = range(library.layout_chunks(self.layout))
        self.chunks = [library.layout_chunk(self.layout, chunk) for chunk in chunks]
        self.home = [library.plan_host_address(self.plan, chunk) for chunk in chunks]
        self.start = [library.plan_initial_address(self.plan, chunk) for chunk in chunks]
        self.pool_bytes = library.plan_host_pool_bytes(self.plan)
        self.arena_bytes = self._arena_bytes()

    def free(self):
        self.library.plan_free(self.plan)
        self.library.trace_free(self.trace)
        self.plan = self.trace = None

    def _moment(self, number):
        operator = self.library.trace_operator(self.trace, number)
        accesses = [self.library.trace_access(self.trace, number, i)
                    for i in range(operator.access_count)]
        if any(access.block for access in accesses):
            raise ValueError("the plan cuts optimizer states into blocks, which a PyTorch optimizer "
                             "updates whole")
        return Moment(operator.name.decode(), operator.on_host,
                      [(access.list.decode(), access.tensor, access.reads) for access in accesses])

    def _arena_bytes(self):
        """Returns the bytes of the arena that chunks use. Non-model data would lie above; PyTorch's
        allocator has it instead."""
        ends = [address + chunk.slot_bytes for address, chunk in zip(self.start, self.chunks)
                if address != NO_ADDRESS]
        for moment in range(len(self.moments) + 1):
            for i in range(self.library.plan_actions(self.plan, moment)):
                action = self.library.plan_action(self.plan, moment, i)
                if action.kind != b"wait" and action.address != NO_ADDRESS:
                    ends.append(action.address + self.chunks[action.chunk].slot_bytes)
        return max(ends, default=0)

    def find(self, kind, tensor):
        """Returns the tensor's place in a list; None if the list does not have it."""
        chunk, offset = ctypes.c_uint32(), ctypes.c_uint64()
        found = self.library.layout_find(self.layout, kind.encode(), tensor, 0, ctypes.byref(chunk),
                                         ctypes.byref(offset))
        return Place(chunk.value, offset.value) if found else None

    def room(self, kind, tensor):
        """Returns the bytes that a tensor's place has: up to the next tensor, or the chunk's end."""
        chunk, offset = self.find(kind, tensor)
        if kind not in self.ends:
            places = [self.find(kind, other) for other in range(len(self.tensors))]
            self.ends[kind] = sorted((*place,) for place in places if place is not None)
        after = self.ends[kind][bisect.bisect(self.ends[kind], (chunk, offset)):][:1]
        end = after[0][1] if after and after[0][0] == chunk else self.chunks[chunk].copy_bytes
        return end - offset

    def figure(self, name):
        """Returns a figure of one iteration that the plan predicts, such as "h2d_bytes"."""
        value = ctypes.c_double()
        if not self.library.plan_figure(self.plan, name.encode(), ctypes.byref(value)):
            raise KeyError(name)
        return value.value
