#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""soak.py CYCLES: open, set, get, close, again and again; memory and descriptors must stay flat."""

import gc
import os
import sys
import time

import conftest  # noqa: F401  Finds the package.

import spillway


def look():
    gc.collect()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGESIZE"), len(os.listdir("/proc/self/fd"))


def cycle(number):
    with spillway.Cache(capacity="1MiB", start=number % 8 == 0) as cache:
        cache.set("k", b"v" * 100, tokens=1)
        view = cache.get("k")
        if number % 3 == 0:
            cache.step_graph.load({"run": "r", "steps": [{"id": "a"}]})
        if number % 5:
            del view


def main():
    cycles = int(sys.argv[1])
    for number in range(min(500, cycles)):
        cycle(number)
    memory, descriptors = look()
    start, most = time.monotonic(), 0
    for number in range(cycles):
        cycle(number)
        if number % 1000 == 999:
            now, open_now = look()
            most = max(most, now - memory)
            print(f"{number + 1} cycles, {time.monotonic() - start:.0f} s: "
                  f"{(now - memory) >> 10} KiB more, {open_now - descriptors} descriptors more",
                  flush=True)
    now, open_now = look()
    grown = now - memory
    print(f"{cycles} cycles: {grown >> 10} KiB more at the end (most {most >> 10}), "
          f"{open_now - descriptors} descriptors more")
    return 1 if grown > 16 << 20 or open_now != descriptors else 0


if __name__ == "__main__":
    sys.exit(main())
