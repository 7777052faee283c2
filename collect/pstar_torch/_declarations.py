"""From observations to declarations."""
import re
import sys

import torch

from ._nvtx import OPERATOR
from ._observer import STATE_LISTS, bytes_of
from ._remarks import remarks
from ._uses import uses_of_saved

PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class _Moment:
    def __init__(self, segment, name, micro_batch):
        self.name, self.phase, self.micro_batch = name, segment.phase, micro_batch
        self.steps = segment.name == "update" and name != "update"  # of some parameters
        self.accesses = {}  # (tensor, list): mode
        self.touched = {}   # storage: bytes
        self.flops = 0
        self.bytes = 0      # of each ATen operator, each of its storages once
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
        moved = {}
        for storage, begin, end, _ in touches:
            moved[storage] = max(moved.get(storage, 0), end - begin)
        self.bytes += sum(moved.values())
        self.flops += flops


def _layers_of(moments):
    """Returns the layer of each moment, or -1. A layer is a module in a list of modules: those of an
    encoder and a decoder are not the same. They are numbered as the step first comes to them."""
    numbers, layers = {}, []
    for moment in moments:
        module = moment.name.partition(" ")[2]
        layer = re.match(r"((?:.*?\.)??\d+)(?:\.|$)", module)
        layers.append(numbers.setdefault(layer[1], len(numbers)) if layer else -1)
    return layers


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
    """Divides work outside of modules into one operator per parameter. Work that goes over the
    parameters several times, such as clipping by a norm, which reads all of them before it writes
    the first, has as many for each, except for an optimizer's step."""

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
            if self.by_tensor[tensors[0]] < self.current and self.segment.name != "update":
                self.writes = None  # it begins again
                self.make(tensors, any(mode != "read" for _, _, mode in found))
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


