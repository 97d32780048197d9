#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/gpu/pack_py.sh: the Python package with its library, as a folder for a machine that has a
# GPU and torch but nothing of ours:
#   PYTHONPATH=build/gpu-pack/py python3 bench/gpu/py/restore.py
# --wheel: also the wheel, for bench/gpu/py/wheel.py (after `make test`, whose venv builds it).
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ $# -gt 1 || ${1:---wheel} != --wheel ]]; then
  echo "usage: bench/gpu/pack_py.sh [--wheel], not '$*'" >&2
  exit 2
fi

tools/build.sh release spillway_self_contained
pack=build/gpu-pack/py
rm -rf "$pack"
mkdir -p "$pack/spillway/_lib"
cp python/spillway/*.{py,cpp,h} python/spillway/py.typed "$pack/spillway/"
cp -L build/release/python/spillway/_lib/libspillway.so.0 "$pack/spillway/_lib/"
if [[ ${1:-} == --wheel ]]; then
  rm -f build/gpu-pack/spillway-*.whl
  build/python-venv/bin/python -m pip wheel -q --no-deps --no-build-isolation -w build/gpu-pack .
fi
du -sh build/gpu-pack
