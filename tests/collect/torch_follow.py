#!/usr/bin/env python3
"""Plans carried out in PyTorch loops by pstar_torch.follow.

    torch_follow.py FOLDER_OF_PROGRAMS

Each loop is recorded, planned with less memory than its model data takes, and trains twice: alone
and following the plan. Losses, parameters and optimizer states must be the same bits, and the bytes
and copies of every step those that the plan predicts. Returns 77 where PyTorch is missing.
"""
import contextlib
import ctypes
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
import pstar_torch._library  # noqa: E402
from torch_training import check  # noqa: E402

STEPS = 5
RECORDER = pathlib.Path(__file__).resolve()  # the program that the collector runs
OFFLOAD = ("--offload-activations", "any")
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
        self.gradients_x = nn.Parameter(torch.ones(width))  # named as work on gradients begins
        self.temperature = nn.Parameter(torch.tensor(1.1))  # has no dimension
        self.head = nn.Linear(width, 100)
        self.head.weight = self.embedding.weight  # tied

    reentrant = None  # of checkpoints; None without them

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x) if self.reentrant is None else \
                checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x * self.gradients_x) / self.temperature


def tokens_of(step, vocabulary=100):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(0, vocabulary, (4, 16), generator=generator)


def optimizers_in(optimizer):
    return optimizer if isinstance(optimizer, list) else [optimizer]


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
        """Returns the losses. Several optimizers step one after the other."""
        losses, optimizers = [], optimizers_in(optimizer)
        for step in range(STEPS):
            for micro_batch in range(self.micro_batches):
                loss = self.loss(model, tokens_of(step * self.micro_batches + micro_batch))
                loss.backward()
                losses.append(loss.item().hex())
            self.before_step(model)
            for each in optimizers:
                each.step()
                each.zero_grad()
            after(step)
        return losses


class Clipped(Loop):
    """Gradients are clipped, of two micro-batches, with momentum and a schedule."""
    micro_batches = 2

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def before_step(self, model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=False)


class Foreach(Clipped):
    """The optimizer, and clipping, work on all parameters at once."""

    def __init__(self, make, **keywords):
        self.optimizer = lambda model: make(model.parameters(), **keywords)

    def before_step(self, model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


class Penalised(Loop):
    """The loss has the squares of all parameters, outside of all modules."""

    def loss(self, model, tokens):
        return super().loss(model, tokens) + 1e-3 * sum(p.pow(2).sum() for p in model.parameters())


class Noisy(Loop):
    """Noise of the parameters' shapes is added to the gradients."""

    def make(self):
        torch.manual_seed(1)
        return nn.Sequential(nn.Embedding(100, 64), *(nn.Linear(64, 64) for _ in range(4)),
                             nn.Linear(64, 100))

    def before_step(self, model):
        for parameter in model.parameters():
            parameter.grad.add_(torch.randn_like(parameter), alpha=1e-3)


class Reordered(Noisy):
    """A parameter does not lie in the order of its dimensions."""

    def make(self):
        model = super().make()
        model[1].weight.data = model[1].weight.data.t().contiguous().t()
        return model


class ClippedByValue(Loop):
    """Two operators go over all gradients, one after the other."""

    def before_step(self, model):
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)


class Scaled(Loop):
    """Products are in bf16, and gradients of a scaled loss are divided again, and clipped."""

    def loss(self, model, tokens):
        with torch.autocast("cpu", torch.bfloat16):
            loss = super().loss(model, tokens)
        return self.scaler.scale(loss) if torch.is_grad_enabled() else loss

    def train(self, model, optimizer, after=lambda step: None):
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        self.optimizer_of_step = optimizer
        return super().train(model, self, after)

    def before_step(self, model):
        self.scaler.unscale_(self.optimizer_of_step)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)

    def step(self):
        self.scaler.step(self.optimizer_of_step)
        self.scaler.update()

    def zero_grad(self):
        self.optimizer_of_step.zero_grad()


