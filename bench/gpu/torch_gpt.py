#!/usr/bin/env python3
"""A GPT-2 trained by PyTorch on bytes of a file: what the GPU bench collects and compares with.

Prints one JSON object: the losses, the seconds of each step, and the device's memory as PyTorch counts
it. Parameters and optimizer states are fp32, products bf16 with --precision bf16, as training in
PyTorch mostly is.
"""

import argparse
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in dict(layers=12, width=768, heads=12, vocab=50304, batch=4, seq=1024, steps=10, uncounted=3).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--annotate", action="store_true", help="name tensors and operators for pstar-collect")
    parser.add_argument("--fsdp-offload", action="store_true", help="parameters and optimizer on the host")
    parser.add_argument("--memory", type=float, help="GiB of device memory that PyTorch may take")
    parser.add_argument("--count-kernels", action="store_true", help="of the last step, by PyTorch's profiler")
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(width, dim=2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.wte = nn.Embedding(options.vocab, options.width)
        self.wpe = nn.Embedding(options.seq, options.width)
        self.h = nn.ModuleList(Block(options.width, options.heads) for _ in range(options.layers))
        self.ln_f = nn.LayerNorm(options.width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def sharded(model, device):
    from torch.distributed import init_process_group
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29577")
    init_process_group("nccl" if device == "cuda" else "gloo", rank=0, world_size=1)
    return FullyShardedDataParallel(
        model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=0 if device == "cuda" else None,
        cpu_offload=CPUOffload(offload_params=True), use_orig_params=True,
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16))


class Run:
    def __init__(self, options):
        self.options, self.cuda = options, options.device == "cuda"
        torch.manual_seed(0)
        if self.cuda and options.memory:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, options.memory * 2**30 / total))
        model = Gpt(options)
        model = sharded(model, options.device) if options.fsdp_offload else model.to(options.device)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                           fused=self.cuda)
        if options.annotate:
            import pstar_torch
            pstar_torch.annotate(model, self.optimizer)
        self.model = torch.compile(model) if options.compile else model
        self.text = torch.frombuffer(bytearray(open(options.data, "rb").read()), dtype=torch.uint8)
        self.draws = torch.Generator().manual_seed(1)

    def batch(self):
        options = self.options
        starts = torch.randint(len(self.text) - options.seq - 1, (options.batch,), generator=self.draws)
        rows = torch.stack([self.text[s:s + options.seq + 1] for s in starts]).long()
        return rows[:, :-1].to(options.device), rows[:, 1:].to(options.device)

    def step(self):
        tokens, targets = self.batch()
        mixed = self.options.precision == "bf16" and not self.options.fsdp_offload
        with torch.autocast(self.options.device, torch.bfloat16, enabled=mixed):
            loss = self.model(tokens, targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def timed(self):
        self.wait()
        begin = time.perf_counter()
        loss = self.step()
        self.wait()
        return loss.item(), time.perf_counter() - begin

    def kernels(self):
        """Of one more step, by PyTorch's profiler."""
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
            self.timed()
        kinds = [event.name for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        return sum(not name.startswith(("Memcpy", "Memset")) for name in kinds)


def main():
    options = parse()
    run = Run(options)
    losses, seconds = zip(*(run.timed() for _ in range(options.steps)))
    result = dict(losses=losses, seconds=seconds, parameters=sum(p.numel() for p in run.model.parameters()),
                  median_seconds=statistics.median(seconds[options.uncounted:]))
    if run.cuda:
        result |= dict(peak_allocated=torch.cuda.max_memory_allocated(), peak_reserved=torch.cuda.max_memory_reserved())
    if options.count_kernels:
        result["kernels"] = run.kernels()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
