"""Annotates a PyTorch training loop for pstar-collect.

    import pstar_torch
    pstar_torch.annotate(model, optimizer)      # before the loop

    pstar-collect -o run.pstar -- python3 train.py

A package that depends only on torch; `pip install ./collect` installs it. Without pstar-collect
annotate() does nothing, so that the loop can keep the two lines. With it, the
iteration before the recorded ones is observed: a dispatch mode sees every ATen operator, and
identifies by storages which parameters, gradients and optimizer states each one touches, and when
activations come and go. This becomes the declarations of docs/formats.md. The recorded iterations
only have hooks that mark where operators begin; after them all hooks are removed.

    python3 -m pstar_torch snapshot.pickle -o snapshot.json

converts a snapshot of torch.cuda.memory's history to a file for pstar-trace import.
"""
import os


def annotate(model, *optimizers):
    """Annotates the iterations that train `model`. Each ends with a step of the last optimizer.

    Call it once before the first iteration, when the model is on its device and the optimizers
    have its parameters. Never fails: an error is printed once, and training goes on.
    """
    library, window = (os.environ.get(name)
                       for name in ("NVTX_INJECTION64_PATH", "PSTAR_COLLECT_ITERATIONS"))
    if not library or not window or window == "all":
        return
    from ._session import Session, give_up, is_open
    try:
        from ._nvtx import Nvtx
        if is_open():
            raise ValueError("annotate must be called only once")
        first, end = map(int, window.split(":"))
        if first == 0:
            raise ValueError("iteration 0 cannot be recorded, because the iteration before the "
                             "recorded one is observed; use --iterations 1:2")
        Session(Nvtx(library), model, optimizers, first, end)
    except Exception as error:
        give_up(error)


def follow(model, optimizer, plan, trace):
    """Carries out a plan in the loop that trains `model`, on the CPU: parameters, gradients and
    optimizer states lie in the plan's chunks, in a host pool and an arena of the plan's size, and
    move as it says.

    Call it before the first iteration, with the loop's optimizer, or a list of its optimizers in the
    order in which they step. `plan` is the path of a file
    of pstar-plan, and `trace` that of the recording of this loop that the plan was made from.
    Returns an object: `moved` has the bytes and copies of each iteration that followed the plan
    (all but the first one, which is observed); within `with it.gathered():`, between two steps, all
    parameters can be read and written; stop() gives them memory of their own again. Raises ValueError if the
    plan is not for this loop, and RuntimeError if the loop does not repeat itself.
    """
    from ._follow import Follower
    from ._session import is_open
    if is_open():
        raise ValueError("the loop is being recorded, or follows a plan already")
    optimizers = optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]
    return Follower(model, list(optimizers), plan, trace)
