#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs build/release into a fresh prefix, moves it elsewhere (a package must
not know where it was made), and builds against it as a user would: examples/ by
CMake and by pkg-config, tests/install with the static library. Runs what it built."""

import os
import shutil
import subprocess
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build/install-test"
PREFIX = WORK / "prefix"
tally = Tally()


def check(what, command, **options):
    """Runs a command as one check; returns its output, or None if it failed."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=300, **options)
        output, failed = done.stdout, done.returncode != 0
    except subprocess.TimeoutExpired as late:
        output, failed = f"{late}\n", True
    if failed:
        tally.failed += 1
        print(f"FAILED: {what}\n{output}")
        return None
    tally.passed += 1
    return output


def build_with_cmake(source, build):
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    configured = check(f"{source} finds the CMake package",
                       ["cmake", "-G", "Ninja", "-S", ROOT / source, "-B", build,
                        f"-DCMAKE_PREFIX_PATH={PREFIX}", "-DCMAKE_BUILD_TYPE=Release",
                        *(launcher if shutil.which("ccache") else [])])
    return configured is not None and check(
        f"{source} builds against the CMake package", ["cmake", "--build", build]) is not None


def run_examples(build):
    for source in sorted([*(ROOT / "examples").glob("*.cc"), *(ROOT / "examples").glob("*.c")]):
        check(f"examples/{source.name} runs", [build / source.stem], cwd=WORK)


def build_with_pkg_config():
    libdir = next(PREFIX.glob("**/spillway.pc")).parent.parent
    env = dict(os.environ, PKG_CONFIG_PATH=str(libdir / "pkgconfig"))
    flags = check("pkg-config knows spillway", ["pkg-config", "--cflags", "--libs", "spillway"],
                  env=env)
    if flags is None:
        return
    for source in sorted((ROOT / "examples").glob("*.cc")):
        program = WORK / f"pkg-config-{source.stem}"
        built = check(f"examples/{source.name} builds with pkg-config",
                      ["g++", "-std=c++17", "-O1", source, *flags.split(),
                       f"-Wl,-rpath,{libdir}", "-pthread", "-o", program])
        if built is not None:
            check(f"examples/{source.name}, built with pkg-config, runs", [program], cwd=WORK)


def check_exports():
    """Checks that the shared library exports our names only."""
    library = next(PREFIX.glob("**/libspillway.so"))
    names = check("nm reads the shared library", ["nm", "-DC", "--defined-only", library])
    strange = [line for line in (names or "").splitlines() if "spillway" not in line]
    if strange:
        tally.failed += 1
        print("FAILED: libspillway.so shows names that are not ours:\n" + "\n".join(strange[:20]))
    else:
        tally.passed += 1


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    made = WORK / "made-here"
    if check("cmake --install", ["cmake", "--install", ROOT / "build/release",
                                 "--prefix", made]) is None:
        tally.finish()
    made.rename(PREFIX)
    check_exports()
    if any((ROOT / "examples").glob("*.c*")) and build_with_cmake("examples", WORK / "examples"):
        run_examples(WORK / "examples")
        build_with_pkg_config()
    if build_with_cmake("tests/install", WORK / "consumer"):
        for program in ("uses_shared", "uses_static"):
            check(f"tests/install {program} runs", [WORK / "consumer" / program])
    program = PREFIX / "bin/spillway"
    check("the installed program says its version", [program, "--version"])
    ran = check("the installed program finds what it preloads",
                [program, "run", "--", "sh", "-c", "echo $LD_PRELOAD"])
    if ran is not None and "lib/spillway/libspillway_ask.so" not in ran:
        tally.failed += 1
        print(f"FAILED: spillway run preloads {ran}")
    tally.finish()


if __name__ == "__main__":
    main()
