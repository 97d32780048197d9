#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every public header alone: as C++17 with g++, as C++20 with clang,
and the C ABI as C99 too, without a single warning."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ROOT / "build/release/generated"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
CXX = [["g++", "-x", "c++", "-std=c++17"], ["clang++-19", "-x", "c++", "-std=c++20"]]
C = [["gcc", "-x", "c", "-std=c99"]]
C_HEADERS = {"spillway.h", "version.h"}


def compile_alone(job):
    """None if the header compiles, '' if the compiler is missing, else its errors."""
    header, compiler = job
    if not shutil.which(compiler[0]):
        return ""
    done = subprocess.run(
        [*compiler, *STRICT, f"-I{ROOT / 'include'}", f"-I{GENERATED}", "-"],
        input=f'#include "spillway/{header}"\nextern int not_empty;\n', capture_output=True, text=True)
    return done.stderr if done.returncode else None


def main():
    headers = sorted(path.name for folder in (ROOT / "include", GENERATED)
                     for path in (folder / "spillway").glob("*.h"))
    jobs = [(header, compiler) for header in headers
            for compiler in CXX + (C if header in C_HEADERS else [])]
    tally = Tally()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (header, compiler), why in zip(jobs, pool.map(compile_alone, jobs)):
            if why is None:
                tally.passed += 1
            elif why == "":
                tally.skipped += 1
            else:
                tally.failed += 1
                print(f"FAILED: {header} alone with {compiler[0]} {compiler[-1]}\n{why}")
    if tally.skipped:
        print("skipped: headers with clang++-19, not installed")
    tally.finish()


if __name__ == "__main__":
    main()
