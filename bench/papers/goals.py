"""Tables of predictions beside what was published, each with its goal.

Every group of rows that a bench of this folder prints has a goal, or says why it has none.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import written


def add_options(parser):
    parser.add_argument("--programs", required=True, type=pathlib.Path, help="folder of the built programs")
    written.add_options(parser)


class Tables:
    """Prints tables as they are added, and remembers which goals were missed."""

    def __init__(self, bench):
        self.bench, self.pieces, self.missed = bench, {}, []

    def add(self, name, heading, rows, *goals):
        """Adds a table. A goal is a text and whether it is met; a text alone says why there is none."""
        text = written.table(heading, rows)
        for goal in goals:
            if isinstance(goal, str):
                text += f"\nNo goal: {goal}.\n"
                continue
            text += f"\nGoal: {goal[0]}: {'PASS' if goal[1] else 'FAIL'}.\n"
            if not goal[1]:
                self.missed.append(f"{name}: {goal[0]}")
        if not goals:
            raise ValueError(f"{name} has no goal, and does not say why")
        self.pieces[f"{self.bench}: {name}"] = text
        print(f"{name}\n\n{text}", flush=True)

    def finish(self, options):
        """Compares or replaces the tables in a document. Returns the exit status."""
        for goal in self.missed:
            print(f"{self.bench}: missed: {goal}", file=sys.stderr)
        return 0 if written.settle(options, self.pieces) and not self.missed else 1


def percent(error, digits=1):
    return f"{round(error * 100, digits) or 0:+.{digits}f} %".replace("-", "−")
