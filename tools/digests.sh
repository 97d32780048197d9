#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/digests.sh [SEEDS [EVENTS]]: one number for all events of each simulator's worlds.
# A change that leaves every event as it was leaves the numbers, too; run it before and
# after. No text goes into them. Lengths of texts do, where replies come in pieces: the
# last line is the daemon's simulator without that, and stays when only words change.
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-2000} events=${2:-4000}
tools/build.sh release spillway_sim spillway_tiersim server_sim >&2

digest() {
  local program=$1
  shift
  printf '%-30s ' "$program $*"
  "build/release/tests/$program" --seeds "$seeds" --events "$events" --digest "$@" 2>/dev/null
}
echo "$seeds seeds x $events events"
digest spillway_sim
digest spillway_tiersim
digest server_sim
digest server_sim --without network
