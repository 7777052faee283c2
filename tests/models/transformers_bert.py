#!/usr/bin/env python3
"""The trace of a BERT has the operations and the activations of transformers' model.

    transformers_bert.py PSTAR_TRACE

Trains a small random model for one step, and records the operations of its matrix products (PyTorch's FlopCounterMode)
and what autograd keeps of each layer. The trace that is synthesised without fusing must have exactly these. Returns 77
where transformers is missing.
"""

import pathlib
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

BATCH, SEQUENCE, LAYERS, WIDTH, INNER, HEADS, VOCABULARY = 2, 16, 3, 32, 48, 4, 128
ROWS = BATCH * SEQUENCE
SIZES = dict(
    num_hidden_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=INNER, vocab_size=VOCABULARY,
    max_position_embeddings=SEQUENCE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def expect(what, ours, theirs):
    if ours != theirs:
        sys.exit(f"{what}: {ours}; in transformers {theirs}")


def record(model):
    """Returns the operations of forward's and of backward's products, and the bytes that autograd keeps of each layer."""
    tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept, hooks = [], []

    def begin(*_):
        storages = {}

        def keep(tensor):
            storage = tensor.untyped_storage()
            if tensor.is_floating_point() and storage.data_ptr() not in weights:
                storages[storage.data_ptr()] = storage  # alive, so that it stays its own
            return tensor

        kept.append(storages)
        hooks.append(torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor))
        hooks[-1].__enter__()

    for layer in model.bert.encoder.layer:
        layer.register_forward_pre_hook(begin)
        layer.register_forward_hook(lambda *_: hooks.pop().__exit__(None, None, None))
    with FlopCounterMode(display=False) as forward:
        loss = model(input_ids=tokens, labels=tokens).loss
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return forward.get_total_flops(), backward.get_total_flops(), [sum(s.nbytes() for s in layer.values()) for layer in kept]


def synthesise(program, folder):
    trace = folder / "model.pstar"
    subprocess.run(
        [program, "synth", f"--model={folder}", f"--batch={BATCH}", f"--seq={SEQUENCE}", "--precision=fp32", "--unfused",
         f"--output={trace}", "--quiet"], check=True)
    database = sqlite3.connect(trace)
    operators = dict(database.execute("SELECT name, flops FROM operators"))
    saved = dict(database.execute("SELECT name, bytes FROM buffers WHERE saved"))
    database.close()
    return operators, saved


def beside_products():
    """Operations beside the products of forward and of backward, as models/operator_cost.c counts an element's."""
    norm, norm_backward, gelu, gelu_backward, softmax, loss = 7, 12, 5, 11, 5, 6
    scores, x, inside, logits = BATCH * HEADS * SEQUENCE ** 2, ROWS * WIDTH, ROWS * INNER, ROWS * VOCABULARY
    # Forward: five biases and two sums with the stream. Backward: five biases, four sums of gradients, and attention's
    # products of gradients and results.
    layer = (2 * norm + 5 + 2) * x + (gelu + 1) * inside + softmax * scores
    layer_backward = (2 * norm_backward + 5 + 4 + 2) * x + (gelu_backward + 1) * inside + softmax * scores
    embedding, embedding_backward = (2 + norm) * x, (2 + norm_backward) * x
    head, head_backward = (1 + gelu + norm) * x + (1 + loss) * logits, (1 + gelu_backward + norm_backward) * x + logits
    return embedding + LAYERS * layer + head, embedding_backward + LAYERS * layer_backward + head_backward


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    config = transformers.AutoConfig.for_model("bert", **SIZES)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config.save_pretrained(folder)
        config._attn_implementation = "eager"
        forward, backward, kept = record(transformers.BertForMaskedLM(config))
        operators, saved = synthesise(sys.argv[1], folder)
    of = {verb: sum(flops for name, flops in operators.items() if name.startswith(f"{verb} ")) for verb in ("forward", "backward")}
    others = beside_products()
    expect("operations of forward's products", of["forward"] - others[0], forward)
    expect("operations of backward's products", of["backward"] - others[1], backward)
    for layer, theirs in enumerate(kept):
        stream = "bert.embeddings.LayerNorm" if layer == 0 else f"bert.encoder.layer.{layer - 1}.output"
        ours = saved[stream] + sum(
            size for name, size in saved.items()
            if name.startswith(f"bert.encoder.layer.{layer}.") and name != f"bert.encoder.layer.{layer}.output")
        expect(f"bytes that are kept of layer {layer}", ours, theirs)


if __name__ == "__main__":
    main()
