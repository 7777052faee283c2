#!/usr/bin/env python3
"""Records what transformers computes for a tiny model of every family but GPT-2, for test_reference.c.

    record_families.py

writes, beside itself: families/NAME with a random model in bf16 and the gradients of its first step, and families.json,
as record.py writes reference.json. The tokens are those of data.bin. So machines without PyTorch compare every family
with it; transformers_families.py compares larger ones, where it is there.
"""

import struct

import torch
import transformers

import record

TINY = dict(
    num_hidden_layers=2, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24,
    vocab_size=131, max_position_embeddings=48, initializer_range=0.05, tie_word_embeddings=False,
    pad_token_id=None, bos_token_id=None, eos_token_id=None,
)
LLAMA3 = dict(
    rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=12,
)
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=12)
# Each with the parts that only its family has, or that configs of it often have.
MODELS = {
    "llama": dict(rope_parameters=LLAMA3),
    "mistral": dict(sliding_window=11, head_dim=6),
    "qwen2": dict(rope_parameters=YARN, use_sliding_window=True, sliding_window=9, max_window_layers=1),
    "qwen3": dict(head_dim=10, tie_word_embeddings=True),
    "smollm3": dict(no_rope_layer_interval=2),
    "gemma": dict(head_dim=12, tie_word_embeddings=True),
    "gemma2": dict(
        initializer_range=0.3, head_dim=12, tie_word_embeddings=True, sliding_window=11, query_pre_attn_scalar=9,
        attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
    "gemma3_text": dict(
        initializer_range=0.3, head_dim=12, tie_word_embeddings=True, sliding_window=11, query_pre_attn_scalar=9,
        layer_types=["sliding_attention", "full_attention"], rope_parameters=dict(
            full_attention=dict(rope_type="linear", rope_theta=1000.0, factor=8.0),
            sliding_attention=dict(rope_type="default", rope_theta=50.0))),
    "olmo2": dict(initializer_range=0.3),
    "phi": dict(rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=3.0, partial_rotary_factor=0.5)),
    "gpt_neox": dict(
        initializer_range=0.3, rope_parameters=dict(rope_theta=500.0, partial_rotary_factor=0.5)),
    "phi3": dict(sliding_window=11, rope_parameters=dict(rope_theta=500.0, partial_rotary_factor=0.5)),
}
PRECISIONS = ("fp32", "bf16")


def read_tokens():
    data = (record.HERE / "data.bin").read_bytes()
    return torch.tensor(struct.unpack(f"<{(len(data) - 1024) // 2}H", data[1024:]))


def main():
    torch.set_num_threads(1)
    for family, settings in MODELS.items():
        sizes = dict(TINY)
        if family == "gpt_neox":  # has no groups of queries
            del sizes["num_key_value_heads"]
        config = transformers.AutoConfig.for_model(family, **{**sizes, **settings})
        record.make_model(f"families/{family}", config, torch.bfloat16)
    runs = [
        dict(name=f"{family}-{precision}", model=f"families/{family}", precision=precision, batch=2, sequence=40,
             micro_batches=1)
        for family in MODELS for precision in PRECISIONS
    ]
    record.record(runs, read_tokens(), "families.json")


if __name__ == "__main__":
    main()
