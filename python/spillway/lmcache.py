# SPDX-License-Identifier: Apache-2.0
"""SpillwayConnector: Spillway as an L2 store of LMCache, by its ``native_plugin`` adapter.

  lmcache server --l2-adapter '{"type": "native_plugin", "module_path": "spillway.lmcache",
    "class_name": "SpillwayConnector", "adapter_params": {"capacity": "32GiB"}}'

LMCache requires six methods and an eventfd, and no base class; nothing of it is imported.
Parameters are settings of ``spillway.Cache`` (or ``config``, a TOML file), and ``chunk_tokens``.
Leave ``max_capacity_gb`` at 0: Spillway evicts by its own policy.

LMCache hands over keys and bytes only. The policy gets more from these: each chunk counts
``chunk_tokens`` tokens; the chunks of one lookup or store are neighbours of one prompt, so that each
continues the one before it; and a key's ``cache_salt``, if it has one, is its agent.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from ctypes import byref, c_size_t
from typing import Any, Callable

from . import _native as native
from ._cache import Cache
from ._operations import fill_get, fill_put, put_options
from ._values import TOKENS_MAX, Value, key_bytes, sink_of, value_of, whole
from .errors import NOT_TAKEN, InvalidArgument, from_code

lib = native.lib
_BATCH = 64
Completion = "tuple[int, bool, str, list[bool] | None]"


class _Chains:
    """Which chunk a chunk continues, learned from the order in which keys are named.

    LMCache names a prompt's chunks from its beginning on; those of different ranks and groups may
    take turns. The most recent ``most`` keys are known.
    """

    def __init__(self, most: int = 1 << 16):
        self._parents: OrderedDict[str, str] = OrderedDict()
        self._most = most

    def learn(self, keys: list[str]) -> None:
        """Keys of one call, in their order."""
        last: dict[tuple[str, ...], str] = {}
        for key in keys:
            if not isinstance(key, str):
                continue
            family = self.family(key)
            before = last.get(family)
            if before is not None and before != key:
                self._parents[key] = before
                self._parents.move_to_end(key)
            last[family] = key
        while len(self._parents) > self._most:
            self._parents.popitem(last=False)

    def parent(self, key: str) -> str | None:
        return self._parents.get(key)

    @staticmethod
    def family(key: str) -> tuple[str, ...]:
        """The key's fields without its hash: model, rank, group and salt."""
        fields = key.split("@")
        return (*fields[:3], *fields[4:])

    @staticmethod
    def salt(key: str) -> str | None:
        fields = key.split("@")
        return fields[4] if len(fields) == 5 and fields[4] else None


class _Batch:
    """Operations in progress, and everything they point to."""

    __slots__ = ("operations", "count", "keep", "per_key", "known")

    def __init__(self, count: int, per_key: bool):
        self.operations = (native.Operation * max(count, 1))()
        self.count = count
        self.keep: list[Any] = []
        self.per_key = per_key  # Whether the completion has a flag for each key.
        self.known: list[bool] | None = None  # The answer, if it was known at once.

    def result(self, number: int) -> Any:
        if self.known is not None:
            return number, True, "", self.known
        done = self.operations[:self.count]
        errors = [operation for operation in done if operation.code]
        # A refused write counts as written and evicted: a cache may forget.
        serious = [operation for operation in errors
                   if not isinstance(from_code(operation.code, ""), NOT_TAKEN)]
        words = serious[0].message.decode("utf-8", "replace") if serious else ""
        flags = [not operation.code and bool(operation.found) for operation in done]
        return number, not serious, words, flags if self.per_key else None


class SpillwayConnector:
    """The six methods. Buffers belong to the caller and must stay until their completion.

    ``chunk_tokens`` is LMCache's own chunk size.
    """

    def __init__(self, *, chunk_tokens: int = 256, **settings: Any):
        self._tokens = whole(chunk_tokens, "chunk_tokens", 0, TOKENS_MAX)
        self._chains = _Chains()  # Guarded by _lock.
        self._cache = Cache(**settings)
        with self._cache._use as cache:
            self._fd = lib.spillway_cache_fd(cache)
        self._lock = threading.Lock()
        self._batches: dict[int, _Batch] = {}  # Guarded by _lock, like _next.
        self._next = 0
        self._completions = (native.Completion * _BATCH)()

    def event_fd(self) -> int:
        """Readable while completions are waiting."""
        return self._fd

    # --- submit: each returns a number that its completion repeats ---

    def submit_batch_get(self, keys: list[str], views: list[memoryview]) -> int:
        """Fills the views. The view of a missing key is not changed."""
        def fill(operation: native.Operation, key: bytes, sink: Value) -> None:
            fill_get(operation, key, sink, 0, native.HOST, 0, None)
        return self._submit_views(keys, views, sink_of, fill, per_key=True)

    def submit_batch_set(self, keys: list[str], views: list[memoryview]) -> int:
        """Stores the views. A set refused for pressure counts as stored and evicted."""
        with self._lock:
            self._chains.learn(keys)
            parents = {key: self._chains.parent(key) for key in keys if isinstance(key, str)}
        kept = []

        def fill(operation: native.Operation, key: bytes, value: Value) -> None:
            name = keys[len(kept)]
            options = put_options(self._tokens, self._chains.salt(str(name)),
                                  parents.get(name), None, None, None, None)
            kept.append(options)
            fill_put(operation, key, value, options, None)
        return self._submit_views(keys, views, value_of, fill, per_key=False, keep=kept)

    def submit_batch_exists(self, keys: list[str]) -> int:
        """Which keys are present."""
        batch = _Batch(0, True)
        with self._lock:
            self._chains.learn(keys)
        batch.known = self._cache.contains_many(keys)
        return self._submit(batch)

    def submit_batch_delete(self, keys: list[str]) -> int:
        """Removes the keys; the flags tell which were present."""
        batch = _Batch(len(keys), True)
        for at, key in enumerate(keys):
            name = key_bytes(key)
            batch.keep.append(name)
            operation = batch.operations[at]
            operation.size = ctypes.sizeof(native.Operation)
            operation.kind, operation.key = native.ERASE, native.view(name)
        return self._submit(batch)

    def _submit_views(self, keys: list[str], views: list[Any], read: Callable[[Any], Value],
                      fill: Callable[..., None], per_key: bool, keep: Any = None) -> int:
        if len(keys) != len(views):
            raise InvalidArgument(f"{len(keys)} keys and {len(views)} views: as many are needed")
        batch = _Batch(len(keys), per_key)
        batch.keep.append(keep)
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

    # --- completions ---

    def drain_completions(self) -> list[Any]:
        """(number, ok, error, flags per key or None) of all ended batches. Does not wait."""
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
        """Waits for operations in progress, then closes. May be repeated."""
        self._cache.close()
        with self._lock:
            self._batches.clear()
