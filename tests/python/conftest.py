"""Fixtures of the Python tests. `make test` builds the library and names it in SPILLWAY_LIBRARY."""

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


@pytest.fixture
def tiers(tmp_path):
    """Device, host and disk, small enough that things move."""
    with spillway.Cache(capacity="8MiB", host_capacity="16MiB", disk_dir=tmp_path / "disk",
                        disk_capacity="256MiB", pressure_source="fixed:0.1",
                        host_pressure_source="fixed:0.1", disk_pressure_source="fixed:0.1",
                        write_behind_after="1ms") as made:
        yield made


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    """A spillwayd of our own: its Unix socket."""
    program = BUILT / "bin/spillwayd"
    if not program.exists():
        pytest.skip("spillwayd is not built")
    folder = tmp_path_factory.mktemp("daemon")
    path = folder / "s.sock"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "d.toml"
    config.write_text('capacity = "256MiB"\npressure_source = "fixed:0.1"\n')
    process = subprocess.Popen([program, "--config", config, "--port", str(port), "--http-port",
                                "0", "--socket", path],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail("spillwayd did not start: " + process.stderr.read().decode())
        time.sleep(0.01)
    yield path, port
    process.send_signal(signal.SIGTERM)
    process.wait(20)


def run_python(code, **env):
    """A Python of its own; returns what it printed. Fails if it does."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True,
                          text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **env})
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
