"""The command `python3 -m pstar_torch`: converts a snapshot of the allocator's history."""
import sys

from ._snapshot import convert_snapshot

sys.exit(convert_snapshot(sys.argv[1:]))
