#!/usr/bin/env python3
"""Models of every family train in pstar-run as they do in transformers.

    transformers_families.py PSTAR_RUN

For each family a small random model is saved by transformers and trained by both for 20 steps. Every loss and every
gradient norm, and each tensor's gradient in the first step, must be the same to 1e-5 in fp32, and losses to 1e-2 in bf16.
What pstar-run saves is loaded by transformers again. Returns 77 where transformers is missing.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import safetensors.torch
    import torch
    import transformers
except ImportError:
    sys.exit(77)

import record

DATA = record.HERE / "data.bin"
FP32, BF16 = 1e-5, 1e-2

SMALL = dict(
    num_hidden_layers=2, hidden_size=48, num_attention_heads=6, num_key_value_heads=2, intermediate_size=70,
    vocab_size=256, max_position_embeddings=96, initializer_range=0.05, tie_word_embeddings=False,
    pad_token_id=None, bos_token_id=None, eos_token_id=None,
)
LLAMA3 = dict(
    rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=24,
)
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=24)
LONG = dict(
    rope_type="longrope", rope_theta=1000.0, partial_rotary_factor=0.75, short_factor=[1.0, 1.25, 1.5],
    long_factor=[1.5, 4.0, 7.75])
MODELS = {
    "llama": ("llama", dict()),
    "llama, tied, with biases": ("llama", dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "llama, frequencies of Llama 3": ("llama", dict(rope_parameters=LLAMA3, rms_norm_eps=1e-5)),
    "llama, linear": ("llama", dict(rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=3.0))),
    "mistral": ("mistral", dict(sliding_window=None, head_dim=20)),
    "mistral, with a window": ("mistral", dict(sliding_window=19)),
    "qwen2": ("qwen2", dict()),
    "qwen2, YaRN": ("qwen2", dict(rope_parameters=YARN)),
    "qwen2, a window in some layers": ("qwen2", dict(use_sliding_window=True, sliding_window=30, max_window_layers=1)),
    "smollm3": ("smollm3", dict(no_rope_layer_interval=2)),
    "gemma": ("gemma", dict(head_dim=12, tie_word_embeddings=True)),
    "gemma2": ("gemma2", dict(
        head_dim=12, tie_word_embeddings=True, sliding_window=19, query_pre_attn_scalar=9,
        attn_logit_softcapping=0.5, final_logit_softcapping=1.5)),
    "gemma3_text": ("gemma3_text", dict(
        head_dim=12, tie_word_embeddings=True, sliding_window=19, query_pre_attn_scalar=9,
        layer_types=["sliding_attention", "full_attention"], rope_parameters=dict(
            full_attention=dict(rope_type="linear", rope_theta=1000.0, factor=8.0),
            sliding_attention=dict(rope_type="default", rope_theta=50.0)))),
    "olmo2": ("olmo2", dict()),
    "olmo2, tied, with biases": ("olmo2", dict(tie_word_embeddings=True, attention_bias=True)),
    "phi3": ("phi3", dict(tie_word_embeddings=True)),
    "phi3, a window, and a part of each head turns": (
        "phi3", dict(sliding_window=19, rope_parameters=dict(rope_theta=500.0, partial_rotary_factor=0.5))),
    "phi3, longrope within the first positions": ("phi3", dict(
        original_max_position_embeddings=80, rope_parameters=LONG)),
    "phi3, longrope beyond them": ("phi3", dict(original_max_position_embeddings=24, rope_parameters=LONG)),
    "llama, dynamic": ("llama", dict(rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=4.0))),
    "gpt_neox, Llama 3's frequencies": ("gpt_neox", dict(rope_parameters=dict(LLAMA3, partial_rotary_factor=0.75))),
    "phi, YaRN": ("phi", dict(rope_parameters=dict(YARN, partial_rotary_factor=0.75))),
    "phi": ("phi", dict(num_key_value_heads=6)),
    "phi, grouped queries, linear, another GELU": ("phi", dict(
        hidden_act="gelu", rope_parameters=dict(rope_type="linear", rope_theta=1000.0, factor=3.0,
                                                partial_rotary_factor=0.75))),
    "gpt_neox": ("gpt_neox", dict(rope_parameters=dict(rope_theta=500.0, partial_rotary_factor=0.25))),
    "gpt_neox, sequential, tied, without biases": ("gpt_neox", dict(
        use_parallel_residual=False, tie_word_embeddings=True, attention_bias=False, hidden_act="gelu_new",
        rope_parameters=dict(rope_theta=10000.0, partial_rotary_factor=1.0))),
    "qwen3": ("qwen3", dict(head_dim=20)),
    "mixtral": ("mixtral", dict(num_local_experts=4)),
    "mixtral, experts that few rows choose": (
        "mixtral", dict(num_local_experts=40, num_experts_per_tok=3, sliding_window=19)),
    "qwen3_moe": ("qwen3_moe", dict(head_dim=20, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=36)),
    "qwen3_moe, weights that add up to 1": ("qwen3_moe", dict(
        head_dim=12, num_experts=5, num_experts_per_tok=5, moe_intermediate_size=30, norm_topk_prob=True,
        tie_word_embeddings=True)),
    "mixtral, whose loss counts imbalance": (
        "mixtral", dict(num_local_experts=8, output_router_logits=True, router_aux_loss_coef=0.1)),
    "qwen3_moe, whose loss counts imbalance, in micro-batches": ("qwen3_moe", dict(
        head_dim=20, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=36, norm_topk_prob=True,
        output_router_logits=True, router_aux_loss_coef=0.2)),
    "qwen3, tied": ("qwen3", dict(head_dim=16, tie_word_embeddings=True, attention_bias=True)),
}
MICRO_BATCHES = {"qwen3_moe, whose loss counts imbalance, in micro-batches": 2}  # of others 1
RUN = dict(batch=2, sequence=72, micro_batches=1)


def tokens():
    data = torch.frombuffer(bytearray(DATA.read_bytes()[1024:]), dtype=torch.uint16)
    return data.to(torch.int64)


def load(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[problem]:
            sys.exit(f"{folder}: {problem}: {info[problem]}")
    if "moe" in model.config.model_type or "mixtral" in model.config.model_type:
        model.set_experts_implementation("eager")  # others want widths that are multiples of 16 bytes
    return model


def make(family, settings, folder):
    torch.manual_seed(1)
    sizes = dict(SMALL)
    if family == "gpt_neox":  # has no groups of queries
        del sizes["num_key_value_heads"]
    config = transformers.AutoConfig.for_model(family, **{**sizes, **settings})
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():  # nothing is exactly 0 or 1: every gradient matters
        parameter.data += 0.02 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return load(folder)


def train(model, bf16):
    """Returns losses and gradient norms, and the gradients of the first step."""
    masters = {name: p.detach().clone() for name, p in model.named_parameters()}
    if bf16:
        model.to(torch.bfloat16)
    recipe = record.RECIPE
    optimizer = torch.optim.AdamW(
        masters.values(), betas=(recipe["beta1"], recipe["beta2"]), eps=recipe["epsilon"],
        weight_decay=recipe["weight_decay"])
    losses, norms, gradients = [], [], {}
    for step in range(record.STEPS):
        for name, parameter in model.named_parameters():
            parameter.data = record.round_to_bf16(masters[name]) if bf16 else masters[name].clone()
        model.tie_weights()
        losses.append(record.gradient_step(model, tokens(), RUN, step))
        for name, parameter in model.named_parameters():
            masters[name].grad = parameter.grad.float()
            gradients.setdefault(name, masters[name].grad.clone())
        norms.append(torch.nn.utils.clip_grad_norm_(masters.values(), recipe["clip"]).item())
        for group in optimizer.param_groups:
            group["lr"] = record.learning_rate(step)
        optimizer.step()
    return losses, norms, gradients


def run(program, folder, steps, *arguments):
    log = folder / "log.jsonl"
    recipe = record.RECIPE
    command = [
        program, f"--model={folder / 'first'}", f"--data={DATA}", "--data-order=sequential", f"--batch={RUN['batch']}",
        f"--micro-batches={RUN['micro_batches']}", f"--seq={RUN['sequence']}", f"--steps={steps}",
        f"--schedule-steps={record.STEPS}", f"--log={log}",
        f"--lr={recipe['learning_rate']}", f"--min-lr={recipe['minimum_learning_rate']}",
        f"--warmup-steps={recipe['warm_up']}", f"--beta1={recipe['beta1']}", f"--beta2={recipe['beta2']}",
        f"--epsilon={recipe['epsilon']}", f"--weight-decay={recipe['weight_decay']}", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["loss"] for line in lines], [line["gradient_norm"] for line in lines]


def expect_series(what, ours, theirs, tolerance):
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
    print(f"  {what}: at most {worst:.2g} off")
    if not worst <= tolerance:
        sys.exit(f"{what}: they differ by more than {tolerance}: {ours} {theirs}")


def state_of(states, model_type, name, suffix):
    """A parameter's state; of experts, which are one parameter in transformers, those of ours."""
    own = states.get(record.file_name(model_type, name) + suffix)
    if own is not None:
        return own
    prefix, part = name.split(".experts.")
    names = [f"{prefix}.experts.{expert}.{part}.weight{suffix}" for expert in range(len(states))]
    return torch.stack([states[name] for name in names if name in states])


