#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/format.sh [--check]: clang-format over every C and C++ file of the tree.
# With --check it rewrites nothing, and names the files it would rewrite.
set -euo pipefail
cd "$(dirname "$0")/.."

# each OPTION...: clang-format with these options, over all files at once.
each() {
  find include src tests bench examples -name '*.cc' -o -name '*.h' -o -name '*.c' |
    xargs -r -P "$(nproc)" -n 16 clang-format-19 --style=file "$@"
}

if ! command -v clang-format-19 >/dev/null; then
  echo "skipped: format, clang-format-19 not installed"
  echo "0 passed, 0 failed, 1 skipped"
  exit
fi
if [[ ${1:-} != --check ]]; then
  each -i
  exit
fi
if ! said=$(each --dry-run -Werror 2>&1); then
  sed -n 's/^\([^ :]*\.[ch]c*\):[0-9].*error: .*/\1: not formatted (make format)/p' <<<"$said" | sort -u
  exit 1
fi
