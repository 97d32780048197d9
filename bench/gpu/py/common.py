# SPDX-License-Identifier: Apache-2.0
"""Shared by the Python benches on a GPU: a model of the Llama-3-8B shape, clocks, rows of output.
"""

import json
import os
import sys
import time

import torch
import transformers

import spillway

GIB = 1 << 30
DEVICE = "cuda:0"


def say(part, **figures):
    """Prints one row: a name and its figures as JSON."""
    rounded = {name: round(value, 4) if isinstance(value, float) else value
               for name, value in figures.items()}
    print(part, json.dumps(rounded), flush=True)


def say_machine():
    free, total = torch.cuda.mem_get_info()
    say("machine", gpu=torch.cuda.get_device_name(), gib=total / GIB, free_gib=free / GIB,
        torch=torch.__version__, transformers=transformers.__version__,
        spillway=spillway.__version__, python=sys.version.split()[0], cores=os.cpu_count())


class Deadline:
    """The time limit of a script: what does not fit is left out, and the output says so."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()


def timed(function, *args, **kwargs):
    """Seconds until the GPU has finished the call, and the call's result."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = function(*args, **kwargs)
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def share(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def llama_8b(layers=32):
    """Random weights in the shape of Llama-3-8B, bf16. No file is read."""
    config = transformers.LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=layers,
        num_attention_heads=32, num_key_value_heads=8, head_dim=128,
        max_position_embeddings=131072, rope_theta=500000.0, dtype="bfloat16")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(DEVICE):
            torch.manual_seed(7)
            model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return model.eval()


def kv_bytes(past):
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in past.layers)


def forward(model, ids, past):
    """The logits after the last token."""
    with torch.no_grad():
        return model(ids, past_key_values=past, use_cache=True, logits_to_keep=1).logits


def wait_registered(most):
    """Waits until the host tier is registered with the driver, which happens in the background:
    this process grows no more. Returns seconds.
    """
    start, size, since = time.monotonic(), 0, time.monotonic()
    while time.monotonic() - start < most and time.monotonic() - since < 1.0:
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if now > size + (64 << 20):
            size, since = now, time.monotonic()
        time.sleep(0.05)
    return time.monotonic() - start


def wait_backed(cache, most, part=0.98):
    """Waits until that part of the data on the card is clean, or for `most` seconds."""
    end = time.monotonic() + most
    while time.monotonic() < end:
        device = cache.stats()["device"]
        if device["backed"] >= part * device["bytes"]:
            return True
        time.sleep(0.01)
    return False