class Clamped(Loop):
    """Weights are clamped behind the step, and a moving average of them is evaluated in their place."""
    follower = None

    def optimizer(self, model):
        model.average = {name: value.clone() for name, value in model.state_dict().items()}
        return super().optimizer(model)

    def train(self, model, optimizer, after=lambda step: None):
        def clamp(step):
            with self.follower.gathered() if self.follower else contextlib.nullcontext(), torch.no_grad():
                for parameter in model.parameters():
                    parameter.clamp_(-0.1, 0.1)
                own = {name: value.clone() for name, value in model.state_dict().items()}
                for name, value in own.items():
                    model.average[name].lerp_(value, 0.1)
                model.load_state_dict(model.average)
                model.evaluated = self.loss(model, tokens_of(99)).item()
                model.load_state_dict(own)
            after(step)
        losses = super().train(model, optimizer, clamp)
        return losses + [model.evaluated]


class Sparse(Loop):
    """The embedding has sparse gradients."""

    def make(self):
        model = super().make()
        model.embedding.sparse = True
        model.head.weight = nn.Parameter(model.head.weight.detach().clone())
        return model

    def optimizer(self, model):
        rest = [p for name, p in model.named_parameters() if "embedding" not in name]
        return [torch.optim.SparseAdam(model.embedding.parameters()),
                torch.optim.AdamW(rest, lr=1e-2)]


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


class Mixed(Loop):
    """Norms are in fp32 and the others in bf16."""

    def make(self):
        model = super().make()
        for block in model.blocks:
            block.mix.bfloat16(), block.up.bfloat16(), block.down.bfloat16()
        return model

    def loss(self, model, tokens):
        with torch.autocast("cpu", torch.bfloat16):
            return super().loss(model, tokens)


class Masters(Loop):
    """The model is in bf16, and the optimizer trains copies in fp32, those of matrices first."""

    def make(self):
        return super().make().bfloat16()

    def optimizer(self, model):
        matrices = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() <= 1]
        model.pairs = [(p, p.detach().float().requires_grad_()) for p in (*matrices, *others)]
        copies = [copy for _, copy in model.pairs]
        return torch.optim.AdamW([{"params": copies[:len(matrices)]},
                                  {"params": copies[len(matrices):], "weight_decay": 0}], lr=1e-2)

    def before_step(self, model):
        for parameter, copy in model.pairs:
            copy.grad = parameter.grad.float()
            parameter.grad = None
        torch.nn.utils.clip_grad_norm_([copy for _, copy in model.pairs], 0.5)

    def give_back(self, model, step):
        with torch.no_grad():
            torch._foreach_copy_(*map(list, zip(*model.pairs)))

    def train(self, model, optimizer, after=lambda step: None):
        def returned(step):
            self.give_back(model, step)
            after(step)
        return super().train(model, optimizer, returned)


class MixedMasters(Masters):
    """Norms are in fp32, and trained themselves. Gradients are copied into those of the copies, and divided by a
    scale, and what comes back is cast first."""
    micro_batches = 2

    def make(self):
        return Mixed().make()

    def optimizer(self, model):
        half = [p for p in model.parameters() if p.dtype == torch.bfloat16]
        model.pairs = [(p, p.detach().float().requires_grad_()) for p in half]
        single = [p for p in model.parameters() if p.dtype == torch.float32]
        return torch.optim.SGD([*single, *(copy for _, copy in model.pairs)], lr=0.05, momentum=0.9, foreach=True)

    def loss(self, model, tokens):
        with torch.autocast("cpu", torch.bfloat16):
            return super().loss(model, tokens)

    def before_step(self, model):
        for parameter, copy in model.pairs:
            if copy.grad is None:
                copy.grad = torch.empty_like(copy)
            copy.grad.copy_(parameter.grad).div_(2)
        for parameter in model.parameters():
            if parameter.dtype == torch.bfloat16:
                parameter.grad = None

    def give_back(self, model, step):
        for parameter, copy in model.pairs:
            parameter.data.copy_(copy.data.to(parameter.dtype))


