# SPDX-License-Identifier: Apache-2.0
"""AsyncCache: the same cache for asyncio.

Calls use no threads: what is in memory is answered at once; everything else is submitted, and an
eventfd in the loop announces its end. When very many calls come in one turn of the loop, those
beyond a millisecond's worth are spread over the next turns, so that other tasks run in between. A
cancelled call leaves nothing behind: its batch ends, and its lease is released.
"""

from __future__ import annotations

import asyncio
import ctypes
import time
from collections import deque
from ctypes import byref, c_size_t
from datetime import timedelta
from typing import Any, Callable, Iterable

from . import _native as native
from ._cache import Cache
from ._lease import Lease
from ._operations import fill_get, fill_put, place_code, put_options, wait_code
from ._values import hint_code, key_bytes, milliseconds, sink_of, token_count, value_of
from .errors import NOT_TAKEN, Closed, NotResident, SpillwayError

lib = native.lib
_BATCH = 32  # Completions handled before the loop gets its turn again.
_TURN = 0.001  # Seconds of calls handled in one turn of the loop.
_WAKE = 8  # Delayed calls resumed in each later turn.


class _Flight:
    """One submitted operation and everything it points to, until it has been polled."""

    __slots__ = ("operation", "keep", "future", "land")

    def __init__(self, operation: native.Operation, keep: Any, future: asyncio.Future[Any],
                 land: Callable[[native.Operation], Any]):
        self.operation = operation
        self.keep = keep
        self.future = future
        self.land = land

    def end(self) -> None:
        operation, future = self.operation, self.future
        if future.done():  # Cancelled, or its loop is closed.
            if operation.lease.handle:
                lib.spillway_lease_release(byref(operation.lease))
            return
        try:
            result = self.land(operation)
        except SpillwayError as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def _land_lease(operation: native.Operation) -> Lease | None:
    native.check_operation(operation)
    if not operation.lease.handle:
        return None
    return Lease(native.LeaseStruct.from_buffer_copy(operation.lease))


def _land_into(operation: native.Operation) -> int | None:
    native.check_operation(operation)
    return operation.bytes if operation.found else None


def _land_found(operation: native.Operation) -> bool:
    native.check_operation(operation)
    return bool(operation.found)


