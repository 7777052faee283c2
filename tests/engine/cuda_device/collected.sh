#!/usr/bin/env bash
# A collected run on the CUDA device waits for no operator, because CUPTI has their times. If CUPTI records
# nothing, as here without a driver, the durations are unknown and the collector says so; with
# PSTAR_CUDA_SYNC=1 the run waits, and the host's times count. Updates on the host are recorded in the thread that
# runs them, and nothing but the iteration's end waits for them. Each of several ranks records when it queues what
# it gathers, as often as it counts.
# Usage: collected.sh PROGRAMS FOLDER_OF_PSTAR_RUN DATA
set -Eeuo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR
cat >"$folder/model.json" <<'END'
{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
 "n_layer": 2, "n_embd": 32, "n_head": 2, "n_positions": 32, "vocab_size": 256}
END

fail() {
    echo "$1" >&2
    cat "$folder"/said "$folder"/info >&2 || true
    exit 1
}

collect() { # value of PSTAR_CUDA_SYNC, options
    local sync=$1
    shift
    PSTAR_CUDA_SYNC=$sync "$programs/pstar-collect" -o "$folder/run.pstar" --iterations 2:4 -- \
        "$run/pstar-run" --device cuda --model "$folder/model.json" --data "$data" --tokens bytes --batch 1 --seq 16 \
        --steps 4 "$@" >"$folder/said" 2>&1
    "$programs/pstar-trace" check "$folder/run.pstar" >"$folder/info" 2>&1
    "$programs/pstar-trace" info "$folder/run.pstar" >"$folder/info"
}

programs=$1 run=$2 data=$3
collect 0
grep -q "whose durations are unknown: the program only queues them" "$folder/said" || fail "nothing was said"
grep -q "durations of" "$folder/info" || fail "durations are not missing"
collect 1
if grep -q "unknown" "$folder/said"; then fail "durations are unknown although the run waits"; fi
if grep -q "durations of" "$folder/info"; then fail "durations are missing although the run waits"; fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if command -v sqlite3 >/dev/null; then
    query() { sqlite3 "$folder/run.pstar" "$1"; }
    updates="SELECT id FROM operators WHERE place = 'host' AND phase = 'update'"
    for sync in 0 1; do
        collect $sync --host-update
        count=$(query "SELECT count(*) FROM ($updates)")
        known=$(query "SELECT count(*) FROM operators WHERE duration_ns > 0 AND id IN ($updates)")
        [ "$count" -gt 0 ] && [ "$known" = "$count" ] || fail "$known of $count updates on the host have times"
        beside=$(query "SELECT count(DISTINCT globalTid) FROM NVTX_EVENTS WHERE eventType = 59 AND (category = 2
            OR category = 3 AND uint64Value IN ($updates))")
        [ "$beside" = $((2 - sync)) ] || fail "iterations and updates on the host are in $beside threads"
        outside=$(query "SELECT count(*) FROM NVTX_EVENTS o WHERE eventType = 59 AND category = 3
            AND uint64Value IN ($updates) AND NOT EXISTS (SELECT 1 FROM NVTX_EVENTS i WHERE i.eventType = 59
            AND i.category = 2 AND i.start <= o.start AND i.end >= o.end)")
        [ "$outside" = 0 ] || fail "$outside updates on the host did not end within an iteration"
    done
fi
command -v mpirun >/dev/null && command -v sqlite3 >/dev/null || exit 0
mpirun -n 2 --oversubscribe "$programs/pstar-collect" -o "$folder/run-%r.pstar" --iterations 2:3 -- \
    "$run/pstar-run" --device cuda --model "$folder/model.json" --data "$data" --tokens bytes --batch 1 --seq 16 \
    --steps 4 --stage 3 --chunk-size 16KiB --log "$folder/log.jsonl" >"$folder/said" 2>&1 || fail "two ranks do not run"
counted=$(tail -n 1 "$folder/log.jsonl" | grep -o '"gathers": *[0-9]*' | grep -o '[0-9]*$')
for rank in 0 1; do
    queued=$(sqlite3 "$folder/run-$rank.pstar" "SELECT count(*) FROM NVTX_EVENTS e JOIN StringIds s ON s.id = e.textId
        WHERE s.value = 'queued gather'")
    [ "$queued" -gt 0 ] && [ "$queued" = "$counted" ] || fail "rank $rank queues $queued gathers and counts $counted"
done
"$programs/pstar-trace" merge "$folder"/run-[01].pstar -o "$folder/ranks.pstar" >"$folder/said"
grep -q " 0 of them gathers" "$folder/said" || fail "gathers are known without the device's times"
