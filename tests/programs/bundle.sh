#!/usr/bin/env bash
# What tools/bundle packs runs from any folder, with no library of this machine but the C library's.
# Usage: bundle.sh BUILD_DIR TOOLS_DIR
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$2/bundle" "$1" "$folder/pstar.tar.gz" >/dev/null
tar -C "$folder" -xzf "$folder/pstar.tar.gz"
cd "$folder/pstar"

for file in bin/* lib/*.so* lib/pstar/*.so; do
    [ "$(head -c 2 "$file")" != '#!' ] || continue # scripts take none
    LD_LIBRARY_PATH= ldd "$file" | awk '$2 == "=>" { print $1, $3 }' | while read -r library path; do
        [[ $file != */libpstar-mpi.so || $library == libglib* ]] || continue # MPI is the machine's
        case $library in
        libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libcu*.so.*) continue ;;
        esac
        # A library that lies beside others is found by whoever loads it.
        [[ $path == "$folder"/* || $file == lib/lib* ]] || {
            echo "$file takes $library from $path" >&2
            exit 1
        }
    done
done

clean() {
    env -i PATH=/usr/bin:/bin "$@"
}
clean bin/pstar-collect -o run.pstar --iterations 1:3 -- bin/pstar-run \
    --model share/pstar/models/demo-11m.json --data bin/pstar-run --tokens bytes --batch 1 --seq 16 --steps 4 >/dev/null
clean bin/pstar-trace check run.pstar >/dev/null
clean bin/pstar-sim run.pstar --device-memory 50% --policy opt >/dev/null
clean bin/pstar-plan run.pstar --device-memory 50% -o plan.json >/dev/null
clean bin/pstar-run --model share/pstar/models/demo-11m.json --data bin/pstar-run --tokens bytes --batch 1 --seq 16 \
    --steps 2 --plan plan.json >/dev/null
