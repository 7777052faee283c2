"""Snapshots of the history of PyTorch's allocator."""
import argparse
import collections
import contextlib
import io
import json
import os
import pickle
import resource
import sys

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
