# SPDX-License-Identifier: Apache-2.0
"""The processes of the demo (spillwayd, `spillway squeeze`) and the folder they share."""

import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

from spillway.client import Client
from spillway.errors import SpillwayError

USUAL_HTTP_PORT = 7380
START_WITHIN_S = 60
PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


class DemoError(Exception):
    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status  # The demo's exit status.


class Process:
    """A child process. The kernel kills it when our main thread ends, however that ends. It has a
    process group of its own, so that Ctrl-C only reaches the demo.
    """

    def __init__(self, words, env, on_line=lambda line: None):
        parent = os.getpid()

        def before_exec():
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        self._child = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", process_group=0,
            preexec_fn=before_exec)
        self.pid, self.lines = self._child.pid, deque(maxlen=50)
        self._reader = threading.Thread(target=self._read, args=(on_line,), daemon=True)
        self._reader.start()

    def _read(self, on_line):
        for line in self._child.stdout:
            self.lines.append(line.strip())
            on_line(self.lines[-1])

    def ended(self):
        """None, or its exit status once it has ended (minus a signal's number)."""
        if self._child.poll() is not None:
            self._reader.join(1)
        return self._child.returncode

    def end(self, within=10):
        self._child.terminate()
        try:
            self._child.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self):
        self._child.kill()
        self._child.wait()


class Folder:
    """Everything the demo leaves on a machine: settings, sockets, the virtual card's ledger and the
    disk tier's files. Locked while in use; the next demo removes what a killed one left.
    """

    def __init__(self):
        base = next(each for each in (os.environ.get("TMPDIR"), "/var/tmp", tempfile.gettempdir())
                    # A socket's path may have at most 107 characters.
                    if each and len(each) < 60 and os.access(each, os.W_OK | os.X_OK))
        for old in Path(base).glob("spillway-demo-*/lock"):
            try:
                with open(old) as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(old.parent, ignore_errors=True)
            except OSError:
                pass  # It belongs to a running demo, or to another user.
        self.path = Path(tempfile.mkdtemp(prefix=f"spillway-demo-{os.getpid()}-", dir=base))
        self._lock = open(self.path / "lock", "w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.free = shutil.disk_usage(base).free

    def close(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _any_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Daemon:
    """spillwayd in a process of its own, used only through its socket and its HTTP port."""

    def __init__(self, program, folder, env, settings, port, http_port):
        self.socket = str(folder.path / "spillway.sock")
        self.http_port, self._env, self._process = http_port, env, None
        config = folder.path / "spillwayd.toml"
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
        # Everything is removed anyway.
        config.write_text("".join(lines) + '[server]\nstop_flush = "0s"\n')
        self._words = [program, "--config", str(config), "--socket", self.socket, "--port",
                       str(port or 0), "--http-port"]

    def start(self):
        """Returns when the daemon answers. After a kill it is started again in the same place."""
        for attempt in range(5):
            port = self.http_port or (_any_port() if attempt else USUAL_HTTP_PORT)
            self._process = Process([*self._words, str(port)], self._env)
            if self._answers():
                self.http_port = port
                return
            if self.http_port or f":{port}" not in self._last_words():
                break  # Otherwise the port is in use: try another one.
        raise DemoError(self._last_words(), 2 if self._process.ended() == 2 else 1)

    def _answers(self):
        until = time.monotonic() + START_WITHIN_S
        while time.monotonic() < until and self._process.ended() is None:
            try:
                self._client = Client(socket=self.socket, timeout=20)
                if not self._client.stats()["loading"]:
                    return True
            except SpillwayError:
                pass  # Not yet.
            time.sleep(0.01)
        return False

    def _last_words(self):
        return self._process.lines[-1] if self._process.lines else "spillwayd said nothing"

    def check_alive(self):
        status = self._process.ended()
        if status is not None:
            how = f"signal {-status}" if status < 0 else f"status {status}"
            raise DemoError(f"spillwayd (pid {self.pid}) ended by itself, {how}; its last words: "
                            f"{self._last_words()}")

    def _ask(self, question):
        try:
            return question()
        except SpillwayError as error:
            # A connection can break a moment before its daemon's end is noticed.
            for _ in range(100):
                self.check_alive()
                time.sleep(0.01)
            raise DemoError(f"spillwayd does not answer: {error}") from None

    def stats(self):
        return self._ask(self._client.stats)

    def reclaim(self, count):
        return self._ask(lambda: self._client.reclaim(count).freed)

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        self._process.kill()

    def close(self):
        if self._process:
            self._process.end()
