#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu/pack.sh: builds the programs for a machine with a GPU and puts them into build/gpu-pack,
# with the libraries such a machine may lack. Our GPU code is loaded at run time, so no CUDA is
# needed here.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools/build.sh release spillway_bin spillwayd_bin spillway_ask_library gpu_benches
pack=build/gpu-pack
rm -rf "$pack"
mkdir -p "$pack/lib" "$pack/examples" "$pack/python"
cp -r examples/demo "$pack/examples/"
cp -r python/spillway "$pack/python/"  # The demo only uses its pure Python part.
cp build/release/bin/spillway build/release/bin/spillwayd build/release/bench/gpu/* "$pack/"
cp build/release/lib/libspillway_ask.so "$pack/"  # Beside the program, where `spillway run` looks.
for program in "$pack"/*; do
  [[ -f $program ]] || continue
  ldd "$program" | awk '$3 ~ /lib(fmt|spdlog|tomlplusplus|xxhash|uring)/ { print $3 }'
done | sort -u | xargs -I{} cp -L {} "$pack/lib/"
du -sh "$pack"
