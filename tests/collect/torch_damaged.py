#!/usr/bin/env python3
"""Damaged snapshots of PyTorch's memory are refused in one line or imported as a valid trace.

    torch_damaged.py PSTAR_TRACE

First each kind of damage by itself, then many at random places. Returns 77 where PyTorch is
missing.
"""
import copy
import json
import math
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile

from torch_snapshot import BASE, SLOT, Allocator, check, convert

RANDOM_FILES = 300


def event(**changes):
    """Returns an allocation of the history."""
    def damage(snapshot):
        next(e for e in snapshot["device_traces"][0] if e["action"] == "alloc").update(changes)
    return damage


def lacking(key):
    def damage(snapshot):
        del snapshot["device_traces"][0][3][key]
    return damage


def member(key, value):
    def damage(snapshot):
        snapshot[key] = value
    return damage


def block(**changes):
    def damage(snapshot):
        snapshot["segments"][0]["blocks"][1].update(changes)
    return damage


def of_other_device(snapshot):
    snapshot["segments"][0]["device"] = 7


def twice_in_use(snapshot):
    snapshot["segments"] *= 2


REFUSED = [
    ("a size below 0", event(size=-5), "'size' is negative"),
    ("a huge size", event(size=1 << 70), "'size' is negative or too large"),
    ("a size of thousands of digits", event(size=10 ** 5000), "'size' is negative or too large"),
    ("a size that is a fraction", event(size=1.5), "'size' is of type float"),
    ("a size that is a truth", event(size=True), "'size' is of type bool"),
    ("an address that is a text", event(addr="0x7f"), "'addr' is of type str"),
    ("an address that is a list", event(addr=[1]), "'addr' is of type list"),
    ("a time that is no number", event(time_us=math.nan), "'time_us' is of type float"),
    ("a time before all times", event(time_us=-1), "'time_us' is negative"),
    ("a time after all times", event(time_us=10 ** 18), "'time_us' is negative or too large"),
    ("an action that is a number", event(action=3), "'action' is of type int"),
    ("no action", lacking("action"), "device_traces[0][3]: 'action' is missing"),
    ("no size", lacking("size"), "device_traces[0][3]: 'size' is missing"),
    ("events that are lists", member("device_traces", [[[]]]), "[0][0]: expected a dictionary"),
    ("a history that is a text", member("device_traces", ["abc"]), "is not a list"),
    ("histories in a dictionary", member("device_traces", {}), "'device_traces' is of type dict"),
    ("no histories", lambda s: s.pop("device_traces"), "'device_traces' is missing"),
    ("no segments", lambda s: s.pop("segments"), "'segments' is missing"),
    ("a segment that is empty", member("segments", [{}]), "segments[0]: 'address' is missing"),
    ("segments of another device", of_other_device, "histories of 1 devices"),
    ("a state that is not known", block(state="lost"), "segments[0][1]: state 'lost'"),
    ("a block below 0", block(size=-SLOT), "segments[0][1]: 'size' is negative"),
    ("blocks at one address", twice_in_use, "another block has the same address"),
]

PICKLES = [
    ("empty", b"", "EOFError"),
    ("text", b"no pickle", "not a snapshot"),
    ("a list", pickle.dumps([1, 2]), "snapshot: expected a dictionary, found list"),
    ("a call", b"\x80\x04cos\nsystem\n\x8c\x04true\x85R.", "'os'.'system' is not allowed"),
    ("a class of a name in lines", b"\x80\x04\x8c\x03o\ns\x8c\x01x\x93.", "'o\\ns'.'x'"),
    ("an extension", b"\x80\x02\x82\x01.", "extension code 1"),
    ("what its program knows", b"\x80\x04K\x01Q.", "persistent id"),
    ("numbers for 2^31 members", b"\x80\x04]r\xff\xff\xff\x7f.", "more memory than"),
    ("a text of 2^60 bytes", b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b"a.", "memory"),
    ("a cut bytearray", b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b"a.", "memory"),
    ("lists in lists", b"\x80\x04" + b"]" * 100000 + b"a" * 99999 + b".", "found list"),
]


def write(folder, content):
    path = folder / "snapshot.pickle"
    path.write_bytes(content)
    (folder / "snapshot.json").unlink(missing_ok=True)
    return path


def check_line(what, path, status, errors):
    check(status == 2 and errors.startswith(f"pstar_torch: {path}: not a snapshot") and
          errors.count("\n") == 1 and len(errors) < 400, f"{what}: status {status}: {errors}")
    check(not path.with_suffix(".json").exists(), f"{what}: a file is left")


def check_refused(folder):
    good = Allocator(1, 100).snapshot()
    for what, damage, reason in REFUSED:
        snapshot = copy.deepcopy(good)
        damage(snapshot)
        path = write(folder, pickle.dumps(snapshot))
        status, errors = convert(path)
        check_line(what, path, status, errors)
        check(reason in errors, f"{what}: {errors}")
    for what, content, reason in PICKLES:
        path = write(folder, content)
        status, errors = convert(path)
        check_line(what, path, status, errors)
        check(reason in errors, f"{what}: {errors}")
    for cut in range(0, 300, 7):
        path = write(folder, pickle.dumps(good)[:-1 - cut])
        check_line(f"without its last {cut + 1} bytes", path, *convert(path))


