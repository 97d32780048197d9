#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A venv with an inference engine, in the user's cache folder, made on first use.

  tools/engine_venv.py REQUIREMENT...     prints its Python

Its name is a hash of the requirements, so that clones share it and a changed requirement makes
another. uv installs it: a minute where pip takes five. pip's own settings (indexes, files, a
certificate) are passed on. torchvision, torchaudio and torchcodec are left out: from PyPI they are
builds for CUDA, and transformers then fails to import; triton is 270 MB that the CPU never uses.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

UV = "uv>=0.8,<1"
LEFT_OUT = ("torchvision", "torchaudio", "torchcodec", "triton")
INSTALL = 600  # Seconds for one installation.


class NotHad(Exception):
    """The venv can't be made here; the text says why."""


def cache_folder():
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "spillway/engines"


def run(*command, timeout, **env):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=timeout, env={**os.environ, **env})
    except subprocess.TimeoutExpired:
        raise NotHad(f"{Path(command[0]).name} took longer than {timeout} s") from None
    except OSError as error:
        raise NotHad(str(error)) from None
    if done.returncode:
        lines = [line for line in done.stdout.strip().splitlines() if line.strip()]
        raise NotHad("; ".join(lines[-3:])[-400:])
    return done.stdout


def pip_settings():
    """What pip is configured with, in the environment variables of uv."""
    try:
        shown = run(sys.executable, "-m", "pip", "config", "list", timeout=60)
    except NotHad:
        return {}
    found = {}
    for line in shown.splitlines():
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = value.strip("'\"")
    env = {}
    for name, variable in (("index-url", "UV_DEFAULT_INDEX"), ("find-links", "UV_FIND_LINKS"),
                           ("extra-index-url", "UV_EXTRA_INDEX_URL"), ("cert", "SSL_CERT_FILE")):
        if found.get(name):
            env[variable] = found[name].replace("\\n", " ")
    return env


def make(folder, requirements):
    base = folder.parent
    tool = base / "uv"
    if not (tool / "bin/uv").exists():
        shutil.rmtree(tool, ignore_errors=True)
        run(sys.executable, "-m", "venv", tool, timeout=120)
        run(tool / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", UV,
            timeout=INSTALL)
    shutil.rmtree(folder, ignore_errors=True)
    overrides = base / "left-out.txt"
    overrides.write_text("".join(f'{name}; sys_platform == "never"\n' for name in LEFT_OUT))
    env = {"UV_CACHE_DIR": str(base / "uv-cache"), "UV_HTTP_TIMEOUT": "180",
           "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never", **pip_settings()}
    run(tool / "bin/uv", "venv", "-q", "--python", sys.executable, folder, timeout=120, **env)
    first, *others = requirements
    run(tool / "bin/uv", "pip", "install", "-q", "--python", folder / "bin/python", "--override",
        overrides, "--index-strategy", "unsafe-best-match", first, timeout=INSTALL, **env)
    for other in others:  # Beside the first, whose pins count.
        run(tool / "bin/uv", "pip", "install", "-q", "--python", folder / "bin/python",
            *other.split(), timeout=INSTALL, **env)


def engine_venv(*requirements):
    """The Python of a venv in which the requirements are installed, the first one with all that it
    needs. Raises NotHad.
    """
    text = "\n".join((*requirements, *LEFT_OUT, sys.version.split()[0]))
    name = requirements[0].replace("==", "-").replace("/", "-")
    folder = cache_folder() / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    stamp = folder / "complete"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / ".lock").open("w") as lock:  # Clones may want it at the same time.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not stamp.exists():
                make(folder, requirements)
                stamp.write_text(text)
    except OSError as error:
        raise NotHad(str(error)) from None
    return folder / "bin/python"


if __name__ == "__main__":
    try:
        print(engine_venv(*sys.argv[1:]))
    except NotHad as why:
        sys.exit(f"{sys.argv[1:]}: {why}")
