#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu/checks_pack.sh: builds the long checks (simulators, resp-kill, resp-diff, the hit
# benchmark) and puts them into build/checks-pack with every library but the C library's, so that a
# machine with many cores and without our packages can run checks_run.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools/build.sh release spillway_bin spillwayd_bin server_sim spillway_sim spillway_tiersim resp_diff
pack=build/checks-pack
rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/lib" "$pack/resp"
cp build/release/bin/spillway build/release/bin/spillwayd "$pack/bin/"
find build/release/tests -type f -perm -u+x \
  \( -name server_sim -o -name spillway_sim -o -name spillway_tiersim -o -name resp_diff \) \
  -exec cp {} "$pack/bin/" \;
[[ ! -d ${BENCH:-build/release/bench} ]] ||
  find "${BENCH:-build/release/bench}" -maxdepth 2 -type f -perm -u+x -size -40M -exec cp {} "$pack/bin/" \;
cp "$(command -v redis-server)" "$pack/bin/"
cp tests/resp/*.py bench/resp/*.py "$pack/resp/"
strip "$pack"/bin/* 2>/dev/null || true
for program in "$pack"/bin/*; do
  ldd "$program" 2>/dev/null |
    awk '$3 ~ /^\// && $3 !~ /\/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux)[.-]/ { print $3 }'
done | sort -u | xargs -r -I{} cp -L {} "$pack/lib/"
tar -C build -caf build/checks-pack.tar.zst checks-pack 2>/dev/null ||
  tar -C build -czf build/checks-pack.tar.gz checks-pack
du -sh "$pack" build/checks-pack.tar.*
