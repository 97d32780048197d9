# SPDX-License-Identifier: Apache-2.0
"""SpillwayPolicy: Spillway's eviction order for vLLM's own CPU tier.

  "kv_connector_extra_config": {"spec_name": "TieringOffloadingSpec", "cpu_bytes_to_use": N,
    "eviction_policy": "SpillwayPolicy", "cache_policy_module_path": "spillway.vllm"}

Only the order is ours: vLLM keeps the bytes. A cache in this process holds one byte under each chunk's
key, with its tokens, parent, agent and hints, so that its score (docs/reference/score.md) and step
graph rank the chunks. Chains are evicted from their end.

All calls come from vLLM's scheduler. If the cache fails, the order is that of insertion and use, as
in vLLM's LRU; the first fault is a RuntimeWarning.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any, Iterable, Sequence

from vllm.v1.kv_offload.cpu.policies.base import CachePolicy

from .. import _native as native
from .._cache import Cache
from . import _hints

_REQUESTS_MAX = 4096  # Whose chains are remembered.


class SpillwayPolicy(CachePolicy):
    """The policy; vLLM makes one for each engine."""

    def __init__(self, cache_capacity: int):
        self.cache_capacity = cache_capacity
        self.chunks: OrderedDict[bytes, Any] = OrderedDict()  # Least recently used in front.
        self._said: dict[bytes, tuple[bytes | None, _hints.Hints]] = {}  # Of chunks to come.
        self._tails: OrderedDict[str, dict[bytes, bytes]] = OrderedDict()
        # To rank all chunks takes a millisecond for every thousand, so an eighth of them is ranked at
        # once and evicted from its end; `_used` are those used since.
        self._order: list[bytes] = []
        self._used: set[bytes] = set()
        self._runs: OrderedDict[str | None, str | None] = OrderedDict()  # And their last step.
        self.faults = 0
        self._cache: Cache | None = None
        try:
            self._cache = Cache(unlimited=True, start=False, ttl="none", token_budget="none",
                                write_back_after="none", entries_max=max(1024, 2 * cache_capacity))
        except Exception as error:
            self._fault(error)

    def _fault(self, error: Exception) -> None:
        self.faults += 1
        if self.faults == 1:
            warnings.warn(f"SpillwayPolicy: {error}; the order is last use from now on",
                          RuntimeWarning, stacklevel=3)
        cache, self._cache = self._cache, None
        if cache is not None:
            try:
                cache.close()
            except Exception:  # It is not asked again either way.
                pass

    # --- chunks ---

    def get(self, key: bytes) -> Any:
        """A chunk's status, or None."""
        return self.chunks.get(key)

    def insert(self, key: bytes, chunk: Any, *rest: Any) -> None:
        """A chunk enters; from 0.33 on with its request's context."""
        self.chunks[key] = chunk
        self._used.add(key)
        parent, hints = self._said.pop(key, (None, _hints.NOTHING))
        if rest and hints is _hints.NOTHING:  # vLLM 0.33 passes the request's context.
            hints = self._hints_of(rest[0])
        if self._cache is None:
            return
        try:
            self._cache.set(key, b"\0", tokens=1, agent=hints.owner, hint=hints.hint,
                            eta=hints.eta, step=hints.waits_for,
                            parent=parent if parent in self.chunks else None)
        except Exception as error:
            self._fault(error)

    def remove(self, key: bytes) -> None:
        """A chunk whose store failed."""
        del self.chunks[key]
        self._forget([key])

    def _forget(self, keys: Iterable[bytes]) -> None:
        if self._cache is None:
            return
        try:
            for key in keys:
                self._cache.delete(key)
        except Exception as error:
            self._fault(error)

    def clear(self) -> None:
        """Forgets all chunks."""
        self.chunks.clear()
        self._said.clear()
        self._order.clear()
        self._used.clear()
        self._tails.clear()
        if self._cache is not None:
            try:
                self._cache.clear()
            except Exception as error:
                self._fault(error)

    # --- uses ---

    @staticmethod
    def _hints_of(req_context: Any) -> _hints.Hints:
        return _hints.read(getattr(req_context, "kv_transfer_params", None),
                           getattr(req_context, "kv_hints", None))

    def touch(self, keys: Iterable[bytes], req_context: Any) -> None:
        """A request uses these keys, in the order of its prompt."""
        hints = self._hints_of(req_context)
        tails = self._tails.setdefault(req_context.req_id, {})
        self._tails.move_to_end(req_context.req_id)
        if len(self._tails) > _REQUESTS_MAX:
            self._tails.popitem(last=False)
        last: dict[bytes, bytes] = {}
        keys = list(keys)
        for key in reversed(keys):  # The end of a prompt is evicted before its beginning.
            if key in self.chunks:
                self.chunks.move_to_end(key)
        self._used.update(keys)
        for key in keys:
            group = key[-4:]
            before = last.get(group, tails.get(group))
            last[group] = key
            if key not in self.chunks and len(self._said) < 4 * self.cache_capacity + 1024:
                self._said[key] = (None if before == key else before, hints)
            if key in self.chunks:
                tails[group] = key  # The furthest chunk that is here.
        tails.update((group, key) for group, key in last.items() if group not in tails)
        if self._cache is None:
            return
        try:
            for key in last.values():
                end = key if key in self.chunks else tails.get(key[-4:])
                if end in self.chunks:  # A use of a chain's end is one of all that it continues.
                    self._cache.touch(end, hint=hints.hint, eta=hints.eta, step=hints.waits_for)
            self._follow(hints)
        except Exception as error:
            self._fault(error)

    def _follow(self, hints: _hints.Hints) -> None:
        """The step graph: a run's document, and the step that asks."""
        if self._cache is None or not (hints.graph or (hints.run and hints.step)):
            return
        try:
            graph = self._cache.step_graph
            if hints.graph and hints.run not in self._runs:
                self._runs[hints.run] = None
                graph.load(hints.graph)
            if hints.run and hints.step and self._runs.get(hints.run) != hints.step:
                self._runs[hints.run] = hints.step
                graph.start(hints.run, hints.step)
        except Exception:  # A run that is over, or a document without sense: hints may be wrong.
            pass
        while len(self._runs) > _REQUESTS_MAX:
            self._runs.popitem(last=False)

    def on_store_miss(self, keys: Iterable[bytes], req_context: Any) -> None:
        """Chunks that are about to enter."""
        self.touch(keys, req_context)

    def on_request_finished(self, key_groups: Sequence[Sequence[bytes]], insertion_only_keys: Any,
                            reused_keys: Any, req_context: Any) -> None:
        """One use of all that the request read or made."""
        for keys in key_groups:
            self.touch(keys, req_context)
        self._tails.pop(req_context.req_id, None)

    # --- eviction ---

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        """The n chunks worth least; None, and no change, if fewer may be evicted."""
        if n == 0:
            return []
        if n > len(self.chunks):
            return None
        chosen: dict[bytes, Any] = {}
        if len(self._order) < n:
            self._order = self._ranked(max(n, self.cache_capacity // 8, 64) + len(protected))
            self._order.reverse()
            self._used.clear()
        later: list[bytes] = []
        while self._order and len(chosen) < n:
            key = self._order.pop()
            if key in self._used:
                continue  # Ranked before its last use; the next ranking has it again.
            self._choose(key, protected, chosen)
            if key not in chosen and key in self.chunks:
                later.append(key)
        self._order += reversed(later)
        if len(chosen) < n:  # Pinned chunks were in front; or the cache does not know a chunk.
            for key in self.chunks:
                self._choose(key, protected, chosen)
                if len(chosen) == n:
                    break
        if len(chosen) < n:
            self._order.clear()
            return None
        for key in chosen:
            del self.chunks[key]
        self._forget(chosen)
        return list(chosen.items())

    def _choose(self, key: bytes, protected: set[bytes], chosen: dict[bytes, Any]) -> None:
        chunk = self.chunks.get(key)
        if chunk is not None and chunk.ref_cnt == 0 and key not in protected:
            chosen[key] = chunk

    def _ranked(self, most: int) -> list[bytes]:
        """The first keys of the order, evict-first in front."""
        if self._cache is None:
            return []
        found: list[bytes] = []
        limit = most

        @native.KeyVisitor
        def visit(key: Any, _: Any) -> int:
            found.append(native.take_bytes(key))
            return 1 if len(found) >= limit else 0

        try:
            with self._cache._use as cache:
                native.check(native.lib.spillway_cache_eviction_order(cache, visit, None))
        except Exception as error:
            self._fault(error)
        return found

