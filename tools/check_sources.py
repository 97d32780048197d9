#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three rules that a pattern can check.

Same seed, same events: in the engine's folders time, sleep and randomness come in through
interfaces, never from the machine; only the real clock in base/ reads it. A line that has to do so
ends in `// real world: <why>`.

One binary, one tree for every machine: no tracked file contains a path that exists on one machine
only.

One licence, said in each source file: its first line, or the one after `#!`.
"""

import re
import subprocess
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ("base", "device", "graph", "policy", "wire", "ask", "monitor", "tier", "cache",
          "capi", "replay")
REAL_WORLD = re.compile(r"_clock::now|\bs?rand\s*\(|random_device|\bclock_gettime\b"
                        r"|\bgettimeofday\b|\btime\s*\(\s*(nullptr|NULL|0)\s*\)")
SLEEP = re.compile(r"\bsleep_(for|until)\b|\b[un]?sleep\s*\(|\bnanosleep\b")
ALLOWED_FILE = re.compile(r"^src/base/[a-z_]*clock\.cc$")
ALLOWED_LINE = re.compile(r"//\s*real world: \S")
MACHINE_PATH = re.compile(r"(^|[^\w./-])/(work|root|home/[a-z]+)(/|\b(?![\w-]))")


def strip_comment(line):
    return line.split("//", 1)[0]


def check_engine():
    for folder in ENGINE:
        for path in sorted((ROOT / "src" / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix not in (".h", ".cc") or ALLOWED_FILE.match(name):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = strip_comment(line)
                if ALLOWED_LINE.search(line):
                    continue
                if REAL_WORLD.search(code) or SLEEP.search(code):
                    yield f"{name}:{number}: asks the machine, not an interface: {line.strip()}"


def tracked_files():
    """The files that git tracks or would track; without git, all except the build directory."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True)
        return [ROOT / name for name in done.stdout.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        return [path for path in ROOT.rglob("*")
                if path.relative_to(ROOT).parts[0] not in ("build", ".git")]


def check_machine_paths():
    for path in tracked_files():
        if path == Path(__file__).resolve() or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATH.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: path of one machine: {line.strip()}"


SPDX = "SPDX-License-Identifier: Apache-2.0"
SOURCES = (".h", ".cc", ".c", ".cu", ".ts", ".js", ".mjs", ".py", ".sh", ".cmake")


def check_licences():
    for path in tracked_files():
        if not (path.suffix in SOURCES or path.name in ("CMakeLists.txt", "Makefile")):
            continue
        if not path.is_file():
            continue
        if SPDX not in "\n".join(path.read_text().splitlines()[:2]):
            yield f"{path.relative_to(ROOT)}:1: the first line lacks '{SPDX}'"


def main():
    tally = Tally()
    for check in (check_engine, check_machine_paths, check_licences):
        found = list(check())
        print("\n".join(found), end="\n" if found else "")
        tally += Tally(failed=len(found)) if found else Tally(passed=1)
    tally.finish()


if __name__ == "__main__":
    main()
