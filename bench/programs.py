"""Calls our programs in a folder, for the benches."""

import pathlib
import shlex
import subprocess
import sys


class Programs:
    """Calls the programs of one folder while working in another."""

    def __init__(self, programs, folder, prefix=""):
        self.programs = pathlib.Path(programs).resolve()
        self.folder = pathlib.Path(folder)
        self.prefix = shlex.split(prefix)

    def call(self, program, *arguments, timed=False, allowed=(0,)):
        """Runs a program. A timed one runs behind the prefix, as in nice -n -10."""
        command = [*(self.prefix if timed else []), str(self.programs / program), *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode not in allowed:
            name = pathlib.Path(sys.argv[0]).name
            raise SystemExit(f"{name}: {shlex.join(command)}: {done.stderr.strip()}")
        return done
