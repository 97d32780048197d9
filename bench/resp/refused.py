#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refused.py SPILLWAYD [--seconds S]: what EMERGENCY costs clients that are refused, and clients
that read.

One client gets for S seconds in RELAXED. Then pressure, read from a file, goes up to EMERGENCY, and
for S seconds one client gets while another sets and is refused each time; `on_blocked` is "error".
Printed: p50, p99 and p99.9 of each, and the ratio of the gets' p99.
"""
import argparse
import gc
import os
import shutil
import tempfile
import threading
import time

from hostile import frame, launched, Client as Authenticated

VALUE = b"v" * 1000


class Client(Authenticated):
    def __init__(self, path):
        super().__init__(path, password=False)


def press(folder, pressure):
    path = os.path.join(folder, "pressure")
    with open(path + ".new", "w") as file:
        file.write(f"{pressure}\n")
    os.rename(path + ".new", path)


def start(program, folder):
    with open(os.path.join(folder, "d.toml"), "w") as file:
        file.write('capacity = "64MiB"\nsample_period = "100ms"\n'
                   f'pressure_source = "file:{folder}/pressure"\n'
                   '[server]\nport = 0\nhttp_port = 0\non_blocked = "error"\n')
    return launched(program, folder)


def timed(path, seconds, request, good, out):
    """Sends one request again and again; the times of all answers, in seconds."""
    client = Client(path)
    times = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        client.socket.sendall(request)
        answer = client.reply()
        times.append(time.perf_counter() - began)
        if not good(answer):
            raise SystemExit(f"answered {answer[:80]!r}")
    out.extend(sorted(times))


def row(name, times):
    def at(share):
        return times[min(int(len(times) * share), len(times) - 1)] * 1e3
    print(f"{name:28} {len(times):8} {at(.5):8.3f} {at(.99):8.3f} {at(.999):8.3f} {at(1):8.3f}")
    return at(.99)


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("program")
    parse.add_argument("--seconds", type=float, default=5.0)
    args = parse.parse_args()
    folder = tempfile.mkdtemp(prefix="spillwayd-refused-")
    press(folder, 0.1)
    process, path = start(args.program, folder)
    gc.disable()
    try:
        client = Client(path)
        if client(b"SET", b"k", VALUE) != b"+OK":
            raise SystemExit("the first set was refused")
        get, put = frame(b"GET", b"k"), frame(b"SET", b"other", VALUE)
        print(f"{'ms':28} {'answers':>8} {'p50':>8} {'p99':>8} {'p99.9':>8} {'most':>8}")
        relaxed, reads, refused, accepted = [], [], [], []

        def both(sets, good, writes, into):
            pair = [threading.Thread(target=timed, args=(path, args.seconds, sets, good, writes)),
                    threading.Thread(target=timed,
                                     args=(path, args.seconds, get, VALUE.__eq__, into))]
            for one in pair:
                one.start()
            for one in pair:
                one.join()

        both(put, b"+OK".__eq__, accepted, relaxed)
        press(folder, 0.99)
        end = time.monotonic() + 10
        while not client(b"SET", b"other", VALUE).startswith(b"-OOM"):
            if time.monotonic() > end:
                raise SystemExit("EMERGENCY was not reached")
            time.sleep(0.01)
        both(put, lambda answer: answer.startswith(b"-OOM"), refused, reads)
        row("set, RELAXED", accepted)
        row("set refused, EMERGENCY", refused)
        before = row("get, RELAXED", relaxed)
        after = row("get, EMERGENCY", reads)
        print(f"get p99 against RELAXED: {after / before:.2f}x")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
