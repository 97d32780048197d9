#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a user notices: agents in the rhythm of WEKA's coding agents, and a neighbour on the card.

  PYTHONPATH=build/gpu-pack/py python3 bench/gpu/py/agents.py

Llama-3-8B shape, random weights, transformers. One worker serves turns in the order of their
arrival; a turn is an agent's whole context plus some hundred new tokens. TTFT is from its arrival
to the first logits, waiting included. Four ways to keep contexts, in one run: none (everything is
prefilled again), DynamicCache(offloading=True) per agent, pinned host memory with LRU, and
Spillway; each without a neighbour, and with one in another process that takes half of the card,
again and again.

Pauses are drawn from the quantiles of 49,334 requests of the WEKA trace (after a tool call
p10/50/90/99 3.9/8.5/70/611 s, after a human 5.7/210/2,981/39,529 s, 5 % of turns), at most 60 s,
and divided by --compress. All agents arrive within the first two seconds, so a short phase measures
how long that burst takes, and a way that has to prefill never gets through it: its TTFT grows with
--phase. Contexts: 2,048 shared tokens, then 8 to 24 thousand of an agent's own, some 400 more per
turn, about 77 GiB in all; --host-gib of host memory for each way that uses any. Each turn decodes 4
tokens. Spillway's levels begin later than by default (LATE), as in the runs of docs/gpu-results.md;
they are of no use now that relief spares last copies. --table uses the default ones. Bounded: 9
minutes.
"""

import argparse
import bisect
import heapq
import math
import mmap
import os
import random
import subprocess
import sys
import threading
import time

import torch
import transformers

import spillway.torch
import spillway.transformers as st
from common import DEVICE, GIB, Deadline, forward, llama_8b, say, say_machine, share, timed

TOOL = [(0.0, 2.0), (0.1, 3.9), (0.5, 8.5), (0.9, 70.0), (0.99, 611.0), (1.0, 1000.0)]
HUMAN = [(0.0, 3.0), (0.1, 5.7), (0.5, 210.0), (0.9, 2981.0), (0.99, 39529.0), (1.0, 50000.0)]
SYSTEM_TOKENS, TURN_TOKENS, MOST_TOKENS, DECODED = 2048, 400, 32768, 4
CHUNK = 256
# With half of the card taken, the default PRESSURE (0.85) would begin while most of the rest is
# free, and contexts that are only in host memory would be destroyed for copies of contexts on the
# card.
LATE = {"normal": 0.93, "pressure": 0.94, "critical": 0.96, "emergency": 0.98}
MORE = {"thresholds": LATE}  # Settings of the cache, and those from the command line.


def pause(rng, compress):
    table = HUMAN if rng.random() < 0.05 else TOOL
    at = rng.random()
    upper = max(1, bisect.bisect_left([q for q, _ in table], at))
    (q0, v0), (q1, v1) = table[upper - 1], table[upper]
    seconds = math.exp(math.log(v0) + (at - q0) / (q1 - q0) * (math.log(v1) - math.log(v0)))
    return min(seconds, 60.0) / compress


class Agent:
    """What the agent has said so far; the same for every way to keep it."""

    def __init__(self, number, system):
        self.number = number
        self.rng = random.Random(number)
        self.tokens = torch.Generator().manual_seed(number)
        own = self.rng.randrange(8192, 24576)
        self.ids = torch.cat([system, self._new(own)])
        self.turns = 0

    def _new(self, count):
        return torch.randint(0, 128000, (count,), generator=self.tokens)

    def turn(self):
        """The prompt of the next turn."""
        self.turns += 1
        if len(self.ids) < MOST_TOKENS:
            self.ids = torch.cat([self.ids, self._new(TURN_TOKENS)])
        else:  # It starts again after the system prompt, as agents do when they compact.
            self.ids = torch.cat([self.ids[:SYSTEM_TOKENS], self._new(2048)])
        return self.ids


# --- ways to keep contexts ---


class Nothing:
    name = "no cache"

    def __init__(self, model, _):
        self.model = model

    def first_token(self, agent, ids):
        past = transformers.DynamicCache(config=self.model.config)
        return past, 0, forward(self.model, ids[None], past)

    def keep(self, agent, ids, past):
        pass

    def facts(self):
        return {}

    def close(self):
        pass


class Offloaded(Nothing):
    """transformers' own way: every layer's tensors are in host memory, and fetched as the layer
    runs.

    All but the first layer is on the host; least recently used contexts are dropped first, so that
    it uses no more host memory than the other ways. --offload-all: no limit.
    """

    name = "DynamicCache(offloading=True)"

    def __init__(self, model, host_bytes):
        super().__init__(model, host_bytes)
        self.pasts = {}  # agent: (ids, past, bytes), least recently used first
        self.most = host_bytes
        self.evicted = 0

    def first_token(self, agent, ids):
        known, past, _ = self.pasts.pop(agent.number, (None, None, 0))
        if known is None or len(known) >= len(ids) or not torch.equal(known, ids[:len(known)]):
            past = transformers.DynamicCache(config=self.model.config, offloading=True)
            return past, 0, forward(self.model, ids[None], past)
        return past, len(known), forward(self.model, ids[None, len(known):], past)

    def keep(self, agent, ids, past):
        size = sum(layer.keys.nbytes + layer.values.nbytes for layer in past.layers)
        self.pasts[agent.number] = ids.clone(), past, size
        while sum(entry[2] for entry in self.pasts.values()) > self.most:
            self.pasts.pop(next(iter(self.pasts)))
            self.evicted += 1

    def facts(self):
        return {"host_gib": sum(entry[2] for entry in self.pasts.values()) / GIB,
                "evicted": self.evicted}

    def close(self):
        self.pasts.clear()


class Pinned(Nothing):
    """A pool of pinned host memory for whole contexts; least recently used ones are dropped first.
    """

    name = "pinned host + LRU"

    def __init__(self, model, host_bytes):
        super().__init__(model, host_bytes)
        self.map = mmap.mmap(-1, host_bytes)
        self.map.madvise(mmap.MADV_HUGEPAGE)
        self.pool = torch.frombuffer(self.map, dtype=torch.uint8)
        self.pool[::1 << 16] = 1  # Touched, so that registering is quick.
        code = torch.cuda.cudart().cudaHostRegister(self.pool.data_ptr(), host_bytes, 0)
        if int(code):
            raise SystemExit(f"cudaHostRegister: {code}")
        self.kept = {}  # agent: (ids, offset, bytes), least recently used first
        self.evicted = 0

    def _room(self, size):
        """An offset with that many free bytes after it; the oldest contexts are dropped until there
        is one.
        """
        while True:
            at = 0
            for start, length in sorted((o, n) for _, o, n in self.kept.values()):
                if start - at >= size:
                    return at
                at = max(at, start + length)
            if self.pool.nbytes - at >= size:
                return at
            if not self.kept:
                return None
            self.kept.pop(next(iter(self.kept)))
            self.evicted += 1

    def _tensors(self, tokens, device):
        return [torch.empty((1, 8, tokens, 128), dtype=torch.bfloat16, device=device)
                for _ in range(2 * self.model.config.num_hidden_layers)]

    def first_token(self, agent, ids):
        past = transformers.DynamicCache(config=self.model.config)
        found = self.kept.pop(agent.number, None)
        known = len(found[0]) if found and len(found[0]) < len(ids) and \
            torch.equal(found[0], ids[:len(found[0])]) else 0
        if known:
            self.kept[agent.number] = found
            tensors = self._tensors(known, DEVICE)
            at = found[1]
            for tensor in tensors:
                flat = tensor.view(torch.uint8).reshape(-1)
                flat.copy_(self.pool[at:at + flat.nbytes], non_blocking=True)
                at += flat.nbytes
            for layer, keys, values in zip(past.layers, tensors[::2], tensors[1::2]):
                layer.lazy_initialization(keys, values)
                layer.keys, layer.values = keys, values
        return past, known, forward(self.model, ids[None, known:], past)

    def keep(self, agent, ids, past):
        self.kept.pop(agent.number, None)
        size = sum(layer.keys.nbytes + layer.values.nbytes for layer in past.layers)
        offset = self._room(size)
        if offset is None:
            return
        at = offset
        for layer in past.layers:
            for tensor in (layer.keys, layer.values):
                flat = tensor.contiguous().view(torch.uint8).reshape(-1)
                self.pool[at:at + flat.nbytes].copy_(flat, non_blocking=True)
                at += flat.nbytes
        torch.cuda.synchronize()
        self.kept[agent.number] = ids.clone(), offset, size

    def facts(self):
        return {"evicted": self.evicted}

    def close(self):
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaHostUnregister(self.pool.data_ptr())
        del self.pool


class Spillway(Nothing):
    name = "Spillway"

    def __init__(self, model, host_bytes):
        super().__init__(model, host_bytes)
        self.cache = spillway.Cache(device=DEVICE, host_capacity=host_bytes, token_budget=None,
                                    write_back_after="50ms", write_back_rate=None, **MORE)
        self.rescue = spillway.torch.install_rescue(self.cache)
        self.watched = False

    def watch(self, seconds):
        self.watched = True
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            asked = time.monotonic()
            stats = self.cache.stats()
            device, left = stats["device"], stats["left_by_action"]
            print(f"  {asked:.2f} {device['level']} free {device['free'] / GIB:.1f} reserve"
                  f" {device['reserve'] / GIB:.1f} held {device['held'] / GIB:.1f} backed"
                  f" {device['backed'] / GIB:.1f} clean {device['clean'] / GIB:.1f} host"
                  f" {stats['host']['bytes'] / GIB:.1f} torch {torch.cuda.memory_reserved() / GIB:.1f}"
                  f" down {stats['moves']['bytes_down'] / GIB:.1f} dropped {left['drop']} demoted"
                  f" {left['demote']} destroyed {left['destroy']}, said after"
                  f" {(time.monotonic() - asked) * 1e3:.0f} ms", file=sys.stderr, flush=True)
            time.sleep(0.05)

    def first_token(self, agent, ids):
        began = time.perf_counter()
        past, known = st.load_prefix(ids[None, :-1], self.model, self.cache, chunk=CHUNK,
                                     when_faster=True)
        loaded = time.perf_counter() - began
        logits = forward(self.model, ids[None, known:], past)
        if self.watched:
            logits.argmax().item()
            print(f"  {time.monotonic():.2f} turn of {agent.number}: {known} of {len(ids)} tokens in"
                  f" {loaded * 1e3:.0f} ms, all after {(time.perf_counter() - began) * 1e3:.0f} ms",
                  file=sys.stderr, flush=True)
        return past, known, logits

    def keep(self, agent, ids, past):
        st.save_prefix(past, self.model, ids[None], self.cache, chunk=CHUNK,
                       agent=f"agent{agent.number}")

    def facts(self):
        stats = self.cache.stats()
        return {"rescue": self.rescue.kind, "device_gib": stats["device"]["bytes"] / GIB,
                "backed_gib": stats["device"]["backed"] / GIB,
                "clean_gib": stats["device"]["clean"] / GIB,
                "others_gib": stats["device"]["others"] / GIB, "mode": self.cache.mode.name,
                "torch_gib": torch.cuda.memory_reserved() / GIB,
                "host_gib": stats["host"]["bytes"] / GIB, "left": stats["left_by_action"],
                "moves": stats["moves"],
                "reclaims": self.rescue.stats().rescues}

    def close(self):
        self.rescue.remove()
        self.cache.close()


# --- a neighbour ---

NEIGHBOUR = """
import sys, time, torch
total = torch.cuda.mem_get_info()[1]
want, step, failed, took, rounds = total * float(sys.argv[1]), 2 << 30, 0, [], 0
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    held, start = [], time.monotonic()
    while sum(block.nbytes for block in held) < want and time.monotonic() < end:
        try:
            held.append(torch.empty(step, dtype=torch.uint8, device="cuda"))
            held[-1].fill_(1)
            torch.cuda.synchronize()
            time.sleep(0.02)
        except torch.cuda.OutOfMemoryError:
            failed += 1
            print("refused in round", rounds, "holding", sum(b.nbytes for b in held) >> 30, "GiB, free",
                  torch.cuda.mem_get_info()[0] >> 20, "MiB", time.monotonic(), file=sys.stderr, flush=True)
            time.sleep(0.05)
    took.append(time.monotonic() - start)
    rounds += 1
    time.sleep(4)
    del held
    torch.cuda.empty_cache()
    time.sleep(3)
