#!/usr/bin/env bash
# Checks that what `cmake --install` leaves works on its own: the programs run, pstar.h compiles by
# itself, pkg-config builds programs and policies with it; manual pages and completion are where man and
# shells look for them. Usage: installed.sh BUILD_DIR
set -euo pipefail

build_dir=$1
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build_dir" --prefix "$prefix" >/dev/null

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name pstar.pc)")
version=$(pkg-config --modversion pstar)

cd "$prefix" # nothing of the source tree is found by chance
for program in "$build_dir"/pstar "$build_dir"/pstar-*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    name=$(basename "$program")
    installed=$prefix/bin/$name
    if [ "$name" != pstar-tokenize ]; then
        "$installed" --help >/dev/null
        "$installed" --version | grep -qF "$version"
        "$installed" --man-page | cmp - "$prefix/share/man/man1/$name.1"
    fi
    bash -c 'source "$0"; complete -p "$1"' "$prefix/share/bash-completion/completions/$name" "$name" >/dev/null
    grep -q "^for program in.* $name" "$prefix/share/fish/vendor_completions.d/$name.fish"
    grep -qE "^#compdef.* $name( |\$)" "$prefix/share/zsh/site-functions/_pstar"
done
"$prefix/bin/pstar" plan --version | grep -qF "pstar-plan $version"
if command -v man >/dev/null; then
    MANPATH=$prefix/share/man man pstar-plan | grep -q 'search for the best plan'
fi

# The script, which is a program like the others, needs Python, and its page is written by hand: it has its options.
if command -v python3 >/dev/null; then
    "$prefix/bin/pstar" tokenize --version | grep -qF "pstar-tokenize $version"
    "$prefix/bin/pstar-tokenize" --help | grep -oE '^  -.*' | grep -oE -- '--[a-z]+' | sort >options
    grep -q -- --model options
    sed 's,\\-,-,g' "$prefix/share/man/man1/pstar-tokenize.1" | grep -A1 '^\.TP' | grep -oE -- '--[a-z]+' |
        sort | diff options -
fi

# One header, which needs nothing else, in C and in C++.
[ "$(find "$prefix/include" -type f)" = "$prefix/include/pstar.h" ]
read -ra flags < <(pkg-config --cflags pstar)
cc -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c "$prefix/include/pstar.h"
if command -v c++ >/dev/null; then
    c++ -Wall -Wextra -Werror -fsyntax-only -x c++ "$prefix/include/pstar.h"
fi

examples=$(dirname "$(find "$prefix" -name replay.c)")
"$prefix/bin/pstar-trace" synth --model "$prefix/share/pstar/models/demo-11m.json" --batch 1 \
    --seq 32 --precision bf16 -o synthesised.pstar >/dev/null

# A shipped platform, by its name.
"$prefix/bin/pstar-sim" synthesised.pstar --platform rtx-4090 --device-memory 30% --policy opt 2>note |
    grep -q opt
grep -q 'GeForce RTX 4090' note

# The example, with everything: by the commands in its comment, then with all warnings.
sed -n '1,/\*\/$/s/^ \*     //p' "$examples/replay.c" | sed 's, \*/$,,' >commands.sh
grep -q '^cc .*replay.c' commands.sh
(cd "$examples" && PATH=$prefix/bin:$PATH bash -euo pipefail "$prefix/commands.sh") |
    grep -q 'the plan .* over the link'
read -ra libraries < <(pkg-config --libs pstar)
cc -std=c11 -Wall -Wextra -Werror "$examples/replay.c" "${flags[@]}" "${libraries[@]}" -o replay
./replay synthesised.pstar | grep -q 'the plan .* over the link'
if ./replay missing.pstar 2>message; then exit 1; fi
grep -q missing.pstar message

# A program that reads and checks plans, without GPL libraries.
cat >core.c <<'C'
#include <pstar.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct pstar_error error = {0};
    struct pstar_plan *plan = pstar_plan_read(argv[argc - 1], &error);
    puts(error.message);
    pstar_plan_free(plan);
    return 0;
}
C
read -ra libraries < <(pkg-config --libs pstar-core)
if printf '%s\n' "${libraries[@]}" | grep -E 'gsl|glpk'; then exit 1; fi
cc -std=c11 core.c "${flags[@]}" "${libraries[@]}" -o core
./core missing.json | grep -q missing.json

# A policy of one's own.
cc -std=c11 -Wall -Wextra -Werror -shared -fPIC "${flags[@]}" "$examples/policy/mru.c" -o mru.so
"$prefix/bin/pstar-sim" synthesised.pstar --device-memory 30% --policy opt,./mru.so | grep -q mru

"$prefix/bin/pstar-collect" -o run.pstar --iterations 0:1 -- "$prefix/bin/pstar-run" \
    --model "$prefix/share/pstar/models/demo-11m.json" --data "$prefix/bin/pstar-run" --tokens bytes \
    --batch 1 --seq 16 --steps 2 >/dev/null
"$prefix/bin/pstar-trace" check run.pstar >/dev/null
