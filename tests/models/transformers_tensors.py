#!/usr/bin/env python3
"""A model's tensors are those that transformers gives it.

    transformers_tensors.py PSTAR_TRACE CONFIGS

Compares the names and the numbers of elements of all tensors in traces with transformers' models: of drawn
configs of every family, and of the configs in the folder CONFIGS. Nothing is allocated. Prints its seed; another one
is given as PSTAR_SEED. Returns 77 where transformers is missing.
"""

import json
import os
import pathlib
import random
import re
import sqlite3
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError:
    sys.exit(77)

DRAWN = 4  # configs a family


def draw_heads():
    keys = random.randint(1, 4)
    return dict(num_key_value_heads=keys, num_attention_heads=keys * random.randint(1, 4))


def draw_llama(**more):
    heads = draw_heads()
    return dict(
        heads, num_hidden_layers=random.randint(1, 3), hidden_size=heads["num_attention_heads"] * 2 * random.randint(1, 9),
        intermediate_size=random.randint(1, 90), vocab_size=random.randint(1, 300), max_position_embeddings=32,
        tie_word_embeddings=random.random() < 0.5, pad_token_id=None, bos_token_id=None, eos_token_id=None, **more)


def draw_experts(key, **more):
    experts = random.randint(1, 9)
    return draw_llama(head_dim=2 * random.randint(1, 9), num_experts_per_tok=random.randint(1, experts), **{key: experts}, **more)


def draw_gpt2():
    heads = random.randint(1, 4)
    return dict(
        n_layer=random.randint(1, 3), n_head=heads, n_embd=heads * random.randint(1, 9), n_inner=random.randint(1, 90),
        n_positions=32, vocab_size=random.randint(1, 300), tie_word_embeddings=random.random() < 0.5)


def draw_bert():
    heads = random.randint(1, 4)
    return dict(
        num_hidden_layers=random.randint(1, 3), num_attention_heads=heads, hidden_size=heads * random.randint(1, 9),
        intermediate_size=random.randint(1, 90), max_position_embeddings=32, vocab_size=random.randint(1, 300),
        type_vocab_size=random.randint(1, 3), pad_token_id=None)


WHOLE_HEADS = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0)


def draw_gpt_neox():
    config = draw_llama(**biases("attention_bias", "use_parallel_residual"), rope_parameters=WHOLE_HEADS)
    del config["num_key_value_heads"]
    return config


def biases(*keys):
    return {key: random.random() < 0.5 for key in keys}


FAMILIES = {
    "gpt2": draw_gpt2,
    "bert": draw_bert,
    "llama": lambda: draw_llama(**biases("attention_bias", "mlp_bias")),
    "mistral": lambda: draw_llama(head_dim=2 * random.randint(1, 9)),
    "qwen2": draw_llama,
    "smollm3": lambda: draw_llama(**biases("attention_bias", "mlp_bias")),
    "gemma": lambda: draw_llama(head_dim=2 * random.randint(1, 9), **biases("attention_bias")),
    "phi3": draw_llama,
    "phi": lambda: {**draw_llama(), "tie_word_embeddings": False, "rope_parameters": WHOLE_HEADS},
    "gpt_neox": draw_gpt_neox,
    "gemma2": lambda: draw_llama(head_dim=2 * random.randint(1, 9), **biases("attention_bias")),
    "gemma3_text": lambda: draw_llama(head_dim=2 * random.randint(1, 9), **biases("attention_bias")),
    "olmo2": lambda: draw_llama(**biases("attention_bias")),
    "mixtral": lambda: draw_experts("num_local_experts"),
    "qwen3_moe": lambda: draw_experts("num_experts", moe_intermediate_size=random.randint(1, 90), **biases("attention_bias")),
    "qwen3": lambda: draw_llama(head_dim=2 * random.randint(1, 9), **biases("attention_bias")),
}


def their_tensors(config):
    masked = config.model_type == "bert"
    kind = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    head = "embed_out." if config.model_type == "gpt_neox" else "lm_head."  # as in its files
    return {
        name.removeprefix("transformer.").replace("lm_head.", head): tensor.numel()
        for name, tensor in model.named_parameters()}


def our_tensors(program, config, folder):
    trace = folder / "model.pstar"
    subprocess.run(
        [program, "synth", f"--model={config}", "--batch=1", "--seq=4", "--precision=fp32", f"--output={trace}", "--quiet"],
        check=True)
    database = sqlite3.connect(trace)
    tensors = dict(database.execute("SELECT name, elements FROM tensors"))
    database.close()
    trace.unlink()
    return join_experts(tensors)


def join_experts(tensors):
    """Returns the tensors with those of a layer's experts as one, as transformers has them since its version 5."""
    joined = {}
    for name, elements in tensors.items():
        joint = re.sub(r"\.experts\.\d+\.(\w+)\.weight$", r".experts.\1", name)
        joined[joint] = joined.get(joint, 0) + elements
    return joined


def expect_same(what, ours, theirs):
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            sys.exit(f"{what}: {name} has {ours.get(name)} elements; in transformers {theirs.get(name)}")


def main():
    program, configs = sys.argv[1], pathlib.Path(sys.argv[2])
    seed = int(os.environ.get("PSTAR_SEED", random.randrange(2**32)))
    print(f"PSTAR_SEED={seed}")
    random.seed(seed)
    transformers.utils.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for family, draw in FAMILIES.items():
            for _ in range(DRAWN):
                config = transformers.AutoConfig.for_model(family, **draw())
                config.save_pretrained(folder)
                expect_same(config, our_tensors(program, folder, folder), their_tensors(config))
        for path in sorted(configs.glob("*.json")):
            described = json.loads(path.read_text())
            expect_same(path, our_tensors(program, path, folder),
                        their_tensors(transformers.AutoConfig.for_model(**described)))


if __name__ == "__main__":
    main()
