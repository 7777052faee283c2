#!/usr/bin/env bash
# Completes command lines as the shells do, with the scripts that are installed: every option of --help is
# offered, and names, files and commands where they fit. Usage: completion.sh BUILD_DIR
set -euo pipefail

build_dir=$(realpath "$1")
export PATH=$build_dir:$PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir folder
touch file.pstar

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# ---- bash: the words as readline divides them, of which the last is incomplete ----
source "$build_dir/completion/pstar.bash"
offered() { # words; prints one candidate a line
    local COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    "$(complete -p "$1" | sed 's/.*-F \([^ ]*\).*/\1/')" "$1" "${*: -1}" ""
    [ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
}
expect() { # candidates, words; readline shows equal ones once, such as those of an installed pstar
    local candidates
    candidates=$(offered "${@:2}" | sort -u | tr '\n' ' ')
    [ "$candidates" = "$1${1:+ }" ] || fail "${*:2}: offers '$candidates' instead of '$1'"
}

# Every option of every program and command, and nothing else.
listed() { # command line; prints the options of its --help
    local help=--help-all
    [[ $* != *tokenize ]] || help=--help # Python's form, too
    "$@" $help | sed -nE 's/^  (-.( [A-Z]+)?, )?(--[a-z0-9-]+).*/\3/p' | grep -v '^--help-' | sort
}
check_options() { # command line
    [ "$(listed "$@")" = "$(offered "$@" -- | sort)" ] ||
        fail "$*: $(diff <(listed "$@") <(offered "$@" -- | sort))"
}
for program in "$build_dir"/pstar-*; do
    name=$(basename "$program")
    [ -f "$program" ] && [ -x "$program" ] && [[ $name != *.* && $name != pstar-trace ]] || continue
    [ "$name" != pstar-tokenize ] || command -v python3 >/dev/null || continue
    check_options "$name"
    check_options pstar "${name#pstar-}"
done
for command in info check export import merge synth; do
    check_options pstar-trace $command
done

expect plan pstar pl
expect collect pstar c
expect 'synth' pstar trace sy
expect 'sim' pstar help si
expect '' pstar pl ''
expect '--device-memory' pstar-sim --dev
expect 'memory time traffic' pstar-plan --objective ''
expect 'time traffic' pstar-plan --objective = t
expect 'deepspeed' pstar-plan --emit = d
expect 'rtx-4090 rtx-4090-node' pstar-sim --platform rtx-4
expect 'lfu lru' pstar-sim --policy l
expect 'lru,opt lru,opt-dirty' pstar-sim --policy lru,op
expect 'zero-infinity zero-offload zero1 zero2 zero3 zero3-offload' pstar-sim --strategy zero
expect 'traced' pstar-plan x --recompute tr
expect '' pstar-plan --time-limit ''
expect 'file.pstar' pstar-sim 'fi'
expect 'file.pstar folder' pstar-sim --platform = f
expect 'folder' pstar-report -o f
if command -v python3 >/dev/null; then
    expect 'all answers last' pstar-tokenize --loss ''
    expect 'all answers' pstar tokenize --chat --loss = a
    expect 'file.pstar' pstar-tokenize --model folder fi
    expect 'folder' pstar-tokenize --model f
fi
expect 'pstar-tokenize pstar-tokens' pstar-collect -o file.pstar pstar-token
expect 'pstar-tokenize pstar-tokens' pstar collect -- pstar-token
expect 'file.pstar' pstar-collect -- cat fil
expect '' pstar-run --batch ''

# ---- the other shells, if they are here ----
if command -v fish >/dev/null; then
    fish_offered() {
        HOME=$folder fish --no-config -c "source $build_dir/completion/pstar.fish; complete -C '$1'"
    }
    fish_offered 'pstar-sim --device-m' | grep -q $'^--device-memory\tBudget of device memory' || fail 'fish: options'
    [ "$(fish_offered 'pstar plan --objective t' | sort | tr '\n' ' ')" = 'time traffic ' ] || fail 'fish: values'
    [ "$(fish_offered 'pstar-plan --objective=t' | sort | tr '\n' ' ')" = '--objective=time --objective=traffic ' ] ||
        fail 'fish: values after ='
    fish_offered 'pstar-sim fi' | grep -q '^file.pstar' || fail 'fish: files'
    fish_offered 'pstar-report -o f' | grep -q '^folder/' || fail 'fish: folders'
fi
if command -v zsh >/dev/null; then
    zsh_offered() { # words; with stand-ins for what zsh offers them through
        zsh -f -c 'compadd() { print -l -- $names }
            _files() { print files $* }
            _command_names() { print commands }
            words=("${@[2,-1]}") CURRENT=$#words
            source "$1" "${@[2,-1]}"' zsh "$build_dir/completion/pstar.zsh" "$@"
    }
    zsh -n "$build_dir/completion/pstar.zsh"
    [ "$(zsh_offered pstar-sim --device-m)" = --device-memory ] || fail 'zsh: options'
    [ "$(zsh_offered pstar plan --objective= | sort | tr '\n' ' ')" = \
        '--objective=memory --objective=time --objective=traffic ' ] || fail 'zsh: values'
    [ "$(zsh_offered pstar-sim x)" = files ] || fail 'zsh: files'
    [ "$(zsh_offered pstar-report -o x)" = 'files -/' ] || fail 'zsh: folders'
    [ "$(zsh_offered pstar-collect -- x)" = commands ] || fail 'zsh: commands'
fi
