"""Two steps of a small GPT in PyTorch on the CPU: gpt.json.gz is what its profiler records of them,
gpt.et.json.gz what its observer of execution traces (Chakra) does, and gpt.txt has the parameters'
shapes in the order of their use.

python3 gpt.py
"""
import gzip
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule

WIDTH, HEADS, TOKENS, VOCABULARY, BATCH = 32, 2, 16, 64, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.after = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        shape = (BATCH, TOKENS, 3, HEADS, WIDTH // HEADS)
        q, k, v = self.qkv(self.before(x)).view(shape).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(TOKENS, WIDTH)
        self.block = Block()
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        h = self.block(self.tokens(x) + self.positions(torch.arange(TOKENS)))
        return self.head(self.norm(h))


def pack(name):
    with open(name, "rb") as plain, open(name + ".gz", "wb") as packed:
        packed.write(gzip.compress(plain.read(), mtime=0))
    os.remove(name)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, VOCABULARY, (BATCH, TOKENS))
    observer = ExecutionTraceObserver().register_callback("gpt.et.json")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True,
                 schedule=schedule(wait=1, warmup=1, active=2),
                 execution_trace_observer=observer) as profiler:
        for _ in range(4):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            optimizer.step()
            profiler.step()
    profiler.export_chrome_trace("gpt.json")
    pack("gpt.json")
    pack("gpt.et.json")
    with open("gpt.txt", "w") as shapes:
        for name, parameter in model.named_parameters():
            print(list(parameter.shape), name, file=shapes)


if __name__ == "__main__":
    main()
