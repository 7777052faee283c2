#!/usr/bin/env python3
"""Models are fine-tuned in pstar-run as they are by transformers and PEFT.

    transformers_tuning.py PSTAR_RUN

A small random model of each of some families is trained for 20 steps by both: some tensors with the others frozen, and
adapters (LoRA) that PEFT has drawn. Losses and gradient norms must be the same to 1e-5 in fp32, and losses to 1e-2 in bf16;
losses must be the same bits with little device memory, recomputed and offloaded. PEFT loads the adapters that pstar-run saves and
computes the same with them, with the merged model, and after a resumed run. Returns 77 where a package is missing.
"""

import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import peft
    import safetensors.torch
    import torch
    import transformers
except ImportError:
    sys.exit(77)

import record
import transformers_families as families

GPT2 = dict(n_layer=2, n_embd=48, n_head=6, n_inner=70, n_positions=96, embd_pdrop=0, attn_pdrop=0, resid_pdrop=0)
MODELS = {
    "gpt2": ("gpt2", GPT2, ["*.bias", "wpe.*,h.1.ln_2.weight"]),
    "llama, tied": ("llama", dict(tie_word_embeddings=True), ["model.layers.1.*,*.q_proj.*"]),
    "gemma2": families.MODELS["gemma2"] + (["*.v_proj.*,*.post_attention*"],),
    "phi3": ("phi3", dict(tie_word_embeddings=False), ["lm_head.*"]),
    "phi": ("phi", dict(num_key_value_heads=6), ["*.1.mlp.fc2.*,*.0.self_attn.v_proj.*,lm_head.bias", "*.1.mlp.fc1.bias"]),
    "gpt_neox": ("gpt_neox", dict(rope_parameters=dict(rope_theta=500.0, partial_rotary_factor=0.25)), [
        "*.0.post_attention_layernorm.*,*.1.attention.dense.*", "*.query_key_value.weight"]),
}
TIGHT = ["--chunk-size=16KiB", "--recompute=1", "--offload-activations=all", "--policy=lru"]
RANK, ALPHA = 5, 12.0


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(n, p) for p in patterns.split(",") for n in (name, name.removeprefix("transformer.")))