class Several(Loop):
    """Matrices have AdamW, and the others SGD with momentum."""

    def optimizer(self, model):
        matrices = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() == 1]
        return [torch.optim.SGD(others, lr=0.05, momentum=0.9),
                torch.optim.AdamW(matrices, lr=1e-2)]


class Frozen(Loop):
    """Only the head, the norms and two blocks are trained."""

    def make(self):
        model = super().make()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("norm" in name or "blocks.3" in name or "blocks.4" in name
                                     or "head.bias" in name)
        return model


class Unused(Loop):
    """Parameters that are trained, and have no gradients."""

    def make(self):
        model = super().make()
        model.never = nn.Linear(64, 256)
        return model


class Transformers(Loop):
    """A small random model of Hugging Face's library."""

    def __init__(self, family, checkpointed=False):
        self.family, self.checkpointed = family, checkpointed

    def make(self):
        model = self.make_whole()
        if self.checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        return model

    def make_whole(self):
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
        if self.family in ("lora", "mixed lora"):
            import peft
            torch.manual_seed(2)
            if self.family == "mixed lora":
                model.bfloat16()  # the adapters stay in fp32
            return peft.get_peft_model(model, peft.LoraConfig(
                r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False))
        return model

    def loss(self, model, tokens):
        return model(input_ids=tokens, labels=tokens).loss


LOOPS = {"plain": Loop(), "clipped": Clipped(), "half": Half(), "frozen": Frozen(),
         "clamped": Clamped(), "mixed": Mixed(), "masters": Masters(), "mixed masters": MixedMasters(), "several": Several(),
         "foreach adamw": Foreach(torch.optim.AdamW, lr=1e-2, foreach=True),
         "foreach sgd": Foreach(torch.optim.SGD, lr=0.05, momentum=0.9, foreach=True),
         "foreach rmsprop": Foreach(torch.optim.RMSprop, lr=1e-3, momentum=0.9, foreach=True),
         "fused adamw": Foreach(torch.optim.AdamW, lr=1e-2, fused=True),
         "fused sgd": Foreach(torch.optim.SGD, lr=0.05, momentum=0.9, fused=True),
         "clipped by value": ClippedByValue(), "noisy": Noisy(),
         "reordered": Reordered(), "scaled": Scaled(),
         "penalised": Penalised(), "sparse": Sparse(), "unused": Unused(),
         "reentrant": Checkpointed(True), "not reentrant": Checkpointed(False),
         **{family: Transformers(family) for family in ("gpt2", "llama", "bert", "lora",
                                                            "mixed lora")},
         **{f"checkpointed {family}": Transformers(family, True)
            for family in ("gpt2", "llama", "lora")}}

REFUSED = {"sparse": "is sparse", "reordered": "does not lie in the order"}  # torch_refused has them

OFFLOADED = ("plain", "clipped", "half", "masters", "scaled", "reentrant", "not reentrant", "gpt2", "bert", "lora",
             "checkpointed llama")  # plans for them let activations leave the device, too


torch.set_num_threads(1)  # the models are small


def make(loop):
    model = loop.make()
    return model, loop.optimizer(model)


def bits(model, optimizer):
    """Returns all parameters and states."""
    copies = ((f"copy {i}", copy) for i, (_, copy) in enumerate(getattr(model, "pairs", ())))
    named = [*model.named_parameters(), *copies]
    names = {id(parameter): name for name, parameter in named}
    found = {name: parameter.detach().clone() for name, parameter in named}
    for key, state in (item for each in optimizers_in(optimizer) for item in each.state.items()):
        of = names.get(id(key), key)
        for name, value in state.items() if isinstance(state, dict) else (("state", state),):
            if isinstance(value, torch.Tensor):
                found[f"{name} of {of}"] = value.clone()
    return found


# ---- Recording and planning ----------------------------------------------------------------------