class AsyncCache:
    """``await cache.set(key, value, tokens=n)``, ``await cache.get(key)``; keywords as for
    ``Cache``.

    Belongs to one running loop at a time. ``async with`` closes it. ``sync`` is the ``Cache``
    underneath, for calls that never wait.
    """

    def __init__(self, **settings: Any):
        self.sync = Cache(**settings)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fd = -1
        self._flights: dict[int, _Flight] = {}
        self._tag = 0
        self._completions = (native.Completion * _BATCH)()
        self._turn_began: float | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    # --- life ---

    async def start(self) -> None:
        """Begins pressure sampling (``Cache`` does that when it is opened)."""
        self.sync.start()

    async def stop(self) -> None:
        """Ends it; entries stay."""
        await asyncio.get_running_loop().run_in_executor(None, self.sync.stop)

    async def close(self) -> None:
        """Waits for operations in progress, then closes."""
        while self._waiting:  # They came first; some of them are resumed each turn.
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        flying = [flight.future for flight in self._flights.values() if not flight.future.done()]
        if flying:
            await asyncio.wait(flying, timeout=60)
        self._leave_loop()
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        try:
            self.sync.close()
        finally:
            # The library has ended all of them; they are not polled any more.
            for flight in self._flights.values():
                if flight.operation.lease.handle:
                    lib.spillway_lease_release(byref(flight.operation.lease))
            self._flights.clear()

    async def __aenter__(self) -> AsyncCache:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self.sync).replace("Cache", "AsyncCache", 1)

    # --- the loop ---

    def _join_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return loop
        if self._loop is not None and not self._loop.is_closed() and self._flights:
            raise Closed("the cache is in use by another event loop; open one for each")
        self._leave_loop()
        self._waiting.clear()  # Their loop is closed.
        self._turn_began = None
        with self.sync._use as cache:
            self._fd = lib.spillway_cache_fd(cache)
        loop.add_reader(self._fd, self._ready)
        self._loop = loop
        return loop

    def _leave_loop(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None

    def _ready(self) -> None:
        count = c_size_t()
        try:
            with self.sync._use as cache:
                native.check(lib.spillway_cache_poll(cache, self._completions, _BATCH, 0,
                                                     byref(count)))
        except Closed:
            return self._leave_loop()
        for at in range(count.value):
            self._flights.pop(self._completions[at].tag).end()

    async def _turn(self) -> None:
        """Returns when this call may proceed: at once, unless many came before it in this turn."""
        loop = self._join_loop()
        now = time.perf_counter()
        if self._turn_began is None:
            self._turn_began = now
            loop.call_soon(self._next_turn)
        if now - self._turn_began < _TURN and not self._waiting:
            return
        mine = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _next_turn(self) -> None:
        self._turn_began = None
        woken = 0
        while self._waiting and woken < _WAKE:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                woken += 1
        if self._waiting and self._loop is not None:
            self._loop.call_soon(self._next_turn)

    def _submit(self, operation: native.Operation, keep: Any,
                land: Callable[[native.Operation], Any]) -> asyncio.Future[Any]:
        loop = self._join_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._tag += 1
        tag = self._tag
        self._flights[tag] = _Flight(operation, keep, future, land)
        try:
            with self.sync._use as cache:
                native.check(lib.spillway_cache_submit_away(cache, byref(operation), 1, -1, tag))
        except SpillwayError:
            del self._flights[tag]
            raise
        return future

    # --- one key ---

    async def set(self, key: str | bytes, value: Any, tokens: int | None = None, *,
                  token_count: int | None = None, agent: str | None = None,
                  parent: str | bytes | None = None, meta: bytes | None = None,
                  ttl: float | timedelta | None = None, hint: str | None = None,
                  eta: float | timedelta | None = None, step: str | None = None,
                  recompute: float | timedelta | None = None, strict: bool = False) -> bool:
        """As ``Cache.set``. The value must not change until this returns."""
        await self._turn()
        name, source = key_bytes(key), value_of(value)
        options = put_options(_tokens(tokens, token_count), agent, parent, meta, ttl, hint, eta,
                              step, recompute)
        operation = native.Operation()
        fill_put(operation, name, source, options, None)

        def land(done: native.Operation) -> bool:
            try:
                native.check_operation(done)
            except NOT_TAKEN:
                if strict:
                    raise
                return False
            return True

        return await self._submit(operation, (name, source, options), land)

    async def get(self, key: str | bytes, *, into: Any = None,
                  wait: float | timedelta | None = None, hint: str | None = None,
                  eta: float | timedelta | None = None, step: str | None = None) -> Any:
        """As ``Cache.get``: a read-only memoryview that keeps its lease, or None."""
        if into is not None:
            await self._turn()
            name, sink = key_bytes(key), sink_of(into)
            waits_for = b"" if step is None else key_bytes(step, "step")
            operation = native.Operation()
            fill_get(operation, name, sink, wait_code(wait), native.HOST, hint_code(hint), None,
                     milliseconds(eta, "eta"), waits_for)
            return await self._submit(operation, (name, sink, waits_for), _land_into)
        lease = await self.lease(key, wait=wait, hint=hint, eta=eta, step=step)
        return None if lease is None else lease.view

    async def lease(self, key: str | bytes, *, where: str = "host",
                    wait: float | timedelta | None = None, hint: str | None = None,
                    eta: float | timedelta | None = None, step: str | None = None
                    ) -> Lease | None:
        """As ``Cache.lease``."""
        await self._turn()
        try:
            return self.sync.lease(key, where=where, wait=0, hint=hint, eta=eta, step=step)
        except NotResident:
            if wait == 0:
                raise
        name = key_bytes(key)
        waits_for = b"" if step is None else key_bytes(step, "step")
        operation = native.Operation()
        fill_get(operation, name, None, wait_code(wait), place_code(where), hint_code(hint), None,
                 milliseconds(eta, "eta"), waits_for)
        return await self._submit(operation, (name, waits_for), _land_lease)

    async def delete(self, key: str | bytes) -> bool:
        """Removes the key. False: it was not present."""
        await self._turn()
        name = key_bytes(key)
        operation = native.Operation(size=ctypes.sizeof(native.Operation), kind=native.ERASE,
                                     key=native.view(name))
        return await self._submit(operation, name, _land_found)

    async def touch(self, key: str | bytes, **what_is_known: Any) -> bool:
        """As ``Cache.touch``."""
        return self.sync.touch(key, **what_is_known)

    async def contains(self, key: str | bytes) -> bool:
        """Whether the key is present. Not counted as a use."""
        return self.sync.contains(key)

    async def clear(self) -> None:
        """Removes all entries from all tiers."""
        await asyncio.get_running_loop().run_in_executor(None, self.sync.clear)

    # --- many keys ---

    async def get_many(self, keys: Iterable[str | bytes]) -> list[Lease | None]:
        """A lease for each key; None where one is missing."""
        return list(await asyncio.gather(*(self.lease(key) for key in keys)))

    async def match(self, keys: Iterable[str | bytes]) -> int:
        """How many keys match, from the first on, as a chain of prefixes."""
        return self.sync.match(keys)

    async def prefetch(self, keys: Iterable[str | bytes]) -> int:
        """Starts to copy these keys to the device; returns how many are there or in flight."""
        return self.sync.prefetch(keys)

    # --- state, as in Cache ---

    @property
    def size(self) -> int:
        """Number of live entries."""
        return self.sync.size

    @property
    def total_tokens(self) -> int:
        """Tokens of all live entries."""
        return self.sync.total_tokens

    @property
    def mode(self) -> Any:
        """The level, or WORKFLOW_AWARE."""
        return self.sync.mode

    @property
    def is_blocked(self) -> bool:
        """Whether a set would be refused for pressure now."""
        return self.sync.is_blocked

    @property
    def step_graph(self) -> Any:
        """As ``Cache.step_graph``."""
        return self.sync.step_graph

    @step_graph.setter
    def step_graph(self, graph: Any) -> None:
        self.sync.step_graph = graph

    def stats(self) -> dict[str, Any]:
        """All counters."""
        return self.sync.stats()

    def explain(self, key: str | bytes) -> str:
        """Explains where a key is, why it was evicted, and what would bring it back."""
        return self.sync.explain(key)


_tokens = token_count
