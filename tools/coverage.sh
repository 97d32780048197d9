#!/usr/bin/env bash
# tools/coverage.sh [AT_LEAST]: line coverage of src/ by all tests, in percent;
# fails below AT_LEAST (90). The pages are in build/coverage/html.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/build.sh coverage all tests
find build/coverage -name '*.gcda' -delete
python3 tools/run_tests.py coverage
mkdir -p build/coverage/html
gcovr --root . --filter 'src/' --exclude '.*_test\.cc' --exclude '.*/testing/.*' \
  --object-directory build/coverage -j "$(nproc)" --exclude-unreachable-branches \
  --html-details build/coverage/html/index.html --txt build/coverage/lines.txt \
  --print-summary --fail-under-line "${1:-90}" build/coverage |
  sed -n 's/^lines: \(.*\)/line coverage of src: \1/p'
