#!/usr/bin/env bash
# tools/run_benches.sh DIR: runs every bench program in DIR, after a line that
# says on what machine and when.
set -euo pipefail

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "machine: ${cpu:-unknown}, $(nproc) cores; $(date +%Y-%m-%d)"
for program in "$1"/*; do
  [[ -f $program && -x $program ]] || continue
  echo "== ${program##*/}"
  "$program"
done
