#!/usr/bin/env python3
"""Runs whose masks leave tokens out of the loss train as they do in transformers with labels of -100.

    transformers_masks.py PSTAR_RUN

Models of two families are trained by both for 20 steps of three micro-batches, in which different numbers of targets count, in
some none. The loss is transformers' own, with num_items_in_batch as its Trainer counts it. Losses, that of an evaluation too, and gradient norms, and each tensor's
gradient in the first step, must be the same to 1e-5 in fp32, and losses to 1e-2 in bf16. Returns 77 where transformers is missing.
"""

import json
import pathlib
import struct
import sys
import tempfile
import zlib

try:
    import torch
    import transformers
except ImportError:
    sys.exit(77)

import record
import transformers_families as families

MODELS = {"llama, tied": ("llama", dict(tie_word_embeddings=True)),
          "gpt2": ("gpt2", dict(n_layer=2, n_embd=48, n_head=6, n_inner=70, n_positions=96, embd_pdrop=0, attn_pdrop=0,
                                resid_pdrop=0))}
RUN = dict(batch=2, sequence=24, micro_batches=3)
NOT_COUNTED = -100


def draw_mask(count):
    """Answers of some tokens between prompts of some; a third of the tokens count, and in one micro-batch none."""
    random = torch.Generator().manual_seed(4)
    counts = torch.zeros(count, dtype=torch.bool)
    at = 0
    while at < count:
        prompt, answer = torch.randint(1, 41, (2,), generator=random).tolist()
        counts[at + prompt:at + prompt + answer // 2] = True
        at += prompt + answer // 2
    rows = RUN["batch"] * RUN["sequence"]
    counts[rows:2 * rows + 1] = False
    return counts


def write_data(folder, counts):
    bits = int("".join("01"[bit] for bit in counts.tolist())[::-1], 2).to_bytes((len(counts) + 7) // 8, "little")
    families.DATA = folder / "data.bin"
    families.DATA.write_bytes((record.HERE / "data.bin").read_bytes())
    header = struct.pack("<5I", 20261125, 1, len(counts), 0, zlib.crc32(bits))
    (folder / "data.bin.mask").write_bytes(header.ljust(1024, b"\0") + bits)


def gradient_step(model, tokens, labels, step):
    """The loss of the step; its gradients are left in the model."""
    batches = [(record.batch(tokens, RUN, step, m)[0], record.batch(labels, RUN, step, m)[1]) for m in range(RUN["micro_batches"])]
    counted = sum((targets != NOT_COUNTED).sum() for _, targets in batches)
    total = 0.0
    model.zero_grad()
    for inputs, targets in batches:
        loss = model(inputs, labels=targets, shift_labels=targets, num_items_in_batch=counted).loss
        loss.backward()
        total += loss.item()
    return total, int(counted)


def train(model, tokens, labels, bf16):
    """Returns losses, gradient norms and targets of the steps, and the gradients of the first."""
    masters = {name: p.detach().clone() for name, p in model.named_parameters()}
    if bf16:
        model.to(torch.bfloat16)
    recipe = record.RECIPE
    optimizer = torch.optim.AdamW(masters.values(), betas=(recipe["beta1"], recipe["beta2"]), eps=recipe["epsilon"],
                                  weight_decay=recipe["weight_decay"])
    losses, norms, targets, gradients = [], [], [], {}
    for step in range(record.STEPS):
        for name, parameter in model.named_parameters():
            parameter.data = record.round_to_bf16(masters[name]) if bf16 else masters[name].clone()
        model.tie_weights()
        loss, counted = gradient_step(model, tokens, labels, step)
        losses.append(loss)
        targets.append(counted)
        for name, parameter in model.named_parameters():
            masters[name].grad = parameter.grad.float()
            gradients.setdefault(name.removeprefix("transformer."), masters[name].grad.clone())
        norms.append(torch.nn.utils.clip_grad_norm_(masters.values(), recipe["clip"]).item())
        for group in optimizer.param_groups:
            group["lr"] = record.learning_rate(step)
        optimizer.step()
    return losses, norms, targets, gradients


def run(program, folder, steps, *arguments):
    ours = families.run(program, folder, steps, *arguments)
    lines = (folder / "log.jsonl").read_text().splitlines()
    return *ours, [json.loads(line)["targets"] for line in lines]


def expect_evaluation(program, folder, tokens, labels):
    """An evaluation, of at most 64 micro-batches in order, is the mean over its targets that count."""
    run(program, folder, 1, "--lr=1e-12", "--min-lr=0", "--weight-decay=0", f"--eval={families.DATA}")
    ours = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["eval_loss"]
    model, one, total, counted = families.load(folder / "first"), dict(RUN, micro_batches=1), 0.0, 0
    for m in range(min(64, (len(tokens) - 1) // RUN["sequence"] // RUN["batch"])):
        targets = record.batch(labels, one, m, 0)[1].flatten()
        with torch.no_grad():
            logits = model(record.batch(tokens, one, m, 0)[0]).logits.flatten(0, 1)
        total += torch.nn.functional.cross_entropy(logits, targets, ignore_index=NOT_COUNTED, reduction="sum").item()
        counted += int((targets != NOT_COUNTED).sum())
    families.expect_series("loss in evaluation", [ours], [total / counted], families.FP32)


def check(program, family, settings, folder):
    families.DATA = record.HERE / "data.bin"
    tokens = families.tokens()
    counts = draw_mask(len(tokens))
    write_data(folder, counts)
    labels = torch.where(counts, tokens, NOT_COUNTED)
    losses, norms, targets, gradients = train(families.make(family, settings, folder / "first"), tokens, labels, bf16=False)
    ours = run(program, folder, record.STEPS, "--clip=1")
    if ours[2] != targets or len(set(targets)) < 10:
        sys.exit(f"targets that count: {ours[2]} instead of {targets}")
    families.expect_series("losses", ours[0], losses, families.FP32)
    families.expect_series("gradient norms", ours[1], norms, families.FP32)
    run(program, folder, 1, "--clip=0", f"--save={folder / 'saved'}")
    families.expect_gradients(folder, family, gradients)
    expect_evaluation(program, folder, tokens, labels)
    losses = train(families.load(folder / "first"), tokens, labels, bf16=True)[0]
    families.expect_series("losses in bf16", run(program, folder, record.STEPS, "--clip=1", "--precision=bf16")[0], losses,
                           families.BF16)


def main():
    families.RUN = RUN
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name, (family, settings) in MODELS.items():
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            check(sys.argv[1], family, settings, pathlib.Path(folder))


if __name__ == "__main__":
    main()
