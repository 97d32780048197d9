# SPDX-License-Identifier: Apache-2.0
"""Client: the methods of Cache, for a running spillwayd.

Uses the Redis protocol over TCP or a Unix socket; needs only the standard library. Values are
copied over the socket, so ``get`` returns a buffer of your own.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterable, Iterator
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from ._dict import DictLike
from ._values import hint_code, key_bytes, key_name, microseconds, milliseconds, token_count, whole
from ._words import Mode, Reclaimed
from .errors import Blocked, Closed, InvalidArgument, SpillwayError, Unavailable, ValueTypeError

_PIECE = 64 << 20  # Larger values are sent in pieces.
_LINE_MAX = 1 << 20
_DEPTH_MAX = 16


class _Wire:
    """One connection: sends a command, reads its reply. RESP3, with timeouts."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self.buffer = b""

    def send(self, parts: list[Any]) -> None:
        head = [f"*{len(parts)}\r\n".encode()]
        for part in parts:
            size = part.nbytes if isinstance(part, memoryview) else len(part)
            head.append(f"${size}\r\n".encode())
            if size > 65536:  # Not copied into one message.
                self.sock.sendall(b"".join(head))
                self.sock.sendall(part)
                head = [b"\r\n"]
            else:
                head += [bytes(part), b"\r\n"]
        self.sock.sendall(b"".join(head))

    def _line(self) -> bytes:
        while b"\r\n" not in self.buffer:
            if len(self.buffer) > _LINE_MAX:
                raise Unavailable("the daemon's reply is no reply of spillwayd")
            self.buffer += self._some()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _some(self) -> bytes:
        data = self.sock.recv(65536)
        if not data:
            raise Unavailable("the daemon closed the connection")
        return data

    def _blob(self, size: int) -> bytearray:
        blob = bytearray(size)
        have = min(size, len(self.buffer))
        blob[:have] = self.buffer[:have]
        self.buffer = self.buffer[have:]
        view = memoryview(blob)
        while have < size:
            got = self.sock.recv_into(view[have:])
            if not got:
                raise Unavailable("the daemon closed the connection in the middle of a value")
            have += got
        while len(self.buffer) < 2:
            self.buffer += self._some()
        self.buffer = self.buffer[2:]
        return blob

    def send_scattered(self, words: list[bytes | None], pieces: list[memoryview]) -> None:
        """Sends a command whose word None is the value, in pieces; small ones are joined."""
        total = sum(piece.nbytes for piece in pieces)
        head = b"*%d\r\n" % len(words)
        at = words.index(None)
        for word in words[:at]:
            head += b"$%d\r\n%s\r\n" % (len(word or b""), word)
        tail = b"\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word or b""), word)
                                  for word in words[at + 1:])
        self.sock.sendall(head + b"$%d\r\n" % total)
        for piece in pieces:
            self.sock.sendall(piece)
        self.sock.sendall(tail)

    def bulk_into(self, pieces: list[memoryview]) -> bool:
        """Reads one bulk string into these pieces. False: there is none, or of another size, or the
        reply is an error; it has been read all the same.
        """
        line = self._line()
        if line[:1] != b"$" or int(line[1:]) < 0:
            if line[:1] not in (b"_", b"$", b"-"):
                raise Unavailable(f"the daemon's reply begins with {line[:40]!r}")
            return False
        size = int(line[1:])
        if size != sum(piece.nbytes for piece in pieces):
            self._blob(size)
            return False
        for piece in pieces:
            have = min(piece.nbytes, len(self.buffer))
            piece[:have] = self.buffer[:have]
            self.buffer = self.buffer[have:]
            while have < piece.nbytes:
                got = self.sock.recv_into(piece[have:])
                if not got:
                    raise Unavailable("the daemon closed the connection in the middle of a value")
                have += got
        while len(self.buffer) < 2:
            self.buffer += self._some()
        self.buffer = self.buffer[2:]
        return True

    def reply(self, depth: int = 0) -> Any:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode("utf-8", "replace")
        if kind == b"-":
            return _refusal(rest.decode("utf-8", "replace"))
        if kind == b":":
            return int(rest)
        if kind == b",":
            return float(rest)
        if kind == b"#":
            return rest == b"t"
        if kind == b"_":
            return None
        size = int(rest)
        if kind == b"$" or kind == b"=":
            if size < 0:
                return None
            blob = self._blob(size)
            return blob[4:] if kind == b"=" else blob
        if depth >= _DEPTH_MAX or kind not in (b"*", b"%", b"~", b">"):
            raise Unavailable(f"the daemon's reply begins with {line[:40]!r}")
        if size < 0:
            return None
        items = [self.reply(depth + 1) for _ in range(size * 2 if kind == b"%" else size)]
        return dict(zip((_text(key) for key in items[::2]), items[1::2])) if kind == b"%" else items


