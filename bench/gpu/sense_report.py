#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/gpu/sense_report.py FILE...: evaluates what bench/gpu/sense.sh measured.

The time from a neighbour's call to the change of level, and the CPU time of the monitor's threads.
A jump that no change of level follows within a second, or that was refused, is counted and shown,
never dropped silently.
"""
import json
import sys


def read(paths):
    jumps, levels, ticks, busy = [], [], [], []
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                for kind, value in json.loads(line).items():
                    {"jump": jumps, "level": levels, "tick": ticks, "busy": busy}[kind].append(value)
    return jumps, levels, ticks, busy


RANKS = ["relaxed", "normal", "pressure", "critical", "emergency"]


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def latencies(jumps, levels):
    rises = sorted(level["at"] for level in levels
                   if RANKS.index(level["to"]) > RANKS.index(level["from"]))
    found, refused, unseen = [], 0, 0
    for jump in jumps:
        if not jump["taken"]:
            refused += 1
            continue
        after = [at for at in rises if jump["called"] <= at <= jump["called"] + 1_000_000_000]
        if after:
            found.append((jump, (after[0] - jump["called"]) / 1e6))
        else:
            unseen += 1
    return found, refused, unseen


def show(name, found):
    if not found:
        return
    ms = [one for _, one in found]
    took = [(jump["returned"] - jump["called"]) / 1e6 for jump, _ in found]
    print(f"{name}: {len(ms)} jumps, call to level p50 {quantile(ms, .5):.2f} ms, "
          f"p90 {quantile(ms, .9):.2f}, p99 {quantile(ms, .99):.2f}, max {max(ms):.2f}; "
          f"the call itself p50 {quantile(took, .5):.2f} ms, p99 {quantile(took, .99):.2f}")


def share(ticks, begin, end):
    inside = [tick for tick in ticks if begin <= tick["at"] <= end]
    if len(inside) < 2:
        return None
    first, last = inside[0], inside[-1]
    wall = last["at"] - first["at"]
    ran = last["monitor_ns"] - first["monitor_ns"]
    return ran / wall, wall / 1e9, (last["reads"] - first["reads"]) / (wall / 1e9)


def main(paths):
    jumps, levels, ticks, busy = read(paths)
    found, refused, unseen = latencies(jumps, levels)
    show("all", found)
    show("after 10 s of quiet", [one for one in found if one[0]["quiet"] >= 10])
    show("after less", [one for one in found if one[0]["quiet"] < 10])
    print(f"refused by the driver: {refused}; not seen within 1 s: {unseen}")
    runs = {}
    for path in paths:
        own = read([path])
        if own[2]:
            runs[path] = own[2]
    for path, own in runs.items():
        phases = [("all of it", own[0]["at"], own[-1]["at"])]
        for one in busy:
            if own[0]["at"] <= one["from"] <= own[-1]["at"]:
                phases.append(("quiet", own[0]["at"], one["from"]))
                phases.append(("busy", one["from"], one["to"]))
        for name, begin, end in phases:
            result = share(own, begin, end)
            if result:
                print(f"{path}: {name}: {result[1]:.0f} s, {100 * result[0]:.3f} % of a core, "
                      f"{result[2]:.0f} readings a second")
        print(f"{path}: {own[-1]['failures']} failed readings, {own[-1]['hangs']} of them late")


if __name__ == "__main__":
    main(sys.argv[1:])