def expect_gradients(folder, model_type, theirs):
    """The first moments after one step without clipping are (1 - beta1) times the gradients."""
    moments = safetensors.torch.load_file(folder / "saved/optimizer.safetensors")
    worst = 0.0
    for name, gradient in theirs.items():
        ours = state_of(moments, model_type, name, ".exp_avg") / (1 - record.RECIPE["beta1"])
        error = ((ours - gradient).norm() / gradient.norm()).item()
        worst = max(worst, error)
        if not error <= FP32:
            sys.exit(f"gradient of {name}: {error:.2g} off")
    print(f"  gradients: at most {worst:.2g} off")


def expect_same_in_parts(program, folder):
    """A model in bf16 and in many files trains as the same model in one file."""
    model = load(folder / "first").to(torch.bfloat16)
    losses = []
    for size in ("1GB", "20KB"):
        for file in (folder / "first").glob("*.safetensors*"):
            file.unlink()
        model.save_pretrained(folder / "first", max_shard_size=size)
        losses.append(run(program, folder, 1)[0])
    if len(list((folder / "first").glob("*.safetensors"))) < 2 or losses[0] != losses[1]:
        sys.exit("a model in several files trains otherwise")
    expect_saved_in_parts(program, folder)


def expect_saved_in_parts(program, folder):
    """A model that was read in bf16 from several files is saved so, rounded from the weights in fp32 beside it."""
    saved = folder / "saved"
    run(program, folder, 1, f"--save={saved}")
    if len(list(saved.glob("model-*-of-*.safetensors"))) < 2 or (saved / "model.safetensors").exists():
        sys.exit("a model from several files is saved otherwise")
    weights = {}
    for file in saved.glob("model-*.safetensors"):
        weights.update(safetensors.torch.load_file(file))
    if any(weight.dtype != torch.bfloat16 for weight in weights.values()):
        sys.exit("weights are not in bf16")
    masters = safetensors.torch.load_file(saved / "optimizer.safetensors")
    model = load(saved)
    for parameter_name, parameter in model.named_parameters():
        name = record.file_name(model.config.model_type, parameter_name)
        exact = record.round_to_bf16(state_of(masters, model.config.model_type, parameter_name, ".master"))
        if name in weights and not torch.equal(weights[name], exact):
            sys.exit(f"{name} is not the weight in bf16")
        if not torch.equal(parameter.to(torch.bfloat16), exact):
            sys.exit(f"transformers reads {name} otherwise")


