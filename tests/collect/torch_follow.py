#!/usr/bin/env python3
"""Plans carried out in PyTorch loops by pstar_torch.follow.

    torch_follow.py FOLDER_OF_PROGRAMS

Each loop is recorded, planned with less memory than its model data takes, and trains twice: alone
and following the plan. Losses, parameters and optimizer states must be the same bits, and the bytes
and copies of every step those that the plan predicts. Returns 77 where PyTorch is missing.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.checkpoint import checkpoint
except ImportError:
    sys.exit(77)

PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "collect"), str(pathlib.Path(__file__).resolve().parent)]
import pstar_torch  # noqa: E402
from torch_training import check  # noqa: E402

STEPS = 5
FIGURES = ("h2d_bytes", "d2h_bytes", "h2d_copies", "d2h_copies", "moves", "moved_bytes")


class Block(nn.Module):
    """A convolution whose weight is not contiguous, a norm, and linear layers."""

    def __init__(self, width):
        super().__init__()
        self.mix = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2)
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Blocks(nn.Module):
    def __init__(self, width=64, count=5):
        super().__init__()
        self.embedding = nn.Embedding(100, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(count)))
        self.scale = nn.Parameter(torch.ones(width))
        self.head = nn.Linear(width, 100)
        self.head.weight = self.embedding.weight  # tied

    reentrant = None  # of checkpoints; None without them

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x) if self.reentrant is None else \
                checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x * self.scale)


def tokens_of(step, vocabulary=100):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(0, vocabulary, (4, 16), generator=generator)


class Loop:
    """A model and how it trains; each kind overrides what differs."""
    micro_batches = 1

    def make(self):
        torch.manual_seed(1)
        return Blocks()

    def optimizer(self, model):
        return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)

    def loss(self, model, tokens):
        return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

    def before_step(self, model):
        pass

    def train(self, model, optimizer, after=lambda step: None):
        losses = []
        for step in range(STEPS):
            for micro_batch in range(self.micro_batches):
                loss = self.loss(model, tokens_of(step * self.micro_batches + micro_batch))
                loss.backward()
                losses.append(loss.item().hex())
            self.before_step(model)
            optimizer.step()
            optimizer.zero_grad()
            after(step)
        return losses


class Clipped(Loop):
    """Gradients are clipped, of two micro-batches, with momentum and a schedule."""
    micro_batches = 2

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def before_step(self, model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=False)


class Checkpointed(Loop):
    """Blocks are computed again within backward."""

    def __init__(self, reentrant):
        self.reentrant = reentrant

    def make(self):
        model = super().make()
        model.reentrant = self.reentrant
        return model


class Half(Loop):
    """Everything is in bf16, and groups have different rates."""

    def make(self):
        return super().make().bfloat16()

    def optimizer(self, model):
        norms = [p for n, p in model.named_parameters() if "norm" in n]
        others = [p for n, p in model.named_parameters() if "norm" not in n]
        return torch.optim.AdamW([{"params": others, "lr": 1e-2},
                                  {"params": norms, "weight_decay": 0, "lr": 2e-2}])


class Frozen(Loop):
    """Only the head, the norms and two blocks are trained."""

    def make(self):
        model = super().make()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("norm" in name or "blocks.3" in name or "blocks.4" in name
                                     or "head.bias" in name)
        return model


class Transformers(Loop):
    """A small random model of Hugging Face's library."""

    def __init__(self, family):
        self.family = family

    def make(self):
        import transformers
        torch.manual_seed(1)
        common = {"vocab_size": 100, "attention_dropout": 0.0}
        if self.family == "gpt2":
            config = transformers.GPT2Config(vocab_size=100, n_embd=64, n_layer=4, n_head=4,
                                             n_positions=16, resid_pdrop=0, embd_pdrop=0,
                                             attn_pdrop=0)
            return transformers.GPT2LMHeadModel(config).train()
        if self.family == "bert":
            config = transformers.BertConfig(
                vocab_size=100, hidden_size=64, num_hidden_layers=4, num_attention_heads=4,
                intermediate_size=128, max_position_embeddings=16, hidden_dropout_prob=0,
                attention_probs_dropout_prob=0)
            return transformers.BertForMaskedLM(config).train()
        config = transformers.LlamaConfig(hidden_size=64, num_hidden_layers=4, intermediate_size=128,
                                          num_attention_heads=4, num_key_value_heads=2,
                                          max_position_embeddings=16, **common)
        model = transformers.LlamaForCausalLM(config).train()
        if self.family == "lora":
            import peft
            torch.manual_seed(2)
            return peft.get_peft_model(model, peft.LoraConfig(
                r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False))
        return model

    def loss(self, model, tokens):
        return model(input_ids=tokens, labels=tokens).loss


LOOPS = {"plain": Loop(), "clipped": Clipped(), "half": Half(), "frozen": Frozen(),
         "reentrant": Checkpointed(True),
         **{family: Transformers(family) for family in ("gpt2", "llama", "bert", "lora")}}


torch.set_num_threads(1)  # the models are small


def make(loop):
    model = loop.make()
    return model, loop.optimizer(model)


