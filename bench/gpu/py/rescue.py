#!/usr/bin/env python3
"""OOM rescue: the cache holds all idle memory of the card, and torch wants some of it.

  PYTHONPATH=build/gpu-pack/py python3 bench/gpu/py/rescue.py

torch asks for 10 and for 40 GiB, without rescue and with it: whether it gets them, how long it
took, and whether every context is there afterwards, bit for bit. Then an allocation-heavy loop
with ample memory, in processes with and without the rescue, by turns. Bounded: 2 minutes.
"""

import argparse
import os
import subprocess
import sys
import time

import torch

import spillway
import spillway.torch as st
from common import DEVICE, GIB, Deadline, median, say, say_machine, timed, wait_backed

PIECE = 256 << 20


def pattern(number):
    """A context's bytes: told apart by their first and last, and by a step."""
    return (torch.arange(PIECE // 8, dtype=torch.int64, device=DEVICE) * (2 * number + 1))


def fill(cache, hold):
    """Contexts until the card has no more idle memory than the reserve."""
    keys = []
    while len(keys) * PIECE < hold:
        if not st.put(cache, f"context:{len(keys)}", pattern(len(keys)), tokens=2048):
            break
        keys.append(f"context:{len(keys)}")
        torch.cuda.empty_cache()  # The memory is the cache's to fill, not torch's to keep.
    return keys


def verify(cache, keys, deadline):
    """How many of the contexts come back as they were."""
    right = wrong = missing = 0
    for number, key in enumerate(keys):
        if deadline.left() < 5:
            break
        back = st.get(cache, key, device=DEVICE)
        if back is None:
            missing += 1
        elif torch.equal(back, pattern(number)):
            right += 1
        else:
            wrong += 1
        del back
    return dict(contexts=len(keys), right=right, wrong=wrong, missing=missing,
                looked_at=right + wrong + missing)


def ask(gib, by=None):
    """Milliseconds until torch has so much, or None."""
    def take():
        return torch.empty(gib * GIB, dtype=torch.uint8, device=DEVICE)

    try:  # The hook needs nobody's help; the fallback is a call that is made again.
        seconds, block = timed(by.run if by is not None and by.kind == "retry" else _call, take)
    except torch.cuda.OutOfMemoryError:
        return None
    block[-1] = 1
    torch.cuda.synchronize()
    del block
    torch.cuda.empty_cache()
    return seconds * 1e3


def _call(function):
    return function()


def rescue_part(args, deadline):
    free, _ = torch.cuda.mem_get_info()
    keep = int(args.hold_gib * GIB)
    ballast = torch.empty(max(free - keep, 0), dtype=torch.uint8, device=DEVICE)
    cache = spillway.Cache(device=DEVICE, host_capacity=args.host, write_behind_after="0ms",
                           write_behind_rate=None, token_budget=None, ttl=None)
    start = time.monotonic()
    keys = fill(cache, keep)
    backed = wait_backed(cache, 20, 0.97)
    device = cache.stats()["device"]
    free, _ = torch.cuda.mem_get_info()
    say("full", contexts=len(keys), ours_gib=device["bytes"] / GIB, free_gib=free / GIB,
        backed_part=device["backed"] / max(device["bytes"], 1), backed=backed,
        seconds=time.monotonic() - start)
    for gib in (10, 40):
        ms = ask(gib)
        say("without rescue", gib=gib, ms=ms, out_of_memory=ms is None)
    with st.install_rescue(cache) as rescue:
        say("rescue", kind=rescue.kind, why=rescue.why)
        for gib in (10, 40):
            before = rescue.stats()
            ms = ask(gib, rescue)
            after = rescue.stats()
            entries = cache.size
            say("with rescue", gib=gib, ms=ms, out_of_memory=ms is None,
                freed_gib=(after.freed - before.freed) / GIB,
                reclaims=after.rescues - before.rescues, entries=entries, lost=len(keys) - entries)
        say("kept", **verify(cache, keys, deadline))
    del ballast
    cache.close()
    torch.cuda.empty_cache()
    say("10 GiB with memory ample", ms=ask(10))


def loop_part(seconds, with_rescue):
    """Allocations a second, small and large, with and without going to the driver."""
    cache = rescue = None
    if with_rescue:
        cache = spillway.Cache(device=DEVICE, host_capacity="1GiB", capacity="4GiB")
        rescue = st.install_rescue(cache)
    sizes = [1 << 12, 1 << 16, 3 << 18, 5 << 20, 33 << 20, 1 << 14, 7 << 19, 130 << 20]

    def work(rounds, to_driver):
        for at in range(rounds):
            held = [torch.empty(size, dtype=torch.uint8, device=DEVICE) for size in sizes]
            del held
            if to_driver and at % 8 == 7:
                torch.cuda.empty_cache()

    figures = {}
    for name, to_driver, rounds in (("cached", False, 3000), ("driver", True, 200)):
        work(rounds // 10, to_driver)
        times = []
        end = time.monotonic() + seconds / 2
        while time.monotonic() < end or len(times) < 5:
            times.append(timed(work, rounds, to_driver)[0] / (rounds * len(sizes)) * 1e9)
        figures[name] = median(times)
    asked = rescue.stats().asked if rescue else 0
    print(f"{figures['cached']} {figures['driver']} {asked}", flush=True)
    if rescue:
        rescue.remove()
        cache.close()


def loops(deadline):
    rows = {"with": [], "without": []}
    for turn in range(3):
        for which in ("without", "with") if turn % 2 == 0 else ("with", "without"):
            if deadline.left() < 12:
                break
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--loop", which],
                                  capture_output=True, text=True, timeout=60)
            if done.returncode:
                say("loop failed", which=which, error=done.stderr[-500:])
                return
            rows[which].append([float(word) for word in done.stdout.split()])
    for at, name in ((0, "from torch's own blocks"), (1, "every eighth round from the driver")):
        without = [row[at] for row in rows["without"]]
        having = [row[at] for row in rows["with"]]
        if without and having:
            say("loop", what=name, without_ns=median(without), with_ns=median(having),
                slower=median(having) / median(without) - 1, rounds=len(having),
                callbacks=rows["with"][0][2])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hold-gib", type=float, default=82)
    parser.add_argument("--host", default="88GiB")
    parser.add_argument("--seconds", type=float, default=115)
    parser.add_argument("--loop", choices=["with", "without"])
    args = parser.parse_args()
    if args.loop:
        return loop_part(4, args.loop == "with")
    deadline = Deadline(args.seconds)
    say_machine()
    rescue_part(args, deadline)
    loops(deadline)


if __name__ == "__main__":
    main()
