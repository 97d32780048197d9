#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check.py STAGE...: runs stages of checks one after another.

Prints what each found and how long it took, and at last one line that counts
all of them: `N passed, M failed, K skipped`. A stage that fails does not stop
the ones after it. Run without a stage to see their names.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
PY = [sys.executable]


def build(preset, *targets):
    return ["tools/build.sh", preset, *targets]


def tests(preset, *ctest_args):
    return PY + ["tools/run_tests.py", preset, *ctest_args]


# Each stage: the tools it requires, and its commands. A command whose last line is a tally counts
# as that many checks; any other command counts as one check.
CLANG = ["clang++-19"]
LINT_LIGHT = [["tools/format.sh", "--check"],
              PY + ["tools/check_includes.py"],
              PY + ["tools/check_sources.py"],
              PY + ["tools/check_docs.py"],
              PY + ["tools/check_words.py"]]
STAGES = {
    "release": ([], [build("release", "all", "tests"), tests("release")]),
    "asan-unit": (CLANG, [build("asan", "memory_tests"), tests("asan", "-L", "memory")]),
    "asan": (CLANG, [build("asan", "tests"), tests("asan")]),
    "tsan": (CLANG, [build("tsan", "tests"), tests("tsan")]),
    "stress": (CLANG, [build("tsan", "stress"),
                       ["build/tsan/tests/stress", "--ops", "10000000", "--threads", "4"]]),
    "python": ([], [build("release", "spillway_self_contained", "spillwayd_bin", "fake_gpu_cuda"),
                    PY + ["tools/python_tests.py"]]),
    "engines": ([], [build("release", "spillway_self_contained", "spillwayd_bin"),
                     PY + ["tools/engine_tests.py"]]),
    "web": ([], [build("release", "spillwayd_bin"), PY + ["tools/web_tests.py"]]),
    "docs": ([], [build("release", "spillwayd_bin", "spillway_bin", "spillway_self_contained"),
                  PY + ["tools/doc_tests.py", "--short"]]),
    "headers": ([], [PY + ["tools/check_headers.py"]]),
    "install": ([], [build("release", "all"), PY + ["tools/install_test.py"]]),
    "lint-light": ([], LINT_LIGHT),
    "lint": (["clang-tidy-19"],
             [*LINT_LIGHT, ["cmake", "--preset", "lint", "--log-level=WARNING"],
              PY + ["tools/tidy.py"]]),
}


def run(command):
    """Runs one command and passes its output through, except for its tally."""
    stated = None
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True,
                               errors="replace")
    for line in process.stdout:
        tally = Tally.parse(line)
        if tally is None:
            print("  " + line, end="", flush=True)
        else:
            stated = tally
    code = process.wait()
    if stated is None:
        return Tally(failed=1) if code else Tally(passed=1)
    if code and not stated.failed:
        stated.failed += 1
    return stated


def run_stage(name):
    tools, commands = STAGES[name]
    lacking = [tool for tool in tools if not shutil.which(tool)]
    if lacking:
        print(f"  skipped: {', '.join(lacking)} not installed")
        return Tally(skipped=1)
    total = Tally()
    for command in commands:
        result = run(command)
        total += result
        if result.failed and command[0] == "tools/build.sh":
            break  # What the build would have made cannot be run.
    return total


def main():
    names = sys.argv[1:]
    unknown = [name for name in names if name not in STAGES]
    if not names or unknown:
        print(f"usage: tools/check.py STAGE...\nstages: {' '.join(STAGES)}", file=sys.stderr)
        return 2
    total = Tally()
    rows = []
    for name in names:
        print(f"== {name}", flush=True)
        start = time.monotonic()
        result = run_stage(name)
        total += result
        rows.append(f"{name:<12}{time.monotonic() - start:7.1f} s   {result}")
        print(f"   {result} in {time.monotonic() - start:.1f} s", flush=True)
    print("== stages\n  " + "\n  ".join(rows))
    total.finish()


if __name__ == "__main__":
    sys.exit(main())
