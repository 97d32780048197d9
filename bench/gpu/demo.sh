#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu/demo.sh PACK OUT [LENGTH...]: the demo as a new user would run it, on a machine with a
# GPU: examples/demo --for LENGTH beside the packed programs, its output and exit status. Requires
# Python 3.11 there.
set -uo pipefail
pack=$(cd "${1:?a folder made by bench/gpu/pack.sh}" && pwd)
out=${2:?a folder for what they say}
export LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
nvidia-smi --query-gpu=name,memory.used --format=csv,noheader
shift 2
for length in "${@:-60s}"; do
  python3 "$pack/examples/demo" --for "$length" --spillwayd "$pack/spillwayd" \
    --spillway "$pack/spillway" > "$out/demo-$length.txt" 2>&1
  echo "examples/demo --for $length: exit $?"
  sed -n '/^summary/,$p' "$out/demo-$length.txt"
done
nvidia-smi --query-gpu=name,memory.used --format=csv,noheader
