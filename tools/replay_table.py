#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/replay_table.py [--program P] [--traces DIR]: computes every figure of
docs/reference/replay.md from the traces, with the goals beside them. `score` is the cache itself
with that policy.

The traces are not part of the repository; without them it says so and ends. Exits with 1 if a goal
is missed.
"""
import argparse
import json
import os
import subprocess
import sys

CLASSICS = ["lru", "lfu", "s3-fifo", "w-tinylfu", "arc", "lru-2"]
OWN = ["documented", "hybrid", "seed"]
SHARES = ["1%", "2.5%", "5%", "10%", "25%", "50%"]
WEKA = "weka_claude_code.jsonl.gz"
CHAT = "mooncake_conversation.jsonl.gz"
OTHERS = ["mooncake_arxiv_first1000.jsonl.gz", "lmcache_agents.jsonl.gz",
          "dynamo_pi_agents.jsonl.gz"]
MARGIN = 0.005  # Half a point of hit ratio.
WAIT_MARGIN = 1.05

failed = []


def replay(args, trace, policies, capacities, *more):
    """Result rows by (policy, capacity as given)."""
    command = [args.program, "replay", "--json", "--trace", os.path.join(args.traces, trace),
               "--policy", ",".join(policies), "--capacity", ",".join(capacities), *more]
    print("\n$ " + " ".join(["spillway", *command[1:]]).replace(args.traces + "/", ""), flush=True)
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    keys = [(policy, capacity) for capacity in capacities for policy in policies]
    return dict(zip(keys, rows, strict=True))


def table(rows, field="token_hit_ratio"):
    policies = list(dict.fromkeys(policy for policy, _ in rows))
    capacities = list(dict.fromkeys(capacity for _, capacity in rows))
    print(f"{field:<16}" + "".join(f"{policy:>11}" for policy in policies))
    for capacity in capacities:
        blocks = rows[policies[0], capacity]["capacity_blocks"]
        print(f"{capacity:>6} {blocks:>8} " +
              "".join(f"{rows[policy, capacity][field]:>11.4f}" for policy in policies), flush=True)


def goal(what, value, least):
    ok = value >= least
    print(f"  {'ok    ' if ok else 'MISSED'} {what}: {value:.4f}, goal {least:.4f}")
    if not ok:
        failed.append(what)


def never_behind(name, rows, requests):
    """At most half a point below LRU; on long traces, below the best classic order."""
    worst = [1, ""]
    for (policy, capacity), row in rows.items():
        if policy != "score":
            continue
        best = rows["lru", capacity]["token_hit_ratio"]
        if requests >= 10_000:
            best = max(rows[one, capacity]["token_hit_ratio"]
                       for one in CLASSICS if (one, capacity) in rows)
        ahead = row["token_hit_ratio"] - best
        worst = min(worst, [ahead, capacity])
    waits = max((row["waited_s"] / rows["lru", capacity]["waited_s"], capacity)
                for (policy, capacity), row in rows.items() if policy == "score")
    goal(f"{name}: seconds waited with lru over those with score, least (at {waits[1]})",
         1 / waits[0], 1 / WAIT_MARGIN)
    against = "the best classic" if requests >= 10_000 else "lru"
    goal(f"{name}: least lead over {against} (at {worst[1]})", worst[0], -MARGIN)


def weka(args):
    sizes = ["2048", "4096", "8192", "16384", "32768"]
    rows = replay(args, WEKA, ["score", "lru", "lfu", "belady"], sizes, "--flags", "end")
    table(rows)
    table(rows, "saved_ratio")
    for size, least in zip(sizes, [.375, .635, .865, .937], strict=False):
        goal(f"weka with end flags at {size} blocks",
             rows["score", size]["token_hit_ratio"], least)
    never_behind("weka with end flags", rows, 0)
    for size in sizes[:2]:
        low = rows["lru", size]["saved_ratio"]
        high = rows["belady", size]["saved_ratio"]
        goal(f"weka at {size} blocks: share of the gap in saved_ratio closed",
             (rows["score", size]["saved_ratio"] - low) / (high - low), .4)
    rows = replay(args, WEKA, ["score", *CLASSICS, *OWN], SHARES)
    table(rows)
    never_behind("weka", rows, 49_334)
    for spacing in ["10s", "300s"]:
        rows = replay(args, WEKA, ["score", "lru"], ["1024", *sizes, "65536"],
                      "--spacing", spacing)
        table(rows)
        if spacing == "10s":  # The value that return density alone reached in the traces' README.
            for size, least in zip(sizes[2:], [.5379, .7516, .9084], strict=True):
                goal(f"weka {spacing} apart at {size} blocks",
                     rows["score", size]["token_hit_ratio"], least)
        never_behind(f"weka {spacing} apart", rows, 0)


def chat(args):
    rows = replay(args, CHAT, ["score", *CLASSICS, *OWN, "belady"], SHARES)
    table(rows)
    table(rows, "saved_ratio")
    goal("chat at 1%", rows["score", "1%"]["token_hit_ratio"], .106)
    goal("chat at 5%", rows["score", "5%"]["token_hit_ratio"], .225)
    never_behind("chat", rows, 12_031)
    rows = replay(args, CHAT, ["score", "lru"], SHARES, "--flags", "end")
    table(rows)
    goal("chat with end flags at 5%", rows["score", "5%"]["token_hit_ratio"], .35)
    never_behind("chat with end flags", rows, 0)
    for wrong in ["0", "0.1", "0.5"]:
        rows = replay(args, CHAT, ["score", "lru"], SHARES, "--flags", f"bit:{wrong}")
        table(rows)
        if wrong == "0.1":
            goal("chat with bits, a tenth wrong, at 5%",
                 rows["score", "5%"]["token_hit_ratio"], .28)
        never_behind(f"chat with bits, {wrong} wrong", rows, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bin/spillway")
    parser.add_argument("--traces", default="../shared/traces")
    args = parser.parse_args()
    if not os.path.exists(os.path.join(args.traces, CHAT)):
        print(f"no traces in {args.traces}: nothing replayed (TRACES=DIR names another folder)")
        return 0
    chat(args)
    weka(args)
    for trace in OTHERS:
        rows = replay(args, trace, ["score", *CLASSICS, "belady"], SHARES)
        table(rows)
        never_behind(trace, rows, 0)
    print(f"\n{len(failed)} goals missed" + "".join(f"\n  {what}" for what in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
