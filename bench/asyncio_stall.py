#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A thousand gets and sets at once from one event loop: how long the loop was blocked.

  make bench-asyncio

A ticker in the loop wants to run every millisecond; its longest delay is the stall. For comparison:
the same with no calls, and with the synchronous cache called from coroutines. Then calls are
cancelled by the thousand, and what is left afterwards is counted.
"""

import asyncio
import gc
import time

import spillway

CALLS = 1000


class Ticker:
    """The longest time between two turns of the loop, minus the millisecond it asks for."""

    async def __aenter__(self):
        self.worst, self.on = 0.0, True
        self.task = asyncio.create_task(self._tick())
        return self

    async def _tick(self):
        last = time.perf_counter()
        while self.on:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            self.worst = max(self.worst, now - last - 0.001)
            last = now

    async def __aexit__(self, *_):
        self.on = False
        await self.task


async def measure(name, work):
    worst, took = [], []
    for _ in range(5):
        gc.collect()
        async with Ticker() as ticker:
            await asyncio.sleep(0.02)
            start = time.perf_counter()
            await work()
            took.append(time.perf_counter() - start)
        worst.append(ticker.worst)
    worst.sort()
    took.sort()
    print(f"{name:<52} {took[2] * 1e3:8.1f} ms  longest stall {worst[2] * 1e3:6.2f} ms "
          f"(worst of 5: {worst[-1] * 1e3:.2f})", flush=True)


async def main():
    async with spillway.AsyncCache(capacity="512MiB") as cache:
        for size in (1_000, 100_000):
            value = bytes(size)
            keys = [f"k{at}" for at in range(CALLS)]

            async def sets():
                await asyncio.gather(*(cache.set(key, value) for key in keys))

            async def gets():
                await asyncio.gather(*(cache.get(key) for key in keys))

            async def mixed():
                await asyncio.gather(*(cache.set(key, value) if at % 2 else cache.get(key)
                                       for at, key in enumerate(keys)))

            async def synchronous():
                for key in keys:
                    cache.sync.set(key, value)

            async def nothing():
                await asyncio.gather(*(asyncio.sleep(0) for _ in keys))

            await measure(f"{CALLS} sets of {size} bytes", sets)
            await measure(f"{CALLS} gets of {size} bytes", gets)
            await measure(f"{CALLS} of both", mixed)
            await measure(f"{CALLS} sets by the synchronous cache", synchronous)
            await measure(f"{CALLS} tasks that do nothing", nothing)
        await cancelled(cache)


async def cancelled(cache):
    tasks = [asyncio.create_task(cache.set(f"c{at}", bytes(10_000))) for at in range(CALLS)]
    tasks += [asyncio.create_task(cache.get(f"k{at}")) for at in range(CALLS)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    del tasks, task
    while cache._flights:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)
    gc.collect()
    stats = cache.stats()
    print(f"{2 * CALLS} calls cancelled: {stats['leases']} leases, {len(cache._flights)} calls and "
          f"{stats['reservations']} reservations left")


if __name__ == "__main__":
    asyncio.run(main())
