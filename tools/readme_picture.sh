#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/readme_picture.sh [LENGTH]: runs the demo (20s) and draws docs/memory.svg from the card's
# readings.
set -euo pipefail
cd "$(dirname "$0")/.."

length=${1:-20s}
record=$(mktemp --suffix=.csv)
trap 'rm -f "$record"' EXIT

tools/build.sh release spillwayd_bin spillway_bin
python3 examples/demo --device cpu --for "$length" --record "$record"
mkdir -p docs
python3 tools/plot_memory.py "$record" docs/memory.svg
echo "drew docs/memory.svg"