class Declarations:
    """Declares the observed iteration: operators, accesses and buffers. For the recorded iterations
    it keeps the operator that each event of the hooks begins."""

    def __init__(self, observer, session):
        self.observer, self.session, self.nvtx = observer, session, session.nvtx
        self.moments, self.fused = [], []
        self.events = []  # by event: the moment that it begins; None: it goes on; -1: none
        self.where = []   # by entry of the log: its moment
        self.place_segments()
        self.return_masters()
        self.overwrite_zeroed_gradients()
        self.late = sum(end - begin for storage in observer.seen
                        if storage.kind == "grad" and not storage.dead
                        for begin, end, _ in storage.spans)
        self.numbers = {}  # of storages: the buffer
        self.buffers = self.make_buffers()
        self.uses = uses_of_saved(self)
        self.declare()
        self.ranges = self.make_ranges()
        if observer.device.type == "meta":  # nothing is computed, so operators take no time
            self.events = [-1] * len(self.events)

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
                of = "" if segment.inside else "".join(f" {observer.tensors[t][0]}" for t in tensors)
                moment = _Moment(segment, segment.name + of, segment.micro_batch)
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

    def return_masters(self):
        """Adds what follows the step to the updates of copies: each is of a gradient, and gives a parameter."""
        copied = {index for _, index in self.observer.masters}
        for moment in self.moments:
            for tensor in {tensor for tensor, kind in moment.accesses if kind == "master"} & copied:
                if moment.steps:
                    moment.accesses.setdefault((tensor, "param"), "overwrite")
                    moment.accesses.setdefault((tensor, "grad"), "read")
                    moment.bytes += self.observer.widths["param"][tensor]

    def overwrite_zeroed_gradients(self):
        """Removes gradients that are zero when an iteration begins (set_to_none=False)."""
        zero = {index for index, (_, parameters) in enumerate(self.observer.tensors)
                if any(map(self.observer.is_zeroed, parameters))}
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

    def is_state(self, storage):
        """Returns whether it is a state on the device. A step may make a new one in the place of
        another, and have both for a while."""
        return storage.kind in STATE_LISTS and storage.device == self.observer.device

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
            self.numbers[storage] = len(buffers)
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
        seen = self.observer.seen
        live = sum(s.nbytes for s in seen if self.counts(s) and not s.made)
        replaced = sum(s.nbytes * ((not s.made) - (not s.dead)) for s in seen if self.is_state(s))
        peak = [0] * len(self.moments)
        for (_, what, storage), moment in zip(self.observer.log, self.where):
            if what in ("alloc", "free"):
                change = storage.nbytes if what == "alloc" else -storage.nbytes
                live += change if self.counts(storage) else 0
                replaced += change if self.is_state(storage) else 0
                peak[moment] = max(peak[moment], live + max(0, replaced))
        around = 0
        for moment, most in enumerate(peak):
            around += crossing[moment]
            self.moments[moment].workspace = max(0, most - around)
        for start, count, alone in self.fused:
            if not alone:
                group = self.moments[start:start + count]
                whole, total = group[0].workspace, sum(m.bytes for m in group) or 1
                for moment in group:
                    moment.workspace = whole * moment.bytes // total
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
        tensors, widths, differences = self.sizes()
        declare(f"meta producer PyTorch {torch.__version__}")
        declare(f"meta model {type(session.model).__name__}, "
                f"{sum(p.numel() for p in session.model.parameters())} parameters")
        declare(f"meta precision {self.precision()}")
        if self.observer.device.type == "meta":
            declare("meta machine PyTorch's meta device")
        for key, value in (("batch", session.batch), ("sequence", session.sequence),
                           ("micro_batches", 1 + max(m.micro_batch for m in self.moments))):
            declare(f"meta {key}", value)
        for kind, width in widths.items():
            declare(f"meta element_bytes_{kind}", width)
        for line in [*self.observer.remarks, *differences, *self.remarks()]:
            declare(f"meta unknown {line}")
        for index, (name, elements) in enumerate(tensors):
            declare(f"tensor {elements} {name}", index)
        for kind in widths:
            for index in range(len(tensors)):
                if index not in self.observer.widths[kind]:
                    declare(f"absent {kind}", index)
        accesses = 0
        layers = _layers_of(self.moments)
        for number, moment in enumerate(self.moments):
            declare(f"operator {moment.phase} {self.place(moment)} {layers[number]} "
                    f"{moment.micro_batch} {moment.flops} {moment.bytes} 0 0 {moment.name}",
                    number)
            for (tensor, kind), mode in moment.accesses.items():
                declare(f"access {number} {kind} {mode}", tensor)
            accesses += len(moment.accesses)
        for first, count, _ in self.fused:
            declare(f"fused {first}", count)
        for number, (name, nbytes, first, last, saved, flops) in enumerate(self.buffers):
            declare(f"buffer {nbytes} {first} {last} {saved} {flops} {name}", number)
        for number, moment, kind in self.uses:
            declare(f"use {moment} {kind}", number)
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
            sizes[dtype] = sizes.get(dtype, 0) + bytes_of(parameters[0])
        dtype = max(sizes, key=sizes.get)
        return PRECISIONS.get(dtype, str(dtype).rpartition(".")[2])

    def sizes(self):
        """Returns tensors as (name, elements), the bytes of an element in each list, and where
        these differ from the program's: in a trace they are the same for all tensors that the list
        has."""
        found, widths, differences = self.observer.widths, {}, []
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
            there = widths[kind] * sum(tensors[index][1] for index in by_tensor)
            if there != sum(by_tensor.values()):
                differences.append(f"{kind}: elements of a list have one width in a trace, which makes {there} bytes; "
                                   f"the program has {sum(by_tensor.values())} (parameters of several types)")
            names = self.observer.states.get(kind, {kind})
            if names != {kind}:
                differences.append(f"{kind}: it is what the optimizer calls {', '.join(sorted(names))}")
        return tensors, widths, differences

    def remarks(self):
        """Yields what a trace of this kind cannot tell."""
        yield "FLOPs: those of matrix products, convolutions and attention alone"
        yield from remarks
        if self.observer.device.type == "meta":
            yield ("times: the meta device computes nothing; pstar-trace retime computes them for a "
                   "platform")
        yield "non-model data: what PyTorch's kernels allocate within themselves is not seen"
        if self.late:
            yield (f"old gradients: {self.late} bytes of the step before still exist when forward "
                   "begins; here gradients live from backward to the step, as they do where "
                   "zero_grad() follows the step")
        if any(not alone or count > 1 for _, count, alone in self.fused):
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
            some = f"{', '.join(names[:4])}{', ...' if len(names) > 4 else ''}"
            yield (f"uses of {len(idle)} parameters that no operator in forward and backward "
                   f"touches (unused, or within compiled code): {some}")
            if self.observer.device.type == "meta":
                print(f"pstar_torch: the step uses {len(idle)} of {len(self.observer.tensors)} "
                      f"parameters nowhere ({some}): they are unused, or under conditions on data, "
                      "which are false on the meta device", file=sys.stderr)
        elsewhere = {}
        for storage in self.observer.seen:
            if storage.device != self.observer.device and not storage.spans:
                device = str(storage.device)
                elsewhere[device] = elsewhere.get(device, 0) + storage.nbytes
        for device, nbytes in elsewhere.items():
            yield f"non-model data on {device}: {nbytes} bytes over the iteration"
        yield from self.loose_tensors()
        if self.observer.device.type == "cuda":
            yield "library_bytes: what the driver and libraries hold"
            if torch.cuda.get_allocator_backend() == "native":
                yield ("addresses: PyTorch's native allocator shows the driver segments and not "
                       "tensors; pstar-collect --visible-tensors switches to one that shows each")

    def loose_tensors(self):
        """Names what may be data, which is not counted. Little is not worth a word."""
        rest = self.observer.loose.rest
        if rest * 100 > sum(self.observer.widths["param"].values()):
            line = (f"other tensors: {rest} bytes that no operator of the step uses, as those of data; they are "
                    "not counted, and belong to the device only if the program puts them there")
            yield line
            if self.observer.device.type == "meta":
                print(f"pstar_torch: {line}", file=sys.stderr)
