#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/run_benches.sh DIR: runs every bench program in DIR, after a line with the machine and the
# time.
set -euo pipefail

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "machine: ${cpu:-unknown}, $(nproc) cores; $(date +%Y-%m-%d)"
for program in "$1"/*; do
  [[ -f $program && -x $program ]] || continue
  echo "== ${program##*/}"
  "$program"
done