def check_files(folder):
    """Tries missing files, and an output that would overwrite the snapshot."""
    check(convert(folder / "nothing")[0] == 2, "a file that is not there")
    check(convert(folder)[0] == 2, "a folder")
    path = write(folder, pickle.dumps(Allocator(1, 10).snapshot())).rename(folder / "run.json")
    before = path.read_bytes()
    status, errors = convert(path)
    check(status == 2 and "the snapshot itself" in errors, errors)
    check(path.read_bytes() == before, "the snapshot was written over")


def import_snapshot(program, folder, snapshot):
    """Returns the output of pstar-trace info."""
    path = write(folder, pickle.dumps(snapshot))
    status, errors = convert(path)
    check(status == 0, errors)
    return import_json(program, folder)


def import_or_refusal(program, folder):
    """Imports what was converted. Returns False if nothing of use was left in it, which one line says."""
    done = subprocess.run([program, "import", folder / "snapshot.json", "-o", folder / "run.pstar"], check=False,
                          capture_output=True, text=True)
    if done.returncode == 0:
        return True
    check(done.returncode == 2 and "there is no iteration" in done.stderr and done.stderr.count("\n") == 1,
          done.stderr)
    return False


def import_json(program, folder):
    trace = folder / "run.pstar"
    check(import_or_refusal(program, folder), "nothing was imported")
    subprocess.run([program, "check", trace], check=True, stdout=subprocess.DEVNULL)
    return json.loads(subprocess.run([program, "info", "--json", trace], check=True,
                                     capture_output=True).stdout)


def history(*events):
    """Makes a history of (action, slot, bytes, microseconds)."""
    return {"segments": [], "device_traces": [[
        {"action": action, "addr": BASE + slot * SLOT, "size": size, "time_us": time}
        for action, slot, size, time in events]]}


def check_accepted(program, folder):
    """Small contradictions are counted as well as possible, and named."""
    def peak_and_missing(snapshot):
        info = import_snapshot(program, folder, snapshot)
        memory = info["activity"] and info["activity"]["devices"][0]["memory"]
        return memory and memory["peak_bytes"], "\n".join(info["missing"])

    peak, missing = peak_and_missing(history(("alloc", 0, 100, 50), ("free_completed", 0, 100, 40),
                                             ("alloc", 1, 60, 45), ("alloc", 2, 30, 60)))
    check(peak == 100 and "times: 2 of 4" in missing, f"times that go back: {peak} {missing}")
    peak, missing = peak_and_missing(history(("free_completed", 0, 100, 1), ("alloc", 1, 60, 2)))
    check(peak == 100 and "frees released" not in missing, f"what was there: {peak} {missing}")
    peak, missing = peak_and_missing(history(("alloc", 0, 100, 1), ("free_completed", 0, 100, 2),
                                             ("free_completed", 0, 100, 3)))
    check(peak == 100 and "1 frees released" in missing, f"given back twice: {peak} {missing}")
    peak, missing = peak_and_missing(history(("alloc", 0, 100, 1), ("swap", 0, 100, 2)))
    check(peak == 100 and "'swap'" in missing, f"an action that is not known: {peak} {missing}")


def check_empty(program, folder):
    """A history without allocations has nothing that a plan could use."""
    path = write(folder, pickle.dumps({"segments": [], "device_traces": []}))
    status, errors = convert(path)
    check(status == 0, errors)
    (folder / "run.pstar").unlink(missing_ok=True)
    check(not import_or_refusal(program, folder), "a history of nothing was imported")
    check(not (folder / "run.pstar").exists(), "a trace of nothing was written")


def damage_at_random(source, snapshot):
    """Removes a few members, or replaces them by values that do not belong there."""
    strange = [None, True, -1, 1.5, math.inf, 1 << 53, 1 << 64, "", b"x", [], {}, (), [[{}]]]
    for _ in range(source.choice((1, 1, 4))):
        holder = snapshot
        while True:
            places = list(holder) if type(holder) is dict else range(len(holder))
            if not places:
                break
            place = source.choice(places)
            if type(holder[place]) in (dict, list) and source.random() < 0.9:
                holder = holder[place]
            elif source.random() < 0.3:
                del holder[place]
                break
            else:
                holder[place] = source.choice(strange)
                break


def check_random(program, folder, seed):
    source = random.Random(seed)
    taken = 0
    for i in range(RANDOM_FILES):
        snapshot = copy.deepcopy(Allocator(seed + i, source.choice((0, 40))).snapshot())
        if source.random() < 0.5:
            damage_at_random(source, snapshot)
        content = bytearray(pickle.dumps(snapshot))
        if source.random() < 0.5:
            for _ in range(source.choice((1, 1, 5))):
                content[source.randrange(len(content))] = source.randrange(256)
        path = write(folder, content)
        status, errors = convert(path)
        if status != 0:
            check_line(f"seed {seed}, file {i}", path, status, errors)
        elif taken < 20:
            taken += 1
            if import_or_refusal(program, folder):
                subprocess.run([program, "check", folder / "run.pstar"], check=True, stdout=subprocess.DEVNULL)
    check(taken > 0, f"seed {seed}: all are refused")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_refused(folder)
        check_files(folder)
        check_accepted(sys.argv[1], folder)
        check_empty(sys.argv[1], folder)
        seed = int(os.environ.get("PSTAR_SEED", random.randrange(1 << 30)))
        print(f"seed {seed}")
        check_random(sys.argv[1], folder, seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
