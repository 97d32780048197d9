# SPDX-License-Identifier: Apache-2.0
"""Blocks of an engine's KV cache by key: many at once, from and to memory of the engine.

``Local`` is a cache of this process, ``Daemon`` a running spillwayd; both have the same calls. A
block is a list of fragments, (address, bytes) of host memory; the blocks of one call have equally
many and are equally large, and the options of one write differ only in the parent. The caller keeps
the memory alive until a call returns. ``Guarded`` wraps either for integrations: a fault of the
cache never reaches the engine. It is counted, the first one is a warning, and a store that can't be
reached is not asked again for a second.
"""

from __future__ import annotations

import ctypes
import threading
import time
import warnings
from typing import Any, Callable, Iterable, Sequence

from ._values import address_of, hint_code, milliseconds
from .client import Client, _said, _Wire
from .errors import NOT_TAKEN, Closed, InvalidArgument, SpillwayError, Unavailable, from_code

BATCH_BYTES = 64 << 20  # Of one call into the library, or of one pipeline to the daemon.
BATCH_KEYS = 256
RECOVERY = 10.0  # Seconds to wait at open for the disk tier's folder to be read.
BACK_OFF = 1.0  # Seconds after a fault of the connection in which the daemon is not asked.


class Options:
    """What is known about a block that is stored."""

    __slots__ = ("tokens", "agent", "parent", "ttl", "hint", "eta", "step")

    def __init__(self, tokens: int = 0, agent: str | None = None, parent: bytes | None = None,
                 ttl: float | None = None, hint: str | None = None, eta: float | None = None,
                 step: str | None = None):
        self.tokens, self.agent, self.parent, self.ttl = tokens, agent, parent, ttl
        self.hint, self.eta, self.step = hint, eta, step


