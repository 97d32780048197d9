#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/fuzz.sh DIR SECONDS: runs every libFuzzer target in DIR for that time, and prints how often
# each ran. Interesting inputs are kept under DIR/corpus for the next time; a failing input is
# stored beside them.
set -euo pipefail

dir=$1
seconds=$2
failed=0
for program in "$dir"/*_fuzz; do
  name=${program##*/}
  mkdir -p "$dir/corpus/$name"
  options=(-max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -print_final_stats=1
    -artifact_prefix="$dir/corpus/$name-")
  dict=fuzz/${name%_fuzz}.dict
  [[ -f $dict ]] && options+=(-dict="$dict")
  corpus=("$dir/corpus/$name")
  [[ -d fuzz/seeds/$name ]] && corpus+=("fuzz/seeds/$name")
  log=$dir/corpus/$name.log
  if "$program" "${options[@]}" "${corpus[@]}" >"$log" 2>&1; then
    verdict="no failure"
  else
    verdict="FAILED, see $log"
    failed=1
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "$name: ${runs:-?} executions in $seconds s, $(find "$dir/corpus/$name" -type f | wc -l) inputs kept; $verdict"
done
exit $failed
