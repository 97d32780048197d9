#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Includes point one way only: checks every file against the table in src/CMakeLists.txt.

A folder may include itself, what its LINK list names, and spillway/ (public). Public headers may
include the standard library and one another. Fakes (<folder>/testing/) are for tests and other
fakes. Every header begins its code with #pragma once. A quoted include is written from src/ or
include/, and in tests/ and bench/ also from there.
"""

import re
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
ENTRY = re.compile(r"^spillway_folder\((\w+)\s*([^)]*)\)", re.M)
# Third parties that public headers must not include.
STANDARD = re.compile(r"^[a-z0-9_]+(\.h)?$")


def read_table():
    text = (ROOT / "src/CMakeLists.txt").read_text()
    table = {}
    for folder, rest in ENTRY.findall(text):
        link = re.search(r"LINK\s+([\w\s]+?)(?:PARTS|$)", rest)
        table[folder] = set(link.group(1).split()) if link else set()
    return table


def is_test(path):
    return path.name.endswith("_test.cc") or "testing" in path.parts


def complaints_public(includes):
    for kind, target in includes:
        if kind == '"' and not target.startswith("spillway/"):
            yield f'public header includes "{target}"'
        if kind == "<" and not STANDARD.match(target):
            yield f"public header includes <{target}>, which is not of the standard library"


def complaints_inside(path, includes, table):
    folder = path.relative_to(ROOT / "src").parts[0]
    if folder not in table:
        yield f"src/{folder} is not in the table of src/CMakeLists.txt"
        return
    allowed = table[folder] | {folder, "spillway"}
    for kind, target in includes:
        if kind == "<" and target.startswith("spillway/"):
            yield f'<{target}> is ours: "{target}"'
        if kind == "<":
            continue
        head = target.split("/")[0]
        if "/" not in target or target.startswith("."):
            yield f'"{target}" is not written from src/'
        elif head not in allowed:
            yield f"{folder} may not include {head} ({target})"
        elif "/testing/" in target and not is_test(path):
            yield f"{target} is a fake, and this is not a test"


def complaints(path, table):
    text = path.read_text()
    if path.suffix == ".h" and "#pragma once" not in text:
        yield "no #pragma once"
    includes = INCLUDE.findall(text)
    if (ROOT / "include") in path.parents:
        yield from complaints_public(includes)
    elif (ROOT / "src") in path.parents:
        yield from complaints_inside(path, includes, table)
    if (ROOT / "examples") in path.parents:
        yield from (f'an example includes "{target}"' for kind, target in includes
                    if kind == '"' and not target.startswith("spillway/"))


def main():
    table = read_table()
    tally = Tally(passed=1)
    for folder in ("include", "src", "tests", "bench", "examples"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cc", ".c"):
                continue
            for complaint in complaints(path, table):
                print(f"{path.relative_to(ROOT)}: {complaint}")
                tally.failed += 1
    tally.passed = 0 if tally.failed else 1
    tally.finish()


if __name__ == "__main__":
    main()
