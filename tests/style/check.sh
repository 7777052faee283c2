#!/usr/bin/env bash
# ./check runs both of its halves, whatever fails, and its last line names the half that failed.
# Usage: check.sh SOURCE_DIR. cmake, ctest and tools/dependencies are stubs here; a preset that
# CANNOT_BUILD or CANNOT_PASS names fails.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/tools"
cp "$1/check" "$folder/check"
printf '#!/bin/sh\nexit 0\n' >"$folder/tools/dependencies"
printf '#!/bin/sh\ncase "$*" in --build*"$CANNOT_BUILD") echo no rule; exit 2;; esac\n' >"$folder/bin/cmake"
printf '#!/bin/sh\necho "tested $2"; [ "$2" != "$CANNOT_PASS" ]\n' >"$folder/bin/ctest"
chmod +x "$folder/tools/dependencies" "$folder/bin/cmake" "$folder/bin/ctest"

try() { # expected status, expected last line, expected presets that were tested
    local status=0 out
    out=$(PATH=$folder/bin:$PATH "$folder/check" 2>&1) || status=$?
    local tested
    tested=$(sed -n 's/^tested //p' <<<"$out" | paste -sd' ')
    if [ "$status" != "$1" ] || [ "$(tail -n 1 <<<"$out")" != "$2" ] || [ "$tested" != "$3" ]; then
        printf 'CANNOT_BUILD=%s CANNOT_PASS=%s: status %s, printed:\n%s\n' \
            "$CANNOT_BUILD" "$CANNOT_PASS" "$status" "$out" >&2
        exit 1
    fi
}

export CANNOT_BUILD=none CANNOT_PASS=none
try 0 '== passed: asan, release' 'asan release'
CANNOT_PASS=asan try 1 '== failed: asan (tests, see above)' 'asan release'
CANNOT_PASS=release try 1 '== failed: release (tests, see above)' 'asan release'
CANNOT_BUILD=asan try 1 '== failed: asan (it does not build)' 'release'
CANNOT_BUILD=release CANNOT_PASS=asan try 1 \
    '== failed: asan (tests, see above) release (it does not build)' 'asan'
