#!/usr/bin/env bash
# What `cmake --install` leaves works on its own: programs run from there, every header compiles by
# itself, and pkg-config links a program. Usage: installed.sh BUILD_DIR
set -euo pipefail

build_dir=$1
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build_dir" --prefix "$prefix" >/dev/null

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name pstar.pc)")
version=$(pkg-config --modversion pstar)

cd "$prefix" # nothing of the source tree is found by chance
for program in "$build_dir"/pstar-*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    installed=$prefix/bin/$(basename "$program")
    "$installed" --version | grep -qF "$version"
    "$installed" --help >/dev/null
done

read -ra flags < <(pkg-config --cflags pstar pstar-sim)
while read -r header; do
    cc -std=c11 -Wall -Wextra -Werror -fsyntax-only "${flags[@]}" -x c "$header"
done < <(find "$prefix/include/pstar" -name '*.h')

cat >links.c <<'C'
#include <chunks/plan.h>
#include <sim/sweep.h>
#include <stdio.h>
#include <traces/trace_file.h>

int main(int argc, char **argv)
{
    GError *error = NULL;
    struct trace *trace = trace_read(argv[argc - 1], &error);
    trace_free(trace);
    printf("%s\n", error ? error->message : plan_action_name(PLAN_FETCH));
    return error == NULL;
}
C
read -ra libraries < <(pkg-config --libs pstar pstar-sim)
cc -std=c11 links.c "${flags[@]}" "${libraries[@]}" -o links
./links missing.pstar | grep -q missing.pstar

"$prefix/bin/pstar-collect" -o run.pstar --iterations 0:1 -- "$prefix/bin/pstar-run" \
    --model "$prefix/share/pstar/models/demo-11m.json" --data "$prefix/bin/pstar-run" \
    --batch 1 --seq 16 --steps 2 >/dev/null
"$prefix/bin/pstar-trace" check run.pstar >/dev/null