def expect_joined_experts(program, folder):
    """Files may have experts one by one, as on the hub, or as transformers has them in memory. What lacks is named."""
    first, path = folder / "first", folder / "first/model.safetensors"
    model = load(first)
    if not any(".experts." in name for name, _ in model.named_parameters()):
        return
    model.save_pretrained(first)  # one by one
    tensors = safetensors.torch.load_file(path)
    for file in first.glob("*.safetensors*"):
        file.unlink()
    safetensors.torch.save_file(tensors, path)
    losses = run(program, folder, 2)[0]
    missing = next(name for name in tensors if ".experts.1." in name)
    safetensors.torch.save_file({name: tensor for name, tensor in tensors.items() if name != missing}, path)
    expect_refused(program, folder, f"tensor {missing} is missing")
    joined = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    safetensors.torch.save_file(joined, path)
    if run(program, folder, 2)[0] != losses:
        sys.exit("a model whose experts are joined trains otherwise")
    name = next(name for name in joined if name.endswith(".experts.down_proj"))
    joined[name] = joined[name][1:].clone()
    safetensors.torch.save_file(joined, path)
    expect_refused(program, folder, name)
    safetensors.torch.save_file(tensors, path)


def expect_refused(program, folder, named):
    done = subprocess.run(
        [program, f"--model={folder / 'first'}", f"--data={DATA}", "--batch=1", "--seq=8", "--steps=1"], capture_output=True,
        text=True)
    if done.returncode != 2 or named not in done.stderr:
        sys.exit(f"status {done.returncode}, and '{named}' is not in: {done.stderr}")