def record(kind):
    """The program that the collector runs."""
    model, optimizer = make(LOOPS[kind])
    pstar_torch.annotate(model, *optimizers_in(optimizer))
    LOOPS[kind].train(model, optimizer)


def run(programs, program, *arguments):
    done = subprocess.run([f"{programs}/{program}", *arguments], encoding="utf-8", check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout + done.stderr


def planned(programs, kind, share, *choices):
    """Records the loop, and plans it with the least memory and a share of it."""
    if not os.path.exists(f"{kind}.pstar"):
        status, text = run(programs, "pstar-collect", "-o", f"{kind}.pstar", "--", sys.executable,
                           str(RECORDER), programs, "record", kind)
        check(status == 0, f"{kind}: recording: {text}")
    status, text = run(programs, "pstar-plan", f"{kind}.pstar", "--device-memory", "1KiB",
                       "--recompute", "traced", *choices, "-o", "plan.json")
    check(status == 3, f"{kind}: 1 KiB is enough: {text}")
    needs = [float(n) * 2**(10 * " KMG".index(u)) for n, u in
             re.findall(r"([\d.]+) ([KMG])iB", text)]
    check(needs, f"{kind}: no memory is named: {text}")
    least = needs[0] if choices else max(needs)
    status, text = run(programs, "pstar-plan", f"{kind}.pstar", "--device-memory",
                       str(int(least * (1 + share))), "--link", "h2d=1GB/s,d2h=1GB/s",
                       "--recompute", "traced", *choices, "--time-limit", "2", "-o", "plan.json")
    check(status == 0, f"{kind}: planning with {least * (1 + share):.0f} bytes: {text}")


# ---- The checks ----------------------------------------------------------------------------------


def check_between(follower, kind):
    """Between two steps, operators that read what is elsewhere fail, and so do those that write. Returns
    how many parameters and states are elsewhere."""
    data = [bound for bound in follower.bound.values() if bound.kind != "grad"]
    absent = [bound for bound in data if bound.where is None]
    there = [bound for bound in data if bound.where is not None]
    cases = [(absent, lambda tensor: tensor + 1, "between two steps, where it is elsewhere"),
             (there, lambda tensor: tensor.mul_(1), "writes model data between two steps")]
    for bounds, use, text in cases:
        for bound in bounds[:1]:
            try:
                use(bound.holders[0].detach())
            except RuntimeError as error:
                check(text in str(error), f"{kind}: {error}")
            else:
                check(False, f"{kind}: {bound.kind} of {bound.name} is used between two steps")
    return len(absent)


def follow(kind, programs, share, *choices):
    loop = LOOPS[kind]
    planned(programs, kind, share, *choices)
    model, optimizer = make(loop)
    losses = loop.train(model, optimizer)
    alone = bits(model, optimizer)

    model, optimizer = make(loop)
    loop.follower = follower = pstar_torch.follow(model, optimizer, "plan.json", f"{kind}.pstar")
    wanted = {name: follower.plan.figure(name) for name in FIGURES}
    arena, seen = follower.plan.arena_bytes, []

    def after(step):
        if step == 2:
            with follower.gathered(), torch.no_grad():
                check(torch.isfinite(loop.loss(model, tokens_of(1))), f"{kind}: evaluation")
        if step == 3:
            seen.append(check_between(follower, kind))
            try:
                with torch.no_grad():
                    loop.loss(model, tokens_of(1))
            except RuntimeError as error:
                check("gathered" in str(error), str(error))
            else:
                check(False, f"{kind}: an evaluation sees parameters that are elsewhere")

        for owner in (model, *optimizers_in(optimizer)) if step == 3 else ():
            try:
                owner.state_dict()
            except RuntimeError as error:
                check("gathered" in str(error), str(error))
            else:
                check(False, f"{kind}: a state is saved that is elsewhere")

    followed = loop.train(model, optimizer, after)
    loop.follower = None
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
    for each in optimizers_in(optimizer):
        each.step()
    print(f"{kind}, {share:+.0%}: {STEPS - 1} steps of {wanted['h2d_bytes'] / 1e3:.0f} kB to the "
          f"device and {wanted['d2h_bytes'] / 1e3:.0f} kB back, arena {arena / 1e3:.0f} kB")
    return wanted["h2d_bytes"] + wanted["d2h_bytes"], seen[0]


def most_allocated(loop, followed):
    """Returns the most bytes that PyTorch allocates in the fourth step beside what it had before, by
    its profiler; and the most that the plan predicts beside the arena."""
    from torch.profiler import ProfilerActivity, profile, record_function
    model, optimizer = make(loop)
    follower = pstar_torch.follow(model, optimizer, *followed) if followed else None
    range_ = record_function("the fourth step")

    def after(step):
        if step == 2:
            range_.__enter__()
        elif step == 3:
            range_.__exit__(None, None, None)

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        loop.train(model, optimizer, after)
    events = profiler.profiler.kineto_results.events()
    step = next(event for event in events if event.name() == "the fourth step")
    before = live = most = 0
    for time, nbytes in sorted((event.start_ns(), event.nbytes()) for event in events
                               if event.name() == "[memory]"):
        live += nbytes
        if time < step.start_ns():
            before = most = live
        elif time <= step.end_ns():
            most = max(most, live)
    predicted = follower and non_model_bytes(follower.plan.trace)
    if follower:
        follower.stop()
    return most - before, predicted


def non_model_bytes(trace):
    library = ctypes.CDLL(os.environ["PSTAR_LIBRARY"])
    library.pstar_trace_non_model_bytes.restype = ctypes.c_uint64
    library.pstar_trace_non_model_bytes.argtypes = [ctypes.c_void_p]
    return library.pstar_trace_non_model_bytes(trace)


def recorded_bytes(kind):
    """Returns the most bytes beside model data that the recording knows."""
    library = pstar_torch._library.Library()
    trace = library.trace_read(os.fsencode(f"{kind}.pstar"))
    most = non_model_bytes(trace)
    library.trace_free(trace)
    return most


def check_memory(kind):
    """Activations that the plan lets leave the device take no memory of PyTorch's meanwhile. A
    gradient is copied to its chunk when it has been made, beside the prediction, and some kernels
    allocate what no recording sees."""
    loop = LOOPS[kind]
    largest = max(p.numel() * p.element_size() for p in make(loop)[0].parameters())
    alone, _ = most_allocated(loop, None)
    followed, predicted = most_allocated(loop, ("plan.json", f"{kind}.pstar"))
    unseen = max(0, alone - recorded_bytes(kind))
    check(followed <= predicted + largest + unseen,
          f"{kind}: PyTorch allocates {followed} bytes, and the plan predicts {predicted}")
    check(kind != "plain" or followed < alone / 3, f"{kind}: {followed} of {alone} bytes are left")
    print(f"{kind}: PyTorch allocates up to {followed / 1e3:.0f} kB in a step, where the plan "
          f"predicts {predicted / 1e3:.0f}, and {alone / 1e3:.0f} without it")


def main():
    os.environ.setdefault("PSTAR_LIBRARY", os.path.abspath(f"{sys.argv[1]}/libpstar-core.so"))
    programs = os.path.abspath(sys.argv[1])
    if sys.argv[2:3] == ["record"]:
        record(sys.argv[3])
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        moved = elsewhere = 0
        for kind in sys.argv[2:] or [kind for kind in LOOPS if kind not in REFUSED]:
            try:
                make(LOOPS[kind])
            except ImportError as error:
                print(f"{kind}: left out: {error}")
                continue
            for share in (0.02, 0.5) if kind == "plain" else (0.1,):
                more, absent = follow(kind, programs, share)
                moved, elsewhere = moved + more, elsewhere + absent
            if kind in OFFLOADED:
                follow(kind, programs, 0.3, *OFFLOAD)
                check_memory(kind)
        check(moved > 0, "no plan moves anything")
        check(elsewhere > 0, "everything is there between two steps")


if __name__ == "__main__":
    main()
