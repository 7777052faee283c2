#!/usr/bin/env python3
"""A model of transformers goes through pstar-run and back.

    transformers_model.py PSTAR_RUN

A random GPT2LMHeadModel is saved by transformers, trained a few steps by pstar-run, saved by it and
loaded by transformers again. The losses that pstar-run logs are those that transformers computes:
with the first weights for the first step, with the saved ones for the step after the last. Returns 77
where transformers is missing.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError:
    sys.exit(77)

DATA = pathlib.Path(__file__).resolve().parent / "data.bin"
BATCH, SEQUENCE, STEPS = 2, 64, 5
TOLERANCE = 1e-5
# As the classes build them, with their own tokens and dropout; and with all that a config can vary.
CONFIGS = {
    "as transformers makes it": dict(n_layer=2, n_embd=64, n_head=2, n_positions=128, vocab_size=300),
    "untied, narrow inside, without dropout": dict(
        n_layer=3, n_embd=48, n_head=4, n_inner=96, n_positions=64, vocab_size=257,
        tie_word_embeddings=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        layer_norm_epsilon=1e-6, initializer_range=0.05,
    ),
}


def tokens():
    data = torch.frombuffer(bytearray(DATA.read_bytes()[1024:]), dtype=torch.uint16)
    return data.to(torch.int64)


def loss_of(model, step):
    """Of the step's sequences, which follow one another, without dropout."""
    data = tokens()
    starts = [(step * BATCH + row) * SEQUENCE for row in range(BATCH)]
    inputs = torch.stack([data[s : s + SEQUENCE] for s in starts])
    targets = torch.stack([data[s + 1 : s + SEQUENCE + 1] for s in starts])
    with torch.no_grad():
        logits = model.eval()(inputs).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()


def run(program, *arguments):
    command = [program, f"--data={DATA}", "--data-order=sequential", f"--batch={BATCH}",
               f"--seq={SEQUENCE}", "--schedule-steps=10", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def logged_losses(path):
    return [json.loads(line)["loss"] for line in path.read_text().splitlines()]


def expect_equal(what, ours, theirs):
    print(f"  {what}: pstar-run {ours:.7f}, transformers {theirs:.7f}")
    if not abs(ours - theirs) <= TOLERANCE * abs(theirs):
        sys.exit(f"{what}: they differ by more than {TOLERANCE}")


def expect_same_tensors(first, saved):
    """Loading ties, renames and ignores: what must not happen is that it invents."""
    before, after = first.state_dict(), saved.state_dict()
    if {k: v.shape for k, v in before.items()} != {k: v.shape for k, v in after.items()}:
        sys.exit("the saved model has other tensors")
    if all(torch.equal(before[name], after[name]) for name in before):
        sys.exit("training has changed nothing")


def load(folder):
    model, info = transformers.GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[problem]:
            sys.exit(f"{problem}: {info[problem]}")
    return model


def check(program, config, folder):
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**config))
    model.save_pretrained(folder / "first")
    without_dropout = config.get("resid_pdrop") == 0.0
    log = folder / "log.jsonl"
    run(program, f"--model={folder / 'first'}", f"--steps={STEPS}", f"--save={folder / 'saved'}",
        f"--log={log}")
    if without_dropout:
        expect_equal("loss of step 0", logged_losses(log)[0], loss_of(model, 0))
    saved = load(folder / "saved")
    expect_same_tensors(model, saved)

    # One more step, without dropout, shows the loss of the weights as they were saved.
    quiet = dict(json.loads((folder / "saved/config.json").read_text()))
    quiet.update(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    (folder / "saved/config.json").write_text(json.dumps(quiet))
    run(program, f"--model={folder / 'saved'}", "--steps=1", f"--log={log}")
    expect_equal("loss of the saved model", logged_losses(log)[0], loss_of(saved, 0))


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name, config in CONFIGS.items():
        print(name)
        with tempfile.TemporaryDirectory() as folder:
            check(sys.argv[1], config, pathlib.Path(folder))


if __name__ == "__main__":
    main()
