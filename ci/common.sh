# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts of this folder: moves to the root of the tree, counts what passes and fails,
# and runs a step with its time.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
umask 022
jobs=${NIB_JOBS:-$(nproc)}
log=build/ci
mkdir -p "$log"

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# build_tree PRESET: configures and builds, quietly unless it fails. The compiler cache is used where
# there is one.
build_tree() {
    local launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    if ! { cmake --preset "$1" "${launcher[@]}" && cmake --build --preset "$1" -j "$jobs"; } \
        >"$log/build-$1.log" 2>&1; then
        grep -E 'error|FAILED|CMake Error|undefined' "$log/build-$1.log" | head -40
        tail -20 "$log/build-$1.log"
        return 1
    fi
}

# A stage counts its checks; `finish` says the sum, adds it to the run's counts and ends the script.
passed=0
failed=0
pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    say "  FAILED  $*"
}

# check NAME COMMAND...: quiet when it succeeds, shows what the command said when it does not.
check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        pass
    else
        fail "$name"
        printf '%s\n' "$output" | head -20 | sed 's/^/          /'
    fi
}

finish() {
    say "  $passed passed, $failed failed in ${0##*/}"
    if [ -n "${NIB_COUNTS:-}" ]; then
        echo "$passed $failed" >>"$NIB_COUNTS"
    fi
    [ "$failed" -eq 0 ]
    exit
}

# Source files that git knows or would add, by extension pattern.
sources() { git ls-files --cached --others --exclude-standard -- "$@"; }
