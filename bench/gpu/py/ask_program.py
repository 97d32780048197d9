#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that knows nothing of Spillway and takes GPU memory in single calls of 0.1 to 100 GiB:
how many fail, and how long each takes. By the driver's own calls, with ctypes: no torch is needed.

  python3 bench/gpu/py/ask_program.py --seconds 60
  spillway run --log -- python3 bench/gpu/py/ask_program.py --seconds 60

CUDA_LIBRARY names another driver than libcuda.so.1. `--only alloc,create` measures these calls
where they succeed, for what the library adds.
"""

import argparse
import ctypes
import json
import os
import random
import time

MIB = 1 << 20
GIB = 1 << 30


class Properties(ctypes.Structure):
    """CUmemAllocationProp of device 0."""
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("where", ctypes.c_int),
                ("device", ctypes.c_int), ("rest", ctypes.c_char * 16)]


class Driver:
    def __init__(self):
        self.cu = ctypes.CDLL(os.environ.get("CUDA_LIBRARY", "libcuda.so.1"))
        context = ctypes.c_void_p()
        self.must(self.cu.cuInit(0))
        self.must(self.cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self.must(self.cu.cuCtxPushCurrent_v2(context))

    @staticmethod
    def must(code):
        if code != 0:
            raise SystemExit(f"the driver answers {code}")

    def info(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.must(self.cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        return free.value, total.value

    def alloc(self, size):
        """Code and milliseconds of one call; what it gave is freed."""
        at = ctypes.c_uint64()
        began = time.perf_counter()
        code = self.cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size))
        took = time.perf_counter() - began
        if code == 0:
            self.must(self.cu.cuMemFree_v2(at))
        return code, took * 1e3

    def create(self, size):
        handle, properties = ctypes.c_uint64(), Properties(1, 0, 1, 0, b"")
        began = time.perf_counter()
        code = self.cu.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size),
                                   ctypes.byref(properties), ctypes.c_uint64(0))
        took = time.perf_counter() - began
        if code == 0:
            self.must(self.cu.cuMemRelease(handle))
        return code, took * 1e3


def at(values, share):
    values = sorted(values)
    return round(values[min(int(len(values) * share), len(values) - 1)], 3) if values else None


def take(driver, args):
    """Single calls, sizes spread evenly by their logarithm."""
    chance, took, failed, calls = random.Random(args.seed), [], 0, 0
    until = time.monotonic() + args.seconds
    while time.monotonic() < until and calls < args.calls:
        size = int(args.least * (args.most / args.least) ** chance.random()) // 4096 * 4096
        code, ms = driver.alloc(size) if calls % 2 == 0 else \
            driver.create((size + 2 * MIB - 1) // (2 * MIB) * 2 * MIB)
        calls += 1
        failed += code != 0
        if code == 0:
            took.append(ms)
        time.sleep(args.pause)
    return dict(calls=calls, failed=failed, p50_ms=at(took, 0.5), p99_ms=at(took, 0.99),
                max_ms=at(took, 1))


def small(driver, args):
    """Calls of 2 MiB that succeed: their median in microseconds."""
    return {call: round(at([getattr(driver, call)(2 * MIB)[1] for _ in range(2000)], 0.5) * 1e3, 2)
            for call in args.only.split(",")}


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--seconds", type=float, default=60)
    words.add_argument("--calls", type=int, default=1 << 30)
    words.add_argument("--pause", type=float, default=0.05, help="seconds between two calls")
    words.add_argument("--least", type=int, default=GIB // 10)
    words.add_argument("--most", type=int, default=100 * GIB)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", default="")
    args = words.parse_args()
    driver = Driver()
    free, total = driver.info()
    result = small(driver, args) if args.only else take(driver, args)
    print(json.dumps(dict(free_gib=round(free / GIB, 2), total_gib=round(total / GIB, 2), **result)))


if __name__ == "__main__":
    main()
