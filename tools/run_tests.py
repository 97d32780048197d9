#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/run_tests.py PRESET [ctest arguments]: ctest in build/PRESET.

Counts single gtest cases, not programs: every gtest program leaves a JSON file
that lists its cases; a program without one counts as one check. Shows the
output of what failed and names what was skipped.
"""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent


def gtest_cases(path):
    for suite in json.loads(path.read_text())["testsuites"]:
        for case in suite["testsuite"]:
            yield f"{suite['name']}.{case['name']}", case


def count_program(element, results):
    """The tally of one ctest test."""
    name = element.get("name")
    status = element.get("status")
    tally = Tally()
    listing = results / f"{name}.json"
    if listing.exists():
        for case, facts in gtest_cases(listing):
            if facts.get("result") == "SKIPPED":
                tally.skipped += 1
                print(f"skipped: {case}")
            elif facts.get("failures"):
                tally.failed += 1
                print(f"FAILED: {name}: {case}")
                for failure in facts["failures"]:
                    show(failure["failure"], 60)
            elif facts.get("status") == "RUN":
                tally.passed += 1
    elif status == "run":
        tally.passed += 1
    if status == "fail" and not tally.failed:  # It crashed, or failed after its last case.
        tally.failed += 1
        print(f"FAILED: {name}")
        if listing.exists():
            show(element.findtext("system-out", default=""), 200)
    elif status not in ("run", "fail"):
        tally.skipped += 1
        print(f"skipped: {name} ({status})")
    return tally


def show(text, most):
    """Shows the end of an output; of gtest's output, only the lines that matter."""
    noise = ("[ RUN      ]", "[       OK ]", "[----------]", "[  SKIPPED ]")
    lines = [line for line in text.splitlines() if not line.startswith(noise)]
    if len(lines) > most:
        print(f"| ... {len(lines) - most} lines")
    print("\n".join("| " + line for line in lines[-most:]))


def main():
    preset, *ctest_args = sys.argv[1:]
    build = ROOT / "build" / preset
    results = build / "test-results"
    results.mkdir(exist_ok=True)
    for old in results.iterdir():
        old.unlink()

    junit = build / "junit.xml"
    junit.unlink(missing_ok=True)
    env = dict(os.environ)
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    env.setdefault("TSAN_OPTIONS", "halt_on_error=1")
    done = subprocess.run(
        ["ctest", "--test-dir", build, "-j", str(os.cpu_count()), "--no-tests=error",
         "--test-output-size-failed", "1000000", "--output-junit", junit, *ctest_args],
        env=env, capture_output=True, text=True)
    if not junit.exists() or "No tests were found" in done.stderr:
        print(done.stdout + done.stderr)
        Tally(failed=1).finish()

    total = Tally()
    for element in xml.parse(junit).getroot().iter("testcase"):
        tally = count_program(element, results)
        total += tally
        # A program that lists its cases: its failures have been shown.
        if tally.failed and not (results / f"{element.get('name')}.json").exists():
            show(element.findtext("system-out", default=""), 200)
    total.finish()


if __name__ == "__main__":
    main()
