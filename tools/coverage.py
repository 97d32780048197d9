#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/coverage.py BUILD AT_LEAST: line coverage of src/ in percent, from the *.gcda files under
BUILD. BUILD/lines.txt lists the files, least covered first.

A line counts as run if any object built from it ran it. Tests and their fakes do not count. Fails
below AT_LEAST.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def wanted(name, build):
    """The file's path below src/, or nothing if it does not count."""
    path = Path(os.path.normpath(build / name))
    try:
        inside = path.relative_to(ROOT / "src")
    except ValueError:
        return None
    if inside.name.endswith("_test.cc") or "testing" in inside.parts:
        return None
    return str(inside)


def lines_of(data, build):
    """{file: {line: number of runs}} of one object."""
    run = subprocess.run(["gcov", "--json-format", "--stdout", str(data)], cwd=build,
                         capture_output=True, text=True, check=True)
    found = {}
    for text in run.stdout.splitlines():
        for file in json.loads(text)["files"]:
            name = wanted(file["file"], build)
            if name is None:
                continue
            lines = found.setdefault(name, {})
            for line in file["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, 0) + line["count"]
    return found


def main():
    build, at_least = Path(sys.argv[1]).resolve(), float(sys.argv[2])
    total = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda data: lines_of(data, build), build.rglob("*.gcda")):
            for name, lines in found.items():
                into = total.setdefault(name, {})
                for number, count in lines.items():
                    into[number] = into.get(number, 0) + count
    rows = []
    for name, lines in total.items():
        missed = sorted(number for number, count in lines.items() if count == 0)
        if not lines:
            continue
        rows.append((1 - len(missed) / len(lines), name, len(lines), missed))
    rows.sort()
    with open(build / "lines.txt", "w", encoding="utf-8") as page:
        for share, name, count, missed in rows:
            page.write(f"{100 * share:6.1f} %  {name} ({count} lines), not run: "
                       f"{', '.join(map(str, missed)) or '-'}\n")
    lines = sum(row[2] for row in rows)
    run = lines - sum(len(row[3]) for row in rows)
    share = 100 * run / lines if lines else 0
    print(f"line coverage of src: {share:.1f} % ({run} of {lines} lines in {len(rows)} files); "
          f"{build.relative_to(ROOT)}/lines.txt lists what was not run")
    return 0 if share >= at_least else 1


if __name__ == "__main__":
    sys.exit(main())
