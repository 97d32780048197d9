# SPDX-License-Identifier: Apache-2.0
"""The real LMCache drives Spillway: its native_plugin adapter over SpillwayConnector, and its resp
adapter over spillwayd. LMCACHE_PORT is the daemon's port.

Store, lookup, load, a missing key, delete; for `resp` an eviction between EXISTS and GET, which
would cost LMCache's client a worker for ever.
"""

import os
import select
import sys
import time

import torch
from lmcache.v1.distributed.api import ObjectKey
from lmcache.v1.distributed.l2_adapters.config import get_l2_adapter_config_class
from lmcache.v1.distributed.l2_adapters.factory import create_l2_adapter_from_registry
from lmcache.v1.memory_management import MemoryObjMetadata, TensorMemoryObj

import spillway

SIZE, WITHIN = 256 << 10, 30


def chunk(fill):
    tensor = torch.frombuffer(bytearray(os.urandom(SIZE)), dtype=torch.uint8) if fill \
        else torch.zeros(SIZE, dtype=torch.uint8)
    about = MemoryObjMetadata(shape=torch.Size([SIZE]), dtype=torch.uint8, address=0,
                              phy_size=SIZE, ref_count=1)
    return TensorMemoryObj(tensor, about, None)


def wait(fd, ask):
    until = time.monotonic() + WITHIN
    while time.monotonic() < until:
        select.select([fd], [], [], 0.2)
        found = ask()
        if found:
            return found
    raise AssertionError(f"no completion within {WITHIN} s")


def bits(found):
    return [found.test(at) for at in range(8)]


class Adapter:
    def __init__(self, config):
        kind = get_l2_adapter_config_class(config["type"])
        self.made = create_l2_adapter_from_registry(kind.from_dict(config), None)

    def store(self, keys, chunks):
        made = self.made
        made.submit_store_task(keys, chunks)
        return wait(made.get_store_event_fd(), made.pop_completed_store_tasks)

    def lookup(self, keys):
        made = self.made
        task = made.submit_lookup_and_lock_task(keys, {})
        return wait(made.get_lookup_and_lock_event_fd(),
                    lambda: made.query_lookup_and_lock_result(task))

    def load(self, keys, chunks):
        made = self.made
        task = made.submit_load_task(keys, chunks)
        return wait(made.get_load_event_fd(), lambda: made.query_load_result(task))


def same(one, other):
    return all(bytes(a.byte_array) == bytes(b.byte_array) for a, b in zip(one, other))


def drive(config):
    adapter = Adapter(config)
    keys = [ObjectKey(chunk_hash=bytes([at]) * 32, model_name="toy", kv_rank=0)
            for at in range(8)]
    none = ObjectKey(chunk_hash=b"z" * 32, model_name="toy", kv_rank=0)
    chunks = [chunk(True) for _ in keys]
    adapter.store(keys, chunks)
    found = adapter.lookup(keys + [none])
    assert bits(found) == [True] * 8 and not found.test(8), found
    target = [chunk(False) for _ in keys]
    assert bits(adapter.load(keys, target)) == [True] * 8 and same(chunks, target)
    adapter.made.submit_unlock(keys)
    return adapter, keys, none, chunks


def plugin():
    adapter, keys, none, _ = drive({
        "type": "native_plugin", "module_path": "spillway.lmcache",
        "class_name": "SpillwayConnector",
        "adapter_params": {"capacity": "64MiB", "chunk_tokens": 128}})
    assert not adapter.load([none], [chunk(False)]).test(0), "a missing key was loaded"
    cache = adapter.made._client._cache
    assert cache.total_tokens == 8 * 128, cache.total_tokens
    names = [str(name) for name in cache.leaving_order()]
    assert [name.split("@")[3][:2] for name in names] == [f"{at:02x}" for at in range(7, -1, -1)]
    adapter.made.delete(keys[:2])
    assert bits(adapter.lookup(keys)) == [False] * 2 + [True] * 6
    adapter.made.close()


def resp(port):
    adapter, keys, _, chunks = drive({"type": "resp", "host": "127.0.0.1", "port": port,
                                      "num_workers": 2})
    # The daemon holds 8 MiB. Of what a lookup announces it keeps a twentieth: one chunk.
    adapter.lookup(keys[:1])
    with spillway.Client(port=port) as other:
        for at in range(200):
            other.set(f"other:{at}", bytes(SIZE))
        gone = other.contains_many([f"toy@00000000@0@{key.chunk_hash.hex()}" for key in keys])
        assert not all(gone[1:]), "nothing was evicted"
    target = [chunk(False)]
    assert adapter.load(keys[:1], target).test(0), "evicted between EXISTS and GET"
    assert same(chunks[:1], target)


if __name__ == "__main__":
    plugin()
    print("native_plugin: all right")
    resp(int(os.environ["LMCACHE_PORT"]))
    print("resp: all right")
    sys.stdout.flush()
    os._exit(0)  # LMCache's threads do not end.
