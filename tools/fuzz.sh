#!/usr/bin/env bash
# tools/fuzz.sh DIR SECONDS: runs every libFuzzer target in DIR for so long, and says
# how often each ran. What it found to be interesting is kept under DIR/corpus and
# begun with the next time; an input that fails is left beside it.
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
