#!/usr/bin/env bash
# packaging/Containerfile, without a container: its commands are those of README and of tools/dependencies,
# what it copies and installs exists, and the project configures as it says. The packages that it builds are
# tested by packages.sh. Usage: container.sh SOURCE_DIR
set -euo pipefail

cd "$1"
recipe=packaging/Containerfile
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf '%s: %s\n' "$recipe" "$*" >&2
    exit 1
}

# One instruction a line.
grep -v '^#' "$recipe" | sed -e ':join' -e '/\\$/{N;s/\\\n *//;b join' -e '}' -e '/^$/d' >"$folder/instructions"
instructions() { # name
    sed -n "s/^$1 //p" "$folder/instructions"
}
if grep -vE '^(FROM|WORKDIR|COPY|RUN|ENTRYPOINT) ' "$folder/instructions"; then fail 'unknown instructions'; fi

# Debian 12, as README says.
instructions FROM | grep -vE '^docker\.io/library/debian:12-slim( AS build)?$' && fail 'another system'
grep -q 'Debian 12' README.md

instructions RUN >"$folder/commands"
bash -n "$folder/commands"
sed 's/ && /\n/g' "$folder/commands" >"$folder/steps"
grep -qx 'tools/dependencies package build' "$folder/steps" || fail 'dependencies are not those of tools/dependencies'
for step in 'cmake --preset release' 'cmake --build build' 'cpack --config'; do
    grep -qF -- "$step" "$folder/steps" || fail "does not run $step"
    grep -qF -- "$step" README.md || fail "README does not say $step"
done

# The project configures with the recipe's options.
read -ra configure < <(grep '^cmake --preset' "$folder/steps")
"${configure[@]}" -B "$folder/build" >"$folder/log" 2>&1 || fail "$(cat "$folder/log")"
if grep -q 'not used by the project' "$folder/log"; then fail "$(cat "$folder/log")"; fi
grep -q 'CPACK_GENERATOR "DEB"' "$folder/build/CPackConfig.cmake"

# The image has what the package recommends, and tools/dependencies knows it.
recommended=$(sed -n 's/.*PACKAGE_RECOMMENDS "\(.*\)".*/\1/p' packaging/debian.cmake | tr -d ',')
grep -q "install -y --no-install-recommends /tmp/pstar_\*\.deb $recommended$" "$folder/steps" ||
    fail "does not install pstar with $recommended"
for package in $recommended; do
    grep -qw -- "$package" tools/dependencies || fail "tools/dependencies does not install $package"
done
grep -qx 'COPY --from=build /src/packages/pstar_\*.deb /tmp/' "$folder/instructions" || fail 'copies no package'
grep -qx 'build\*' .dockerignore || fail '.dockerignore lets builds through'
