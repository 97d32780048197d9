#!/usr/bin/env python3
"""kill.py SPILLWAYD [--kills N] [--writers N] [--seed N]: the daemon killed under load.

Writers set, overwrite, delete and read keys of their own on a daemon with a disk
tier, until it is killed: by SIGKILL and by SIGTERM in turn. It is started again on
the same directory and every key is read. What it serves must be the last value
that was acknowledged, or one that was on its way when the daemon died: never a
damaged one, never an older one, never one whose DEL was acknowledged. After SIGKILL
a cache may have forgotten; how much it kept is printed. After SIGTERM nothing may be
missing: what only memory had was written first.

Exit status: 0 all good, 1 something is wrong.
"""
import argparse
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

KEYS = 60  # Of each writer.
SIZES = (20, 500, 3000, 20_000, 40_000, 200_000)
# 0.65 is RELAXED, and so near to NORMAL that it is looked at every 8 ms; pressure that is unknown
# for a while, as on a busy machine, would refuse sets.
CONFIG = """capacity = "24MiB"
disk_dir = "{folder}/disk"
disk_capacity = "512MiB"
write_behind_after = "10ms"
pressure_source = "fixed:0.65"
disk_pressure_source = "fixed:0.65"
sample_period = "1s"
[server]
port = 0
http_port = 0
stop_flush = "60s"
"""


def value_of(key, number):
    """Made of its key and number alone: a wrong byte anywhere shows."""
    size = SIZES[number % len(SIZES)]
    return b"%d " % number + hashlib.shake_128(b"%s/%d" % (key, number)).digest(size)


class Closed(Exception):
    pass


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        frame = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
        try:
            self.socket.sendall(frame)
            return self.reply()
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed from error

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise Closed
        if line[:1] != b"$":
            return line[:-2]
        size = int(line[1:])
        if size < 0:
            return None
        data = self.file.read(size + 2)
        if len(data) != size + 2:
            raise Closed
        return data[:-2]

    def close(self):
        self.file.close()
        self.socket.close()


class Writer:
    """Keys of its own, and which values each may have: None is always one, since a
    cache forgets."""

    def __init__(self, number, seed):
        self.keys = [b"w%d:%d" % (number, i) for i in range(KEYS)]
        self.random = random.Random(seed * 1000 + number)
        self.may_be = {key: set() for key in self.keys}
        self.next = 1
        self.acknowledged = self.read = 0
        self.there = set()  # Keys that were set or read, and not deleted since.
        self.deleting = None  # The key of a DEL that was not answered.
        self.wrong = []

    def check(self, key, got, where):
        self.read += 1
        self.there.discard(key)
        if got is None:
            return False
        self.there.add(key)
        number = int(got.split(b" ", 1)[0]) if got[:1].isdigit() else -1
        if number not in self.may_be[key]:
            what = "older or deleted" if got == value_of(key, number) else "damaged"
            self.wrong.append(f"{where}: {key.decode()}: {what}: number {number}, "
                              f"may be {sorted(self.may_be[key])}")
        elif got != value_of(key, number):
            self.wrong.append(f"{where}: {key.decode()}: damaged")
        else:
            self.may_be[key] = {number}
        return True

    def load(self, path):
        try:
            client = Client(path)
            while True:
                self.one(client, self.random.choice(self.keys))
        except (Closed, ConnectionError, FileNotFoundError):
            pass

    def one(self, client, key):
        dice = self.random.random()
        if dice < 0.35:
            return self.check(key, client(b"GET", key), "under load")
        if dice < 0.5:
            self.deleting = key
            client(b"DEL", key)
            self.deleting = None
            self.there.discard(key)
            self.may_be[key] = set()
        else:
            number, self.next = self.next, self.next + 1
            # Until it is answered both the old and the new one may be there.
            self.may_be[key] = self.may_be[key] | {number}
            answer = client(b"SET", key, value_of(key, number))
            if answer != b"+OK":
                self.wrong.append(f"SET {key.decode()}: {answer}")
            self.may_be[key] = {number}
            self.there.add(key)
        self.acknowledged += 1


def start(program, folder):
    path = os.path.join(folder, "s.sock")
    began = time.monotonic()
    process = subprocess.Popen([program, "--config", os.path.join(folder, "d.toml"), "--socket", path],
                               stderr=subprocess.DEVNULL)
    while True:
        try:
            client = Client(path)
            if client(b"PING") == b"+PONG":
                client.close()
                return process, path, time.monotonic() - began
        except (Closed, OSError):
            pass
        if process.poll() is not None or time.monotonic() - began > 60:
            raise SystemExit(f"the daemon does not start: {process.poll()}")
        time.sleep(0.002)


def one_round(program, folder, writers, dice, how):
    process, path, _ = start(program, folder)
    threads = [threading.Thread(target=w.load, args=(path,)) for w in writers]
    for thread in threads:
        thread.start()
    time.sleep(dice.uniform(0.3, 1.2))
    process.send_signal(how)
    status = process.wait(120)
    for thread in threads:
        thread.join(60)
    if how == signal.SIGTERM and status != 0:
        raise SystemExit(f"after SIGTERM the exit status was {status}")
    written = sum(1 for w in writers for key in w.keys if w.may_be[key])
    process, path, ready = start(program, folder)
    client = Client(path)
    found = 0
    for writer in writers:
        for key in writer.keys:
            expected = key in writer.there and key != writer.deleting
            there = writer.check(key, client(b"GET", key), "after " + how.name)
            found += there
            if how == signal.SIGTERM and expected and not there:
                writer.wrong.append(f"after SIGTERM: {key.decode()}: missing")
        writer.deleting = None
    client.close()
    process.send_signal(signal.SIGKILL)  # At once: also a warm start may be cut short.
    process.wait(60)
    return found, written, ready


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("program")
    parse.add_argument("--kills", type=int, default=8)
    parse.add_argument("--writers", type=int, default=4)
    parse.add_argument("--seed", type=int, default=int(time.time()))
    args = parse.parse_args()
    print(f"seed {args.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="spillwayd-kill-")
    with open(os.path.join(folder, "d.toml"), "w") as config:
        config.write(CONFIG.format(folder=folder))
    dice = random.Random(args.seed)
    writers = [Writer(n, args.seed) for n in range(args.writers)]
    totals = {signal.SIGKILL: [0, 0, 0], signal.SIGTERM: [0, 0, 0]}
    slowest = 0.0
    try:
        for i in range(args.kills):
            how = (signal.SIGKILL, signal.SIGTERM)[i % 2]
            found, written, ready = one_round(args.program, folder, writers, dice, how)
            for at, more in enumerate((1, found, written)):
                totals[how][at] += more
            slowest = max(slowest, ready)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    wrong = [line for w in writers for line in w.wrong]
    for how, (kills, found, written) in totals.items():
        print(f"{how.name}: {kills} times; {found} of {written} keys that had a value were served after "
              f"the start ({100 * found / max(written, 1):.1f} %)")
    print(f"{sum(w.acknowledged for w in writers)} writes acknowledged, "
          f"{sum(w.read for w in writers)} reads compared, {len(wrong)} wrong; "
          f"slowest start until the first reply {slowest * 1000:.0f} ms")
    for line in wrong[:20]:
        print("WRONG " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
