#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/coverage.sh [AT_LEAST]: line coverage of src/ by all tests, in percent;
# fails below AT_LEAST (90). build/coverage/lines.txt lists what was not run.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh coverage all tests
find build/coverage -name '*.gcda' -delete
python3 tools/run_tests.py coverage
python3 tools/coverage.py build/coverage "${1:-90}"
