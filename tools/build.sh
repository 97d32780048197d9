#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/build.sh PRESET TARGET...: configures build/PRESET if necessary, and builds. Tests and
# benches are configured when a target first needs them, and stay so: `make` and `make test` share
# one build directory.
set -euo pipefail
cd "$(dirname "$0")/.."
# Objects are shared between clones: paths count from the tree, not from the root.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

preset=$1
shift
dir=build/$preset

want=()
for target in "$@"; do
  case $target in
    tests | unit_tests | memory_tests | spillway_sim | spillway_tiersim | server_sim | stress | kill_loop | sweep | graph_check | resp_diff | slow_disk | build_*_fuzz | fake_gpu_* | *_test) want+=(SPILLWAY_TESTS) ;;
    benches | bench_* | resp_lean) want+=(SPILLWAY_BENCH) ;;
  esac
done

mkdir -p "$dir"
exec 9>"$dir/.lock"  # Two builds in one directory wait for each other.
flock 9

configure=()
for option in "${want[@]}"; do
  grep -qs "^$option:BOOL=ON" "$dir/CMakeCache.txt" || configure+=("-D$option=ON")
done
if [[ ! -f $dir/build.ninja || ${#configure[@]} -gt 0 ]]; then
  echo "configuring $preset"
  if ! cmake --preset "$preset" "${configure[@]}" >"$dir/configure.log" 2>&1; then
    cat "$dir/configure.log" >&2
    exit 1
  fi
fi

if [[ -t 1 ]]; then  # On a terminal Ninja keeps its progress on one line.
  cmake --build "$dir" --target "$@"
else
  cmake --build "$dir" --target "$@" |
    grep --line-buffered -vE '^(ninja: no work to do|\[0/.*Re-checking globbed)' ||
    [[ ${PIPESTATUS[0]} -eq 0 ]]
fi
