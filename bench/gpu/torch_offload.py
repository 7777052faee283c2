"""Ways of PyTorch to train a model that does not fit on the device. Each makes a model and its optimizer."""

import os

import torch

from torch_gpt import fused_adamw


def fsdp(make, shape, cuda):
    """Parameters, gradients and optimizer are on the host. A block's parameters are on the device in
    bf16 while it computes."""
    from torch.distributed import init_process_group
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29577")
    init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", rank=0, world_size=1)
    mesh = torch.distributed.init_device_mesh("cuda" if cuda else "cpu", (1,))
    policy = dict(mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=cuda),
                  mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16))
    model = make(*shape, settle=lambda block: fully_shard(block, **policy))
    fully_shard(model, **policy)
    return model, fused_adamw(model.parameters())


class HostAdam:
    """AdamW on the host. Each gradient is copied to the host when backward has finished it. When all
    have arrived, they update fp32 parameters, which return in bf16."""

    def __init__(self, model, cuda):
        self.model_parameters = list(model.parameters())
        self.cuda = cuda
        self.down = torch.cuda.Stream() if cuda else None
        self.halves = [torch.empty(p.shape, dtype=p.dtype, device="cpu", pin_memory=cuda)
                       for p in self.model_parameters]
        self.masters = [p.detach().to("cpu", torch.float32) for p in self.model_parameters]
        for master in self.masters:
            master.grad = torch.zeros_like(master)
        self.adamw = fused_adamw(self.masters)
        for parameter, half in zip(self.model_parameters, self.halves):
            parameter.register_post_accumulate_grad_hook(lambda p, half=half: self.take(p, half))

    def take(self, parameter, half):
        if self.cuda:
            self.down.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.down):
                half.copy_(parameter.grad, non_blocking=True)
            parameter.grad.record_stream(self.down)
        else:
            half.copy_(parameter.grad)
        parameter.grad = None

    @torch.no_grad()
    def step(self):
        if self.cuda:
            self.down.synchronize()
        for master, half in zip(self.masters, self.halves):
            master.grad.copy_(half)
        self.adamw.step()
        for parameter, master, half in zip(self.model_parameters, self.masters, self.halves):
            half.copy_(master)
            parameter.copy_(half, non_blocking=True)

    def zero_grad(self):
        """Does nothing, because backward leaves no gradients."""


def adam(make, shape, cuda):
    """Parameters and the gradients of one layer are on the device in bf16, the optimizer on the host."""
    model = make(*shape, settle=lambda block: block.bfloat16()).bfloat16()
    return model, HostAdam(model, cuda)


WAYS = dict(fsdp=fsdp, adam=adam)
