# SPDX-License-Identifier: Apache-2.0
"""Starts engines and daemons for the tests in tools/engine_tests.py, and talks to them."""

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIBRARY = ROOT / "build/release/python/spillway/_lib/libspillway.so.0"
SPILLWAYD = ROOT / "build/release/bin/spillwayd"
START, ANSWER = 900, 600  # Seconds, for a machine with much else to do.


class Gone(Exception):
    """The engine ended, or said nothing in time."""


class Lines:
    """Lines of JSON that begin with "@@", from a file descriptor."""

    def __init__(self, file):
        self.file, self.rest = file, b""

    def next(self, within):
        until = time.monotonic() + within
        while True:
            while b"\n" in self.rest:
                line, self.rest = self.rest.split(b"\n", 1)
                if line.startswith(b"@@"):
                    return json.loads(line[2:])
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.file], [], [], left)[0]:
                raise Gone(f"nothing within {within} s")
            data = os.read(self.file, 65536)
            if not data:
                raise Gone("it ended")
            self.rest += data


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    return {**kept, "SPILLWAY_LIBRARY": str(LIBRARY), "PYTHONPATH": f"{ROOT / 'python'}:{HERE}",
            "PYTHONUNBUFFERED": "1", **more}


class Nursery:
    """A process that has imported vLLM, and forks engines."""

    def __init__(self, python, folder):
        self.folder = Path(folder)
        self.count = 0
        with (self.folder / "nursery.log").open("w") as log:
            self.process = subprocess.Popen(
                [python, HERE / "vllm_engine.py", "--nursery", folder], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, env=environment(), start_new_session=True)
        self.lines = Lines(self.process.stdout.fileno())
        self.engines = []

    def ready(self):
        self.lines.next(START)

    def engine(self, **config):
        self.count += 1
        engine = Engine(self, f"e{self.count}", config)
        self.engines.append(engine)
        return engine

    def end(self):
        for engine in self.engines:
            engine.kill()
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Engine:
    def __init__(self, nursery, name, config):
        self.log = nursery.folder / f"{name}.log"
        ends = [nursery.folder / f"{name}.{end}" for end in ("in", "out")]
        for end in ends:
            os.mkfifo(end)
        words = json.dumps({"name": name, "config": config}) + "\n"
        nursery.process.stdin.write(words.encode())
        nursery.process.stdin.flush()
        self.pid = nursery.lines.next(START)["pid"]
        self.input = os.open(ends[0], os.O_WRONLY)
        self.output = os.open(ends[1], os.O_RDONLY)
        self.lines = Lines(self.output)
        self.about = None
        self.over = False

    def ready(self):
        if self.about is None:
            self.about = self.lines.next(START)
        return self

    def send(self, do, **more):
        try:
            os.write(self.input, (json.dumps({"do": do, **more}) + "\n").encode())
        except BrokenPipeError:
            raise Gone("it ended") from None

    def tell(self, do, **more):
        self.ready()
        self.send(do, **more)
        return self.lines.next(ANSWER)

    def ask(self, prompts, **more):
        return self.tell("ask", prompts=prompts, **more)

    def quit(self):
        said = self.tell("quit")
        self._close()
        return said

    def kill(self):
        if not self.over:
            self.kill_pid()
            self._close()

    def kill_pid(self):
        """Kills it; its ends stay open, for another thread may be reading."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _close(self):
        self.over = True
        os.close(self.input)
        os.close(self.output)

    def tail(self):
        try:
            return self.log.read_text()[-3000:]
        except OSError:
            return ""


class Daemon:
    """A spillwayd with a folder and a socket that stay the same over restarts."""

    def __init__(self, folder, **settings):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        # A path of a socket may have 107 bytes.
        self.short = tempfile.TemporaryDirectory(prefix="sw-")
        self.socket = f"{self.short.name}/s.sock"
        self.config = self.folder / "d.toml"
        settings = {"capacity": "64MiB", "disk_dir": str(self.folder / "disk"),
                    "disk_capacity": "256MiB", "pressure_source": "fixed:0.1",
                    "host_pressure_source": "fixed:0.1", "disk_pressure_source": "fixed:0.1",
                    "sample_period": "1s", "write_back_after": "1ms", **settings}
        self.config.write_text("".join(f"{name} = {json.dumps(value)}\n"
                                       for name, value in settings.items()
                                       if value is not None))
        self.process = None

    def start(self):
        for _ in range(5):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = self.port = probe.getsockname()[1]
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [SPILLWAYD, "--config", self.config, "--port", str(port), "--http-port", "0",
                     "--socket", self.socket], stdout=subprocess.DEVNULL, stderr=log)
            until = time.monotonic() + 60
            while time.monotonic() < until and self.process.poll() is None:
                if self.answers():
                    return self
                time.sleep(0.02)
            self.kill()
        raise Gone("spillwayd does not start: " + (self.folder / "log").read_text()[-1000:])

    def answers(self):
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(10)
                client.connect(self.socket)
                client.sendall(b"PING\r\n")
                return client.recv(100) == b"+PONG\r\n"
        except OSError:
            return False

    def stop(self, how=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None

    def kill(self):
        self.stop(signal.SIGKILL)
