#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu/sense.sh OUT PART [SECONDS]: on a machine with an NVIDIA GPU, from the repository's
# root, after bench/gpu/pack.sh. Parts:
#   probe  the output of `spillway probe`, and how well NVML and CUDA agree
#   quiet  a second process takes 8 GiB after at least 10 s of quiet, again and again for
#          SECONDS, 0.5 to 5 % below a threshold; ends with a busy minute
#   more   the same without the busy minute
#   quick  the same 100 times after 0.3 to 1 s
# Beside the watcher whose changes of level count, another one runs with thresholds out of reach: it
# shows in the same run what sampling costs far from any threshold. Each part leaves JSON lines in
# OUT; bench/gpu/sense_report.py reads them.
set -euo pipefail
out=$1
part=$2
seconds=${3:-500}
pack=build/gpu-pack
export LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

run() { # run NAME NEIGHBOUR_ARGS...
  local name=$1
  shift
  mkfifo "$out/hold" "$out/hold-far"
  "$pack/sense" nvml <"$out/hold" >"$out/$name-levels.jsonl" &
  "$pack/sense" nvml far <"$out/hold-far" >"$out/$name-far.jsonl" &
  exec 7>"$out/hold" 8>"$out/hold-far"
  sleep 2
  "$pack/sense_neighbour" "$@" >"$out/$name-jumps.jsonl"
  exec 7>&- 8>&-
  wait
  rm "$out/hold" "$out/hold-far"
}

case $part in
  probe)
    "$pack/spillway" probe | tee "$out/probe.txt"
    "$pack/spillway" probe --json >"$out/probe.json"
    ;;
  quiet) run "quiet-$$" --count 100000 --until "$seconds" --busy 60 --seed "$$" ;;
  more) run "more-$$" --count 100000 --until "$seconds" --seed "$$" ;;
  quick) run "quick-$$" --count 100 --quiet-least 0.3 --quiet-most 1 --seed "$$" ;;
  *)
    echo "unknown part '$part': probe, quiet, more or quick" >&2
    exit 2
    ;;
esac
