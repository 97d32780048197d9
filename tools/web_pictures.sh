#!/usr/bin/env bash
# tools/web_pictures.sh: the pictures of docs/dashboard.md, of the demo as it runs here, in
# Debian's Chromium. With pngquant they are a third as large.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh release spillwayd_bin spillway_bin
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
python3 tools/web_tests.py --pictures "$made"
mkdir -p docs/pictures
for name in overview-light overview-dark contexts-light context-dark steps-light events-dark \
  controls-light gone-dark; do
  cp "$made/$name.png" "docs/pictures/dashboard-$name.png"
done
ls -l docs/pictures/dashboard-*