def _text(reply: Any) -> Any:
    return bytes(reply).decode("utf-8", "replace") if isinstance(reply, bytearray) else reply


def _refusal(words: str) -> SpillwayError:
    if words.startswith("OOM"):
        return Blocked(f"the daemon takes nothing now: {words}")
    if words.startswith(("NOAUTH", "WRONGPASS", "NOPERM")):
        return Unavailable(words)
    return InvalidArgument(words.removeprefix("ERR "))


class Client(DictLike):
    """A running spillwayd: ``Client("redis://127.0.0.1:7379")`` or ``Client(socket=PATH)``.

    A URL is ``redis://[:PASSWORD@]HOST[:PORT][/DATABASE]`` or ``unix://[:PASSWORD@]/PATH``, its
    password percent-encoded (``urllib.parse.quote(password, safe="")``); ``password=`` takes it
    without encoding.

    The methods are those of ``Cache``. Safe from any thread, one command at a time. A broken
    connection is reopened by the next call. A forked child opens its own.
    """

    def __init__(self, url: str | None = None, *, host: str = "127.0.0.1", port: int = 7379,
                 socket: str | os.PathLike[str] | None = None,
                 password: str | bytes | None = None, timeout: float = 30.0):
        database = 0
        if url is not None:
            host, port, socket, in_url, database = _read_url(url)
            password = in_url or password
        self._address: Any = os.fspath(socket) if socket is not None else \
            (host, whole(port, "port", 1, 65535))
        self._password = None if password is None else key_bytes(password, "password")
        self._timeout, self._database = _timeout(timeout), database
        self._lock = threading.Lock()
        self._wire: _Wire | None = None
        self._pid = os.getpid()
        self._closed = False
        self._call("PING")

    def _connect(self) -> _Wire:
        try:
            if isinstance(self._address, str):
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                sock.settimeout(self._timeout)
                try:
                    sock.connect(self._address)
                except OSError:
                    sock.close()
                    raise
            else:
                sock = socket.create_connection(self._address, self._timeout)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise Unavailable(f"no spillwayd answers at {self._address}: {error}") from None
        wire = _Wire(sock)
        try:
            self._greet(wire)
        except OSError as error:
            sock.close()
            raise self._gone(error) from None
        except BaseException:
            sock.close()
            raise
        return wire

    def _gone(self, error: OSError) -> Unavailable:
        late = isinstance(error, TimeoutError)
        why = "no answer in time" if late else error
        return Unavailable(f"no spillwayd answers at {self._address}: {why}")

    def _greet(self, wire: _Wire) -> None:
        hello = [b"HELLO", b"3"]
        if self._password is not None:
            hello += [b"AUTH", b"default", self._password]
        for words in [hello] + ([[b"SELECT", b"%d" % self._database]] if self._database else []):
            try:
                wire.send(words)
                answer = wire.reply()
            except Unavailable as error:  # A process listens there but does not respond.
                raise Unavailable(f"no spillwayd answers at {self._address}: {error}") from None
            if isinstance(answer, Exception):
                raise Unavailable(f"{self._address}: {answer}")

    def _call(self, *parts: Any) -> Any:
        return self._calls([parts])[0]

    def _calls(self, commands: list[Iterable[Any]]) -> list[Any]:
        """Sends commands together on one connection; the first error is raised."""
        replies: list[Any] = []

        def ask(wire: _Wire) -> None:
            for command in commands:
                wire.send([part.encode() if isinstance(part, str) else part for part in command])
            replies.extend(wire.reply() for _ in commands)

        self._use_wire(ask)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _use_wire(self, ask: Callable[[_Wire], None]) -> None:
        """Calls `ask` with the connection, which is closed if that fails: a reply may be left in it.
        """
        if self._pid != os.getpid():  # The connection belongs to the parent process.
            self._lock, self._wire, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._closed:
                raise Closed("the client is closed")
            wire = self._wire or self._connect()
            self._wire = None  # Set again only if everything succeeds.
            try:
                ask(wire)
            except OSError as error:
                wire.sock.close()
                raise self._gone(error) from None
            except BaseException:
                wire.sock.close()
                raise
            self._wire = wire

    def close(self) -> None:
        """Closes the connection; the daemon keeps its entries. May be repeated."""
        self._closed = True
        wire, self._wire = self._wire, None
        if wire is not None and self._pid == os.getpid():
            wire.sock.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- one key ---

    def set(self, key: str | bytes, value: Any, tokens: int | None = None, *,
            token_count: int | None = None, agent: str | None = None,
            parent: str | bytes | None = None, meta: bytes | None = None,
            ttl: float | timedelta | None = None, hint: str | None = None,
            eta: float | timedelta | None = None, step: str | None = None,
            recompute: float | timedelta | None = None, strict: bool = False) -> bool:
        """Stores a buffer. False: the daemon refuses it now (``strict``: raises ``Blocked``)."""
        options: list[Any] = ["TOKENS", str(_tokens(tokens, token_count))]
        if agent is not None:
            options += ["AGENT", key_bytes(agent, "agent")]
        if parent is not None:
            options += ["PARENT", key_bytes(parent, "parent")]
        if meta is not None:
            options += ["META", meta]
        if ttl is not None:
            options += ["TTL", f"{milliseconds(ttl, 'ttl')}ms"]
        options += _said(hint, eta, step)
        if recompute is not None:
            options += ["RECOMPUTE", f"{microseconds(recompute, 'recompute')}us"]
        try:
            self._put(key_bytes(key), _host_bytes(value), options)
        except Blocked:
            if strict:
                raise
            return False
        return True

    def _put(self, key: bytes, value: memoryview, options: list[Any]) -> None:
        if value.nbytes <= _PIECE:
            self._call("SPILL.SET", key, value, *options)
            return
        pieces: list[Iterable[Any]] = [("SPILL.BEGIN", key, str(value.nbytes), *options)]
        pieces += [("SPILL.APPEND", value[at:at + _PIECE])
                   for at in range(0, value.nbytes, _PIECE)]
        self._calls([*pieces, ("SPILL.COMMIT",)])

    def get(self, key: str | bytes, *, into: Any = None, hint: str | None = None,
            eta: float | timedelta | None = None, step: str | None = None) -> Any:
        """The value as a memoryview of a copy, or None. ``into``: copies it there, returns its
        size.
        """
        reply = self._call("SPILL.GET", key_bytes(key), *_said(hint, eta, step))
        if reply is None:
            return None
        value = memoryview(reply["value"])
        if into is None:
            return value
        target = memoryview(into).cast("B")
        if target.nbytes < value.nbytes:
            raise InvalidArgument(f"into has {target.nbytes} bytes, the value {value.nbytes}")
        target[:value.nbytes] = value
        return value.nbytes

    def facts(self, key: str | bytes) -> dict[str, Any] | None:
        """tokens, generation, agent, meta and bytes of an entry, without its value; or None."""
        reply = self._call("SPILL.GET", key_bytes(key), "RANGE", "0", "0")
        if reply is None:
            return None
        return {"tokens": reply["tokens"], "generation": reply["generation"],
                "agent": _text(reply["agent"]), "meta": bytes(reply["meta"]),
                "bytes": reply["bytes"]}

    def delete(self, key: str | bytes) -> bool:
        """Removes the key. False: it was not present."""
        return self._call("DEL", key_bytes(key)) == 1

    def contains(self, key: str | bytes) -> bool:
        """Whether the key is present."""
        return self._call("EXISTS", key_bytes(key)) == 1

    def touch(self, key: str | bytes, *, hint: str | None = None,
              eta: float | timedelta | None = None, run: str | None = None,
              step: str | None = None) -> bool:
        """Counts as a use; a hint describes the next one.

        ``run`` and ``step``: that step has started. ``step`` alone: the event after which the key
        is used next.
        """
        if run is not None:
            self.step_graph.start(run, step or "")
            step = None
        return self._call("SPILL.TOUCH", key_bytes(key), *_said(hint, eta, step)) == 1

    def clear(self) -> None:
        """Removes all entries of the daemon's database."""
        self._call("FLUSHDB")

    # --- many keys ---

    def get_many(self, keys: Iterable[str | bytes]) -> list[memoryview | None]:
        """A value for each key; None where one is missing."""
        names = [key_bytes(key) for key in keys]
        replies = self._call("MGET", *names) if names else []
        return [None if reply is None else memoryview(reply) for reply in replies]

    def contains_many(self, keys: Iterable[str | bytes]) -> list[bool]:
        """For each key, whether it is present."""
        return [reply == 1 for reply in self._calls([("EXISTS", key_bytes(key)) for key in keys])]

    def match(self, keys: Iterable[str | bytes]) -> int:
        """How many keys match, from the first on, as a chain of prefixes."""
        names = [key_bytes(key) for key in keys]
        return self._call("SPILL.MATCH", *names) if names else 0

    def prefetch(self, keys: Iterable[str | bytes]) -> int:
        """Starts to copy these keys to the device; returns how many are there or in flight."""
        names = [key_bytes(key) for key in keys]
        return self._call("SPILL.PREFETCH", *names) if names else 0

    def __len__(self) -> int:
        return self._call("DBSIZE")

    # --- state ---

    def reclaim(self, bytes: int, within: float = 0.0) -> Reclaimed:
        """Frees memory at once. Never destroys a last copy."""
        reply = self._call("SPILL.RECLAIM", str(whole(bytes, "bytes")))
        return Reclaimed(reply["freed"], _text(reply["why_not_more"]))

    def stats(self) -> dict[str, Any]:
        """All counters of the daemon's cache."""
        return json.loads(bytes(self._call("SPILL.STATS", "JSON")))

    def explain(self, key: str | bytes) -> str:
        """Explains where a key is, why it was evicted, and what would bring it back."""
        return _text(self._call("SPILL.EXPLAIN", key_bytes(key)))

    def _mode(self) -> dict[str, Any]:
        return {name: _text(value) for name, value in self._call("SPILL.MODE").items()}

    @property
    def size(self) -> int:
        """Number of live entries of the daemon's cache, in all databases."""
        return self.stats()["entries"]

    @property
    def total_tokens(self) -> int:
        """Tokens of all live entries."""
        return self.stats()["tokens"]

    @property
    def mode(self) -> Mode:
        """The level, or WORKFLOW_AWARE."""
        return Mode(self._mode()["mode"])

    @property
    def level(self) -> Mode:
        """The level of pressure, without WORKFLOW_AWARE."""
        return Mode(self._mode()["level"])

    @property
    def pressure(self) -> float | None:
        """From 0 to 1; None: unknown."""
        return self._mode()["pressure"]

    @property
    def is_blocked(self) -> bool:
        """Whether a set would be refused for pressure now."""
        return bool(self._mode()["blocked"])

    @property
    def step_graph(self) -> RemoteGraph:
        """The daemon's step graph."""
        return RemoteGraph(self)


