#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What vLLM's scheduler thread loses to SpillwayTier: microseconds a step.

Twice: by the clock (`us_`), with what it waits for a core and for the interpreter's lock, and the
processor time of its own (`cpu_`), which a busy machine changes little. What measuring a call costs is
found out first and taken off.

  bench/engines/scheduler_thread.py MODEL [--socket PATH] [--requests N] [--chunk TOKENS] [--policy]

Runs in the venv of tools/engine_tests.py, with its paths. All methods that vLLM calls are timed; a
step ends with on_schedule_end. All requests store, and then all restore.
"""

import argparse
import json
import os
import sys
import time

METHODS = ("on_new_request", "lookup", "submit_store", "submit_load", "get_finished_jobs",
           "has_pending_work", "touch", "on_request_finished", "on_schedule_end", "get_stats")


def share(numbers, part):
    return sorted(numbers)[min(len(numbers) - 1, int(len(numbers) * part))]


def cheapest(measured, spent):
    """What the clocks say of a call that does nothing: the least of many batches."""
    found = []
    for _ in range(50):
        spent[:] = 0.0, 0.0, 0
        for _ in range(1000):
            measured(None)
        found.append((spent[0] / 1000, spent[1] / 1000))
    spent[:] = 0.0, 0.0, 0
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--socket")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--chunk", type=int, default=32)
    parser.add_argument("--policy", action="store_true")
    args = parser.parse_args()
    from spillway.vllm import SpillwayTier
    import vllm_engine

    steps, cpu, spent = [], [], [0.0, 0.0, 0]

    def timed(method):
        def call(self, *arguments):
            began, own = time.perf_counter(), time.thread_time()
            try:
                return method(self, *arguments)
            finally:
                spent[1] += time.thread_time() - own
                spent[0] += time.perf_counter() - began
                spent[2] += 1
        return call

    wall_each, cpu_each = cheapest(timed(lambda self: None), spent)
    for name in METHODS:
        setattr(SpillwayTier, name, timed(getattr(SpillwayTier, name)))
    ended = SpillwayTier.on_schedule_end

    def end(self, context):
        ended(self, context)
        steps.append(max(0.0, spent[0] - spent[2] * wall_each) * 1e6)
        cpu.append(max(0.0, spent[1] - spent[2] * cpu_each) * 1e6)
        spent[:] = 0.0, 0.0, 0
    SpillwayTier.on_schedule_end = end

    tier = {"socket": args.socket} if args.socket else {"capacity": "256MiB"}
    engine = vllm_engine.engine_of({
        "model": args.model, "tier": tier, "cpu_bytes": 128 << 20, "max_len": 2048,
        "chunk": args.chunk,
        "policy": "SpillwayPolicy" if args.policy else None})
    prompts = [[100 + at, 1500, [at]] for at in range(args.requests)]
    for again in range(2):
        steps.clear(), cpu.clear()
        answers, seconds = vllm_engine.ask(engine, {"prompts": prompts, "tokens": 64})
        print(json.dumps({
            "phase": "restore" if again else "store", "steps": len(steps),
            "seconds": round(seconds, 1), "restored_tokens": sum(one["cached"] for one in answers),
            "us_p50": round(share(steps, 0.5), 1), "us_p90": round(share(steps, 0.9), 1),
            "us_p99": round(share(steps, 0.99), 1), "us_max": round(max(steps), 1),
            "cpu_p50": round(share(cpu, 0.5), 1), "cpu_p90": round(share(cpu, 0.9), 1),
            "cpu_p99": round(share(cpu, 0.99), 1), "cpu_max": round(max(cpu), 1)}), flush=True)
        vllm_engine.tier_of(engine).drain_jobs()
        engine.llm_engine.reset_prefix_cache(False, True)
    engine.llm_engine.engine_core.shutdown()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
