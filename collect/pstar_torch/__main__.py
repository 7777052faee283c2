"""The command `python3 -m pstar_torch`: converts a snapshot of the allocator's history or, with
--meta, runs a training script on the meta device."""
import importlib.util
import sys

if sys.argv[1:2] == ["--meta"]:
    if not importlib.util.find_spec("torch"):
        sys.exit("python3 has no PyTorch (the module torch)")
    from ._meta import run
    sys.exit(run(sys.argv[2:]))

from ._snapshot import convert_snapshot

sys.exit(convert_snapshot(sys.argv[1:]))
