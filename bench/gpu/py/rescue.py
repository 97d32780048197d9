#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OOM rescue: the cache holds all idle memory of the card, and torch needs some of it.

  PYTHONPATH=build/gpu-pack/py python3 bench/gpu/py/rescue.py

torch asks for 10 and for 40 GiB, without rescue and with it: whether it gets them, how long it
takes, and whether every context is still there afterwards, bit for bit. Then an allocation-heavy
loop with ample memory, first without a rescue, then alternately with it installed and removed, in
one process: between processes the loop varies by more than any hook costs. Bounded: 2 minutes.
"""

import argparse
import time

import torch

import spillway
import spillway.torch as st
from common import DEVICE, GIB, Deadline, median, say, say_machine, timed, wait_backed

PIECE = 256 << 20


def pattern(number, into):
    """Fills existing memory with a context's bytes; contexts differ in the first and last byte and
    in a step.
    """
    torch.arange(PIECE // 8, dtype=torch.int64, device=DEVICE, out=into)
    return into.mul_(2 * number + 1)


def fill(cache, hold, into):
    """Sets contexts until the card has no more idle memory than the reserve."""
    keys = []
    while len(keys) * PIECE < hold:
        if not st.put(cache, f"context:{len(keys)}", pattern(len(keys), into), tokens=2048):
            break
        keys.append(f"context:{len(keys)}")
    return keys


def top_up(cache, keys, deadline):
    """Reads evicted contexts back, as long as the card has room."""
    free = torch.cuda.mem_get_info()[0]
    while deadline.left() > 60:
        for at in range(0, len(keys), 16):
            cache.prefetch(keys[at:at + 16])
            time.sleep(0.02)
        wait_backed(cache, 5, 0.97)
        before, free = free, torch.cuda.mem_get_info()[0]
        if free >= before - GIB:
            break


def verify(cache, keys, deadline, into):
    """How many of the contexts come back unchanged."""
    right = wrong = missing = 0
    for number, key in enumerate(keys):
        if deadline.left() < 5:
            break
        back = st.get(cache, key, device=DEVICE)
        if back is None:
            missing += 1
        elif torch.equal(back, pattern(number, into)):
            right += 1
        else:
            wrong += 1
        del back
    return dict(contexts=len(keys), right=right, wrong=wrong, missing=missing,
                looked_at=right + wrong + missing)


def ask(gib, by=None):
    """Milliseconds until torch has that much, or None."""
    def take():
        return torch.empty(gib * GIB, dtype=torch.uint8, device=DEVICE)

    try:  # The hook works by itself; the fallback needs the call to be repeated.
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
    into = torch.empty(PIECE // 8, dtype=torch.int64, device=DEVICE)
    ballast = torch.empty(max(free - keep - PIECE, 0), dtype=torch.uint8, device=DEVICE)
    cache = spillway.Cache(device=DEVICE, host_capacity=args.host, write_back_after="0ms",
                           write_back_rate=None, token_budget=None, ttl=None, reserve=0.0,
                           reserve_bytes_min=0)  # All idle memory, with no reserve.
    start = time.monotonic()
    keys = fill(cache, keep, into)
    backed = wait_backed(cache, 20, 0.97)
    top_up(cache, keys, deadline)
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
        say("kept", **verify(cache, keys, deadline, into))
    del ballast
    cache.close()
    torch.cuda.empty_cache()
    say("10 GiB with memory ample", ms=ask(10))


SIZES = [1 << 12, 1 << 16, 3 << 18, 5 << 20, 33 << 20, 1 << 14, 7 << 19, 130 << 20]


def allocate(rounds, to_driver):
    """Allocates small and large blocks, from torch's cache or, every eighth round, from the driver.
    """
    for at in range(rounds):
        held = [torch.empty(size, dtype=torch.uint8, device=DEVICE) for size in SIZES]
        del held
        if to_driver and at % 8 == 7:
            torch.cuda.empty_cache()


def one_batch(rounds, to_driver):
    """Nanoseconds per allocation."""
    return timed(allocate, rounds, to_driver)[0] / (rounds * len(SIZES)) * 1e9


def loops(deadline):
    kinds = (("from torch's own blocks", False, 1500), ("every eighth round from the driver", True, 80))
    for _, to_driver, rounds in kinds:
        one_batch(rounds, to_driver)  # Warm-up.
    before = {name: [one_batch(rounds, to_driver) for _ in range(10)]
              for name, to_driver, rounds in kinds}
    cache = spillway.Cache(device=DEVICE, host_capacity="1GiB", capacity="4GiB")
    with st.install_rescue(cache):  # It is compiled the first time.
        pass
    having = {name: [] for name, _, _ in kinds}
    removed = {name: [] for name, _, _ in kinds}
    asked = 0
    for turn in range(40):
        if deadline.left() < 5:
            break
        for name, to_driver, rounds in kinds:
            for installed in (True, False) if turn % 2 else (False, True):
                if not installed:
                    removed[name].append(one_batch(rounds, to_driver))
                    continue
                with st.install_rescue(cache) as rescue:
                    having[name].append(one_batch(rounds, to_driver))
                    asked += rescue.stats().asked
    cache.close()
    for name, _, _ in kinds:
        ratios = [a / b for a, b in zip(having[name], removed[name])]
        say("loop", what=name, before_ns=median(before[name]), removed_ns=median(removed[name]),
            installed_ns=median(having[name]), slower=median(having[name]) / median(removed[name]) - 1,
            slower_pairs=median(ratios) - 1, least_installed_ns=min(having[name]),
            least_removed_ns=min(removed[name]), least_before_ns=min(before[name]),
            turns=len(having[name]), callbacks=asked)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hold-gib", type=float, default=82)
    parser.add_argument("--host", default="88GiB")
    parser.add_argument("--seconds", type=float, default=115)
    args = parser.parse_args()
    deadline = Deadline(args.seconds)
    say_machine()
    loops(Deadline(40))
    rescue_part(args, deadline)


if __name__ == "__main__":
    main()
