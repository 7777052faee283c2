"""Draws training steps, and budgets that they fit into. Dimensions that span orders of magnitude are
drawn log-uniformly. An instance follows from its seed and number alone.

| drawn | from |
|---|---|
| layers, width, vocabulary | 1 to 400; 256 to 12,288; 128 to 500,000 |
| heads | of 64, 128 or 256 dimensions |
| word embeddings | tied or not |
| precision and bytes a parameter | fp32: 16; bf16: 14 or 12, with several micro-batches 18 or 16 |
| micro-batches, sequences in one, tokens of one | 1 to 8; 1 to 32; 128 to 4,096 |
| recomputed layers | none, all, or the first ones |
| embedding, clipping | one in eight runs the embedding on the host; half of 12 bytes clip |
| machine | those of platforms/, the CPU half as often as each GPU |
| link | 0.2 to 200 GB/s, its directions up to 5 times apart |
| device memory | from 1 % above what fits to 60 % of the model data beside the traced activations |
| host memory | unlimited for one in four; else from just enough to twice the model data and activations |

A model has at most 200 billion parameters. A device has at most 192 GB, and an instance that needs more
is drawn again. What fits is the least that pstar-sim needs for one chunk a tensor, over the choices
that pstar-plan has: updates on either side, and layers as traced, recomputed, or recomputed and offloaded.
Steps without fused operators and platforms whose copies slow each other are not drawn.

With a disk below the host's memory, the host has from a twentieth of just enough to just enough. The disk reads
0.5 to 14 GB/s, writes from a fifth of that to as much, and has twice as much room as all data take.
"""

import json
import pathlib
import random
import re
import shutil

PLATFORMS = pathlib.Path(__file__).resolve().parents[2] / "platforms"
MACHINES = ["a100-40gb", "h100-80gb", "v100-yard"] * 2 + ["cpu-2core"]
LARGEST = 200e9  # parameters
DEVICE_MOST = 192e9
SLOWEST, FASTEST, APART = 0.2e9, 200e9, 5
ABOVE = 1.01  # what just fits
SLOWEST_DISK, FASTEST_DISK = 0.5e9, 14e9
LEAST_WRITES = 0.2  # of the rate of reads
LEAST_HOST = 0.05  # of what is just enough without a disk
STEPS = 64  # of the search for the least host memory, from none to all data
# Of layers: as traced, and those with which the least memory is needed.
CHOICES = (dict(), dict(recompute="all"), dict(recompute="all", offload="all"))


def log_uniform(rng, least, most):
    return least * (most / least) ** rng.random()


def whole(rng, least, most):
    """Draws an integer. Both ends are as likely as what lies between."""
    return min(int(log_uniform(rng, least, most + 1)), most)


