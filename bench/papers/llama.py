"""A LLaMA as Megatron-DeepSpeed runs it, beside the GPT-2 that stands for it in the traces of `offload`.

The stand-in multiplies as much as the LLaMA. What else passes over memory differs: a LLaMA has no biases
and fuses its softmax, but it rotates queries and keys, repeats keys and values, and gates its MLP, all
operator by operator. The counts are those of PyTorch's operators in `megatron/model/transformer.py`,
`rotary_pos_embedding.py` and `core/tensor_parallel/cross_entropy.py` (early 2024), and of their derivatives.
"""

import sqlite3

ELEMENT = 2  # bytes
KEY_VALUE_HEADS = 4

# Bytes of a logit. Forward: to fp32, maximum, subtraction, exponential, sum, division. Backward: product, to
# bf16. The stand-in's loss makes the gradient at once.
LOSS_FORWARD, LOSS_BACKWARD = 6 + 4 + 8 + 8 + 4 + 8, 8 + 6


def layer_passes(hidden, heads, mlp, sequence):
    """Returns the elements of a token that a layer reads and writes, forward and backward, by operator."""
    keys = KEY_VALUE_HEADS * hidden // heads  # as many are values
    mixed, pairs = hidden + 2 * keys, heads * sequence
    return {
        "two norms": (2 * 2 * hidden, 2 * 5 * hidden),
        "two sums with the residual stream": (2 * 3 * hidden, 2 * 3 * hidden),
        "product for queries, keys, values": (hidden + mixed, 2 * (mixed + hidden)),
        # Backward: a gradient of the whole for each of the three, filled with zeros; then their sum.
        "taking these apart": (2 * hidden, 3 * mixed + 2 * mixed + 2 * 3 * mixed),
        "repeating keys and values": (2 * (keys + hidden), 2 * (hidden + keys)),
        # Two products (4), the half turned and joined (3, backward also added), their sum (3).
        "rotating queries and keys": (2 * 10 * hidden, 2 * 10 * hidden),
        # Softmax reads the lower half only. Backward, the scale of the scores is applied to both gradients.
        "attention": (6 * hidden + 3.5 * pairs, 12 * hidden + 6 * pairs),
        "product after attention": (2 * hidden, 2 * 2 * hidden),
        "product into the MLP": (hidden + 2 * mlp, 2 * (2 * mlp + hidden)),
        # SiLU 2 and product 3; backward: two products 6, SiLU 3, the halves joined 4.
        "gate": (5 * mlp, 13 * mlp),
        "product out of the MLP": (mlp + hidden, 2 * (mlp + hidden)),
    }


def layer_bytes(model, tokens, sequence, weights):
    """Returns the bytes of a layer, forward and backward. Backward reads the weights and writes gradients."""
    _, hidden, heads, mlp, _, _ = model
    passes = layer_passes(hidden, heads, mlp, sequence).values()
    return tuple(ELEMENT * (tokens * sum(column) + times * weights)
                 for column, times in zip(zip(*passes), (1, 2)))


def adapt(trace, model, tokens, sequence, weights, rate):
    """Changes the durations in the stand-in's trace to those of a LLaMA. `rate` is the device memory's."""
    forward, backward = layer_bytes(model, tokens, sequence, weights)
    logits = tokens * model[4]
    with sqlite3.connect(trace) as database:
        def bytes_of(operators):
            return database.execute("SELECT SUM(bytes) FROM operators WHERE micro_batch = 0 AND name LIKE ?",
                                    (operators,)).fetchone()[0]

        def lengthen(operators, by):
            database.execute("UPDATE operators SET duration_ns = duration_ns + ? WHERE name LIKE ?",
                             (round(by / rate * 1e9), operators))

        for run, wanted in (("forward", forward), ("recompute", forward), ("backward", backward)):
            lengthen(f"{run} h.%.attn", wanted - bytes_of(f"{run} h.0.%"))
        lengthen("forward loss", LOSS_FORWARD * logits - bytes_of("forward loss"))
        lengthen("backward lm_head", LOSS_BACKWARD * logits)
    database.close()


def gradients(model):
    """Yields the elements of each gradient, in the order in which backward completes them."""
    layers, hidden, heads, mlp, vocabulary, _ = model
    mixed = hidden + 2 * KEY_VALUE_HEADS * hidden // heads
    yield from (vocabulary * hidden, hidden)
    for _ in range(layers):
        yield from (hidden * mlp, 2 * hidden * mlp, hidden, hidden * hidden, mixed * hidden, hidden)
    yield vocabulary * hidden


def last_bucket(model, most):
    """Returns the elements of the last bucket of gradients. A bucket leaves before it would have more than
    `most`, the last one when backward has ended."""
    held = 0
    for elements in gradients(model):
        held = elements if held + elements > most else held + elements
    return held
