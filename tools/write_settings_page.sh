#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/write_settings_page.sh: writes the pages of docs/reference that are made from tables in the
# sources: settings.md (src/cache/settings.cc), daemon-settings.md (src/server/settings.cc),
# renamed.md (src/base/renamed.cc) and metrics.md (what a daemon with all tiers shows at /metrics).
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh release base_test cache_test server_test spillwayd_bin spillway_bin
mkdir -p docs/reference
export SPILLWAY_WRITE_PAGES=1
for test in base_test cache_test server_test; do
  "build/release/tests/$test" --gtest_brief=1 --gtest_filter='*Page.IsCurrent'
done
python3 tests/http/daemon.py build/release/bin/spillwayd build/release/bin/spillway
