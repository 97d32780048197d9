#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_docs.py: what pages name is there.

- A relative link of a Markdown page leads to a file of the tree, and its
  `#anchor` to a heading of that page.
- A test that docs/seed-behaviours.md names exists: `Suite.Name` in a *_test.cc,
  `file.py::test_name` in tests/python, `scenario NAME` in tests/scenarios.
"""

import re
import subprocess
import sys
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def read(path):
    return (ROOT / path).read_text()


def tracked(*patterns):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns],
                         cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(line) for line in out.stdout.split("\n") if line and (ROOT / line).is_file()]


def anchor(heading):
    """As GitHub makes one: lower case, no punctuation, hyphens for spaces."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(path):
    text = FENCE.sub("", path.read_text())
    return {anchor(h) for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def wrong_links(page):
    text = FENCE.sub(lambda m: "\n" * m.group().count("\n"), read(page))
    for match in LINK.finditer(text):
        target, _, part = match[1].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        place = (ROOT / page).parent / target if target else ROOT / page
        line = text.count("\n", 0, match.start()) + 1
        if not place.exists():
            yield f"{page}:{line}: {match[1]}: no such file"
        elif part and place.suffix == ".md" and part not in anchors(place):
            yield f"{page}:{line}: {match[1]}: no such heading"


def wrong_tests(page):
    text = read(page)
    sources = "\n".join(read(p) for p in tracked("src/*_test.cc", "tests/*_test.cc"))
    known = {f"{suite}.{name}" for suite, name in
             re.findall(r"\bTEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", sources)}
    for name in re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", text):
        if name not in known:
            yield f"{page}: no test is called {name}"
    for file, name in re.findall(r"`(\w+\.py)::(\w+)`", text):
        path = ROOT / "tests/python" / file
        if not path.is_file() or not re.search(rf"def {name}\(", path.read_text()):
            yield f"{page}: no test is called {file}::{name}"
    for name in re.findall(r"scenario `(\w+)`", text):
        if not (ROOT / f"tests/scenarios/{name}.jsonl").is_file():
            yield f"{page}: no scenario is called {name}"


def main():
    pages = tracked("*.md")
    tally = Tally()
    for page in pages:
        found = list(wrong_links(page))
        if page == Path("docs/seed-behaviours.md"):
            found += wrong_tests(page)
        print("".join(f"{one}\n" for one in found), end="")
        tally += Tally(failed=1) if found else Tally(passed=1)
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
