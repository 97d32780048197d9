#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/kernels_ptx.sh [--check]: makes src/device/gpu/kernels.ptx from kernels.cu, or compares
# the two. Needs nvcc; without it --check says so and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
kernels=src/device/gpu/kernels.ptx
if ! command -v nvcc >/dev/null; then
  echo "skipped: no nvcc here, $kernels is taken as it is"
  [[ ${1:-} == --check ]]
  exit
fi
release=$(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
made=$(mktemp)
trap 'rm -f "$made" "$made.ptx"' EXIT
nvcc -arch=compute_75 -ptx -o "$made.ptx" src/device/gpu/kernels.cu
{
  echo "// Made of kernels.cu by tools/kernels_ptx.sh with nvcc $release; do not edit."
  # Comments contain the compiler's build, which does not affect the code. The code uses nothing
  # newer than PTX 7.0, which drivers from 11.0 on accept.
  sed -e 's/^\.version .*/.version 7.0/' -e '/^\/\//d' -e 's/[[:space:]]*\/\/.*$//' -e 's/[[:space:]]*$//' "$made.ptx" | cat -s | sed '1{/^$/d}'
} >"$made"
if [[ ${1:-} == --check ]]; then
  # Other compiler releases allocate registers differently.
  if ! grep -q "with nvcc $release;" "$kernels"; then
    echo "skipped: this nvcc is of another release than the one that made $kernels"
    exit 0
  fi
  diff -u "$kernels" "$made" >&2 || { echo "$kernels is not what kernels.cu gives: run tools/kernels_ptx.sh" >&2; exit 1; }
  echo "$kernels is what kernels.cu gives"
else
  cp "$made" "$kernels"
fi
