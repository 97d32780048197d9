# SPDX-License-Identifier: Apache-2.0
"""SpillwayHiCache through SGLang's own factory, on a pool of host memory with SGLang's layout.

The pool stands in for SGLang's, which needs its CUDA kernels; its addresses are computed as SGLang's
page_first pool computes them.
"""

import sys
import tempfile

import torch

from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorageConfig, HiCacheStorageExtraInfo, PoolHitPolicy, PoolName, PoolTransfer,
)
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory

PAGES, PAGE, LAYERS, HEADS, DIM = 16, 4, 2, 2, 8


class Pool:
    layout, page_size, dtype = "page_first", PAGE, torch.bfloat16
    layer_num, head_num, head_dim = LAYERS, HEADS, DIM

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.kv_buffer = torch.randint(-99, 99, (2, PAGES * PAGE, LAYERS, HEADS, DIM),
                                       dtype=torch.int16).view(torch.bfloat16)

    def get_page_buffer_meta(self, indices):
        assert len(indices) % PAGE == 0
        size = LAYERS * HEADS * DIM * self.dtype.itemsize
        pointers = []
        for index in indices.tolist()[::PAGE]:
            key = self.kv_buffer.data_ptr() + index * size
            pointers += [key, key + PAGES * PAGE * size]
        return pointers, [size * PAGE] * len(pointers)

    def page(self, at):
        return self.kv_buffer[:, at * PAGE:(at + 1) * PAGE].clone().view(torch.int16)


def indices(pages):
    return torch.tensor([page * PAGE + at for page in pages for at in range(PAGE)])


def backend(settings, pool, **more):
    config = HiCacheStorageConfig(**{**dict(
        tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
        is_mla_model=False, enable_storage_metrics=False, is_page_first_layout=True,
        model_name="toy", extra_config={
            "backend_name": "spillway", "module_path": "spillway.sglang",
            "class_name": "SpillwayHiCache", "interface_v1": 1, "spillway": settings}), **more})
    made = StorageBackendFactory.create_backend("dynamic", config, pool)
    made.register_mem_pool_host(pool)
    made.on_host_pools_registered()
    return made


def main(socket):
    keys = [f"{at:064x}" for at in range(8)]
    folder = tempfile.mkdtemp()
    for settings in ({"capacity": "64MiB", "disk_dir": folder, "disk_capacity": "64MiB"},
                     {"socket": socket}):
        pool = Pool(1)
        pages = [pool.page(at) for at in range(8)]
        made = backend(settings, pool)
        assert made.batch_exists(keys) == 0
        assert made.batch_get_v1(keys, indices(range(8))) == [False] * 8
        assert torch.equal(pool.page(3), pages[3]), "a miss changed the pool"
        assert made.batch_set_v1(keys[:4], indices(range(4))) == [True] * 4
        after = HiCacheStorageExtraInfo(prefix_keys=keys[:4])
        assert made.batch_set_v1(keys[4:], indices(range(4, 8)), after) == [True] * 4
        assert made.batch_set_v1(keys, indices(range(8))) == [True] * 8  # Present: nothing to do.
        assert made.batch_exists([*keys, "0" * 63 + "f"]) == 8
        # Into other pages; all but one.
        made._store.read([], [])
        target = list(range(8, 16))
        flags = made.batch_get_v1([*keys[:7], "0" * 63 + "f"], indices(target))
        assert flags == [True] * 7 + [False], flags
        for at in range(7):
            assert torch.equal(pool.page(8 + at), pages[at]), at
        assert made.batch_get_v1(keys, indices(range(3))) == [False] * 8  # Indices of another size.
        if "capacity" in settings:
            cache = made._store._shared.cache
            assert cache.total_tokens == 8 * PAGE
            assert cache.match(made._names(keys)) == 8
            order = [name for name in cache.leaving_order()]
            assert [str(name)[-1] for name in order] == list("76543210"), order

        # Several pools: the prefix is what all have.
        side = Pool(2)
        made.register_mem_host_pool_v2(side, PoolName.SWA)
        transfer = PoolTransfer(name=PoolName.SWA, host_indices=indices(range(2)), keys=keys[4:6],
                                hit_policy=PoolHitPolicy.TRAILING_PAGES)
        assert made.batch_exists_v2(keys, [transfer]).kv_hit_pages == 0
        assert made.batch_set_v2([transfer]) == {PoolName.SWA: [True, True]}
        answer = made.batch_exists_v2(keys, [transfer])
        assert answer.kv_hit_pages == 6 and answer.restorable_prefix_pages == [6], answer
        kv = PoolTransfer(name=PoolName.KV, host_indices=indices(range(8, 14)), keys=keys[:6])
        assert made.batch_get_v2([kv, transfer]) == {PoolName.KV: [True] * 6,
                                                     PoolName.SWA: [True] * 2}
        everything = PoolTransfer(name=PoolName.SWA, keys=keys,
                                  hit_policy=PoolHitPolicy.ALL_PAGES)
        assert made.batch_exists_v2(keys, [everything]).kv_hit_pages == 0

        # Single values.
        value = torch.arange(100, dtype=torch.float32)
        assert made.set("single", value) and made.exists("single")
        assert torch.equal(made.get("single", torch.zeros(100)), value)
        assert made.get("nothing", torch.zeros(100)) is None

        # Other ranks, page sizes and models do not see it.
        if "socket" in settings:
            for other in (dict(tp_rank=1, tp_size=2), dict(pp_rank=1, pp_size=2),
                          dict(model_name="other")):
                stranger = backend(settings, Pool(3), **other)
                assert stranger.batch_exists(keys) == 0, other
                stranger.close()
            twin = backend(settings, Pool(4))
            assert twin.batch_exists(keys) == 8
            # MLA's copies are the same on all ranks, and one of them writes.
            first = backend(settings, Pool(5), is_mla_model=True, tp_rank=0, tp_size=2)
            second = backend(settings, Pool(5), is_mla_model=True, tp_rank=1, tp_size=2)
            assert second.batch_set_v1(keys, indices(range(8))) == [True] * 8
            assert first.batch_exists(keys) == 0
            first.batch_set_v1(keys, indices(range(8)))
            assert second.batch_exists(keys) == 8
            for one in (twin, first, second):
                one.close()
        made.close()
        assert made.batch_exists(keys) == 0 and made.batch_get_v1(keys, indices(range(8))) == \
            [False] * 8  # Closed: a miss.
    again = backend({"capacity": "64MiB", "disk_dir": folder, "disk_capacity": "64MiB"}, Pool(6))
    assert again.batch_exists(keys) == 8, "the disk lost pages"
    again.close()
    try:
        scattered = Pool(7)
        scattered.layout = "layer_first"
        backend({"capacity": "64MiB"}, scattered)
        raise AssertionError("layer_first was taken")
    except ValueError as why:
        assert "page_first" in str(why)
    print("sglang: all right")


main(sys.argv[1])
