# SPDX-License-Identifier: Apache-2.0
"""spillway.compat: the seed's names and answers."""

import asyncio
import gc
import weakref

import pytest

import spillway
from spillway.compat import EvictionMode, VRAMAwareCache


class Entry:
    """Some object of the user's."""


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_the_example_with_only_the_import_changed():
    async def main():
        context_entry = Entry()
        cache = VRAMAwareCache(max_token_budget=50_000_000)  # 50M tokens = ~3GB
        await cache.start()
        await cache.set("agent1", context_entry, token_count=500)
        entry = await cache.get("agent1")
        await cache.stop()
        assert entry is context_entry
    run(main())


def test_the_names_and_answers():
    async def main():
        cache = VRAMAwareCache()
        await cache.start()
        await cache.start()
        assert await cache.set("k", b"bytes", 10) is True
        assert await cache.get("k") == b"bytes" and await cache.get("nowhere") is None
        assert cache.size == 1 and cache.total_tokens == 10 and cache.step_graph is None
        assert cache.mode is EvictionMode.RELAXED and cache.is_blocked is False
        assert {mode.value for mode in EvictionMode} == {
            "relaxed", "normal", "pressure", "critical", "emergency", "workflow_aware"}
        assert await cache.set("k", {"a": [b"x", (bytearray(b"y"), None)], "n": 1.5}, 4) is True
        assert await cache.get("k") == {"a": [b"x", (bytearray(b"y"), None)], "n": 1.5}
        assert cache.total_tokens == 4
        assert await cache.delete("k") is True and await cache.delete("k") is False
        await cache.set("k", "a text is an object", 1)
        assert await cache.get("k") == "a text is an object"
        await cache.clear()
        assert cache.size == 0 and cache.total_tokens == 0 and await cache.get("k") is None
        await cache.stop()
        await cache.stop()
        await cache.close()
    run(main())


def test_false_when_blocked():
    async def main():
        cache = VRAMAwareCache(capacity="8MiB")
        await cache.set("k", Entry(), token_count=1)
        cache._cache.sync.apply(0.97)
        assert cache.mode is EvictionMode.EMERGENCY and cache.is_blocked is True
        for value in (b"bytes", Entry(), {"a": b"x"}):
            assert await cache.set("new", value, token_count=1) is False
        assert await cache.get("new") is None
        await cache.close()
    run(main())


def test_false_when_the_budget_is_spent():
    async def main():
        cache = VRAMAwareCache(max_token_budget=10)
        assert await cache.set("k", Entry(), token_count=11) is False
        await cache.close()
    run(main())
    with pytest.raises(spillway.InvalidArgument):
        VRAMAwareCache(max_token_budget=0)


def test_objects_obey_the_policy_and_are_let_go():
    async def main():
        cache = VRAMAwareCache(preset="seed")
        for at in range(4):
            await cache.set(f"k{at}", Entry(), token_count=100 - at)
        gone = weakref.ref(await cache.get("k0"))
        cache._cache.sync.apply(0.9)
        cache._drop_gone()
        gc.collect()
        kept = [await cache.get(f"k{at}") is not None for at in range(4)]
        assert kept.count(False) == 1 and cache.size == 3
        assert (gone() is None) == (not kept[0])
        await cache.close()
    run(main())


def test_objects_go_by_themselves_while_started():
    class Quick(VRAMAwareCache):
        VRAM_CHECK_INTERVAL = 0.01

    async def main():
        cache = Quick(preset="seed", pressure_source="fixed:0.1")
        await cache.start()
        await cache.set("heavy", Entry(), token_count=100)
        await cache.set("light", Entry(), token_count=1)
        gone = weakref.ref(await cache.get("heavy"))
        cache._cache.sync.apply(0.9)
        for _ in range(500):
            gc.collect()
            if gone() is None:
                break
            await asyncio.sleep(0.01)
        assert gone() is None and await cache.get("light") is not None
        await cache.close()
    run(main())


def test_tensors_travel_through_the_tiers(tmp_path):
    torch = pytest.importorskip("torch")

    async def main():
        cache = VRAMAwareCache(capacity="4MiB", host_capacity="4MiB", disk_dir=tmp_path / "d",
                               disk_capacity="128MiB", pressure_source="fixed:0.1",
                               host_pressure_source="fixed:0.1",
                               disk_pressure_source="fixed:0.1", write_back_after="1ms")
        await cache.start()
        kept = {f"k{at}": {"kv": torch.full((100, 1000), float(at)), "id": at}
                for at in range(50)}
        for key, value in kept.items():
            assert await cache.set(key, value, token_count=100)
        for key, value in kept.items():
            back = await cache.get(key)
            assert torch.equal(back["kv"], value["kv"]) and back["id"] == value["id"]
        await cache.close()
    run(main())


def test_any_graph_with_an_order():
    class Graph:
        def get_eviction_priority_order(self):
            return ["late", "soon"]

    async def main():
        graph = Graph()
        cache = VRAMAwareCache(step_graph=graph)
        await cache.set("context:late", Entry(), 1)
        await cache.set("context:soon", Entry(), 1)
        assert cache.step_graph is graph
        assert cache._cache.sync.leaving_order()[0] == "context:late"
        cache._cache.sync.apply(0.75)
        assert cache.mode is EvictionMode.WORKFLOW_AWARE
        await cache.close()
    run(main())
