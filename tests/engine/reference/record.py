#!/usr/bin/env python3
"""Records what PyTorch computes, for test_reference.c to compare pstar-run with.

    record.py TEXT

writes, beside itself: data.bin (TEXT's bytes as llm.c's tokens), two small GPT-2 models with random
weights, the gradients of their first step, and reference.json: for each run its settings and, a step,
loss, gradient norm and learning rate. Needs torch, transformers and safetensors; reference.json says
which versions it was recorded with. One thread and one seed: it gives the same files again.
"""

import json
import math
import pathlib
import struct
import sys

import safetensors.torch
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 20

MODELS = {
    # Everything as GPT-2 has it, but small.
    "small": dict(n_layer=3, n_embd=32, n_head=4, n_positions=64, vocab_size=256),
    # Sizes that are multiples of nothing, an inner width of its own, and a classifier of its own.
    "odd": dict(
        n_layer=2, n_embd=60, n_head=3, n_inner=70, n_positions=31, vocab_size=131,
        tie_word_embeddings=False,
    ),
}
# The number format of each model's file: all three must be read.
FILE_DTYPES = {"small": torch.float32, "odd": torch.bfloat16}

RECIPE = dict(
    learning_rate=5e-3, minimum_learning_rate=5e-4, warm_up=5, beta1=0.9, beta2=0.95, epsilon=1e-8,
    weight_decay=0.1, clip=1.0,
)
RUNS = [
    dict(name="small-fp32", model="small", precision="fp32", batch=2, sequence=48, micro_batches=1),
    dict(name="small-accumulated", model="small", precision="fp32", batch=2, sequence=32,
         micro_batches=2),
    dict(name="small-bf16", model="small", precision="bf16", batch=2, sequence=48, micro_batches=1),
    dict(name="small-bf16-accumulated", model="small", precision="bf16", batch=2, sequence=32,
         micro_batches=2),
    dict(name="odd-fp32", model="odd", precision="fp32", batch=3, sequence=29, micro_batches=1),
    dict(name="odd-bf16", model="odd", precision="bf16", batch=3, sequence=29, micro_batches=1),
]


def write_tokens(text):
    tokens = list(text)
    header = [20240520, 1, len(tokens)] + [0] * 253
    with open(HERE / "data.bin", "wb") as file:
        file.write(struct.pack("<256i", *header))
        file.write(struct.pack(f"<{len(tokens)}H", *tokens))
    return torch.tensor(tokens)


def make_model(name, config, dtype):
    """Writes a model with transformers' initialisation to its folder."""
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():  # nothing is exactly 0 or 1: every gradient matters
        parameter.data += 0.02 * torch.randn_like(parameter)
    model.to(dtype).save_pretrained(HERE / name)
    (HERE / name / "generation_config.json").unlink(missing_ok=True)
    (HERE / name / "model.safetensors").chmod(0o644)


def make_gpt2(name):
    config = transformers.GPT2Config(
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        **MODELS[name],
    )
    make_model(name, config, FILE_DTYPES[name])


def load_model(name):
    return transformers.AutoModelForCausalLM.from_pretrained(
        HERE / name, dtype=torch.float32, attn_implementation="eager"
    )


def batch(tokens, run, step, micro_batch):
    """Sequences one after the other, from the start again where no whole one is left."""
    length, rows = run["sequence"], run["batch"]
    whole = (len(tokens) - 1) // length
    first = (step * run["micro_batches"] + micro_batch) * rows
    starts = [(first + row) % whole * length for row in range(rows)]
    inputs = torch.stack([tokens[start : start + length] for start in starts])
    targets = torch.stack([tokens[start + 1 : start + length + 1] for start in starts])
    return inputs, targets


def learning_rate(step):
    peak, floor, warm_up = (RECIPE[k] for k in ("learning_rate", "minimum_learning_rate", "warm_up"))
    if step < warm_up:
        return peak * (step + 1) / warm_up
    progress = (step - warm_up) / (STEPS - warm_up)
    return floor + 0.5 * (1 + math.cos(math.pi * progress)) * (peak - floor)


def file_name(model_type, name):
    """The name in files of a parameter of transformers' model."""
    return name.replace("lm_head.", "embed_out.") if model_type == "gpt_neox" else name


def round_to_bf16(values):
    """To the nearest, ties away from zero."""
    bits = values.detach().view(torch.int32)
    return ((bits + 0x8000) & ~0xFFFF).view(torch.float32).to(torch.bfloat16)


def batch_loss(model, inputs, targets):
    """The mean cross-entropy, and what the model itself would add to it: the experts' imbalance, if the config says so."""
    output = model(inputs)
    loss = torch.nn.functional.cross_entropy(output.logits.float().flatten(0, 1), targets.flatten())
    if getattr(output, "aux_loss", None) is not None:
        loss = loss + model.config.router_aux_loss_coef * output.aux_loss.float()
    return loss


def gradient_step(model, tokens, run, step):
    """The mean loss of the step; its gradients are left in the model."""
    total = 0.0
    model.zero_grad()
    for micro_batch in range(run["micro_batches"]):
        inputs, targets = batch(tokens, run, step, micro_batch)
        loss = batch_loss(model, inputs, targets)
        (loss / run["micro_batches"]).backward()
        total += loss.item() / run["micro_batches"]
    return total


def train(run, tokens):
    model = load_model(run["model"])
    bf16 = run["precision"] == "bf16"
    masters = {name: p.detach().clone() for name, p in model.named_parameters()}
    if bf16:
        model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(
        masters.values(), betas=(RECIPE["beta1"], RECIPE["beta2"]), eps=RECIPE["epsilon"],
        weight_decay=RECIPE["weight_decay"],
    )
    steps = dict(run, loss=[], gradient_norm=[], learning_rate=[])
    for step in range(STEPS):
        for name, parameter in model.named_parameters():
            parameter.data = round_to_bf16(masters[name]) if bf16 else masters[name].clone()
        model.tie_weights()
        steps["loss"].append(gradient_step(model, tokens, run, step))
        for name, parameter in model.named_parameters():
            masters[name].grad = parameter.grad.float()
        if step == 0:
            gradients = {
                file_name(model.config.model_type, name): master.grad.clone() for name, master in masters.items()}
        norm = torch.nn.utils.clip_grad_norm_(masters.values(), RECIPE["clip"])
        steps["gradient_norm"].append(norm.item())
        steps["learning_rate"].append(learning_rate(step))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
    steps["tensor_gradient_norms"] = {n: g.double().norm().item() for n, g in gradients.items()}
    return steps, gradients


def record(runs, tokens, file):
    """Trains all runs, and writes their records, and the gradients of the first step of each model's run in fp32 with one
    micro-batch."""
    records = []
    for run in runs:
        steps, gradients = train(run, tokens)
        records.append(steps)
        if run["precision"] == "fp32" and run["micro_batches"] == 1:
            path = HERE / run["model"] / "gradients.safetensors"
            safetensors.torch.save_file(gradients, path)
            path.chmod(0o644)
        print(run["name"], steps["loss"][0], "->", steps["loss"][-1])
    versions = dict(torch=torch.__version__, transformers=transformers.__version__, seed=1)
    reference = dict(recorded_with=versions, steps=STEPS, recipe=RECIPE, runs=records)
    (HERE / file).write_text(json.dumps(reference, indent=1) + "\n")


def main():
    torch.set_num_threads(1)
    tokens = write_tokens(pathlib.Path(sys.argv[1]).read_bytes())
    for name in MODELS:
        make_gpt2(name)
    record(RUNS, tokens, "reference.json")


if __name__ == "__main__":
    main()
