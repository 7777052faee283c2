#!/usr/bin/env bash
# A collected run on the CUDA device waits for no operator, because CUPTI has their times. If CUPTI records
# nothing, as here without a driver, the durations are unknown and the collector says so; with
# PSTAR_CUDA_SYNC=1 the run waits, and the host's times count.
# Usage: collected.sh PROGRAMS FOLDER_OF_PSTAR_RUN DATA
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/model.json" <<'END'
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
 "n_layer": 2, "n_embd": 32, "n_head": 2, "n_positions": 32, "vocab_size": 256}
END

fail() {
    echo "$1" >&2
    cat "$folder/said" "$folder/info" >&2
    exit 1
}

collect() { # value of PSTAR_CUDA_SYNC
    PSTAR_CUDA_SYNC=$1 "$programs/pstar-collect" -o "$folder/run.pstar" --iterations 2:4 -- \
        "$run/pstar-run" --device cuda --model "$folder/model.json" --data "$data" --tokens bytes --batch 1 --seq 16 \
        --steps 4 >"$folder/said" 2>&1
    "$programs/pstar-trace" check "$folder/run.pstar" >"$folder/info"
    "$programs/pstar-trace" info "$folder/run.pstar" >"$folder/info"
}

programs=$1 run=$2 data=$3
collect 0
grep -q "whose durations are unknown: the program only queues them" "$folder/said" || fail "nothing was said"
grep -q "durations of" "$folder/info" || fail "durations are not missing"
collect 1
if grep -q "unknown" "$folder/said"; then fail "durations are unknown although the run waits"; fi
if grep -q "durations of" "$folder/info"; then fail "durations are missing although the run waits"; fi
