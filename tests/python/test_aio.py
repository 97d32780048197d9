# SPDX-License-Identifier: Apache-2.0
"""AsyncCache: the loop stays free, and cancelled calls leave nothing."""

import asyncio
import gc

import pytest

import spillway
from conftest import CALM

# On a busy machine, too, pressure is known.
KNOWN = dict(sample_period="2s")


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))


def test_set_and_get():
    async def main():
        async with spillway.AsyncCache(capacity="64MiB", policy="score", **KNOWN) as cache:
            assert await cache.set("k", b"value", tokens=5) is True
            assert bytes(await cache.get("k")) == b"value"
            assert await cache.get("nowhere") is None
            into = bytearray(5)
            assert await cache.get("k", into=into) == 5 and into == b"value"
            assert await cache.contains("k") and await cache.touch("k", hint="done")
            assert await cache.set("said", b"v", step="tool", recompute=1.5, hint="again", eta=3)
            assert "waits for tool" in cache.sync.explain("said")
            assert bytes(await cache.get("said", step="human", eta=2, hint="again")) == b"v"
            assert await cache.get("said", into=bytearray(1), step="build") == 1
            assert "waits for build" in cache.sync.explain("said") and await cache.delete("said")
            assert await cache.match(["k", "x"]) == 1
            assert cache.total_tokens == 5 and cache.size == 1
            assert cache.mode is spillway.Mode.RELAXED and not cache.is_blocked
            assert [bytes(lease) for lease in await cache.get_many(["k"])] == [b"value"]
            assert await cache.delete("k") is True
            assert await cache.delete("k") is False
            with pytest.raises(spillway.KeyTypeError):
                await cache.set(3, b"x")
            with pytest.raises(spillway.TooLarge):
                await cache.set("k", bytes(100 << 20))
            cache.sync.apply(0.97)
            assert await cache.set("k", b"x") is False
    run(main())


def test_a_thousand_at_once():
    async def main():
        async with spillway.AsyncCache(capacity="256MiB", **KNOWN) as cache:
            values = {f"k{at}": bytes([at % 256]) * 20_000 for at in range(1000)}
            stored = await asyncio.gather(*(cache.set(k, v) for k, v in values.items()))
            assert all(stored)
            got = await asyncio.gather(*(cache.get(k) for k in values))
            assert [bytes(view) for view in got] == list(values.values())
            mixed = await asyncio.gather(*(
                cache.set(k, v) if at % 2 else cache.get(k)
                for at, (k, v) in enumerate(values.items())))
            assert all(result is not None for result in mixed)
            del got, mixed
            await asyncio.sleep(0)  # What woke us holds the results until then.
            gc.collect()
            assert cache.stats()["leases"] == 0
    run(main())


def test_what_lies_below_is_awaited(tmp_path):
    async def main():
        async with spillway.AsyncCache(
                capacity="4MiB", host_capacity="4MiB", disk_dir=tmp_path / "d",
                disk_capacity="128MiB", write_back_after="1ms", **CALM) as cache:
            values = {f"k{at}": bytes([at]) * 300_000 for at in range(60)}
            for key, value in values.items():
                assert await cache.set(key, value)
            got = await asyncio.gather(*(cache.lease(key) for key in list(values)[:8]))
            assert [bytes(lease) for lease in got] == list(values.values())[:8]
            with pytest.raises(spillway.NotResident):
                for key in values:
                    (await cache.lease(key, wait=0)).release()
    run(main())


def test_cancelled_calls_leave_nothing(tmp_path):
    async def main():
        async with spillway.AsyncCache(
                capacity="4MiB", host_capacity="8MiB", disk_dir=tmp_path / "d",
                disk_capacity="128MiB", write_back_after="1ms", **CALM) as cache:
            for at in range(60):
                await cache.set(f"k{at}", bytes([at]) * 300_000)
            tasks = [asyncio.create_task(cache.get(f"k{at % 60}")) for at in range(300)]
            tasks += [asyncio.create_task(cache.set(f"n{at}", bytes(5000))) for at in range(300)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(result, asyncio.CancelledError) for result in results) > 0
            del results, tasks
            await asyncio.sleep(0)
            while cache._flights:
                await asyncio.sleep(0.01)
            gc.collect()
            for _ in range(1000):  # What moves between tiers is held by whoever moves it.
                if cache.stats()["leases"] == 0:
                    return
                await asyncio.sleep(0.01)
            pytest.fail(f"{cache.stats()['leases']} leases are left")
    run(main())


def test_a_loop_that_ends_with_calls_under_way():
    cache = spillway.AsyncCache(capacity="64MiB", **KNOWN)

    async def begin():
        task = asyncio.create_task(cache.set("k", bytes(1 << 20)))
        await asyncio.sleep(0)
        task.cancel()

    async def later():
        assert await cache.set("j", b"next loop") and bytes(await cache.get("j")) == b"next loop"
        await cache.close()

    asyncio.run(begin())
    asyncio.run(later())
    assert not cache._flights


def test_close_with_calls_under_way():
    async def main():
        cache = spillway.AsyncCache(capacity="64MiB", **KNOWN)
        tasks = [asyncio.create_task(cache.set(f"k{at}", bytes(100_000))) for at in range(100)]
        await asyncio.sleep(0)
        await cache.close()
        assert all(await asyncio.gather(*tasks))
        with pytest.raises(spillway.Closed):
            await cache.set("k", b"x")
    run(main())