def expect_evaluation(program, folder):
    """An evaluation counts imbalance as training does, in each of at most 64 micro-batches."""
    model, one = load(folder / "first"), dict(RUN, micro_batches=1)
    if not getattr(model.config, "output_router_logits", False):
        return
    run(program, folder, 1, "--lr=1e-12", "--min-lr=0", "--weight-decay=0", f"--eval={DATA}")
    ours = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["eval_loss"]
    count = min(64, (len(tokens()) - 1) // RUN["sequence"] // RUN["batch"])
    with torch.no_grad():
        losses = [record.batch_loss(model, *record.batch(tokens(), one, m, 0)).item() for m in range(count)]
    expect_series("loss in evaluation", [ours], [sum(losses) / count], FP32)


def check(program, family, settings, folder):
    losses, norms, gradients = train(make(family, settings, folder / "first"), bf16=False)
    ours = run(program, folder, record.STEPS, "--clip=1", f"--save={folder / 'saved'}")
    expect_series("losses", ours[0], losses, FP32)
    expect_series("gradient norms", ours[1], norms, FP32)
    if load(folder / "saved").state_dict().keys() != load(folder / "first").state_dict().keys():
        sys.exit("the saved model has other tensors")
    run(program, folder, 1, "--clip=0", f"--save={folder / 'saved'}")
    expect_gradients(folder, family, gradients)
    expect_evaluation(program, folder)
    expect_same_in_parts(program, folder)
    expect_joined_experts(program, folder)
    losses, norms, _ = train(load(folder / "first"), bf16=True)
    ours = run(program, folder, record.STEPS, "--clip=1", "--precision=bf16")
    expect_series("losses in bf16", ours[0], losses, BF16)


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name, (family, settings) in MODELS.items():
        print(name, flush=True)
        RUN["micro_batches"] = MICRO_BATCHES.get(name, 1)
        with tempfile.TemporaryDirectory() as folder:
            check(sys.argv[1], family, settings, pathlib.Path(folder))


if __name__ == "__main__":
    main()
