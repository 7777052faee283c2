#!/usr/bin/env bash
# What tools/bundle --gpu-bench packs goes through the GPU bench from any folder, with nothing of this
# machine but the C library, Python and what CUDA provides. Usage: gpu_bundle.sh BUILD_DIR TOOLS_DIR PYTHON
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$2/bundle" --gpu-bench "$1" "$folder/pstar.tar.gz" >/dev/null
tar -C "$folder" -xzf "$folder/pstar.tar.gz"
rm "$folder/pstar.tar.gz"
cd "$folder"

bench() { # options; says everything only if it fails
    env -i PATH=/usr/bin:/bin HOME="$HOME" "$3" pstar/bench/gpu/run --device cpu "${@:4}" >said 2>&1 ||
        { cat said; exit 1; }
}
bench "$@" -o first --parts smoke,kernels,probe
bench "$@" -o second --continue first --parts smoke,kernels,correct-short
python3 - <<'END'
import json
first, second = (json.load(open(f"{folder}/results.json")) for folder in ("first", "second"))
assert list(first) == ["smoke", "kernels", "probe"], list(first)
assert list(second) == [*first, "correct-short"], list(second)
assert all(second[part] == first[part] for part in first)
assert len(second["correct-short"]["goals"]) >= 4, second["correct-short"]
# The kernels' tests started and found no GPU, or ran on one.
assert len(first["kernels"].get("left_out", {})) + sum("passed" in row for row in first["kernels"].values()
                                                       if isinstance(row, dict)) == 7, first["kernels"]
END
