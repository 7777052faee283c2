"""The CUDA device's kernels under compute-sanitizer: invalid accesses, and races in shared memory."""

import json
import os
import shutil

SANITIZER, FOUND_SOMETHING = "compute-sanitizer", 99  # an exit status that none of our programs uses
TOOLS, PRECISIONS = ("memcheck", "racecheck"), ("bf16", "fp32")
# Width, heads, batch: for attention's kernels with heads of 64 (few and many), of 80 and of 20.
SHAPES = ((128, 2, 2), (128, 2, 100), (160, 2, 2), (60, 3, 2))
SEQUENCE, VOCABULARY = 100, 1000  # not multiples of any tile


def small_model(bench, width, heads):
    config = json.loads(bench.model("124M", positions=SEQUENCE).read_text())
    path = bench.folder / f"sanitized-{width}.json"
    path.write_text(json.dumps(config | dict(n_layer=1, n_embd=width, n_head=heads, vocab_size=VOCABULARY,
                                             attn_pdrop=0.1, resid_pdrop=0.1, embd_pdrop=0.1)))
    return path


def check(bench, sanitizer, tool, name, job):
    done = bench.call(sanitizer, "--tool", tool, "--error-exitcode", FOUND_SOMETHING, "--print-limit", 20,
                      bench.programs / "pstar-run", *job, "--steps", 2, allowed=(0, FOUND_SOMETHING))
    if done.returncode:
        bench.found[f"{name}, {tool}"] = done.stdout[-3000:]
    bench.goal(f"{name}: {tool} finds nothing", done.returncode == 0)
    bench.show(f"{name}: {tool} {'FOUND SOMETHING' if done.returncode else 'finds nothing'}")


def find():
    """Returns the path of compute-sanitizer, or None."""
    return shutil.which(SANITIZER, path=f"{os.environ['PATH']}:/usr/local/cuda/bin")


def sanitized(bench):
    """Runs two steps of small models with dropout, so that every kernel runs."""
    sanitizer = find()
    if not bench.gpu or not sanitizer:
        bench.leave_out("everything", f"needs a GPU and {SANITIZER}")
        return
    checks = {f"{batch} times {heads} heads of {width // heads}, {precision}, {tool}": (width, heads, batch, precision, tool)
              for width, heads, batch in SHAPES for precision in PRECISIONS for tool in TOOLS}
    for row in bench.rows(checks):
        width, heads, batch, precision, tool = checks[row]
        with bench.going_on(row):
            job = bench.job(small_model(bench, width, heads), batch=batch, sequence=SEQUENCE, precision=precision)
            check(bench, sanitizer, tool, row.removesuffix(f", {tool}"), job)
