"""Counts what a program reads of tensors of the meta device, and ends a loop that waits there for a value that never
comes: unknown values and drawn numbers are the same each time that they are read."""
import ast
import collections
import collections.abc
import functools
import linecache
import types

from ._remarks import remark
from ._values import program_line

_MOST_READS = 50000  # of a line: more than layers and micro-batches of a few steps
# Rounds of a `while` without a step of an optimizer: those after which a message says so, those that end the run if
# nothing has changed since then, and those that end it anyway: more than a rollout has, or a text that is generated.
_MANY_ROUNDS, _IDLE_ROUNDS, _MOST_ROUNDS = 500, 1000, 10000


class Endless(Exception):
    """A loop seems to wait for a value that the meta device never has."""


@functools.lru_cache(maxsize=None)
def _loops_of(path):
    """Returns (first line, last line, whether it is a `while`, whether it is a function) of the loops and functions
    of a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return []
    kinds = (ast.For, ast.AsyncFor, ast.While, ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node.lineno, node.end_lineno, isinstance(node, ast.While), "Function" in type(node).__name__)
            for node in ast.walk(tree) if isinstance(node, kinds)]


@functools.lru_cache(maxsize=None)
def _innermost(path, line):
    """Returns the innermost loop or function around a line, as _loops_of() does; None if there is none."""
    around = [loop for loop in _loops_of(path) if loop[0] <= line <= loop[1]]
    return max(around, default=None, key=lambda loop: (loop[0], -loop[1]))


def _waiting(frame):
    """Returns the frame of the `while` that the program is in, as it calls from this frame, and the line of the
    `while`; None if it is in none, or in a loop within it that ends by itself."""
    while frame is not None:
        loop = _innermost(frame.f_code.co_filename, frame.f_lineno) if program_line(frame) else None
        if loop is not None and not loop[3]:
            return (frame, loop[0]) if loop[2] else None
        frame = frame.f_back
    return None


def _state(frame):
    """Returns what a loop may count by: numbers, texts, lengths of lists, and shapes of tensors."""
    found = {}
    for name, value in frame.f_locals.items():
        inner = getattr(value, "__dict__", {}) if not isinstance(value, (type, types.ModuleType)) else {}
        for key, part in ((name, value), *((f"{name}.{key}", part) for key, part in inner.items())):
            if isinstance(part, (bool, int, float, str)):
                found[key] = part
            elif hasattr(part, "shape"):
                found[key] = part.shape
            elif isinstance(part, collections.abc.Sized):
                found[key] = len(part)
    return found


class Reads:
    """What the program has read, by its lines."""

    def __init__(self):
        self.drawn = collections.Counter()
        self.rounds = collections.Counter()  # since the last step of an optimizer, by `while` and line that reads
        self.states = {}  # of the program after many rounds

    def step(self, *_):
        """Called with each step of an optimizer: a loop that trains goes on."""
        self.rounds.clear()

    def note_drawn(self, frame):
        """Remembers which line of the program decides by numbers that are drawn. What PyTorch's own modules read
        are seeds, and checks of arguments."""
        place = program_line(frame)
        if place is None:
            return
        self.drawn[place] += 1
        if self.drawn[place] == _MOST_READS:
            raise Endless(f"{place} reads drawn numbers for the {_MOST_READS}th time, as a loop may that waits for "
                          "others: on the meta device they are always the same; record the loop on a device instead")
        remark(f"drawn numbers: {place} reads some; here fractions are in the middle of their range and "
               "integers at its end, so the step takes the likelier branches and the longest lengths")

    @staticmethod
    def note_shape(name):
        """Called where numbers that are drawn, or places that are spread, decide the shape of what a function
        returns."""
        remark(f"drawn numbers: they decide what {name} returns; places of largest elements, such as those of experts, "
               "are spread evenly")

    def note_round(self, frame):
        """Called with each read of an element whose value is made up."""
        found = _waiting(frame)
        if found is None:
            return
        site = found[0].f_code, found[1], frame.f_code, frame.f_lineno
        place = f"{found[0].f_code.co_filename}, line {found[1]}"
        self.rounds[site] += 1
        rounds = self.rounds[site]
        if rounds == _MANY_ROUNDS:
            self.states[site] = _state(found[0])
            remark(f"unknown values: the `while` in {place} has read one {rounds} times, and gets the same each "
                   "time, because nothing is computed here")
        idle = rounds == _IDLE_ROUNDS and _state(found[0]) == self.states[site]
        if idle or rounds == _MOST_ROUNDS:
            raise Endless(f"the `while` in {place} has read a value {rounds} times without a step of an optimizer, "
                          "and may never end: nothing is computed on the meta device, so the value is always the "
                          "same; let a counter end the loop, too, or record it on a device instead")
