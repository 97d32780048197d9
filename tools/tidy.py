#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/tidy.py [FILE...]: clang-tidy over the tree, several files at once.

A file is checked again only if it, a header of ours that it includes, its compile command or
.clang-tidy has changed since it was last clean.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/lint"  # Configured, but never built.
# One empty file per clean state, named by its hash, and the compile commands, one per file.
CLEAN = ROOT / "build/tidy"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
ROOTS = [ROOT / "src", ROOT / "include", ROOT / "tests", ROOT, BUILD / "generated"]
OPTIONS = ["-Wno-unknown-warning-option", "-Wno-error"]


@lru_cache(maxsize=None)
def includes(path):
    """Headers of ours that a file includes directly."""
    found = []
    for name in INCLUDE.findall(path.read_text()):
        for root in [path.parent, *ROOTS]:
            if (root / name).is_file():
                found.append((root / name).resolve())
                break
    return found


def closure(path):
    seen, todo = set(), [path]
    while todo:
        item = todo.pop()
        if item not in seen:
            seen.add(item)
            todo.extend(includes(item))
    return sorted(seen)


def fingerprint(path, command):
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    digest.update(command.encode())
    for item in closure(path):
        digest.update(hashlib.sha256(item.read_bytes()).digest())
    return digest.hexdigest()


def tidy(job):
    """None if the file is clean, else clang-tidy's output."""
    path, mark = job
    if mark.exists():
        return None
    extra = [f"--extra-arg={option}" for option in OPTIONS]
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", CLEAN, *extra, path],
                          capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        return done.stdout or done.stderr
    mark.touch()
    return None


def compile_commands():
    """One command per source file. The engine is compiled twice, the second time with the planted
    bugs; clang-tidy would check its files twice.
    """
    commands = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = Path(entry["file"])
        if path.suffix == ".cc" and path.exists():
            commands.setdefault(path, entry)
    (CLEAN / "compile_commands.json").write_text(json.dumps(list(commands.values())))
    return commands


def main():
    CLEAN.mkdir(parents=True, exist_ok=True)
    wanted = {Path(name).resolve() for name in sys.argv[1:]}
    jobs = {path: CLEAN / fingerprint(path, entry["command"])
            for path, entry in compile_commands().items() if not wanted or path in wanted}
    stale = sum(not mark.exists() for mark in jobs.values())
    print(f"clang-tidy: {len(jobs)} files, {stale} to look at", flush=True)

    tally = Tally()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, said in zip(jobs, pool.map(tidy, jobs.items())):
            if said is None:
                tally.passed += 1
            else:
                tally.failed += 1
                print(f"FAILED: {path.relative_to(ROOT)}\n{said}", flush=True)
    tally.finish()


if __name__ == "__main__":
    main()
