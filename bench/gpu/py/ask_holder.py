#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cache that holds the card, for bench/gpu/run_ask.sh: fills it with contexts, says "ready",
waits for a line on standard input, and says how many contexts came back bit for bit.

  PYTHONPATH=build/gpu-pack/py python3 bench/gpu/py/ask_holder.py --hold-gib 100 --host 120GiB
"""

import argparse
import sys

import torch

import spillway
from common import DEVICE, GIB, Deadline, say, wait_backed
from rescue import PIECE, fill, verify


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--hold-gib", type=float, default=100)
    words.add_argument("--host", default="120GiB", help="the host tier; a small one is full")
    words.add_argument("--seconds", type=float, default=900)
    args = words.parse_args()
    deadline = Deadline(args.seconds)
    into = torch.empty(PIECE // 8, dtype=torch.int64, device=DEVICE)
    cache = spillway.Cache(device=DEVICE, host_capacity=args.host, write_back_after="0ms",
                           write_back_rate=None, token_budget=None, ttl=None)
    keys = fill(cache, int(args.hold_gib * GIB), into)
    backed = wait_backed(cache, 60, 0.97)
    device = cache.stats()["device"]
    say("holder", contexts=len(keys), ours_gib=device["bytes"] / GIB, backed=backed,
        free_gib=torch.cuda.mem_get_info()[0] / GIB)
    print("ready", flush=True)
    sys.stdin.readline()
    stats = cache.stats()
    say("asked", ask=stats.get("ask"), destroyed=stats.get("destroyed_by_reason"))
    say("kept", **verify(cache, keys, deadline, into))
    cache.close()


if __name__ == "__main__":
    main()
