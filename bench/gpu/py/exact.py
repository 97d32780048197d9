#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether contexts come back bit by bit, again and again, whatever else the machine does.

  PYTHONPATH=build/gpu-pack/py python3 bench/gpu/py/exact.py [--seconds 100]

Keys and values of the Llama-3-8B shape, random and all different, are saved, restored from the
card, given back, restored from host memory and compared, tensor by tensor; a difference is reported
with its place and size. Then the model itself: the same next token on the same context, again and
again, and on the restored one, to distinguish a context that differs from a kernel that does; with
and without cuDNN's attention. With --busy that many processes keep the machine's cores busy
meanwhile.
"""

import argparse
import subprocess
import sys
import time

import torch
import transformers

import spillway
import spillway.transformers as st
from common import DEVICE, Deadline, forward, llama_8b, say, say_machine, wait_backed


def context(model, tokens, seed):
    """A DynamicCache as after a prefill, but with random content."""
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    past = transformers.DynamicCache(config=model.config)
    for layer in past.layers:
        pair = [torch.randint(-(1 << 15), 1 << 15, (1, 8, tokens, 128), dtype=torch.int16,
                              device=DEVICE, generator=generator).view(torch.bfloat16)
                for _ in range(2)]
        layer.lazy_initialization(*pair)
        layer.keys, layer.values = pair
    return past


def differences(one, two, tokens, chunk):
    """Where two contexts differ: (layer, which, chunk, elements), at most eight of them."""
    found = []
    for at, (a, b) in enumerate(zip(one.layers, two.layers)):
        for which in ("keys", "values"):
            x = getattr(a, which)[:, :, :tokens].contiguous().view(torch.int16)
            y = getattr(b, which)[:, :, :tokens].contiguous().view(torch.int16)
            if torch.equal(x, y):
                continue
            wrong = (x != y).sum(dim=(0, 1, 3))
            for piece in range(0, tokens, chunk):
                count = int(wrong[piece:piece + chunk].sum())
                if count and len(found) < 8:
                    heads = (x != y)[:, :, piece:piece + chunk].sum(dim=(0, 2, 3)).tolist()
                    zeros = int((y[:, :, piece:piece + chunk] == 0).sum())
                    found.append((at, which, piece // chunk, count, heads, zeros))
    return found


def rounds(cache, model, args, deadline):
    done = {}
    for number in range(1 << 30):
        if deadline.left() < 25:
            break
        tokens = (2048, 8192, 4096 + 77, 8192, 16384)[number % 5]
        ids = torch.randint(0, 128000, (1, tokens), device=DEVICE)
        past = context(model, tokens, number)
        torch.cuda.synchronize()
        st.save_prefix(past, model, ids, cache, chunk=args.chunk)
        seen = done.setdefault(tokens, dict(rounds=0, card=0, host=0))
        seen["rounds"] += 1
        for where in ("card", "host", "host", "host"):
            if where == "host":
                wait_backed(cache, 10, 1.0)
                cache.reclaim(1 << 50, within=10)
            found = st.load_prefix(ids, model, cache, chunk=args.chunk)
            wrong = differences(past, found.cache, min(tokens, found.tokens), args.chunk)
            if wrong or found.tokens != tokens:
                seen[where] += 1
                say("differs", tokens=tokens, where=where, round=number, found=found.tokens,
                    wrong=str(wrong))
            del found
        cache.clear()
        del past
    for tokens, seen in sorted(done.items()):
        say("exact", tokens=tokens, **seen)


def logits_again(cache, model, args, tokens=8192):
    """Computes the same next token again and again."""
    ids = torch.randint(0, 128000, (1, tokens + 1), device=DEVICE)
    past = transformers.DynamicCache(config=model.config)
    forward(model, ids[:, :tokens], past)
    st.save_prefix(past, model, ids[:, :tokens], cache, chunk=args.chunk)
    wait_backed(cache, 10, 1.0)
    cache.reclaim(1 << 50, within=10)
    found = st.load_prefix(ids[:, :tokens], model, cache, chunk=args.chunk).cache
    wrong = differences(past, found, tokens, args.chunk)
    answers = {"same": [], "restored": []}
    for _ in range(12):
        for name, which in (("same", past), ("restored", found)):
            answers[name].append(forward(model, ids[:, tokens:], which))
            which.crop(-1)
    first = answers["same"][0]
    say("logits", tokens=tokens, cudnn=torch.backends.cuda.cudnn_sdp_enabled(),
        context_differs=str(wrong),
        same_as_first=sum(bool(torch.equal(first, each)) for each in answers["same"]),
        restored_as_first=sum(bool(torch.equal(first, each)) for each in answers["restored"]),
        of=len(answers["same"]))
    cache.clear()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunk", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--busy", type=int, default=0)
    args = parser.parse_args()
    deadline = Deadline(args.seconds)
    say_machine()
    model = llama_8b()
    cache = spillway.Cache(device=DEVICE, host_capacity="16GiB", write_back_after="0ms",
                           write_back_rate=None, token_budget=None)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(args.busy)]
    try:
        for cudnn in (True, False) * 3:
            torch.backends.cuda.enable_cudnn_sdp(cudnn)
            logits_again(cache, model, args)
        rounds(cache, model, args, deadline)
    finally:
        for process in busy:
            process.kill()
        time.sleep(0.1)
    cache.close()


if __name__ == "__main__":
    main()
