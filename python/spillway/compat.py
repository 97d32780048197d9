# SPDX-License-Identifier: Apache-2.0
"""VRAMAwareCache: the small cache that Spillway grew from, with its names, on this engine.

>>> from spillway.compat import VRAMAwareCache, EvictionMode
>>> cache = VRAMAwareCache(max_token_budget=50_000_000)
>>> await cache.start()
>>> await cache.set("agent1", context_entry, token_count=500)
>>> entry = await cache.get("agent1")
>>> await cache.stop()

Bytes, tensors and nested structures of them are stored in the tiers and come back equal. Any other
object stays in this process by reference: it counts its tokens and follows the modes, but is never
offloaded. Nothing is pickled.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from . import _nest as nest
from ._aio import AsyncCache
from ._values import whole
from ._words import Mode as EvictionMode
from .errors import NOT_TAKEN, KeyTypeError

__all__ = ["EvictionMode", "VRAMAwareCache"]

_STUB = b"object"  # The meta blob of an entry that stands for an object in this process.


def _torch_module() -> Any:
    """spillway.torch, if torch is imported already: only then can there be tensors."""
    if "torch" not in sys.modules:
        return None
    from . import torch as module
    return module


class VRAMAwareCache:
    """``set`` returns False if the cache refuses (EMERGENCY, or the budget is used up).

    ``step_graph`` may be any object with ``get_eviction_priority_order()``; while the cache is
    started it is called every ``VRAM_CHECK_INTERVAL`` seconds, and with every set. Further keywords
    are settings of ``spillway.Cache``.
    """

    VRAM_CHECK_INTERVAL = 2.0

    def __init__(self, max_token_budget: int = 50_000_000, step_graph: Any = None,
                 **settings: Any):
        budget = whole(max_token_budget, "max_token_budget", 1)
        self._cache = AsyncCache(token_budget=budget, start=False, **settings)
        self._objects: dict[str, Any] = {}
        self._graph = step_graph
        self._task: asyncio.Task[None] | None = None
        if step_graph is not None:
            self._cache.step_graph = step_graph

    # --- life ---

    async def start(self) -> None:
        """Begins pressure sampling. May be repeated."""
        await self._cache.start()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._tend())

    async def stop(self) -> None:
        """Ends it; entries stay."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._cache.stop()

    async def close(self) -> None:
        """Closes the cache and frees everything (so does its last reference)."""
        await self.stop()
        self._objects.clear()
        await self._cache.close()

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(self.VRAM_CHECK_INTERVAL)
            self._cache.sync.refresh_order()
            self._drop_gone()

    def _drop_gone(self) -> None:
        """Drops objects whose entry was evicted."""
        keys = list(self._objects)
        for key, there in zip(keys, self._cache.sync.contains_many(keys)):
            if not there:
                del self._objects[key]

    # --- keys ---

    async def set(self, key: str, value: Any, token_count: int) -> bool:
        """True if stored, False if refused."""
        if not isinstance(key, str):
            raise KeyTypeError(f"key is {key!r}, a {type(key).__name__}: it must be str")
        if self._graph is not None:
            self._cache.sync.refresh_order()
        try:
            return await self._set(key, value, token_count)
        except NOT_TAKEN:
            return False

    async def _set(self, key: str, value: Any, tokens: int) -> bool:
        travels = self._travels(value)
        if travels is None:
            stored = await self._cache.set(key, b"", tokens, meta=_STUB)
            if stored:
                self._objects[key] = value
            return stored
        description, leaves, size = travels
        if any(leaf.facts["k"] == "tensor" for leaf in leaves):
            stored = _torch_module().put(self._cache.sync, key, value, tokens=tokens)
        else:
            packed = bytearray(size)
            for leaf in leaves:
                packed[leaf.offset:leaf.offset + leaf.bytes] = leaf.value
            stored = await self._cache.set(key, packed, tokens, meta=nest.pack_meta(description))
        if stored:
            self._objects.pop(key, None)
        return stored

    def _travels(self, value: Any) -> Any:
        """The description of a nested structure. None: the value stays here, by reference."""
        module = _torch_module()
        leaf_of = nest.bytes_leaf if module is None else module.leaf_of
        try:
            description = nest.describe(value, leaf_of)
        except (nest.NotANest, RecursionError):
            return None
        return description if description[1] else None

    async def get(self, key: str) -> Any:
        """The value, or None. Counts as a use."""
        lease = await self._cache.lease(key)
        if lease is None:
            self._objects.pop(key, None)
            return None
        with lease:
            meta = lease.meta
            if meta == _STUB:
                return self._objects.get(key)
            description = nest.unpack_meta(meta)
            if description is None:
                return bytes(lease.view)
            module = _torch_module()
            if module is not None:
                return module.unpack(description, lease.view)
            return nest.restore(description, lambda facts: nest.bytes_of(lease.view, facts))

    async def delete(self, key: str) -> bool:
        """Removes the key. False: it was not present."""
        self._objects.pop(key, None)
        return await self._cache.delete(key)

    async def clear(self) -> None:
        """Removes all entries."""
        self._objects.clear()
        await self._cache.clear()

    # --- state ---

    @property
    def size(self) -> int:
        """Number of entries."""
        return self._cache.size

    @property
    def total_tokens(self) -> int:
        """Tokens of all entries."""
        return self._cache.total_tokens

    @property
    def mode(self) -> EvictionMode:
        """The mode in force."""
        return self._cache.mode

    @property
    def is_blocked(self) -> bool:
        """Whether a set would be refused for pressure now."""
        return self._cache.is_blocked

    @property
    def step_graph(self) -> Any:
        """The step graph it was made with."""
        return self._graph
