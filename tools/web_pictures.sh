#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/web_pictures.sh: makes the pictures of docs/dashboard.md from the demo on this machine, with
# Debian's Chromium. With pngquant they are a third of the size.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh release spillwayd_bin spillway_bin
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
python3 tools/web_tests.py --pictures "$made"
mkdir -p docs/pictures
cp "$made/dashboard-phone-light.png" "$made/dashboard-loss-dark.png" docs/pictures/
for name in overview-light overview-dark contexts-light context-dark steps-light events-dark \
  controls-light gone-dark; do
  cp "$made/$name.png" "docs/pictures/dashboard-$name.png"
done
ls -l docs/pictures/dashboard-*