_RIGHT_URL = "redis://[:PASSWORD@]HOST[:PORT] or unix://[:PASSWORD@]/PATH is right here, with " \
             "the password percent-encoded"


def _read_url(url: str) -> tuple[str, int, str | None, bytes | None, int]:
    """Host, port, socket, password and database of a URL. No message shows the password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # The original message may contain part of the password.
        raise InvalidArgument(f"url: {_RIGHT_URL}") from None
    # Any text before an @ may be part of a password.
    shown = f"{parts.scheme}://..." if "@" in url else repr(url)
    if parts.scheme not in ("redis", "spillway", "unix") or parts.query or parts.fragment:
        raise InvalidArgument(f"url is {shown}: {_RIGHT_URL}")
    # A password need not be text; the daemon compares bytes.
    password = None if parts.password is None else unquote_to_bytes(parts.password)
    if parts.scheme == "unix":
        if host or not parts.path:
            raise InvalidArgument(f"url is {shown}: a socket has three slashes before its path, "
                                  "as in unix:///run/spillway.sock")
        return "", 7379, unquote(parts.path), password, 0
    database = parts.path.strip("/")
    if database and not (database.isascii() and database.isdigit()):
        raise InvalidArgument(f"url is {shown}: behind the port may stand the number of a "
                              "database, as in /0")
    return unquote(host or "127.0.0.1"), 7379 if port is None else whole(port, "port", 1, 65535), \
        None, password, whole(int(database or 0), "database", 0, 15)


def _timeout(seconds: Any) -> float | None:
    """The timeout for a socket; None: no limit."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or \
            not 0 < seconds <= 1e9:
        raise InvalidArgument(f"timeout is {seconds!r}: it must be seconds, above 0 and up to "
                              "1000000000, or None")
    return float(seconds)