class Step:
    """A model and its training step on a machine, with the options of `pstar-trace synth`."""

    def __init__(self, rng):
        self.layers = whole(rng, 1, 400)
        head = rng.choice((64, 128, 256))
        self.width = max(1, round(log_uniform(rng, 256, 12288) / head)) * head
        self.vocabulary = whole(rng, 128, 500000)
        self.tied = rng.random() < 0.5
        self.heads = self.width // head
        self.precision = rng.choice(("fp32", "bf16", "bf16"))
        self.micro_batches = whole(rng, 1, 8)
        self.batch = whole(rng, 1, 32)
        self.sequence = 128 * 2 ** rng.randrange(6)
        self.split = self.precision == "bf16" and rng.random() < 0.5
        self.clip = self.split and rng.random() < 0.5
        self.recomputed = rng.choice((0, self.layers, rng.randint(0, self.layers)))
        self.host_embedding = rng.random() < 0.125 and not self.split
        self.machine = rng.choice(MACHINES)
        self.link = draw_link(rng)

    @property
    def parameters(self):
        block = 12 * self.width ** 2 + 13 * self.width
        tables = self.vocabulary * (1 if self.tied else 2) + self.sequence
        return self.layers * block + tables * self.width

    def bytes_per_parameter(self, split):
        if self.precision == "fp32":
            return 16
        return 14 - 2 * split + 4 * (self.micro_batches > 1)

    def config(self):
        return dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], activation_function="gelu_new",
                    n_layer=self.layers, n_embd=self.width, n_head=self.heads, n_positions=self.sequence,
                    vocab_size=self.vocabulary, tie_word_embeddings=self.tied)

    def job(self, **choices):
        """Returns the options of pstar-trace synth, with other choices than those drawn."""
        chosen = dict(recompute=layers_text(self.layers, range(self.recomputed)), offload="", split=self.split,
                      clip=self.clip, host_embedding=self.host_embedding, host_update=False,
                      state_block=0) | choices
        options = ["--model", "config.json", "--batch", self.batch, "--seq", self.sequence,
                   "--precision", self.precision, "--micro-batches", self.micro_batches]
        if self.precision == "bf16":
            options += ["--bytes-per-parameter", self.bytes_per_parameter(chosen["split"])]
        for option, layers in (("--recompute", "recompute"), ("--offload-activations", "offload")):
            options += [option, chosen[layers]] if chosen[layers] else []
        options += ["--state-block", chosen["state_block"]] if chosen["state_block"] else []
        for option in ("clip", "host_embedding", "host_update"):
            options += ["--" + option.replace("_", "-")] * chosen[option]
        return [*map(str, options), "--platform", "platform.json"]


def layers_text(layers, chosen):
    """Returns layers as --recompute takes them."""
    if len(chosen) == layers:
        return "all"
    if chosen and chosen[-1] - chosen[0] + 1 == len(chosen):
        return f"{chosen[0]}-{chosen[-1]}"
    return ",".join(map(str, chosen))


def draw_link(rng):
    up = log_uniform(rng, SLOWEST, FASTEST)
    down = up * log_uniform(rng, 1 / APART, APART)
    return ",".join(f"{name}={min(max(rate, SLOWEST), FASTEST) / 1e9:.3g}GB/s"
                    for name, rate in (("h2d", up), ("d2h", down)))


