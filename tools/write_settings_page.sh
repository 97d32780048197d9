#!/usr/bin/env bash
# tools/write_settings_page.sh: writes docs/reference/settings.md from the table
# of settings in src/cache/settings.cc.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh release cache_test
mkdir -p docs/reference
SPILLWAY_WRITE_PAGES=1 build/release/tests/cache_test --gtest_brief=1 --gtest_filter=SettingsPage.IsCurrent
