#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real llama-server, built from a source package of PyPI, in the user's cache folder.

  tools/llama_server.py     builds it on first use (about ten minutes of a core); prints its path

llama_cpp_python's source package holds llama.cpp whole, with its server; nothing else of it is
used. Clones share one build. Only what a test on the CPU needs is built: no web page, no TLS.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tarfile
import urllib.request

from engine_venv import NotHad, cache_folder, run

VERSION = "0.3.36"
URL = ("https://files.pythonhosted.org/packages/ec/e9/"
       "e7de2b0463ea3ffbf0ede6cb21b58c1258a8f6521aae45ca773a59fe7cf3/"
       f"llama_cpp_python-{VERSION}.tar.gz")
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_UI=OFF",
           "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF",
           "-DLLAMA_BUILD_EXAMPLES=OFF", "-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF"]
BUILD = 7200  # Seconds, for a machine with much else to do.


def fetch(to):
    """The source package, whose bytes must be the ones we know."""
    try:
        with urllib.request.urlopen(URL, timeout=180) as answer, to.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except OSError as error:
        raise NotHad(f"{URL}: {error}") from None
    with to.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise NotHad(f"{URL} has the SHA-256 {found}, not {SHA256}")


def unpack(archive, folder):
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / f"llama_cpp_python-{VERSION}/vendor/llama.cpp"


def make(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    archive = folder / "source.tar.gz"
    fetch(archive)
    source = unpack(archive, folder)
    archive.unlink()
    launcher = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")] \
        if shutil.which("ccache") else []
    run("cmake", "-S", source, "-B", folder / "build", *OPTIONS, *launcher, timeout=300)
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
    run("cmake", "--build", folder / "build", "-j", jobs, "--target", "llama-server",
        timeout=BUILD)
    shutil.copy(folder / "build/bin/llama-server", folder)
    shutil.rmtree(folder / "build")
    shutil.rmtree(folder / f"llama_cpp_python-{VERSION}")


def llama_server():
    """The folder that holds llama-server. Raises NotHad."""
    name = hashlib.sha256("\n".join((SHA256, *OPTIONS)).encode()).hexdigest()[:10]
    folder = cache_folder() / f"llama-{VERSION}-{name}"
    stamp = folder / "complete"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / ".llama-lock").open("w") as lock:  # Clones may want it together.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not stamp.exists():
                make(folder)
                stamp.touch()
    except OSError as error:
        raise NotHad(str(error)) from None
    return folder


if __name__ == "__main__":
    try:
        print(llama_server() / "llama-server")
    except NotHad as why:
        sys.exit(f"llama-server {VERSION}: {why}")
