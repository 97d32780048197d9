#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hit ratio of a trace of agents through LMCache's interface, with and without what we tell the
policy of LMCache's chunks: their tokens, and which chunk continues which.

  bench/engines/lmcache_replay.py weka_claude_code.jsonl.gz [--blocks N,...] [--requests N]

The trace is in `spillway replay`'s format `weka`. Each request is what LMCache's native_plugin makes
of it: EXISTS for all chunks of the prompt, GET of those found in one run from its beginning on, SET
of the rest. A hit is a chunk of that run. Values are 4 KiB for a chunk of 512 tokens. Requests come
one after another in the order of the trace's time (sessions begin 60 s apart), as fast as they are
served: pauses are as long as what others do meanwhile takes.
"""

import argparse
import gzip
import json
import os
import select
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
os.environ.setdefault("SPILLWAY_LIBRARY",
                      str(ROOT / "build/release/python/spillway/_lib/libspillway.so.0"))
sys.path.insert(0, str(ROOT / "python"))

from spillway.lmcache import SpillwayConnector  # noqa: E402

GROUP, TOKENS, SIZE = 8, 512, 4096
SPACING = 60_000  # Milliseconds between beginnings of sessions.
BATCH = 256


class Blind(SpillwayConnector):
    """What LMCache hands over and no more: keys and bytes."""

    def __init__(self, **settings):
        super().__init__(chunk_tokens=0, **settings)
        self._chains.learn = lambda keys: None


def requests_of(path, most):
    """(time, numbers of the prompt's chunks), in the order of time. The same number is the same
    prefix of the same session.
    """
    numbers, streams, found = {}, {}, []
    with gzip.open(path, "rt") as file:
        next(file), next(file)
        for line in file:
            one = json.loads(line)
            kept = streams.get((one["s"], one["a"]), [])[:one["k"]]
            ids = kept + [at for first, count in one["b"] for at in range(first, first + count)]
            streams[one["s"], one["a"]] = ids
            found.append((one["s"] * SPACING + one["t"], one["s"], ids))
    found.sort(key=lambda request: request[0])
    for when, session, ids in found[:most]:
        before, chunks = -1, []
        for at in range(0, len(ids) - GROUP + 1, GROUP):
            key = (before, session, *ids[at:at + GROUP])
            before = numbers.setdefault(key, len(numbers))
            chunks.append(before)
        yield when, chunks


class Driver:
    def __init__(self, connector):
        self.connector, self.fd = connector, connector.event_fd()
        self.value = memoryview(bytearray(SIZE))

    def wait(self, number):
        while True:
            for done in self.connector.drain_completions():
                if not done[1]:
                    raise SystemExit(f"a call failed: {done[2]}")
                if done[0] == number:
                    return done[3]
            select.select([self.fd], [], [], 1)

    def request(self, chunks):
        """How many chunks were served."""
        keys = [f"toy@00000000@0@{chunk:016x}" for chunk in chunks]
        run = 0
        for at in range(0, len(keys), BATCH):
            part = keys[at:at + BATCH]
            flags = self.wait(self.connector.submit_batch_exists(part))
            length = flags.index(False) if False in flags else len(part)
            run += length
            if length < len(part):
                break
        served = run
        for at in range(0, run, BATCH):
            part = keys[at:min(run, at + BATCH)]
            flags = self.wait(self.connector.submit_batch_get(part, [self.value] * len(part)))
            if not all(flags):
                served = at + flags.index(False)
                break
        for at in range(served, len(keys), BATCH):
            part = keys[at:at + BATCH]
            self.wait(self.connector.submit_batch_set(part, [self.value] * len(part)))
        return served


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--blocks", default="2048,4096,8192")
    parser.add_argument("--requests", type=int, default=5000)
    args = parser.parse_args()
    requests = list(requests_of(args.trace, args.requests))
    asked = sum(len(chunks) for _, chunks in requests)
    seen, ceiling = set(), 0
    for _, chunks in requests:
        ceiling += next((at for at, one in enumerate(chunks) if one not in seen), len(chunks))
        seen.update(chunks)
    print(json.dumps({"requests": len(requests), "chunks": asked, "different": len(seen),
                      "with_no_eviction": round(ceiling / asked, 4)}), flush=True)
    for blocks in map(int, args.blocks.split(",")):
        for kind, policy, made in (
                ("keys and bytes", "lru", Blind), ("keys and bytes", "score", Blind),
                ("tokens and parents", "score", SpillwayConnector)):
            about = {"chunk_tokens": TOKENS} if made is SpillwayConnector else {}
            connector = made(capacity=f"{blocks * SIZE}B", pressure_source="fixed:0.1",
                             policy=policy, sample_period="1s", **about)
            driver, began = Driver(connector), time.monotonic()
            served = sum(driver.request(chunks) for _, chunks in requests)
            print(json.dumps({"blocks": blocks, "policy": policy, "told": kind,
                              "hit_ratio": round(served / asked, 4),
                              "seconds": round(time.monotonic() - began, 1)}), flush=True)
            connector.close()


if __name__ == "__main__":
    main()
