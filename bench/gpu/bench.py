"""The programs, PyTorch and the files that the parts of the GPU bench share."""

import contextlib
import json
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# GPT-2's four sizes, and what stands for each where there is no GPU: layers, width, heads.
SIZES = {"124M": (12, 768, 12), "355M": (24, 1024, 16), "774M": (36, 1280, 20), "1.5B": (48, 1600, 25)}
TINY = (2, 64, 2)


class Failed(Exception):
    pass


class Bench:
    def __init__(self, programs, output, device):
        self.programs, self.output, self.device = programs.resolve(), output.resolve(), device
        self.gpu = device == "cuda"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pstar-gpu-"))
        words = random.Random(1)
        (self.folder / "data.txt").write_bytes(bytes(words.randrange(32, 127) for _ in range(1 << 20)))

    def call(self, *command, allowed=(0,), environment=None, limit=400):
        """What it printed. Fails with what it said where it ends otherwise than allowed."""
        command = [str(part) for part in command]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=limit,
                              env=environment)
        if done.returncode not in allowed:
            raise Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-1500:]}")
        return done

    def program(self, name, *arguments, **how):
        return self.call(self.programs / name, *arguments, **how)

    @property
    def vocabulary(self):
        return 50304 if self.gpu else 256

    def shape(self, size):
        return SIZES[size] if self.gpu else TINY

    def torch_command(self, size, *options, batch=4, sequence=1024, steps=10):
        layers, width, heads = self.shape(size)
        batch, sequence = (batch, sequence) if self.gpu else (2, 32)
        return [sys.executable, HERE / "torch_gpt.py", "--layers", layers, "--width", width, "--heads", heads,
                "--vocab", self.vocabulary, "--batch", batch, "--seq", sequence, "--steps", steps, "--data", "data.txt",
                "--device", self.device, *options]

    def torch(self, *arguments, **shape):
        """What torch_gpt.py says of itself."""
        done = self.call(*self.torch_command(*arguments, **shape))
        return json.loads(done.stdout.splitlines()[-1])

    def model(self, size, layers=None):
        """A config.json of the size, with more layers where said."""
        of_size, width, heads = self.shape(size)
        config = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], activation_function="gelu_new",
                      n_layer=layers or of_size, n_embd=width, n_head=heads, n_positions=1024,
                      vocab_size=self.vocabulary,
                      embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0)
        path = self.folder / f"{size}-{layers or of_size}.json"
        path.write_text(json.dumps(config))
        return path

    def job(self, model, *options, batch=4, sequence=1024, precision="bf16"):
        batch, sequence = (batch, sequence) if self.gpu else (2, 32)
        return ["--device", self.device, "--model", model, "--data", "data.txt", "--batch", batch, "--seq",
                sequence, "--precision", precision, *options]

    def steps(self, job, steps=10, uncounted=3, limit=400):
        """What each counted step logged."""
        self.program("pstar-run", *job, "--steps", steps, "--log", "run.jsonl", limit=limit)
        lines = map(json.loads, (self.folder / "run.jsonl").read_text().splitlines())
        return [line for line in lines if "step" in line][uncounted:]

    def read(self, name):
        return json.loads((self.folder / name).read_text())

    def keep(self, name):
        """A file of the folder, into the results."""
        (self.output / name).write_bytes((self.folder / name).read_bytes())

    def rows(self, trace, query):
        """Of a trace, which is SQLite; its tables are Nsight Systems'."""
        with contextlib.closing(sqlite3.connect(self.folder / trace)) as database:
            return database.execute(query).fetchall()


def within(a, b, share):
    return abs(a - b) <= share * max(abs(a), abs(b))
