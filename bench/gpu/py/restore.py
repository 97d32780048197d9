#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Restore compared with prefill: transformers, Llama-3-8B shape with random weights.

  PYTHONPATH=build/gpu-pack/py python3 bench/gpu/py/restore.py [--tokens 2048,8192,32768,65536]

One row per length: prefill; save (the call, and until a copy is in host memory) beside tensor.cpu()
and copies into pinned memory; restore from host and from the card beside the raw link; whether keys
and values have the same bits, and the next logits (without cuDNN's attention, which does not give
the same bits for the same input; beside it the same without Spillway). The host tier is registered
with the driver first, as it is some seconds after a cache was opened. Bounded: 4 minutes.
"""

import argparse
import gc
import time

import torch
import transformers

import spillway
import spillway.transformers as st
from common import (DEVICE, GIB, Deadline, forward, kv_bytes, llama_8b, median, say, say_machine,
                    timed, wait_backed, wait_registered)


def link_limit(size, pinned):
    """Seconds for that many bytes from pinned memory to the card and back, raw."""
    there = torch.empty(min(size, pinned.nbytes), dtype=torch.uint8, device=DEVICE)
    rounds = -(-size // there.nbytes)

    def move(to, source):
        for _ in range(rounds):
            to.copy_(source, non_blocking=True)

    part = pinned[:there.nbytes]
    scale = size / (rounds * there.nbytes)
    up = median([timed(move, there, part)[0] for _ in range(3)]) * scale
    down = median([timed(move, part, there)[0] for _ in range(3)]) * scale
    return up, down


def to_cpu(past):
    return [(layer.keys.cpu(), layer.values.cpu()) for layer in past.layers]


def to_pinned(past, pinned):
    at = 0
    for layer in past.layers:
        for tensor in (layer.keys, layer.values):
            flat = tensor.reshape(-1).view(torch.uint8)
            pinned[at:at + flat.nbytes].copy_(flat, non_blocking=True)
            at = (at + flat.nbytes) % max(1, pinned.nbytes - flat.nbytes)


def one_length(cache, model, tokens, pinned, chunk, deadline):
    ids = torch.randint(0, 128000, (1, tokens + 1), device=DEVICE)
    prefill = []
    torch.backends.cuda.enable_cudnn_sdp(True)
    for _ in range(2):
        past = transformers.DynamicCache(config=model.config)
        seconds, _ = timed(forward, model, ids[:, :tokens], past)
        prefill.append(seconds)
    # With it the same input gives different bits each time.
    torch.backends.cuda.enable_cudnn_sdp(False)
    size = kv_bytes(past)
    up, down = link_limit(size, pinned)
    save_s, saved = timed(st.save_prefix, past, model, ids[:, :tokens], cache, chunk=chunk)
    start = time.perf_counter()
    backed = wait_backed(cache, min(30, deadline.left()))
    backed_s = save_s + time.perf_counter() - start
    on_card = median([timed(st.load_prefix, ids[:, :tokens], model, cache, chunk=chunk)[0]
                      for _ in range(3)])
    cache.reclaim(1 << 50, within=20)
    below = cache.stats()["device"]["bytes"]
    times, found = [], None
    for _ in range(7):
        del found
        seconds, found = timed(st.load_prefix, ids[:, :tokens], model, cache, chunk=chunk)
        times.append(seconds)
        cache.reclaim(1 << 50, within=20)
    same_kv = all(torch.equal(getattr(a, which), getattr(b, which))
                  for a, b in zip(past.layers, found.cache.layers) for which in ("keys", "values"))
    one = forward(model, ids[:, tokens:], past)
    past.crop(-1)
    again = forward(model, ids[:, tokens:], past)
    two = forward(model, ids[:, tokens:], found.cache)
    cpu_s = timed(to_cpu, past)[0]
    pinned_s = timed(to_pinned, past, pinned)[0]
    say("restore", tokens=tokens, kv_gib=size / GIB, prefill_ms=min(prefill) * 1e3,
        restore_ms=median(times) * 1e3, restore_best_ms=min(times) * 1e3, link_ms=up * 1e3,
        of_link=median(times) / up, against_prefill=min(prefill) / median(times),
        restore_all_ms=[round(each * 1e3, 1) for each in times], restored_tokens=found.tokens, restore_on_card_ms=on_card * 1e3, left_on_card=below,
        same_keys_and_values=same_kv, bit_identical=bool(torch.equal(one, two)),
        bit_identical_without_us=bool(torch.equal(one, again)))
    say("save", tokens=tokens, saved_tokens=saved, save_ms=save_s * 1e3,
        save_gbs=size / save_s / 1e9, until_backed_gbs=size / backed_s / 1e9, backed=backed,
        tensor_cpu_gbs=size / cpu_s / 1e9, pinned_copies_gbs=size / pinned_s / 1e9,
        link_down_gbs=size / down / 1e9)
    cache.clear()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", default="2048,8192,32768,65536")
    parser.add_argument("--chunk", type=int, default=256)
    parser.add_argument("--host", default="24GiB")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=225)
    args = parser.parse_args()
    deadline = Deadline(args.seconds)
    say_machine()
    model = llama_8b(args.layers)
    pinned = torch.empty(2 * GIB, dtype=torch.uint8, pin_memory=True)
    cache = spillway.Cache(device=DEVICE, host_capacity=args.host, write_back_after="0ms",
                           write_back_rate=None, token_budget=None)
    registered = wait_registered(40)
    say("setup", seconds=args.seconds - deadline.left(), chunk_tokens=args.chunk,
        registered_s=registered)
    warm = torch.randint(0, 128000, (1, 2049), device=DEVICE)
    past = transformers.DynamicCache(config=model.config)
    forward(model, warm[:, :2048], past)
    st.save_prefix(past, model, warm[:, :2048], cache, chunk=args.chunk)
    wait_backed(cache, 20)
    cache.reclaim(1 << 50, within=10)
    st.load_prefix(warm[:, :2048], model, cache, chunk=args.chunk)
    cache.clear()
    for tokens in map(int, args.tokens.split(",")):
        if deadline.left() < 30:
            say("left out", tokens=tokens, why="time")
            continue
        one_length(cache, model, tokens, pinned, args.chunk, deadline)
        gc.collect()
        torch.cuda.empty_cache()
    cache.close()


if __name__ == "__main__":
    main()
