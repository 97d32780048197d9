#!/usr/bin/env bash
# tools/readme_picture.sh [LENGTH]: plays the demo (20s) and draws docs/memory.svg
# from what the card said meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

length=${1:-20s}
record=$(mktemp --suffix=.csv)
trap 'rm -f "$record"' EXIT

tools/build.sh release spillwayd_bin spillway_bin
build/release/bin/spillway demo --for "$length" --record "$record"
mkdir -p docs
python3 tools/plot_memory.py "$record" docs/memory.svg
echo "drew docs/memory.svg"
