#!/usr/bin/env bash
# tools/kernels_ptx.sh [--check]: makes src/device/gpu/kernels_ptx.h of kernels.cu, or
# compares the two. Needs nvcc; without one --check says so and is content.
set -euo pipefail
cd "$(dirname "$0")/.."
header=src/device/gpu/kernels_ptx.h
if ! command -v nvcc >/dev/null; then
  echo "skipped: no nvcc here, $header is taken as it is"
  [[ ${1:-} == --check ]]
  exit
fi
release=$(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
made=$(mktemp)
trap 'rm -f "$made" "$made.ptx"' EXIT
nvcc -arch=compute_75 -ptx -o "$made.ptx" src/device/gpu/kernels.cu
{
  echo "// Made of kernels.cu by tools/kernels_ptx.sh with nvcc $release; do not edit."
  echo "#pragma once"
  echo
  echo "namespace spillway {"
  echo
  echo "inline constexpr char kKernelsPtx[] = R\"ptx("
  # Comments name the compiler's build, which says nothing of the code. Nothing
  # in it is newer than PTX 7.0, which drivers from 11.0 on take.
  sed -e 's/^\.version .*/.version 7.0/' -e '/^\/\//d' -e 's/[[:space:]]*\/\/.*$//' -e 's/[[:space:]]*$//' "$made.ptx" | cat -s
  echo ")ptx\";"
  echo
  echo "}  // namespace spillway"
} >"$made"
if [[ ${1:-} == --check ]]; then
  # Other releases of the compiler allocate registers differently.
  if ! grep -q "with nvcc $release;" "$header"; then
    echo "skipped: this nvcc is of another release than the one that made $header"
    exit 0
  fi
  diff -u "$header" "$made" >&2 || { echo "$header is not what kernels.cu gives: run tools/kernels_ptx.sh" >&2; exit 1; }
  echo "$header is what kernels.cu gives"
else
  cp "$made" "$header"
fi
