# SPDX-License-Identifier: Apache-2.0
"""The process: starts llama-server, the proxy in front of it, and ends with it."""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any
from urllib.parse import urlsplit

from .._blocks import Guarded
from ..client import Client
from ._namespace import namespace
from ._proxy import FACTS, Proxy, asker
from ._slots import Slots
from ._store import Store

STOP = 30.0           # Seconds to save what is not saved, and for llama-server to end.
OURS = ("--host", "--port", "--slot-save-path")
PREFIX = "spillway-slots-"
PATH_MAX = 107        # Bytes of a socket's path.
_PR_SET_PDEATHSIG = 1

USAGE = "python3 -m spillway.llama_slots [OPTIONS] -- llama-server -m MODEL [ITS OPTIONS]"


def say(text: str) -> None:
    print(f"llama-slots: {text}", file=sys.stderr, flush=True)


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="spillway.llama_slots", usage=USAGE,
        description="Runs llama-server with its contexts kept in a running spillwayd: restored "
        "before a request by the longest prefix of its prompt, and saved after it.")
    parser.add_argument("--listen", default="127.0.0.1:8080", metavar="HOST:PORT",
                        help="where clients find it [127.0.0.1:8080]")
    parser.add_argument("--url", default=os.environ.get("SPILLWAY_URL", "redis://127.0.0.1:7379"),
                        help="the spillwayd [$SPILLWAY_URL, redis://127.0.0.1:7379]")
    parser.add_argument("--timeout", type=seconds, default=5.0, metavar="SECONDS",
                        help="until spillwayd counts as gone [5]")
    parser.add_argument("--wait", type=seconds, default=10.0, metavar="SECONDS",
                        help="for one step of our help, at most; then a prompt is computed [10]")
    parser.add_argument("--save-after", type=seconds, default=1.0, metavar="SECONDS",
                        help="a slot that has been idle so long is saved [1]")
    parser.add_argument("--min-tokens", type=whole, default=256, metavar="N",
                        help="neither saves nor restores less [256]")
    parser.add_argument("--folder", metavar="DIR",
                        help="for slot files, each as long as a state travels [/dev/shm]")
    parser.add_argument("--model-id", metavar="NAME",
                        help="a name besides; states of another name are never restored")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    found = parser.parse_args(words)
    found.command = found.command[1:] if found.command[:1] == ["--"] else found.command
    if not found.command:
        parser.error("behind -- stands llama-server with its options")
    for word in found.command[1:]:
        if word.partition("=")[0] in OURS:
            parser.error(f"{word} is given to llama-server by this program; clients connect to "
                         "--listen")
    found.address = address(parser, found.listen)
    return found


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError("it must be above 0, and up to 86400")
    return value


def whole(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1 << 30:
        raise argparse.ArgumentTypeError("it must be from 1 to 1073741824")
    return value


def address(parser: argparse.ArgumentParser, text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None:
        parser.error(f"--listen {text}: 127.0.0.1:8080 is right here")
    return host, port


class Folder:
    """A folder of our own for slot files and llama-server's socket. Removed at the end; what a
    process that was killed has left is removed by the next.
    """

    def __init__(self, base: str | None):
        if base is None:
            base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
        self._sweep(base)
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=base)
        self.socket = os.path.join(self.path, "s.sock")
        if len(self.socket.encode()) > PATH_MAX:
            shutil.rmtree(self.path)
            raise OSError(f"--folder {base}: its name is too long for a socket in it")
        self._lock = self._locked(self.path)

    @staticmethod
    def _locked(path: str) -> int | None:
        """A lock that ends with its process; None: another holds it."""
        lock = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return None
        return lock

    def _sweep(self, base: str) -> None:
        for name in os.listdir(base):
            path = os.path.join(base, name)
            # One without a lock file is being made.
            if not name.startswith(PREFIX) or not os.path.exists(os.path.join(path, "lock")):
                continue
            try:
                lock = self._locked(path)
            except OSError:  # Another user's.
                continue
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def start_server(command: list[str], folder: Folder) -> subprocess.Popen[bytes]:
    """llama-server on a socket of ours. It gets SIGTERM if this process is killed."""
    libc = ctypes.CDLL(None, use_errno=True)

    def with_us() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return subprocess.Popen(
        [*command, "--host", folder.socket, "--slot-save-path", folder.path + "/"],
        stdin=subprocess.DEVNULL, preexec_fn=with_us)


def stores(space: str, url: str, timeout: float) -> tuple[Guarded, Guarded]:
    """One for requests, one for the thread that stores, so that neither waits for the other."""
    def opener() -> Any:
        return Store(space, Client(url, timeout=timeout,
                                   password=os.environ.get("SPILLWAY_PASSWORD") or None))
    return (Guarded(opener, "llama-slots", per_thread=False),
            Guarded(opener, "llama-slots", per_thread=False))


def main(words: list[str]) -> int:
    options = arguments(words)
    try:
        space = namespace(options.command, dict(os.environ), options.model_id)
        folder = Folder(options.folder)
    except OSError as error:
        say(str(error))
        return 2
    reads, writes = stores(space, options.url, options.timeout)
    slots = Slots(asker(folder.socket), reads, writes, folder.path, options.min_tokens,
                  options.wait, options.save_after)
    try:
        proxy = Proxy(options.address, folder.socket, slots, options.wait)
    except OSError as error:
        say(f"--listen {options.listen}: {error.strerror}")
        folder.remove()
        return 2
    try:
        return run(options, folder, proxy, slots, space)
    finally:
        proxy.server_close()
        reads.close()
        writes.close()
        folder.remove()


def run(options: argparse.Namespace, folder: Folder, proxy: Proxy, slots: Slots,
        space: str) -> int:
    """Until llama-server ends, or a signal says so. Its exit status, or 0."""
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    try:
        server = start_server(options.command, folder)
    except OSError as error:
        say(f"{options.command[0]}: {error.strerror}")
        return 2
    ended = threading.Thread(target=lambda: (server.wait(), asked.set()), daemon=True)
    ended.start()
    threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.1},
                     daemon=True).start()
    host, port = proxy.server_address[:2]
    say(f"clients connect to http://{host}:{port}; states are in namespace {space} of "
        f"{urlsplit(options.url).hostname or 'spillwayd'}; GET {FACTS} has counts")
    while not asked.wait(3600):
        pass
    if server.poll() is None:
        proxy.shutdown()
        slots.stop(STOP)
        server.terminate()
        try:
            server.wait(STOP)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        return 0
    say(f"llama-server has ended with {server.returncode}")
    return server.returncode if server.returncode >= 0 else 128 - server.returncode
