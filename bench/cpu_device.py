"""Training runs of a small model on this machine's CPU device, shared by the benches."""

import json
import random
import sys

from programs import Programs

CONFIG = dict(
    model_type="gpt2", architectures=["GPT2LMHeadModel"], activation_function="gelu_new",
    n_layer=6, n_embd=384, n_head=6, n_positions=256, vocab_size=256, tie_word_embeddings=True,
    embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, layer_norm_epsilon=1e-5, initializer_range=0.02,
)
BATCH, SEQUENCE = 2, 128


class CpuDevice(Programs):
    """Runs our programs in a folder that holds the model and its data."""

    def __init__(self, programs, folder, prefix=""):
        super().__init__(programs, folder, prefix)
        (self.folder / "config.json").write_text(json.dumps(CONFIG))
        words = random.Random(1)
        (self.folder / "data.txt").write_bytes(bytes(words.randrange(32, 127) for _ in range(1 << 18)))

    def probe(self, path="machine.json"):
        print("probing the machine", file=sys.stderr)
        self.call("pstar-run", "--probe", "-o", path, timed=True)
        return path

    def job(self, precision, *step):
        return ["--model", "config.json", "--data", "data.txt", "--batch", BATCH, "--seq", SEQUENCE,
                "--precision", precision, *step]

    def collect(self, path, first, last, job):
        """Traces iterations first to last of the job, which runs last + 1 steps."""
        self.call("pstar-collect", "-o", path, "--iterations", f"{first}:{last}", "--",
                  self.programs / "pstar-run", *job, "--steps", last + 1, timed=True)
        return path

    def steps(self, job, steps, uncounted):
        """Returns the log of each iteration after the uncounted ones."""
        self.call("pstar-run", *job, "--steps", steps, "--log", "run.jsonl", timed=True)
        lines = map(json.loads, (self.folder / "run.jsonl").read_text().splitlines())
        return [line for line in lines if "step" in line][uncounted:]
