#!/usr/bin/env python3
"""PyTorch takes the steps that pstar-run took: from the same weights, over the same sequences, with the
same learning rates.

    torch_follow.py --model FOLDER --log run.jsonl --data FILE --batch B --seq T --precision P --device D

FOLDER has a Hugging Face config.json and model.safetensors. The run must have taken its sequences in order
(--data-order sequential). Prints one JSON object with the losses. With bf16 the parameters of the model are
the optimizer's fp32 parameters, rounded as pstar rounds them.
"""

import argparse
import json
import pathlib
import struct

import torch

from torch_gpt import Gpt, fused_adamw

NAMES = {"attn.c_attn": "c_attn", "attn.c_proj": "c_proj", "mlp.c_fc": "c_fc", "mlp.c_proj": "mlp_proj"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("model", "log", "data"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--precision", choices=("fp32", "bf16"), required=True)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


def read_weights(path):
    """Returns the tensors of a safetensors file in fp32, by name."""
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data, dtype=torch.float32, offset=8 + length + entry["data_offsets"][0],
                                   count=(entry["data_offsets"][1] - entry["data_offsets"][0]) // 4).view(entry["shape"])
            for name, entry in header.items()}


def model_of(folder):
    config = json.loads((folder / "config.json").read_text())
    model = Gpt(config["n_layer"], config["n_embd"], config["n_head"], config["vocab_size"], config["n_positions"])
    state = {}
    for name, values in read_weights(folder / "model.safetensors").items():
        name = name.removeprefix("transformer.")
        linear = any(part in name for part in NAMES)
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        # Hugging Face stores these as [inputs, outputs], PyTorch the other way round.
        state[name] = values.t() if linear and values.dim() == 2 else values
    model.load_state_dict(state)
    return model


def round_to_bf16(values):
    """Rounds to the nearest value, ties away from zero."""
    bits = values.detach().view(torch.int32)
    return ((bits + 0x8000) & ~0xFFFF).view(torch.float32).to(torch.bfloat16)


class Follower:
    def __init__(self, options):
        self.options = options
        self.model = model_of(options.model).to(options.device)
        self.masters = [p.detach().clone() for p in self.model.parameters()]
        if options.precision == "bf16":
            self.model.bfloat16()
        self.optimizer = fused_adamw(self.masters)
        self.text = torch.frombuffer(bytearray(options.data.read_bytes()), dtype=torch.uint8).long()

    def batch(self, step):
        """Returns the next sequences. Starts again when no whole sequence is left."""
        rows, length = self.options.batch, self.options.seq
        whole = (len(self.text) - 1) // length
        starts = [(step * rows + row) % whole * length for row in range(rows)]
        cut = torch.stack([self.text[s:s + length + 1] for s in starts]).to(self.options.device)
        return cut[:, :-1], cut[:, 1:]

    def step(self, number, rate):
        bf16 = self.options.precision == "bf16"
        for parameter, master in zip(self.model.parameters(), self.masters):
            parameter.data = round_to_bf16(master) if bf16 else master.clone()
            parameter.grad = None
        loss = self.model(*self.batch(number))
        loss.backward()
        for parameter, master in zip(self.model.parameters(), self.masters):
            master.grad = parameter.grad.float()
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        return loss.item()


def main():
    options = parse()
    follower = Follower(options)
    steps = [json.loads(line) for line in options.log.read_text().splitlines()]
    losses = [follower.step(step["step"] - 1, step["learning_rate"]) for step in steps if "step" in step]
    print(json.dumps(dict(losses=losses)))


if __name__ == "__main__":
    main()
