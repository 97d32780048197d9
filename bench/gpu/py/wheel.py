#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel on a machine that has nothing of ours: installed without root or a compiler, then the
quick start of docs/python.md, and the same on a GPU if there is one.

  bench/gpu/pack_py.sh --wheel          # here
  python3 bench/gpu/py/wheel.py build/gpu-pack/spillway-*.whl     # there

Each step prints its seconds; the first that fails ends it. Each step has a limit of one minute.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NOBODY = 65534
ROOT = Path(__file__).resolve().parents[3]
ON_GPU = """
import os, spillway
value = os.urandom(1 << 20)
with spillway.Cache(device="cuda:0", capacity="256MiB", host_capacity="256MiB") as cache:
    assert cache.set("k", value, tokens=8)
    assert bytes(cache.get("k")) == value
    print(spillway.__version__, "on", cache.device, cache.mode.value)
"""


def who():
    """The user `nobody`, if we are root and `nobody` may run this Python; otherwise our own user.
    """
    if os.getuid():
        return {}
    nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        subprocess.run([sys.executable, "-c", ""], check=True, timeout=60, cwd="/", **nobody)
    except OSError:
        print("as root: nobody else may run", sys.executable, flush=True)
        return {}
    return nobody


def step(name, *command, cwd, user):
    """Runs a command without the caller's environment."""
    start = time.monotonic()
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, text=True, capture_output=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": cwd, "SPILLWAY_RUN_DIR": cwd},
        **user)
    print(f"{name}: exit {done.returncode} after {time.monotonic() - start:.2f} s", flush=True)
    print((done.stdout + done.stderr).rstrip()[-1500:], flush=True)
    if done.returncode:
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="as bench/gpu/pack_py.sh --wheel makes it")
    wheel = parser.parse_args().wheel.resolve()
    if not wheel.is_file():
        parser.error(f"{wheel} is not there; bench/gpu/pack_py.sh --wheel makes one")
    release = Path("/etc/os-release").read_text()
    print(re.search(r'PRETTY_NAME="(.*)"', release).group(1), "Python", sys.version.split()[0],
          wheel.name, flush=True)
    user = who()
    quick_start = re.search(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.S)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        mine = shutil.copy(wheel, folder)
        # In a folder of its own: a machine's Python may lack venv.
        step("pip install", sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps",
             "--no-cache-dir", "--disable-pip-version-check", "--target", f"{folder}/site", mine,
             cwd=folder, user=user)
        there = f"import sys; sys.path.insert(0, {folder + '/site'!r})\n"
        step("the quick start", sys.executable, "-c", there + quick_start.group(1), cwd=folder,
             user=user)
        if Path("/dev/nvidia0").exists():
            step("on the GPU", sys.executable, "-c", there + ON_GPU, cwd=folder, user=user)


if __name__ == "__main__":
    main()
