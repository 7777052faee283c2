#!/usr/bin/env bash
# The probe of a GPU measures what copies and the host's updates take beside each other, and a step is predicted from
# its file.
# Usage: probe.sh PROGRAMS FOLDER_OF_PSTAR_RUN
set -euo pipefail

programs=$1 run=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/model.json" <<'END'
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
 "n_layer": 2, "n_embd": 64, "n_head": 2, "n_positions": 32, "vocab_size": 256}
END
"$run/pstar-run" --device cuda --probe -o "$folder/machine.json" 2>"$folder/said" || { cat "$folder/said" >&2; exit 1; }
for key in h2d_both d2h_both; do
    grep -A 2 "\"$key\"" "$folder/machine.json" | grep -q "trains while copies in the other direction go on"
done
rate=$(grep -A 3 '"host": {' "$folder/machine.json" | sed -n 's/.*"bytes_per_second": *\([0-9.e+]*\).*/\1/p')
awk -v rate="$rate" 'BEGIN { exit !(rate > 1e8) }' || { echo "the host's memory gives $rate bytes a second" >&2; exit 1; }
"$programs/pstar-trace" synth --model "$folder/model.json" --batch 1 --seq 32 --precision bf16 \
    --platform "$folder/machine.json" -o "$folder/step.pstar" 2>"$folder/said"
"$programs/pstar-sim" "$folder/step.pstar" --platform "$folder/machine.json" --device-memory 60% --strategy zero-offload \
    --chunk-size 64KiB >"$folder/said"
