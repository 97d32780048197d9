# SPDX-License-Identifier: Apache-2.0
"""SpillwayHiCache: Spillway as a storage backend of SGLang's HiCache.

  --enable-hierarchical-cache --hicache-mem-layout page_first
  --hicache-storage-backend dynamic --hicache-storage-backend-extra-config
    '{"backend_name": "spillway", "module_path": "spillway.sglang",
      "class_name": "SpillwayHiCache", "interface_v1": 1,
      "spillway": {"capacity": "64GiB", "disk_dir": "/var/cache/spillway"}}'

The settings under ``spillway`` are those of ``spillway.Cache`` for a cache in this process, or
``url`` or ``socket`` of a running spillwayd, and ``model_id``, your name for the weights, instead of
a hash over the model's files. SGLang hands over the model's name only: where no files are found by
it, give another ``model_id`` whenever the weights change.

SGLang calls a backend on threads of its own, so calls wait here. Pages are read and written in
place in SGLang's pinned pool. A fault of Spillway is a miss.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Sequence

from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage, PoolHitPolicy, PoolTransferResult,
)

from . import _blocks
from ._values import address_of
from .vllm import _space  # Of its own: nothing of vLLM is imported.

_HAS_RESTORABLE = any(field.name == "restorable_prefix_pages"
                      for field in dataclasses.fields(PoolTransferResult))


class SpillwayHiCache(HiCacheStorage):
    """The backend; SGLang's factory makes one for each rank."""

    def __init__(self, storage_config: Any, kwargs: dict[str, Any] | None = None):
        extra = dict((storage_config.extra_config or {}).get("spillway") or {})
        self._model_id = extra.pop("model_id", None)
        self._config = storage_config
        self.registered_pools: dict[Any, Any] = {}
        self._pools: dict[str, tuple[Any, bytes]] = {}
        # Replicas of MLA's KV hold the same bytes: one of them writes.
        self._writes = getattr(storage_config, "is_storage_writer",
                               not storage_config.is_mla_model or storage_config.tp_rank == 0)
        self._weights = self._identify()
        self._store = _blocks.opener_of(extra, "SpillwayHiCache")

    def _identify(self) -> str:
        if self._model_id:
            return f"id:{self._model_id}"
        name = str(self._config.model_name)
        folder = _space.folder_of(name, None)
        try:
            return f"files:{_space.fingerprint(folder)}" if folder else f"name:{name}"
        except OSError:
            return f"name:{name}"

    # --- pools ---

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """SGLang's pool of host memory."""
        super().register_mem_pool_host(mem_pool_host)
        self._add("kv", mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        """A further pool: states of Mamba, windows, drafts."""
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self._add(str(host_pool_name), host_pool)

    def _add(self, name: str, pool: Any) -> None:
        if getattr(pool, "layout", "") == "layer_first":
            raise ValueError("SpillwayHiCache needs --hicache-mem-layout page_first: a page of "
                             "layer_first is scattered over two pieces for each layer")
        self._pools[name] = pool, self._space(name, pool)

    def _space(self, name: str, pool: Any) -> bytes:
        """The prefix of a pool's keys: a hash over all that changes a page's bits."""
        config = self._config
        mla = bool(config.is_mla_model)
        facts = {what: str(getattr(config, what, None)) for what in (
            "pp_rank", "pp_size", "attn_cp_rank", "attn_cp_size", "is_mla_model", "tp_lcm_size",
            "should_split_heads", "dcp_size", "dcp_rank", "logical_page_size")}
        facts.update({"weights": self._weights, "pool": name,
                      # MLA's pages are the same on all ranks.
                      "tp": "all" if mla and name == "kv" else
                      f"{config.tp_rank}/{config.tp_size}"})
        facts.update({what: str(getattr(pool, what, None)) for what in (
            "layout", "page_size", "dtype", "head_num", "head_dim", "layer_num", "v_head_dim",
            "kv_lora_rank", "qk_rope_head_dim", "start_layer", "end_layer")})
        facts["itemsize"] = str(getattr(getattr(pool, "dtype", None), "itemsize", None))
        text = json.dumps(facts, sort_keys=True, default=str)
        return f"sglang:{hashlib.sha256(text.encode()).hexdigest()[:20]}:".encode()

    def _names(self, keys: Sequence[str], pool: str = "kv") -> list[bytes]:
        prefix = self._pools[pool][1] if pool in self._pools else b"sglang:bare:"
        return [prefix + str(key).encode() for key in keys]

    def _pages(self, pool: str, count: int, host_indices: Any) -> list[Any] | None:
        """The fragments of each page in the pool's memory; None: it is not as it should be."""
        if pool not in self._pools or count == 0 or host_indices is None:
            return None
        if len(host_indices) != count * (getattr(self._pools[pool][0], "page_size", 1) or 1):
            return None
        pointers, sizes = self._pools[pool][0].get_page_buffer_meta(host_indices)
        each, rest = divmod(len(pointers), count)
        if rest or each == 0 or len(sizes) != len(pointers):
            return None
        pieces = list(zip(map(int, pointers), map(int, sizes)))
        return [pieces[at:at + each] for at in range(0, len(pieces), each)]

    # --- pages in the pool ---

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """How many keys are present, from the first on."""
        return _leading(self._store.present(self._names(keys)))

    def batch_get_v1(self, keys: list[str], host_indices: Any,
                     extra_info: Any = None) -> list[bool]:
        """Reads pages into the pool; whether each was there."""
        return self._get("kv", keys, host_indices)

    def batch_set_v1(self, keys: list[str], host_indices: Any,
                     extra_info: Any = None) -> list[bool]:
        """Stores pages of the pool. A page that is present is not written again."""
        return self._set("kv", keys, host_indices, extra_info)

    def _get(self, pool: str, keys: Sequence[str], host_indices: Any) -> list[bool]:
        pages = self._pages(pool, len(keys), host_indices)
        if pages is None:
            return [False] * len(keys)
        return self._store.read(self._names(keys, pool), pages)

    def _set(self, pool: str, keys: Sequence[str], host_indices: Any,
             extra_info: Any) -> list[bool]:
        if not self._writes and pool == "kv":
            return [True] * len(keys)
        pages = self._pages(pool, len(keys), host_indices)
        if pages is None:
            return [False] * len(keys)
        names = self._names(keys, pool)
        before = list(getattr(extra_info, "prefix_keys", None) or [])[-1:]
        parents = [*(self._names(before, pool) or [None]), *names[:-1]]
        tokens = int(getattr(self._pools[pool][0], "page_size", 0) or 0) if pool == "kv" else 0
        known = self._store.present(names)
        new = [at for at, there in enumerate(known) if not there]
        taken = self._store.write([names[at] for at in new], [pages[at] for at in new],
                                  [_blocks.Options(tokens, parent=parents[at]) for at in new])
        for at, flag in zip(new, taken):
            known[at] = flag
        return known

    # --- several pools ---

    def batch_exists_v2(self, keys: list[str], pool_transfers: Any = None,
                        extra_info: Any = None) -> Any:
        """The longest prefix that all pools have, by each pool's hit policy."""
        hits = self.batch_exists(keys, extra_info)
        found: dict[Any, int] = {"kv": hits} if hits else {}
        restorable = set(range(1, hits + 1))
        for transfer in pool_transfers or ():
            name = transfer.name
            here = self._store.present(self._names(keys[:hits], str(name)))
            lead = _leading(here)
            if transfer.hit_policy == PoolHitPolicy.ALL_PAGES:
                good = set(range(1, lead + 1))
            elif transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES:
                last = max(1, len(transfer.keys or ()))
                good = {count for count in restorable if all(here[max(0, count - last):count])}
            else:  # Groups of blocks: the pages that whole ones cover. They gate nothing.
                wanted = list(transfer.keys or ())
                size = max(1, int(getattr(transfer, "group_pages", 0) or 1))
                groups = _leading(self._store.present(self._names(wanted, str(name)))) // size
                lead = groups * max(1, int(getattr(transfer, "block_pages", 0) or 1))
                good = restorable
            reach = lead if good is restorable else max(good, default=0)
            if reach:
                found[name] = reach
            restorable &= good
        more = {"restorable_prefix_pages": sorted(restorable)} if _HAS_RESTORABLE else {}
        return PoolTransferResult(max(restorable, default=0), found, **more)

    def batch_get_v2(self, transfers: Any, extra_info: Any = None) -> dict[str, list[bool]]:
        """Reads pages of several pools."""
        return {transfer.name: self._get(str(transfer.name), transfer.keys or [],
                                         transfer.host_indices) for transfer in transfers}

    def batch_set_v2(self, transfers: Any, extra_info: Any = None) -> dict[str, list[bool]]:
        """Stores pages of several pools."""
        return {transfer.name: self._set(str(transfer.name), transfer.keys or [],
                                         transfer.host_indices, extra_info)
                for transfer in transfers}

    # --- single values, in a tensor of the caller ---

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        """The value, read into ``target_location``; None if it is missing."""
        return self.batch_get([key], [target_location], target_sizes)[0]

    def batch_get(self, keys: list[str], target_locations: Any = None,
                  target_sizes: Any = None) -> list[Any]:
        """The same for several."""
        targets = list(target_locations or [None] * len(keys))
        found = []
        for name, target in zip(self._names(keys), targets):
            block = _memory_of(target)
            found.append(target if block and self._store.read([name], [block])[0] else None)
        return found

    def set(self, key: str, value: Any = None, target_location: Any = None,
            target_sizes: Any = None) -> bool:
        """Stores a tensor."""
        return self.batch_set([key], [value if value is not None else target_location])

    def batch_set(self, keys: list[str], values: Any = None, target_locations: Any = None,
                  target_sizes: Any = None) -> bool:
        """The same for several; True if all are stored."""
        done = True
        for name, value in zip(self._names(keys), values or target_locations or []):
            block = _memory_of(value)
            done &= bool(block) and (self._store.present([name])[0] or
                                     self._store.write([name], [block], [_blocks.Options()])[0])
        return done and bool(values or target_locations)

    def exists(self, key: str) -> bool:
        """Whether the key is present."""
        return self._store.present(self._names([key]))[0]

    # --- life ---

    def clear(self) -> None:
        """Nothing: other engines may use the same entries; a cache evicts by itself."""

    def close(self) -> None:
        """Closes the cache or the connection."""
        self._store.close()


def _leading(flags: Sequence[bool]) -> int:
    """How many are true, from the first on."""
    return flags.index(False) if False in flags else len(flags)  # type: ignore[attr-defined]


def _memory_of(tensor: Any) -> list[tuple[int, int]] | None:
    """A contiguous tensor's memory on the host."""
    if tensor is None:
        return None
    if hasattr(tensor, "data_ptr"):
        if not tensor.is_contiguous() or tensor.device.type != "cpu":
            return None
        return [(tensor.data_ptr(), tensor.numel() * tensor.element_size())]
    view = memoryview(tensor)
    return [(address_of(view), view.nbytes)] if view.c_contiguous and view.nbytes else None
