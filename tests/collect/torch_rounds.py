#!/usr/bin/env python3
"""Scripts whose optimizers step in turns: pstar-plan --torch records a whole round of their steps.

    torch_rounds.py FOLDER_OF_PROGRAMS

Returns 77 where PyTorch is missing.
"""
import importlib.util
import pathlib
import sys
import tempfile

if not importlib.util.find_spec("torch"):
    sys.exit(77)

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]
from torch_meta import plan  # noqa: E402
from torch_training import Trace, check  # noqa: E402

# One makes and one judges. A round has steps of both, in an order that is filled in.
SCRIPT = """
import torch
from torch import nn
class Makes(nn.Sequential):
    pass
class Judges(nn.Sequential):
    pass
makes = Makes(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))
judges = Judges(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
model = nn.ModuleDict(dict(Judges=judges, Makes=makes))
made, judged = (torch.optim.Adam(part.parameters(), lr=1e-3) for part in (makes, judges))
def step(optimizer, loss):
    model.zero_grad()
    loss.backward()
    optimizer.step()
def judge():
    with torch.no_grad():
        x = makes(torch.randn(4, 8))
    step(judged, judges(x).sum())
def make():
    step(made, judges(makes(torch.randn(4, 8))).sum())
for _ in range(20):
    ROUND
"""
NEVER = "\nnever = torch.optim.SGD(nn.Linear(8, 8).parameters(), lr=1e-3)\nfor "


def recorded(folder, programs, name, text):
    (folder / f"{name}.py").write_text(text)
    status, out, errors = plan(programs, folder, f"{name}.py")
    check(status == 0 and "differs from the observed" not in errors and "nowhere" not in errors,
          f"{name}: {status}: {out}{errors}")
    return Trace(folder / f"{name}.pstar"), errors


def check_round(folder, programs, body, own_body, never=False):
    """The script alone is recorded as one that says where an iteration ends."""
    text = SCRIPT.replace("\nfor ", NEVER) if never else SCRIPT
    alone, errors = recorded(folder, programs, "alone", text.replace("ROUND", body))
    check(("(SGD) of 2 parameters did not step" in errors) == never, f"{body}: {errors}")
    own, _ = recorded(folder, programs, "own", SCRIPT.replace("ROUND", own_body).replace(
        "\nfor ", "\nimport pstar_torch\npstar_torch.annotate(model, judged, made)\nfor "))
    names = [[name for name, *_ in trace.operators] for trace in (alone, own)]
    check(names[0] == names[1], f"{body}: {names[0]} instead of {names[1]}")
    check(alone.non_model == own.non_model, f"{body}: {alone.non_model} instead of {own.non_model}")


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_round(folder, programs, "judge(); make()", "judge(); make()")
        check_round(folder, programs, "judge(); judge(); judge(); make()", "judge(); judge(); judge(); make()")
        check_round(folder, programs, "make(); judge(); judge()", "judge(); judge(); make()")
        check_round(folder, programs, "judge(); make()", "judge(); make()", never=True)
        (folder / "twice.py").write_text(SCRIPT.replace("ROUND", "judge(); judge(); make(); make()"))
        status, _, errors = plan(programs, folder, "twice.py")
        check(status == 1 and "each optimizer steps several times in a round" in errors, f"{status}: {errors}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
