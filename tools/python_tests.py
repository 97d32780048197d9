#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package: builds its wheel, and runs pytest on it, in a venv.

  tools/python_tests.py [--soak CYCLES]

torch, transformers and LangGraph come from PyPI, each for the tests that need it. What cannot be
installed is skipped, by name; the rest must pass. The wheel is built by pip as a user would,
inspected, and installed for every Python from 3.10 on that this machine has; the quick start of
docs/python.md is run there.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
import zipfile
from pathlib import Path

from tally import Tally

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / "build/python-venv"
LIBRARY = ROOT / "build/release/python/spillway/_lib/libspillway.so.0"
# Each group: its purpose, and what to install. Only the torch named here: another would bring CUDA.
GROUPS = [("the tests", ["pytest>=8,<10", "numpy>=2,<3"]),
          ("the wheel", ["scikit-build-core>=0.11,<2"]),  # CMake and Ninja are the machine's.
          ("torch", ["torch==2.13.0"]),
          ("transformers", ["transformers>=5,<6"]),
          ("LangGraph", ["langgraph>=1,<2"])]
# The libraries of the machine that our wheel may use.
ALLOWED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0",
           "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
tally = Tally()


def skip(what):
    tally.skipped += 1
    print(f"skipped: {what}")


def check(what, good, why=""):
    if good:
        tally.passed += 1
    else:
        tally.failed += 1
        print(f"FAILED: {what}\n{why}")
    return good


def run(*command, timeout=600, **options):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=timeout, **options)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, f"{late}")


def clean_env(**more):
    env = {name: value for name, value in os.environ.items()
           if name not in ("PYTHONPATH", "SPILLWAY_LIBRARY")}
    return {**env, **more}


def make_venv():
    """The venv, with each group that could be installed; None: not even the first."""
    python = VENV / "bin/python"
    if not python.exists():
        made = run(sys.executable, "-m", "venv", VENV)
        if made.returncode:
            return None
    for name, packages in GROUPS:
        stamp = VENV / ("have-" + name.split()[-1].lower())
        wanted = " ".join(packages)
        if stamp.exists() and stamp.read_text() == wanted:
            continue
        done = run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages,
                   timeout=900)
        if done.returncode:
            if name == GROUPS[0][0]:
                return None
            skip(f"{name}: {wanted} can't be installed")
            continue
        stamp.write_text(wanted)
    return python


def run_pytest(python, *arguments):
    results = VENV / "pytest.xml"
    results.unlink(missing_ok=True)
    done = run(python, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider",
               f"--junitxml={results}", ROOT / "tests/python", *arguments, timeout=3600, cwd=ROOT,
               env=clean_env(SPILLWAY_LIBRARY=str(LIBRARY)))
    if not results.exists():
        check("pytest ran", False, done.stdout[-4000:])
        return
    for case in xml.parse(results).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("skipped") is not None:
            skip(f"{name}: {case.find('skipped').get('message')}")
        elif case.find("failure") is not None or case.find("error") is not None:
            tally.failed += 1
            print(f"FAILED: {name}")
        else:
            tally.passed += 1
    if done.returncode:
        print("\n".join("| " + line for line in done.stdout.splitlines()[-150:]))


# --- the wheel ---


def build_wheel(python, folder):
    if not (VENV / "have-wheel").exists():
        skip("the wheel: scikit-build-core can't be installed")
        return None
    env = clean_env(CCACHE_BASEDIR=str(ROOT), CCACHE_NOHASHDIR="1")
    done = run(python, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps",
               "--no-build-isolation", "-C", "cmake.define.SPILLWAY_WERROR=ON", "-w", folder, ROOT,
               timeout=3600, env=env)
    wheels = list(Path(folder).glob("spillway-*.whl"))
    if not check("pip builds the wheel", done.returncode == 0 and len(wheels) == 1,
                 done.stdout[-4000:]):
        return None
    return wheels[0]


def look_at(wheel):
    """The wheel must be for every Python, and use nothing of the machine except libc and libstdc++.
    """
    check(f"{wheel.name} is for every Python", "-py3-none-linux_" in wheel.name)
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        library = Path(folder) / "spillway/_lib/libspillway.so.0"
        shown = run("objdump", "-p", library).stdout
        needed = set(re.findall(r"NEEDED\s+(\S+)", shown))
        check("the wheel's library stands alone", needed and needed <= ALLOWED,
              f"it needs {sorted(needed - ALLOWED)}")
        floors = {}
        for name, version in re.findall(r"\b(GLIBC|GLIBCXX)_([0-9.]+)", shown):
            floors[name] = max(floors.get(name, (0,)), tuple(map(int, version.split("."))))
        print("the wheel needs " + ", ".join(
            f"{name} {'.'.join(map(str, version))}" for name, version in sorted(floors.items())))
        for part in ("py.typed", "_rescue.cpp", "_lib/libspillway.so.0"):
            check(f"the wheel holds {part}", (Path(folder) / "spillway" / part).exists())


def pythons():
    """Every Python from 3.10 on, one of each version."""
    found = {}
    names = [f"python3.{minor}" for minor in range(10, 20)]
    paths = [shutil.which(name) for name in [*names, "python3"]]
    # Pythons that pyenv has installed but not activated.
    paths += sorted(map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3")))
    for path in paths:
        if path is None:
            continue
        said = run(path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])")
        version = said.stdout.strip()
        if said.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 10):
            found.setdefault(version, path)
    return found


def quick_start():
    """The code of the quick start in docs/python.md."""
    text = (ROOT / "docs/python.md").read_text()
    return re.search(r"```python\n(.*?)```", text, re.S).group(1)


def install_everywhere(python, wheel):
    versions = pythons()
    print("the wheel is tried with Python " + ", ".join(sorted(versions)))
    for version, path in versions.items():
        with tempfile.TemporaryDirectory() as folder:
            run(path, "-m", "venv", "--without-pip", folder)
            own = Path(folder) / "bin/python"
            done = run(python, "-m", "pip", "--python", own, "install", "-q", "--no-deps",
                       "--no-index", "--disable-pip-version-check", wheel)
            if done.returncode == 0:
                done = run(own, "-W", "error", "-c", quick_start(), cwd=folder, timeout=120,
                           env=clean_env())
            check(f"Python {version}: installed, and the quick start runs", done.returncode == 0,
                  done.stdout[-2000:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--soak", type=int, default=0)
    args = parser.parse_args()
    python = make_venv()
    if python is None:
        skip("Python: no venv with pytest could be made (no registry?)")
        tally.finish()
    if args.soak:
        done = run(python, ROOT / "tests/python/soak.py", str(args.soak), timeout=7200,
                   env=clean_env(SPILLWAY_LIBRARY=str(LIBRARY)))
        print(done.stdout)
        check("nothing leaks", done.returncode == 0)
        tally.finish()
    run_pytest(python)
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(python, folder)
        if wheel is not None:
            look_at(wheel)
            install_everywhere(python, wheel)
    tally.finish()


if __name__ == "__main__":
    main()