def bits(model, optimizer):
    """Returns all parameters and states."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                found[f"{key} of {names[id(parameter)]}"] = value.clone()
    return found


# ---- Recording and planning ----------------------------------------------------------------------


def record(kind):
    """The program that the collector runs."""
    model, optimizer = make(LOOPS[kind])
    pstar_torch.annotate(model, optimizer)
    LOOPS[kind].train(model, optimizer)


def run(programs, program, *arguments):
    done = subprocess.run([f"{programs}/{program}", *arguments], encoding="utf-8", check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout + done.stderr


def planned(programs, kind, share):
    """Records the loop, and plans it with the least memory and a share of it."""
    if not os.path.exists(f"{kind}.pstar"):
        status, text = run(programs, "pstar-collect", "-o", f"{kind}.pstar", "--", sys.executable,
                           str(pathlib.Path(__file__).resolve()), programs, "record", kind)
        check(status == 0, f"{kind}: recording: {text}")
    status, text = run(programs, "pstar-plan", f"{kind}.pstar", "--device-memory", "1KiB",
                       "--recompute", "traced", "-o", "plan.json")
    check(status == 3, f"{kind}: 1 KiB is enough: {text}")
    needs = [float(n) * 2**(10 * " KMG".index(u)) for n, u in
             re.findall(r"([\d.]+) ([KMG])iB", text)]
    check(needs, f"{kind}: no memory is named: {text}")
    least = max(needs)
    status, text = run(programs, "pstar-plan", f"{kind}.pstar", "--device-memory",
                       str(int(least * (1 + share))), "--link", "h2d=1GB/s,d2h=1GB/s",
                       "--recompute", "traced", "--time-limit", "2", "-o", "plan.json")
    check(status == 0, f"{kind}: planning with {least * (1 + share):.0f} bytes: {text}")


# ---- The checks ----------------------------------------------------------------------------------


def follow(kind, programs, share):
    loop = LOOPS[kind]
    planned(programs, kind, share)
    model, optimizer = make(loop)
    losses = loop.train(model, optimizer)
    alone = bits(model, optimizer)

    model, optimizer = make(loop)
    follower = pstar_torch.follow(model, optimizer, "plan.json", f"{kind}.pstar")
    wanted = {name: follower.plan.figure(name) for name in FIGURES}
    arena = follower.plan.arena_bytes

    def after(step):
        if step == 2:
            with follower.gathered(), torch.no_grad():
                check(torch.isfinite(loop.loss(model, tokens_of(1))), f"{kind}: evaluation")
        if step == 3:
            try:
                with torch.no_grad():
                    loop.loss(model, tokens_of(1))
            except RuntimeError as error:
                check("gathered" in str(error), str(error))
            else:
                check(False, f"{kind}: an evaluation sees parameters that are elsewhere")

    followed = loop.train(model, optimizer, after)
    check(followed == losses, f"{kind}: losses are {followed} instead of {losses}")
    check(len(follower.moved) == STEPS - 1, f"{kind}: {len(follower.moved)} steps followed")
    for moved in follower.moved:
        for name in FIGURES:
            check(moved[name] == wanted[name],
                  f"{kind}: {name} is {moved[name]} instead of {wanted[name]}")
        check(moved["peak_chunk_bytes"] <= arena, f"{kind}: the peak is above the arena")
    follower.stop()
    ours = bits(model, optimizer)
    check(ours.keys() == alone.keys(), f"{kind}: states differ")
    for name, value in alone.items():
        check(torch.equal(value, ours[name]), f"{kind}: {name} differs")
    loss = loop.loss(model, tokens_of(1))  # the loop may go on alone
    loss.backward()
    optimizer.step()
    print(f"{kind}, {share:+.0%}: {STEPS - 1} steps of {wanted['h2d_bytes'] / 1e3:.0f} kB to the "
          f"device and {wanted['d2h_bytes'] / 1e3:.0f} kB back, arena {arena / 1e3:.0f} kB")
    return wanted["h2d_bytes"] + wanted["d2h_bytes"]


class ClippedAtOnce(Clipped):
    def before_step(self, model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=True)


class OtherShapes(Loop):
    def loss(self, model, tokens):
        self.step = getattr(self, "step", 0) + 1
        return super().loss(model, tokens[:, :8] if self.step == 3 else tokens)


def refusals(programs):
    """What cannot follow a plan says why, and raises."""
    planned(programs, "plain", 0.5)
    cases = ((ClippedAtOnce(), ValueError, "foreach=False"),
             (Checkpointed(False), ValueError, "use_reentrant=True"),
             (Clipped(), ValueError, "another loop"),
             (OtherShapes(), RuntimeError, "differs"),
             (Frozen(), ValueError, "other parameters"))
    for loop, kind, text in cases:
        name = type(loop).__name__
        try:
            model, optimizer = make(loop)
            pstar_torch.follow(model, optimizer, "plan.json", "plain.pstar")
            loop.train(model, optimizer)
        except kind as error:
            check(text in str(error), f"{name}: {error}")
        else:
            check(False, f"{name} follows the plan")
    model, optimizer = make(LOOPS["plain"])
    with open("plan.json", "r+", encoding="utf-8") as file:
        file.truncate(100)
    for plan in ("plan.json", "missing.json"):
        try:
            pstar_torch.follow(model, optimizer, plan, "plain.pstar")
        except ValueError as error:
            check(plan in str(error), str(error))
        else:
            check(False, f"{plan} is followed")


def main():
    os.environ.setdefault("PSTAR_LIBRARY", os.path.abspath(f"{sys.argv[1]}/libpstar-core.so"))
    programs = os.path.abspath(sys.argv[1])
    if sys.argv[2:3] == ["record"]:
        record(sys.argv[3])
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        moved = 0
        for kind in sys.argv[2:] or LOOPS:
            try:
                make(LOOPS[kind])
            except ImportError as error:
                print(f"{kind}: left out: {error}")
                continue
            for share in (0.02, 0.5) if kind == "plain" else (0.1,):
                moved += follow(kind, programs, share)
        check(moved > 0, "no plan moves anything")
        refusals(programs)


if __name__ == "__main__":
    main()
