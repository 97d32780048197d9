"""SpillwayConnector: Spillway as an L2 store of LMCache, by its ``native_plugin`` adapter.

  lmcache server --l2-adapter '{"type": "native_plugin", "module_path": "spillway.lmcache",
    "class_name": "SpillwayConnector", "adapter_params": {"capacity": "32GiB"}}'

LMCache wants six methods and an eventfd, and no base class; nothing of it is imported. Parameters
are settings of ``spillway.Cache`` (or ``config``, a TOML file). Leave ``max_capacity_gb`` at 0:
Spillway evicts by its own policy.
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_size_t
from typing import Any, Callable

from . import _native as native
from ._cache import Cache
from ._operations import fill_get, fill_put, put_options
from ._values import Value, key_bytes, sink_of, value_of
from .errors import InvalidArgument

lib = native.lib
_BATCH = 64
Completion = "tuple[int, bool, str, list[bool] | None]"


class _Batch:
    """Operations under way, and all they point to."""

    __slots__ = ("operations", "count", "keep", "per_key", "known")

    def __init__(self, count: int, per_key: bool):
        self.operations = (native.Operation * max(count, 1))()
        self.count = count
        self.keep: list[Any] = []
        self.per_key = per_key  # Whether each key has a flag of its own.
        self.known: list[bool] | None = None  # The answer, where it was known at once.

    def result(self, number: int) -> Any:
        if self.known is not None:
            return number, True, "", self.known
        done = self.operations[:self.count]
        errors = [operation for operation in done if operation.code]
        # A refused write is a write that is not there; a cache may forget.
        serious = [operation for operation in errors if operation.code not in (2, 3)]
        words = serious[0].message.decode("utf-8", "replace") if serious else ""
        flags = [not operation.code and bool(operation.found) for operation in done]
        return number, not serious, words, flags if self.per_key else None


class SpillwayConnector:
    """The six methods. Buffers belong to the caller and must stay until their completion."""

    def __init__(self, **settings: Any):
        self._cache = Cache(**settings)
        with self._cache._use as cache:
            self._fd = lib.spillway_cache_fd(cache)
        self._lock = threading.Lock()
        self._batches: dict[int, _Batch] = {}  # Guarded by _lock, as _next.
        self._next = 0
        self._completions = (native.Completion * _BATCH)()

    def event_fd(self) -> int:
        """Readable while completions wait."""
        return self._fd

    # --- submit; each gives a number, found again in a completion ---

    def submit_batch_get(self, keys: list[str], views: list[memoryview]) -> int:
        """Fills the views; a key that is missing leaves its view as it is."""
        def fill(operation: native.Operation, key: bytes, sink: Value) -> None:
            fill_get(operation, key, sink, 0, native.HOST, 0, None)
        return self._submit_views(keys, views, sink_of, fill, per_key=True)

    def submit_batch_set(self, keys: list[str], views: list[memoryview]) -> int:
        """Stores the views. What is refused for pressure counts as stored and forgotten."""
        options = put_options(0, None, None, None, None, None, None)

        def fill(operation: native.Operation, key: bytes, value: Value) -> None:
            fill_put(operation, key, value, options, None)
        return self._submit_views(keys, views, value_of, fill, per_key=False)

    def submit_batch_exists(self, keys: list[str]) -> int:
        """Which are there."""
        batch = _Batch(0, True)
        batch.known = self._cache.contains_many(keys)
        return self._submit(batch)

    def submit_batch_delete(self, keys: list[str]) -> int:
        """Removes them; the flags say which were there."""
        batch = _Batch(len(keys), True)
        for at, key in enumerate(keys):
            name = key_bytes(key)
            batch.keep.append(name)
            operation = batch.operations[at]
            operation.size = ctypes.sizeof(native.Operation)
            operation.kind, operation.key = native.ERASE, native.view(name)
        return self._submit(batch)

    def _submit_views(self, keys: list[str], views: list[Any], read: Callable[[Any], Value],
                      fill: Callable[..., None], per_key: bool) -> int:
        if len(keys) != len(views):
            raise InvalidArgument(f"{len(keys)} keys and {len(views)} views: as many are needed")
        batch = _Batch(len(keys), per_key)
        for at, (key, view) in enumerate(zip(keys, views)):
            name, value = key_bytes(key), read(view)
            batch.keep.append((name, value))
            fill(batch.operations[at], name, value)
        return self._submit(batch)

    def _submit(self, batch: _Batch) -> int:
        with self._lock:
            self._next += 1
            number = self._next
            self._batches[number] = batch
        try:
            with self._cache._use as cache:
                native.check(lib.spillway_cache_submit_away(
                    cache, batch.operations if batch.count else None, batch.count, -1, number))
        except BaseException:
            with self._lock:
                del self._batches[number]
            raise
        return number

    # --- what has ended ---

    def drain_completions(self) -> list[Any]:
        """(number, ok, error, flags per key or None) of all that have ended. Does not wait."""
        results = []
        count = c_size_t(_BATCH)
        with self._lock:
            while count.value == _BATCH:
                with self._cache._use as cache:
                    native.check(lib.spillway_cache_poll(cache, self._completions, _BATCH, 0,
                                                         byref(count)))
                for at in range(count.value):
                    number = self._completions[at].tag
                    results.append(self._batches.pop(number).result(number))
        return results

    def close(self) -> None:
        """Waits for what is under way, then closes. May be repeated."""
        self._cache.close()
        with self._lock:
            self._batches.clear()
