#!/usr/bin/env python3
"""Trains a GPT-2 with PyTorch on the bytes of a file. The GPU bench collects it and compares with it.

Prints one JSON object: the losses, the seconds of each step, and the device memory as PyTorch counts it.
Parameters and optimizer states are fp32. With --precision bf16 matrix products are bf16, as is common in
PyTorch. --offload is described in torch_offload.py.

With --serve it trains --steps steps for each line that it reads, and answers each line with such an object.
"""

import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

LOSS_ROWS = 1024  # rows of logits in memory at a time, with recomputation


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in dict(layers=12, width=768, heads=12, vocab=50304, batch=4, seq=1024, steps=10, uncounted=3).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--clip", action="store_true", help="clip gradients to a norm of 1")
    parser.add_argument("--recompute", action="store_true", help="recompute the activations of every layer")
    parser.add_argument("--offload", choices=("fsdp", "adam"), help="optimizer on the host; with fsdp also parameters")
    parser.add_argument("--memory", type=float, help="GiB of device memory that PyTorch may take")
    parser.add_argument("--annotate", action="store_true", help="name tensors and operators for pstar-collect")
    parser.add_argument("--marks", action="store_true", help="an NVTX range around each step")
    parser.add_argument("--count-kernels", action="store_true", help="count the kernels of one more step with PyTorch's profiler")
    parser.add_argument("--serve", action="store_true")
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width, heads, recompute=False):
        super().__init__()
        self.heads, self.recompute = heads, recompute
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def compute(self, x):
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(width, dim=2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

    def forward(self, x):
        return checkpoint(self.compute, x, use_reentrant=False) if self.recompute else self.compute(x)


class Gpt(nn.Module):
    """`settle` is called for each block, and its result is kept: a model may be larger than the device
    on which its blocks are made."""

    def __init__(self, layers, width, heads, vocab, positions, recompute=False, device="cpu",
                 settle=lambda block: block):
        super().__init__()
        self.recompute = recompute
        with torch.device(device):
            self.wte = nn.Embedding(vocab, width)
            self.wpe = nn.Embedding(positions, width)
            self.ln_f = nn.LayerNorm(width)
        self.initialise(self)
        self.h = nn.ModuleList()
        for _ in range(layers):
            with torch.device(device):
                block = self.initialise(Block(width, heads, recompute))
            self.h.append(settle(block))

    @staticmethod
    def initialise(module):
        for parameter in module.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        return module

    def loss_of(self, x, targets):
        """Returns the sum over the rows."""
        return F.cross_entropy(F.linear(x, self.wte.weight).float(), targets, reduction="sum")

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        x, targets = self.ln_f(x).flatten(0, 1), targets.flatten()
        if not self.recompute:
            return self.loss_of(x, targets) / len(targets)
        rows = zip(x.split(LOSS_ROWS), targets.split(LOSS_ROWS))
        return sum(checkpoint(self.loss_of, *some, use_reentrant=False) for some in rows) / len(targets)


def fused_adamw(parameters, lr=6e-4):
    return torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


class Run:
    def __init__(self, options):
        self.options, self.cuda = options, options.device == "cuda"
        torch.manual_seed(0)
        if self.cuda and options.memory:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, options.memory * 2**30 / total))
        shape = (options.layers, options.width, options.heads, options.vocab, options.seq, options.recompute,
                 options.device)
        if options.offload:
            import torch_offload
            model, self.optimizer = torch_offload.WAYS[options.offload](Gpt, shape, self.cuda)
        else:
            model = Gpt(*shape)
            self.optimizer = fused_adamw(model.parameters())
        if options.annotate:
            import pstar_torch
            pstar_torch.annotate(model, self.optimizer)
        self.parameters = sum(p.numel() for p in model.parameters())
        self.model = torch.compile(model) if options.compile else model
        self.text = torch.frombuffer(bytearray(open(options.data, "rb").read()), dtype=torch.uint8)
        self.draws = torch.Generator().manual_seed(1)
        self.steps = 0

    def batch(self):
        options = self.options
        starts = torch.randint(len(self.text) - options.seq - 1, (options.batch,), generator=self.draws)
        rows = torch.stack([self.text[s:s + options.seq + 1] for s in starts]).long()
        return rows[:, :-1].to(options.device), rows[:, 1:].to(options.device)

    def step(self, tokens, targets):
        mixed = self.options.precision == "bf16" and not self.options.offload
        with torch.autocast(self.options.device, torch.bfloat16, enabled=mixed):
            loss = self.model(tokens, targets)
        loss.backward()
        if self.options.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def timed(self):
        """Takes a step and returns its seconds. Loading data is excluded, as in pstar-run."""
        batch = self.batch()
        self.wait()
        begin = time.perf_counter()
        if self.options.marks and self.cuda:
            torch.cuda.nvtx.range_push(f"step {self.steps}")
        loss = self.step(*batch)
        self.wait()
        if self.options.marks and self.cuda:
            torch.cuda.nvtx.range_pop()
        self.steps += 1
        return loss.item(), time.perf_counter() - begin

    def kernels(self):
        """Counts the kernels of one more step with PyTorch's profiler."""
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
            self.timed()
        # The range around the optimizer's step is shown on the device, too.
        kinds = [event.name for event in profiler.events()
                 if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation]
        return sum(not name.startswith(("Memcpy", "Memset")) for name in kinds)

    def train(self):
        """Takes some steps and returns their results."""
        losses, seconds = zip(*(self.timed() for _ in range(self.options.steps)))
        result = dict(losses=losses, seconds=seconds, parameters=self.parameters,
                      median_seconds=statistics.median(seconds[self.options.uncounted:]))
        if self.cuda:
            result |= dict(peak_allocated=torch.cuda.max_memory_allocated(),
                           peak_reserved=torch.cuda.max_memory_reserved())
        if self.options.count_kernels:
            result["kernels"] = self.kernels()
        return result


def main():
    options = parse()
    run = Run(options)
    for _ in sys.stdin if options.serve else range(1):
        result = run.train()
        if run.cuda:
            torch.cuda.empty_cache()  # other programs use the device in the meantime
            result["left"] = torch.cuda.memory_reserved()
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