class Instance:
    """A step with budgets that it fits into. Its files lie in the folder of the programs' work."""

    def __init__(self, programs, seed, number, largest):
        rng = random.Random(f"{seed}/{number}")
        self.programs, self.number, self.redraws = programs, number, 0
        self.step = Step(rng)
        while self.step.parameters > largest or not self.prepare():
            self.redraws += self.step.parameters <= largest
            self.step = Step(rng)
        most = self.peak + 0.6 * self.model_bytes
        self.device = int(min(log_uniform(rng, self.least * ABOVE, max(most, self.least * ABOVE)), DEVICE_MOST))
        self.host = None
        share = rng.random()
        if rng.random() < 0.75:
            enough, plenty = self.enough_host(), 2 * self.all_bytes
            self.host = int(enough * (plenty / enough) ** share)

    def prepare(self):
        """Writes the files, and finds the least device memory. Returns whether a device can have it."""
        folder = self.programs.folder
        (folder / "config.json").write_text(json.dumps(self.step.config(), indent=1) + "\n")
        shutil.copy(PLATFORMS / f"{self.step.machine}.json", folder / "platform.json")
        self.made = {}  # traces by their jobs
        self.traces = [self.synthesise(host_update=side, **choices) for choices in CHOICES
                       for side in (False, True)]
        info = json.loads(self.programs.call("pstar-trace", "info", self.traces[0], "--json").stdout)
        offloaded = json.loads(self.programs.call("pstar-trace", "info", self.traces[4], "--json").stdout)
        self.operators, self.model_bytes = info["operators"], info["model_bytes"]
        self.peak = info["non_model_peak_bytes"]
        self.all_bytes = self.model_bytes + offloaded["non_model_peak_bytes"] + self.offloaded_bytes()
        self.least = self.need()
        return self.least * ABOVE <= DEVICE_MOST

    def synthesise(self, **choices):
        """Returns the trace of the step with other choices. The first one is as drawn."""
        job = tuple(self.step.job(**choices))
        if job not in self.made:
            self.made[job] = f"run{len(self.made) or ''}.pstar"
            self.programs.call("pstar-trace", "synth", *job, "-o", self.made[job])
        return self.made[job]

    def offloaded_bytes(self):
        """What layers save that are recomputed and offloaded: their inputs."""
        step = self.step
        return step.layers * step.batch * step.sequence * step.width * (2 if step.precision == "bf16" else 4)

    def need(self, host=None):
        """Returns the least device memory beside this much of the host's; infinity if none does."""
        return min(self.need_of(trace, host) for trace in self.traces)

    def need_of(self, trace, host):
        budget = [] if host is None else ["--host-memory", host]
        self.programs.call("pstar-sim", trace, "--device-memory", "1B", "--chunk-size", "256B", "--policy", "fifo",
                           *budget, "--json", "need.json", allowed=(3,))
        reason = json.loads((self.programs.folder / "need.json").read_text())["results"][0]["reason"]
        if not reason.startswith("device memory"):
            return float("inf")
        return int(re.search(r"(\d+) bytes would fit", reason)[1])

    def enough_host(self):
        """Returns just enough host memory for the device's, to a 64th of all data."""
        short, enough = 0, STEPS
        while enough - short > 1:
            middle = (short + enough) // 2
            fits = self.need(self.all_bytes * middle // STEPS) <= self.device
            short, enough = (short, middle) if fits else (middle, enough)
        return self.all_bytes * enough // STEPS

    def enlarge(self):
        """Draws larger budgets after pstar-plan has found no plan."""
        self.redraws += 1
        self.device = int(self.device * 1.05)
        if self.host:
            self.host = int(self.host * 1.05)

    def synth_options(self):
        return self.step.job()

    def budgets(self):
        return ["--device-memory", str(self.device), "--platform", "platform.json", "--link", self.step.link,
                "--host-memory", str(self.host) if self.host else "unlimited"]

    def names(self):
        """Returns the columns that say what the instance is."""
        step = self.step
        return dict(number=self.number, layers=step.layers, width=step.width, heads=step.heads,
                    vocabulary=step.vocabulary, tied=step.tied, parameters=step.parameters,
                    precision=step.precision, bytes_per_parameter=step.bytes_per_parameter(step.split), clip=step.clip,
                    micro_batches=step.micro_batches, batch=step.batch, sequence=step.sequence,
                    recomputed=step.recomputed, host_embedding=step.host_embedding, machine=step.machine,
                    link=step.link, device=self.device, host=self.host, least=self.least,
                    model_bytes=self.model_bytes, peak=self.peak, operators=self.operators, redraws=self.redraws)


class NvmeInstance(Instance):
    """A step whose host lacks memory for it, with a disk."""

    def __init__(self, programs, seed, number, largest):
        super().__init__(programs, f"{seed}/nvme", number, largest)
        rng = random.Random(f"{seed}/disk/{number}")
        self.host = int(log_uniform(rng, LEAST_HOST, 1) * self.enough_host())
        self.read = log_uniform(rng, SLOWEST_DISK, FASTEST_DISK)
        self.write = self.read * log_uniform(rng, LEAST_WRITES, 1)
        path = programs.folder / "platform.json"
        curves = {name: [[1 << 20, 32, rate]] for name, rate in (("read", self.read), ("write", self.write))}
        path.write_text(json.dumps(json.loads(path.read_text()) | dict(nvme=dict(source="drawn") | curves)) + "\n")

    def enlarge(self):
        self.redraws += 1
        self.device = int(self.device * 1.05)
        self.host = int(self.host * 1.2)

    def budgets(self):
        return super().budgets() + ["--nvme-memory", str(2 * self.all_bytes)]

    def names(self):
        return super().names() | dict(nvme_read=self.read, nvme_write=self.write)
