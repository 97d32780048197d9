# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Python tests. `make test` builds the library and names it in SPILLWAY_LIBRARY."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILT = ROOT / "build/release"
LIBRARY = BUILT / "python/spillway/_lib/libspillway.so.0"
if "SPILLWAY_LIBRARY" not in os.environ and LIBRARY.exists():
    os.environ["SPILLWAY_LIBRARY"] = str(LIBRARY)
sys.path.insert(0, str(ROOT / "python"))

import spillway  # noqa: E402


@pytest.fixture
def cache():
    with spillway.Cache(capacity="64MiB", start=False) as made:
        yield made


# RELAXED, and so near to NORMAL that it is looked at every 8 ms whatever sample_period is: what
# moves moves soon. sample_period is long: on a busy machine, too, pressure is known.
CALM = dict(pressure_source="fixed:0.65", host_pressure_source="fixed:0.65",
            disk_pressure_source="fixed:0.65", sample_period="1s")


@pytest.fixture
def tiers(tmp_path):
    """Device, host and disk, small enough that things move."""
    with spillway.Cache(capacity="8MiB", host_capacity="16MiB", disk_dir=tmp_path / "disk",
                        disk_capacity="256MiB", write_back_after="1ms", **CALM) as made:
        yield made


@contextlib.contextmanager
def running_daemon(folder):
    """A spillwayd of our own: its Unix socket, and its port."""
    program = BUILT / "bin/spillwayd"
    if not program.exists():
        pytest.skip("spillwayd is not built")
    path = folder / "s.sock"
    config = folder / "d.toml"
    # On a busy machine, too, pressure is known.
    config.write_text('capacity = "256MiB"\npressure_source = "fixed:0.1"\n'
                      'sample_period = "2s"\n')
    # A port that was free may be somebody's by now: then it ends, and another is taken.
    for _ in range(5):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = subprocess.Popen([program, "--config", config, "--port", str(port),
                                    "--http-port", "0", "--socket", path],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not answers(path) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if answers(path):
            break
        process.kill()
        said = process.communicate()[1].decode()
    else:
        pytest.fail("spillwayd did not start: " + said)
    try:
        yield path, port
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    """One for all tests that leave it as it was."""
    with running_daemon(tmp_path_factory.mktemp("daemon")) as where:
        yield where


@pytest.fixture(scope="module")
def locked_daemon(tmp_path_factory):
    """One whose password the test sets: its socket, its port, and calls that are let in."""
    with running_daemon(tmp_path_factory.mktemp("locked")) as (path, port), \
            spillway.Client(socket=path) as admin:
        yield path, port, admin._call


def answers(path):
    """The socket is there before anybody listens on it."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(100) == b"+PONG\r\n"
    except OSError:
        return False


def run_python(code, **env):
    """A Python of its own; returns what it printed. Fails if it does."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True,
                          text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **env})
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
