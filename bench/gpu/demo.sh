#!/usr/bin/env bash
# bench/gpu/demo.sh PACK OUT [LENGTH...]: the demo as a new user would play it, on a machine
# with a GPU: `make run [FOR=LENGTH]`, its words and its exit code.
set -uo pipefail
pack=$(cd "${1:?a folder made by bench/gpu/pack.sh}" && pwd)
out=${2:?a folder for what they say}
export LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
nvidia-smi --query-gpu=name,memory.used --format=csv,noheader
shift 2
for length in "${@:-60s}"; do
  "$pack/spillwayd" --demo --for "$length" > "$out/demo-$length.txt" 2>&1
  echo "spillwayd --demo --for $length: exit $?"
  sed -n '/^summary/,$p' "$out/demo-$length.txt"
done
nvidia-smi --query-gpu=name,memory.used --format=csv,noheader