def train(model, bf16):
    """Returns losses and gradient norms of the parameters that require gradients."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    masters = [p.detach().clone() for p in parameters]
    if bf16:
        model.to(torch.bfloat16)
    recipe = record.RECIPE
    optimizer = torch.optim.AdamW(
        masters, betas=(recipe["beta1"], recipe["beta2"]), eps=recipe["epsilon"], weight_decay=recipe["weight_decay"])
    losses, norms = [], []
    for step in range(record.STEPS):
        for parameter, master in zip(parameters, masters):
            parameter.data = record.round_to_bf16(master) if bf16 else master.clone()
        losses.append(record.gradient_step(model, families.tokens(), families.RUN, step))
        for parameter, master in zip(parameters, masters):
            master.grad = parameter.grad.float()
        norms.append(torch.nn.utils.clip_grad_norm_(masters, recipe["clip"]).item())
        for group in optimizer.param_groups:
            group["lr"] = record.learning_rate(step)
        optimizer.step()
    for parameter, master in zip(parameters, masters):
        parameter.data = master.clone()
    return losses, norms


def least_memory(program, folder, *arguments):
    """Returns the smallest --device-memory with which the run fits."""
    command = [program, f"--model={folder / 'first'}", f"--batch={families.RUN['batch']}", f"--seq={families.RUN['sequence']}",
               "--dry-run", *arguments]
    least = 100000
    while said := subprocess.run([*command, f"--device-memory={least}"], capture_output=True, text=True).stderr:
        least = int(re.search(r"(\d+) bytes would fit", said)[1])
    return least


def compare(program, folder, build, arguments):
    """Trains alike in fp32 and bf16; in pstar-run also where little fits the device."""
    model = build()
    losses, norms = train(model, bf16=False)
    ours = families.run(program, folder, record.STEPS, "--clip=1", f"--save={folder / 'saved'}", *arguments)
    families.expect_series("losses", ours[0], losses, families.FP32)
    families.expect_series("gradient norms", ours[1], norms, families.FP32)
    least = least_memory(program, folder, *arguments, *TIGHT)
    if families.run(program, folder, record.STEPS, "--clip=1", *arguments, *TIGHT, f"--device-memory={least}") != ours:
        sys.exit("placement changes the arithmetic")
    losses, norms = train(build(), bf16=True)
    bits = []
    for more in ([], ["--bytes-per-parameter=12"], [*TIGHT, f"--device-memory={least}"]):
        bits.append(families.run(program, folder, record.STEPS, "--clip=1", "--precision=bf16", *arguments, *more))
    families.expect_series("losses in bf16", bits[0][0], losses, families.BF16)
    if bits[1:] != bits[:1] * 2:
        sys.exit("placement changes the arithmetic in bf16")
    return model


def check_frozen(program, folder, patterns):
    def build():
        model = families.load(folder / "first")
        for name, parameter in model.named_parameters():
            parameter.requires_grad = matches(name, patterns)
        return model

    print(f"  {patterns}")
    model = compare(program, folder, build, [f"--train={patterns}"])
    before = safetensors.torch.load_file(folder / "first/model.safetensors")
    after = safetensors.torch.load_file(folder / "saved/model.safetensors")
    moments = safetensors.torch.load_file(folder / "saved/optimizer.safetensors")
    trained = {name.removesuffix(".exp_avg") for name in moments if name.endswith(".exp_avg")}
    for name in before:
        if torch.equal(before[name], after[name]) == matches(name, patterns):
            sys.exit(f"{name} is trained, or not, against --train")
    if len(trained) != sum(p.requires_grad for p in model.parameters()):
        sys.exit("there are moments of other tensors")


def adapters(folder):
    return peft.PeftModel.from_pretrained(families.load(folder / "first"), folder / "adapters", is_trainable=True)


def batch_loss(model):
    data = families.tokens()[:73]
    with torch.no_grad():
        return torch.nn.functional.cross_entropy(model(data[None, :72]).logits[0].float(), data[1:73]).item()


def expect_loss(what, model, expected):
    families.expect_series(what, [batch_loss(model)], [expected], families.FP32)


def check_lora(program, folder):
    config = peft.LoraConfig(
        r=RANK, lora_alpha=ALPHA, target_modules="all-linear", lora_dropout=0, task_type="CAUSAL_LM")
    torch.manual_seed(2)
    peft.get_peft_model(families.load(folder / "first"), config).save_pretrained(folder / "adapters")
    arguments = [f"--train=lora:{RANK}", f"--lora-alpha={ALPHA}", f"--adapters={folder / 'adapters'}"]
    print("  LoRA")
    trained = compare(program, folder, lambda: adapters(folder), arguments)
    expected = batch_loss(trained)
    saved = folder / "saved"
    expect_loss("saved adapters", peft.PeftModel.from_pretrained(families.load(folder / "first"), saved), expected)
    check_config(json.loads((saved / "adapter_config.json").read_text()), folder)
    half = ["--steps=8", "--clip=1", f"--save={folder / 'half'}"]
    families.run(program, folder, record.STEPS, *arguments, *half)
    whole = families.run(program, folder, record.STEPS, "--clip=1", *arguments)
    merged = folder / "merged"
    resumed = families.run(program, folder, record.STEPS, f"--resume={folder / 'half'}", f"--merge={merged}")
    if resumed[0] != whole[0][8:]:
        sys.exit("a resumed run trains otherwise")
    expect_loss("merged", families.load(merged), expected)


def check_config(saved, folder):
    if (saved["r"], saved["lora_alpha"]) != (RANK, ALPHA) or saved["base_model_name_or_path"] != str(folder / "first"):
        sys.exit(f"adapter_config.json: {saved}")


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name, (family, settings, lists) in MODELS.items():
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder).resolve()
            families.make(family, settings, folder / "first")
            for patterns in lists:
                check_frozen(sys.argv[1], folder, patterns)
            check_lora(sys.argv[1], folder)


if __name__ == "__main__":
    main()
