#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py SPILLWAYD RESP_LEAN [ROUNDS]: spillwayd beside Debian's Redis 7.

The two take turns in one run; a row is the median of ROUNDS (5), and of the ratios of each round.
First with redis-benchmark, over TCP and the Unix socket; then with a minimal client that discards
replies, beside a server that answers from a fixed buffer.
"""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = [("100 B, pipeline 1", ["-d", "100", "-n", "50000", "-P", "1"]),
        ("100 B, pipeline 16", ["-d", "100", "-n", "300000", "-P", "16"]),
        ("64 KiB", ["-d", "65536", "-n", "8000"]),
        ("4 MiB", ["-d", "4194304", "-n", "200", "-c", "8"]),
        ("32 MiB", ["-d", "33554432", "-n", "24", "-c", "4"])]


def benchmark(where, test, options):
    out = subprocess.run(["redis-benchmark", *where, "-t", test, "-r", "20", "-q", *options],
                         capture_output=True, text=True).stdout
    return float(re.findall(r"([0-9.]+) requests per second", out)[-1])


def lean(program, what, socket, size):
    return float(subprocess.run([program, what, socket, str(size), "1.0"], capture_output=True,
                                text=True, check=True).stdout)


def row(name, ours, theirs, unit):
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    print(f"{name:34} {statistics.median(ours):12.0f} {statistics.median(theirs):12.0f} {unit:6}"
          f" {ratio:6.2f}x", flush=True)


def wait_for(socket):
    for _ in range(500):
        if os.path.exists(socket):
            return
        time.sleep(0.02)
    raise SystemExit(f"{socket}: nobody listens")


def main():
    spillwayd, lean_program = sys.argv[1], sys.argv[2]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    folder = tempfile.mkdtemp(prefix="bench-resp-")
    ours, theirs, fixed = (os.path.join(folder, n) for n in ("ours", "theirs", "fixed"))
    port = 21000 + os.getpid() % 20000
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [
        subprocess.Popen([spillwayd, "--port", str(port), "--http-port", "0", "--socket", ours], **quiet),
        subprocess.Popen(["redis-server", "--port", str(port + 1), "--unixsocket", theirs, "--save",
                          "", "--dir", folder], **quiet)]
    try:
        wait_for(ours)
        wait_for(theirs)
        print(f"{'redis-benchmark':34} {'spillwayd':>12} {'Redis':>12}")
        for way in ("TCP", "Unix socket"):
            for name, options in ROWS:
                for test in ("set", "get"):
                    turns = ([], [])
                    for _ in range(rounds):
                        for mine, turn in ((True, turns[0]), (False, turns[1])):
                            where = (["-p", str(port if mine else port + 1)] if way == "TCP"
                                     else ["-s", ours if mine else theirs])
                            turn.append(benchmark(where, test, options))
                    row(f"{way}, {test} {name}", *turns, "/s")
        print(f"\n{'lean client':34} {'spillwayd':>12} {'fixed buffer':>12}")
        for name, size in (("4 MiB", 4 << 20), ("32 MiB", 32 << 20)):
            server = subprocess.Popen([lean_program, "serve", fixed, str(size)], **quiet)
            processes.append(server)
            wait_for(fixed)
            for test in ("set", "get"):
                turns = ([], [])
                for _ in range(rounds):
                    turns[0].append(lean(lean_program, test, ours, size))
                    turns[1].append(lean(lean_program, test, fixed, size))
                row(f"{test} {name}", *turns, "MB/s")
            server.kill()
            server.wait()
            os.unlink(fixed)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
