"""The rows that a bench finds, the goals that they are held to, and what documents print of both.

What one machine measured is kept in a table (CSV) that says which machine and when. Documents are written
from that table, and a test compares them with it, without measuring again:

    judged.add_options(parser)                # -o, --rows, --write, --check
    rows = judged.read(options.rows) if options.rows else measure()
    goals = judged.Goals()
    goals.judge("no plan is slower than a strategy", "2 of 12 are", False)
    sys.exit(judged.finish(options, goals, {"strategies": table + goals.text}))
"""

import csv
import datetime
import json
import os
import platform
import re

import written


def add_options(parser, table):
    parser.add_argument("-o", "--output", metavar="CSV", help="write the rows as a table")
    parser.add_argument("--rows", metavar="CSV",
                        help=f"judge the rows of such a table instead of measuring, for example of {table}")
    written.add_options(parser)


def verdict(ok):
    return "PASS" if ok else "FAIL"


def here():
    """Returns the columns that say where and when a row was measured."""
    try:
        with open("/proc/cpuinfo", encoding="ascii") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return dict(day=datetime.date.today().isoformat(), load=round(os.getloadavg()[0], 1),
                measured_on=f"{len(os.sched_getaffinity(0))} processors, {names[0] if names else platform.machine()}")


def where(rows):
    """Returns a sentence of what here() noted in the rows."""
    days = sorted({row["day"] for row in rows})
    machines = [*dict.fromkeys(row["measured_on"] for row in rows)]
    loads = [row["load"] for row in rows if row["load"] is not None]
    load = f", load averages {min(loads)} to {max(loads)}" if loads else ""
    return f"Measured on {days[0]}{f' to {days[-1]}' * (len(days) > 1)} ({'; '.join(machines)}{load}).\n"


def value_of(text):
    for parse in (json.loads, float):  # float reads "inf"
        try:
            return parse({"": "null", "True": "true", "False": "false"}.get(text, text))
        except ValueError:
            pass
    return text


def read(path):
    """Returns the rows of a table, with numbers and truth values instead of their texts."""
    with open(path, newline="", encoding="utf-8") as file:
        return [{key: value_of(text) for key, text in row.items()} for row in csv.DictReader(file)]


def others(path, numbers):
    """Returns the rows of the table at this path, if there is one, that have none of these numbers: what a bench
    keeps that measures only some of its rows again."""
    known = read(path) if path and os.path.exists(path) else []
    return [row for row in known if row["number"] not in numbers]


def write(path, rows):
    """Writes the rows as CSV, if a path was given. Columns that a row lacks are empty there."""
    if not path:
        return
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)),
                               lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


class Goals:
    """Judges goals, and keeps the lines for a document."""

    def __init__(self):
        self.ok, self.text = True, ""

    def judge(self, goal, figure, ok):
        """Prints whether a goal is met, with the figure that says so."""
        self.ok &= bool(ok)
        print(f"{verdict(ok)}  {goal}: {figure}", flush=True)
        self.text += re.sub(r"(?<=\d)%", " %", f"\nGoal: {goal}: {figure}: {verdict(ok)}.\n")
        return ok


def finish(options, goals, pieces):
    """Writes the documents, or compares them. Returns the exit status. Where documents are compared or
    written, the rows' goals were judged when they were measured, and missing one is no failure."""
    same = written.settle(options, pieces)
    return 0 if same and (goals.ok or written.is_asked(options)) else 1