class RemoteGraph:
    """The daemon's step graph: runs are loaded whole, then their progress is reported."""

    def __init__(self, client: Client):
        self._client = client

    def _tell(self, *words: str) -> Any:
        return self._client._call("SPILL.GRAPH", *words)

    def load(self, document: dict[str, Any] | str) -> str:
        """Loads a whole run from a document; returns its name."""
        text = document if isinstance(document, str) else json.dumps(document)
        return _text(self._tell("LOAD", text))

    def start(self, run: str, step: str) -> None:
        """The step has started."""
        self._tell("START", run, step)

    def finish(self, run: str, step: str, taken: list[str] | None = None) -> None:
        """The step is done; of exclusive edges, those to ``taken`` are followed."""
        self._tell("FINISH", run, step, *(["TAKEN", *taken] if taken is not None else []))

    def skip(self, run: str, step: str) -> None:
        """The step is skipped; later steps do not wait for it."""
        self._tell("SKIP", run, step)

    def loop(self, run: str, source: str, target: str) -> None:
        """The back edge is followed: the loop's steps run again."""
        self._tell("LOOP", run, source, target)

    def end(self, run: str, how: str = "finished") -> None:
        """The run has ended."""
        self._tell("END", run)

    def steps(self, run: str) -> dict[str, int | None]:
        """For each step, the completions before it can start; None: it will never run."""
        return self._tell("STEPS", run)

    def eviction_order(self) -> list[str | bytes]:
        """Keys, evict-first in front, by the graph's knowledge."""
        return [key_name(bytes(key)) for key in self._tell("ORDER")]

    @contextmanager
    def step(self, run: str, step: str) -> Iterator[None]:
        """Reports the step as started on entry, and as finished on exit."""
        self.start(run, step)
        yield
        self.finish(run, step)


def _said(hint: str | None, eta: float | timedelta | None, step: str | None) -> list[Any]:
    """What is known about the next use, as arguments of the daemon's commands."""
    said: list[Any] = ["HINT", hint] if hint_code(hint) else []
    if eta is not None:
        said += ["ETA", f"{milliseconds(eta, 'eta')}ms"]
    if step is not None:
        said += ["STEP", key_bytes(step, "step")]
    return said


def _host_bytes(value: Any) -> memoryview:
    if isinstance(value, str):
        raise ValueTypeError("a str is no bytes: value.encode() is right here")
    try:
        buffer = memoryview(value)
    except TypeError:
        raise ValueTypeError(
            f"a {type(value).__name__} is no buffer: what goes over a socket is bytes, a "
            "bytearray, a NumPy array ...") from None
    return memoryview(buffer.tobytes()) if not buffer.c_contiguous else buffer.cast("B") \
        if buffer.nbytes else memoryview(b"")


_tokens = token_count