print(failed, rounds, max(took))
"""


class Neighbour:
    """Takes a share of the card in steps of 2 GiB, holds it for 4 s, frees it for 3 s."""

    def __init__(self, part, seconds):
        self.process = subprocess.Popen(
            [sys.executable, "-c", NEIGHBOUR, str(part), str(seconds)], stdout=subprocess.PIPE,
            text=True, env={**os.environ, "PYTHONPATH": ""}) if part else None

    def finish(self):
        if self.process is None:
            return {}
        words = self.process.communicate(timeout=60)[0].split()
        if len(words) != 3:
            return {"neighbour": "failed"}
        return {"neighbour_ooms": int(words[0]), "neighbour_rounds": int(words[1]),
                "neighbour_slowest_s": float(words[2])}


# --- the run ---


def serve(keeper, agents, seconds, compress, seed):
    """Serves turns as they arrive, with one worker; returns the TTFT of each."""
    rng = random.Random(seed)
    start = time.perf_counter()
    due = [(rng.random() * 2, agent.number) for agent in agents]
    heapq.heapify(due)
    ttft, known_tokens, all_tokens, ooms = [], 0, 0, 0
    first, keeping = [], []
    while due:
        at, number = heapq.heappop(due)
        now = time.perf_counter() - start
        if max(at, now) > seconds:
            break
        if at > now:
            time.sleep(at - now)
        agent = agents[number]
        ids = agent.turn().to(DEVICE)
        try:
            began = time.perf_counter()
            past, known, logits = keeper.first_token(agent, ids)
            logits.argmax().item()  # The first token is ready.
            first.append(time.perf_counter() - began)
            ttft.append(time.perf_counter() - start - at)
            more = agent._new(DECODED).to(DEVICE)
            for token in more:
                forward(keeper.model, token.view(1, 1), past)
            agent.ids = torch.cat([agent.ids, more.cpu()])
            began = time.perf_counter()
            keeper.keep(agent, torch.cat([ids, more]), past)
            torch.cuda.synchronize()
            keeping.append(time.perf_counter() - began)
            known_tokens, all_tokens = known_tokens + known, all_tokens + len(ids)
        except torch.cuda.OutOfMemoryError:
            ooms += 1
            torch.cuda.empty_cache()
        past = logits = None
        heapq.heappush(due, (time.perf_counter() - start + pause(agent.rng, compress), number))
    return dict(turns=len(ttft), ttft_p50_ms=share(ttft, 0.5) * 1e3,
                ttft_p99_ms=share(ttft, 0.99) * 1e3, our_ooms=ooms,
                unqueued_p50_ms=share(first, 0.5) * 1e3, unqueued_p99_ms=share(first, 0.99) * 1e3,
                keep_p50_ms=share(keeping, 0.5) * 1e3, keep_p99_ms=share(keeping, 0.99) * 1e3,
                busy_part=(sum(first) + sum(keeping)) / seconds,
                reused_part=known_tokens / max(all_tokens, 1))


def one_keeper(make, model, args, deadline):
    torch.manual_seed(1)
    system = torch.randint(0, 128000, (SYSTEM_TOKENS,),
                           generator=torch.Generator().manual_seed(0))
    agents = [Agent(number, system) for number in range(args.agents)]
    unbounded = make is Offloaded and args.offload_all
    keeper = make(model, int(1e15) if unbounded else int(args.host_gib * GIB))
    start = time.monotonic()
    keeping = 0.0
    if make is not Nothing:
        for agent in agents:  # Every agent has had a turn before; not timed.
            ids = agent.ids.to(DEVICE)
            past, _, logits = keeper.first_token(agent, ids)
            logits.argmax().item()
            keeping += timed(keeper.keep, agent, ids, past)[0]
            past = logits = None
    warm = time.monotonic() - start
    say("preload", system=keeper.name, seconds=warm, keeping_s=keeping)
    for part in (0.0, args.neighbour)[args.skip_quiet:]:
        if deadline.left() < args.phase + 5:
            say("left out", system=keeper.name, neighbour=part, why="time")
            continue
        neighbour = Neighbour(part, args.phase)
        if args.watch and make is Spillway:
            threading.Thread(target=keeper.watch, args=(args.phase,), daemon=True).start()
        figures = serve(keeper, agents, args.phase, args.compress, seed=11)
        say("agents", system=keeper.name, neighbour=part, **figures, **neighbour.finish(),
            **keeper.facts())
    keeper.close()
    torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--host-gib", type=float, default=40)
    parser.add_argument("--neighbour", type=float, default=0.5)
    parser.add_argument("--phase", type=float, default=30)
    parser.add_argument("--compress", type=float, default=2)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--only", default="", choices=["spillway", "pinned", "offloaded", "nothing"],
                        help="one way")
    parser.add_argument("--skip-quiet", action="store_true", help="only with the neighbour")
    parser.add_argument("--offload-all", action="store_true",
                        help="DynamicCache(offloading=True) may use all of the host's memory")
    parser.add_argument("--watch", action="store_true", help="lines of what the cache has, 20 a second")
    parser.add_argument("--table", action="store_true", help="levels as they are by default")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a setting of the cache, besides")
    parser.add_argument("--seconds", type=float, default=540)
    args = parser.parse_args()
    if args.table:
        del MORE["thresholds"]
    for pair in args.set:
        name, equals, value = pair.partition("=")
        if not equals:
            parser.error(f"--set {pair}: NAME=VALUE is right")
        MORE[name] = value
    deadline = Deadline(args.seconds)
    say_machine()
    # cuDNN makes a plan for every new length of a context, about 60 ms each, which the first way to
    # run would pay for all. Without cuDNN every way has the same kernels at once.
    torch.backends.cuda.enable_cudnn_sdp(False)
    model = llama_8b(args.layers)
    forward(model, torch.zeros((1, 4096), dtype=torch.int64, device=DEVICE),
            transformers.DynamicCache(config=model.config))
    for make in (Spillway, Pinned, Offloaded, Nothing):
        if args.only in make.__name__.lower():
            one_keeper(make, model, args, deadline)


if __name__ == "__main__":
    main()
