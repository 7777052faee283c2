#!/usr/bin/env python3
"""The trace of a mixture of experts has the operations and the activations of transformers' model.

    transformers_experts.py PSTAR_TRACE

Trains a small random model of each family with experts for one step, and records how many rows its routers send to each
expert, the operations of every matrix product (PyTorch's FlopCounterMode) and the tensors that autograd keeps. The trace
that is synthesised for these loads must have exactly these. Prints its seed; another one is given as PSTAR_SEED.
Returns 77 where transformers is missing.
"""

import json
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode
except ImportError:
    sys.exit(77)

BATCH, SEQUENCE = 2, 13
ROWS = BATCH * SEQUENCE
# Widths differ, so that a tensor's columns tell what it is.
SIZES = dict(
    num_hidden_layers=3, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24, vocab_size=50,
    max_position_embeddings=SEQUENCE, initializer_range=0.5, num_experts_per_tok=2, pad_token_id=None, bos_token_id=None,
    eos_token_id=None)
FAMILIES = {
    "mixtral": dict(num_local_experts=5),
    "qwen3_moe": dict(num_experts=17, moe_intermediate_size=24, head_dim=8, norm_topk_prob=True),
}
# Operations of an element beside the products (models/operator_cost.c).
SOFTMAX, GATE, GATE_BACKWARD, ROUTED_BACKWARD = 5, 5, 11, 4


def expect(what, ours, theirs):
    if ours != theirs:
        sys.exit(f"{what}: {ours}; in transformers {theirs}")


class Recording:
    """One step of a model: loads of experts, operations of products, and what autograd keeps of the experts' rows."""

    def __init__(self, model):
        self.loads, self.kept = [], []
        layers = model.model.layers
        for layer in layers:
            layer.mlp.gate.register_forward_hook(lambda module, inputs, outputs: self.count(module, outputs[2]))
            layer.mlp.experts.register_forward_pre_hook(lambda *_: self.begin())
            layer.mlp.experts.register_forward_hook(lambda *_: self.hooks.__exit__(None, None, None))
        tokens = torch.randint(0, model.config.vocab_size, (BATCH, SEQUENCE))
        with FlopCounterMode(display=False) as counter:
            model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
        name = type(model).__name__
        counts = counter.get_flop_counts()  # of which backward's are not told apart between router and experts
        self.flops = [sum(counts[f"{name}.model.layers.{i}.mlp"].values()) for i in range(len(layers))]

    def count(self, router, experts):
        self.loads.append(torch.bincount(experts.flatten(), minlength=router.num_experts).tolist())

    def begin(self):
        storages = {}
        self.kept.append(storages)

        def keep(tensor):
            if tensor.is_floating_point():
                storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()  # alive, so that it stays its own
            return tensor

        self.hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        self.hooks.__enter__()


def synthesise(program, folder, loads):
    path, trace = folder / "loads.json", folder / "model.pstar"
    path.write_text(json.dumps(loads))
    subprocess.run(
        [program, "synth", f"--model={folder}", f"--batch={BATCH}", f"--seq={SEQUENCE}", "--precision=fp32",
         f"--expert-loads={path}", f"--output={trace}", "--quiet"], check=True)
    database = sqlite3.connect(trace)
    operators = dict(database.execute("SELECT name, flops FROM operators"))
    buffers = dict(database.execute("SELECT name, bytes FROM buffers"))
    database.close()
    return operators, buffers


def check_flops(layer, config, loads, operators, theirs):
    mlp, width, inner, each = f"layers.{layer}.mlp", config.hidden_size, 24, config.num_experts_per_tok
    flops = operators[f"forward {mlp}.gate"] + operators[f"backward {mlp}.gate"]
    flops -= ROWS * (len(loads) * (SOFTMAX + each + ROUTED_BACKWARD) + 6 * each + width)
    for expert, rows in enumerate(loads):
        for verb, gate in (("forward", GATE), ("backward", GATE_BACKWARD)):
            up = operators.get(f"{verb} {mlp}.experts.{expert}.gate_up_proj", 0)
            flops += up + operators.get(f"{verb} {mlp}.experts.{expert}.down_proj", 0) - gate * rows * inner
    expect(f"operations of the products in layer {layer}", flops, theirs)


def check_kept(layer, config, buffers, kept, weights):
    """Eager PyTorch also keeps SiLU's results, the weights of rows, and what these make of the experts' results."""
    mlp = f"layers.{layer}.mlp"
    rows = ROWS * config.num_experts_per_tok
    sizes = dict(dispatched=config.hidden_size, gate_up=48, inner=24, down=config.hidden_size)
    for name, columns in sizes.items():
        expect(f"bytes of {mlp}.{name}", buffers[f"{mlp}.{name}"], -(-4 * rows * columns // 256) * 256)
    theirs = sum(s.nbytes() for s in kept.values() if s.data_ptr() not in weights)
    expect(f"bytes that autograd keeps of layer {layer}", 4 * rows * (sum(sizes.values()) + 24 + 1 + config.hidden_size), theirs)


def check(program, family, settings, folder):
    config = transformers.AutoConfig.for_model(family, **SIZES, **settings)
    config.save_pretrained(folder)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.set_experts_implementation("eager")
    recording = Recording(model)
    operators, buffers = synthesise(program, folder, recording.loads)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    for layer, loads in enumerate(recording.loads):
        print(f"  layer {layer}: rows {loads}")
        expect(f"rows of layer {layer}", sum(loads), ROWS * config.num_experts_per_tok)
        used = {int(name.split(".")[4]) for name in operators if name.startswith(f"forward layers.{layer}.mlp.experts.")}
        expect(f"experts of layer {layer} that forward reads", used, {e for e, rows in enumerate(loads) if rows})
        check_flops(layer, config, loads, operators, recording.flops[layer])
        check_kept(layer, config, buffers, recording.kept[layer], weights)


def main():
    seed = int(os.environ.get("PSTAR_SEED", random.randrange(2**32)))
    print(f"PSTAR_SEED={seed}")
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    for family, settings in FAMILIES.items():
        print(family)
        with tempfile.TemporaryDirectory() as folder:
            check(sys.argv[1], family, settings, pathlib.Path(folder))


if __name__ == "__main__":
    main()