def batches(sizes: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Ranges of neighbours that go together: at most BATCH_BYTES and BATCH_KEYS each."""
    first = total = 0
    for at, size in enumerate(sizes):
        if at > first and (total + size > BATCH_BYTES or at - first >= BATCH_KEYS):
            yield first, at
            first, total = at, 0
        total += size
    if first < len(sizes):
        yield first, len(sizes)


class Local:
    """A cache of this process. Its settings are those of ``spillway.Cache``."""

    def __init__(self, **settings: Any):
        from ._cache import Cache
        self._has_disk = bool(settings.get("disk_dir"))
        self.cache = Cache(**settings)
        # Until its folder has been read, a key on disk looks like one that is missing.
        until = time.monotonic() + RECOVERY
        while self._has_disk and self.cache.stats().get("loading") and time.monotonic() < until:
            time.sleep(0.01)

    def present(self, keys: Sequence[bytes]) -> list[bool]:
        return self.cache.contains_many(keys)

    def read(self, keys: Sequence[bytes], blocks: Sequence[Any], hint: str | None = None,
             eta: float | None = None) -> list[bool]:
        """Fills the blocks; False where a key is missing or has another size."""
        if not keys:
            return []
        from ._operations import Many
        many = Many(list(keys), list(blocks))
        many.fill_reads(hint_code(hint), milliseconds(eta, "eta"))
        self.cache._run(many.operations, many.count)
        return many.found(sum(size for _, size in blocks[0]))

    def write(self, keys: Sequence[bytes], blocks: Sequence[Any],
              options: Sequence[Options]) -> list[bool]:
        """Stores the blocks; False where the cache refused one."""
        if not keys:
            return []
        from ._operations import Many, put_options
        many, said = Many(list(keys), list(blocks)), options[0]
        many.fill_writes(put_options(said.tokens, said.agent, None, None, said.ttl, said.hint,
                                     said.eta, said.step),
                         [one.parent or b"" for one in options])
        self.cache._run(many.operations, many.count)
        codes = many.codes()
        for code, operation in zip(codes, many.operations):
            # Refused for pressure is no fault: a cache may forget.
            if code and not isinstance(from_code(code, ""), NOT_TAKEN):
                raise from_code(code, operation.message.decode("utf-8", "replace"))
        return [not code for code in codes]

    def touch(self, keys: Sequence[bytes], hint: str | None, eta: float | None,
              step: str | None) -> None:
        for key in keys:
            self.cache.touch(key, hint=hint, eta=eta, step=step)

    def graph(self) -> Any:
        return self.cache.step_graph

    def stats(self) -> dict[str, Any]:
        return self.cache.stats()

    def close(self) -> None:
        """Writes down what only memory holds, if there is a disk tier, and closes."""
        if self.cache.closed:
            return
        if self._has_disk:
            try:
                self.cache.reclaim(1 << 62, within=30)
            except SpillwayError:
                pass
        self.cache.close()


class Daemon:
    """A running spillwayd. One connection: each thread has its own Daemon."""

    def __init__(self, url: str | None = None, *, socket: str | None = None,
                 password: str | None = None, timeout: float = 5.0):
        self.client = Client(url, socket=socket, password=password, timeout=timeout)

    def present(self, keys: Sequence[bytes]) -> list[bool]:
        return self.client.contains_many(keys)

    def read(self, keys: Sequence[bytes], blocks: Sequence[Any], hint: str | None = None,
             eta: float | None = None) -> list[bool]:
        found: list[bool] = []

        def ask(wire: _Wire) -> None:
            wire.sock.sendall(b"".join(
                b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key) for key in keys))
            for block in blocks:
                found.append(wire.bulk_into([memory(*one) for one in block]))

        self.client._use_wire(ask)
        if hint is not None and keys:
            self.touch([keys[-1]], hint, eta, None)
        return found

    def write(self, keys: Sequence[bytes], blocks: Sequence[Any],
              options: Sequence[Options]) -> list[bool]:
        taken: list[bool] = []

        def ask(wire: _Wire) -> None:
            for key, block, said in zip(keys, blocks, options):
                words = [b"SPILL.SET", key, None, b"TOKENS", b"%d" % said.tokens]
                if said.agent:
                    words += [b"AGENT", said.agent.encode()]
                if said.parent:
                    words += [b"PARENT", said.parent]
                if said.ttl:
                    words += [b"TTL", b"%dms" % max(1, round(said.ttl * 1000))]
                words += [word if isinstance(word, bytes) else str(word).encode()
                          for word in _said(said.hint, said.eta, said.step)]
                wire.send_scattered(words, [memory(*one) for one in block])
            for _ in keys:
                reply = wire.reply()
                if isinstance(reply, Exception) and not isinstance(reply, NOT_TAKEN):
                    faults.append(reply)
                taken.append(not isinstance(reply, Exception))

        faults: list[Exception] = []
        self.client._use_wire(ask)
        if faults:
            raise faults[0]
        return taken

    def touch(self, keys: Sequence[bytes], hint: str | None, eta: float | None,
              step: str | None) -> None:
        said = _said(hint, eta, step)
        self.client._calls([("SPILL.TOUCH", key, *said) for key in keys])

    def graph(self) -> Any:
        return self.client.step_graph

    def stats(self) -> dict[str, Any]:
        return self.client.stats()

    def close(self) -> None:
        self.client.close()


def memory(address: int, size: int) -> memoryview:
    """A view of memory that the caller owns and keeps alive."""
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


class Guarded:
    """A store that never raises and never blocks for long. Safe from any thread.

    ``opener`` makes a store, for each thread its own if ``per_thread``. Calls return what a store
    without that key would, if there is a fault. ``faults`` counts them, ``last_error`` has the
    latest; the first is a RuntimeWarning.
    """

    def __init__(self, opener: Callable[[], Any], what: str, per_thread: bool,
                 clock: Callable[[], float] = time.monotonic):
        self._opener, self._what, self._per_thread, self._clock = opener, what, per_thread, clock
        self._own = threading.local()
        self._lock = threading.Lock()
        self._shared: Any = None
        self._stores: list[Any] = []
        self._closed = False
        self._down_until = 0.0
        self._warned = False
        self.broken = False  # A fault that no later try can mend: wrong settings.
        self.faults = 0
        self.last_error: BaseException | None = None

    def _store(self) -> Any:
        if self._per_thread:
            store = getattr(self._own, "store", None)
            if store is None:
                store = self._own.store = self._keep(self._opener())
            return store
        with self._lock:
            if self._shared is None:
                self._shared = self._opener()
                self._stores.append(self._shared)
            return self._shared

    def _keep(self, store: Any) -> Any:
        with self._lock:
            self._stores.append(store)
        return store

    @property
    def ready(self) -> bool:
        """Whether the store is believed to answer."""
        return not self.broken and not self._closed and self._clock() >= self._down_until

    def fault(self, error: BaseException) -> None:
        """Counts a fault, and warns of the first."""
        with self._lock:
            self.faults += 1
            self.last_error = error
            first, self._warned = not self._warned, True
            if isinstance(error, (Unavailable, OSError)):
                self._down_until = self._clock() + BACK_OFF
            elif isinstance(error, (Closed, InvalidArgument)) and not self._stores:
                self.broken = True  # It never opened, and never will.
        if first:
            warnings.warn(f"{self._what}: {error}; it goes on without Spillway. Later faults are "
                          "counted, not reported", RuntimeWarning, stacklevel=3)

    def _call(self, name: str, instead: Any, *arguments: Any) -> Any:
        if not self.ready:
            return instead
        try:
            return getattr(self._store(), name)(*arguments)
        except Exception as error:  # Whatever it is, the engine goes on.
            self.fault(error)
            return instead

    def open(self) -> bool:
        """Opens the store now, rather than at the first call."""
        return self._call("present", None, []) is not None

    def present(self, keys: Sequence[bytes]) -> list[bool]:
        return self._call("present", [False] * len(keys), keys)

    def read(self, keys: Sequence[bytes], blocks: Sequence[Any], hint: str | None = None,
             eta: float | None = None) -> list[bool]:
        found: list[bool] = []
        for first, end in batches([sum(size for _, size in block) for block in blocks]):
            found += self._call("read", [False] * (end - first), keys[first:end],
                                blocks[first:end], hint, eta)
        return found

    def write(self, keys: Sequence[bytes], blocks: Sequence[Any],
              options: Sequence[Options]) -> list[bool]:
        taken: list[bool] = []
        for first, end in batches([sum(size for _, size in block) for block in blocks]):
            taken += self._call("write", [False] * (end - first), keys[first:end],
                                blocks[first:end], options[first:end])
        return taken

    def touch(self, keys: Sequence[bytes], hint: str | None = None, eta: float | None = None,
              step: str | None = None) -> None:
        if keys:
            self._call("touch", None, keys, hint, eta, step)

    def follow(self, document: str | None, run: str | None, step: str | None) -> None:
        """Loads a run's graph if one is given, and reports that a step has started."""
        if not self.ready:
            return
        try:
            graph = self._store().graph()
            if document:
                graph.load(document)
            if run and step:
                graph.start(run, step)
        except Exception as error:
            self.fault(error)

    def stats(self) -> dict[str, Any]:
        return self._call("stats", {})

    def close(self) -> None:
        """Closes every thread's store. May be repeated."""
        with self._lock:
            self._closed = True
            stores, self._stores = self._stores, []
        for store in stores:
            try:
                store.close()
            except Exception as error:
                self.fault(error)


def opener_of(settings: dict[str, Any], what: str) -> Guarded:
    """The store that these settings name: a daemon by ``url`` or ``socket``, else a cache of this
    process with these settings.
    """
    remote = {name: settings.pop(name) for name in ("url", "socket", "password", "timeout")
              if name in settings}
    if "url" in remote or "socket" in remote:
        extra = ", ".join(sorted(settings))

        def connect() -> Daemon:
            if extra:
                raise InvalidArgument(f"{extra}: these are settings of a cache in this process; a "
                                      "daemon has its own")
            return Daemon(**remote)
        return Guarded(connect, what, per_thread=True)

    def open_cache() -> Local:
        if remote:
            raise InvalidArgument(f"{', '.join(sorted(remote))} without url or socket")
        return Local(**settings)
    return Guarded(open_cache, what, per_thread=False)


__all__ = ["Daemon", "Guarded", "Local", "Options", "address_of", "memory", "opener_of"]
