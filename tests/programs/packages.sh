#!/usr/bin/env bash
# The Debian packages hold everything that `cmake --install` installs, name what they need, and work where
# they are unpacked. Usage: packages.sh BUILD_DIR
set -euo pipefail

build_dir=$(realpath "$1")
for command in dpkg-shlibdeps file; do
    command -v $command >/dev/null || { echo "$command is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cpack --config "$build_dir/CPackConfig.cmake" >log 2>&1 || { cat log; exit 1; }
rm -rf _CPack_Packages
cmake --install "$build_dir" --prefix "$folder/installed" >/dev/null

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}
field() { # package, field
    dpkg-deb -f "$1"_*.deb "$2"
}

# Every file is in one package; the packages have their copyright beside.
list() { # folder
    (cd "$1" && find . -type f | sed 's/\.1\.gz$/.1/; s,zsh/vendor-completions,zsh/site-functions,' |
        grep -v '/copyright$' | sort)
}
for package in *.deb; do
    dpkg-deb -x "$package" unpacked
    [ -f "unpacked/usr/share/doc/${package%%_*}/copyright" ] || fail "$package has no copyright"
done
list unpacked/usr >packed
list installed | diff - packed || fail 'the packages have other files than the installation'
[ "$(for package in *.deb; do dpkg-deb -c "$package"; done | grep -c '^-')" -eq \
    $(($(wc -l <packed) + $(find . -maxdepth 1 -name '*.deb' | wc -l))) ] || fail 'a file is in two packages'

# What they need.
for library in libc6 libglib2.0-0 libjansson4 libsqlite3-0 libgsl libglpk libdnnl libgomp1 zlib1g; do
    field pstar Depends | grep -q "\b$library" || fail "pstar does not depend on $library"
done
if field pstar Depends | grep -E 'cuda|cublas'; then fail 'pstar depends on CUDA'; fi
for library in glib2.0 jansson sqlite3 gsl glpk; do
    field libpstar-dev Depends | grep -q "\blib$library-dev" || fail "libpstar-dev does not depend on lib$library-dev"
done
[ "$(field pstar Version)" = "$(unpacked/usr/bin/pstar --version | cut -d' ' -f2)" ]
apt-get -s install ./pstar_*.deb >/dev/null 2>simulated || fail "apt cannot install pstar: $(cat simulated)"

# They work.
export PATH=$folder/unpacked/usr/bin:$PATH PKG_CONFIG_PATH=$folder/unpacked/usr/lib/pkgconfig
models=$(pkg-config --variable=models pstar)
pstar collect -q -o run.pstar --iterations 0:1 -- pstar-run --model "$models/demo-11m.json" \
    --data unpacked/usr/bin/pstar-run --tokens bytes --batch 1 --seq 16 --steps 2 --quiet >/dev/null
read -ra flags < <(pkg-config --cflags pstar)
read -ra libraries < <(pkg-config --libs pstar)
cc -shared -fPIC "${flags[@]}" unpacked/usr/share/doc/pstar/examples/policy/mru.c -o mru.so
pstar sim run.pstar --device-memory 30% --policy ./mru.so | grep mru >/dev/null
cc unpacked/usr/share/doc/pstar/examples/replay.c "${flags[@]}" "${libraries[@]}" -o replay
./replay run.pstar | grep 'the plan .* over the link' >/dev/null
gzip -dc unpacked/usr/share/man/man1/pstar-sim.1.gz | cmp - installed/share/man/man1/pstar-sim.1

# The changelog is git's. CUDA's libraries lie where CUDA is, and no package of Debian has them.
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error --suppress-tags no-changelog pstar_*.deb libpstar-dev_*.deb >lint 2>&1 ||
        fail "$(cat lint)"
fi
