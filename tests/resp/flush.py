#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""flush.py SPILLWAYD [--entries N] [--bytes B] [--stop-flush TIME] [--measure]

SIGTERM and small entries: a daemon with a disk tier is filled with N entries of B
bytes that only memory has, is told to stop, and is started again. Every entry must
be there with its bytes, and what was bound to some of them (TTL, tokens, parent)
too. Then a disk tier that takes nothing: what is left is said while it
waits and when the time is over, and a second signal ends it at once.

--measure: only the first, and prints what it took; entries may be left, if the log
says how many.

Exit status: 0 all good, 1 something is wrong.
"""
import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time


AT_ONCE = 500  # Commands that are sent before their replies are read.
READ_AT_ONCE = 100  # Keys of an MGET: a busy machine must read them within its bound.
CONFIG = """capacity = "{capacity}"
disk_dir = "{folder}/disk"
disk_capacity = "{disk}"
write_back_after = "1h"
pressure_source = "fixed:0.1"
disk_pressure_source = "{pressure}"
sample_period = "1s"
[server]
port = 0
http_port = 0
{stop_flush}
"""


class Closed(Exception):
    pass


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(300)
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


def value_of(number, size):
    return (b"%d " % number).ljust(size, b"v")


class Daemon:
    def __init__(self, program, folder, **settings):
        self.path = os.path.join(folder, "s.sock")
        self.log = os.path.join(folder, "log")
        with open(os.path.join(folder, "d.toml"), "w") as config:
            config.write(CONFIG.format(folder=folder, **settings))
        self.log_at = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [program, "--config", config.name, "--socket", self.path], stderr=log, stdout=log)
        self.client = self.connect()

    def connect(self):
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            try:
                client = Client(self.path)
                if client(b"PING") == b"+PONG":
                    return client
            except (Closed, OSError):
                pass
            time.sleep(0.002)
        raise SystemExit(f"the daemon does not start: {self.process.poll()}\n{self.said()}")

    def said(self):
        with open(self.log) as log:
            log.seek(self.log_at)
            return log.read()

    def until_said(self, words):
        until = time.monotonic() + 60
        while words not in self.said():
            if time.monotonic() > until:
                raise SystemExit(f"'{words}' was not said within a minute:\n{self.said()}")
            time.sleep(0.01)

    def stop(self):
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.ended(began)

    def ended(self, began):
        status = self.process.wait(180)
        if status != 0:
            raise SystemExit(f"after SIGTERM the exit status was {status}\n{self.said()}")
        return time.monotonic() - began


def pipelined(client, frames, check):
    for first in range(0, len(frames), AT_ONCE):
        some = frames[first:first + AT_ONCE]
        client.socket.sendall(b"".join(some))
        for at in range(len(some)):
            check(first + at, client.reply())


def frame(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def fill(client, entries, size):
    def check(number, reply):
        if reply != b"+OK":
            raise SystemExit(f"SET k{number}: {reply}")

    pipelined(client, [frame(b"SET", b"k%d" % i, value_of(i, size)) for i in range(entries)], check)


def read(client, keys):
    """Their values, one by one; what is not there is None."""
    for first in range(0, len(keys), READ_AT_ONCE):
        some = keys[first:first + READ_AT_ONCE]
        answer = client(b"MGET", *some)
        while answer.startswith(b"-") and answer.endswith(b"try again"):
            answer = client(b"MGET", *some)
        if answer != b"*%d" % len(some):
            raise SystemExit(f"MGET of {some[0]} and further: {answer[:100]}")
        for _ in some:
            yield client.reply()


def count(client, entries, size):
    """How many are there; one with other bytes ends it."""
    found = 0
    for number, value in enumerate(read(client, [b"k%d" % n for n in range(entries)])):
        if value is not None and value != value_of(number, size):
            raise SystemExit(f"k{number} has {value[:100]}")
        found += value is not None
    return found


def bind(client):
    for words in ((b"SET", b"short", b"x", b"EX", b"5000"),
                  (b"SPILL.SET", b"root", b"r", b"TOKENS", b"3", b"AGENT", b"ann"),
                  (b"SPILL.SET", b"leaf", b"l", b"TOKENS", b"5", b"AGENT", b"bob", b"PARENT", b"root",
                   b"TTL", b"5000s")):
        if client(*words) != b"+OK":
            raise SystemExit(f"{words} was refused")


def check_bound(client):
    wrong = []
    if client(b"SPILL.MATCH", b"root", b"leaf") != b":2":
        wrong.append("the leaf does not continue its root any more")
    for key in (b"short", b"leaf"):
        left = int(client(b"TTL", key)[1:])
        if not 4000 < left <= 5000:
            wrong.append(f"TTL {key.decode()}: {left}")
    for key, tokens in ((b"root", b"3 tokens"), (b"leaf", b"5 tokens")):
        said = client(b"SPILL.EXPLAIN", key)
        if tokens not in said:
            wrong.append(f"{key.decode()} has not its {tokens.decode()} any more: {said.decode()}")
    return wrong


def stop_and_restart(program, folder, args):
    # On disk each takes a page for its header and one for its value.
    disk = max(256, args.entries * 8192 * 3 // 2 >> 20)
    settings = {"capacity": "512MiB", "disk": f"{disk}MiB", "pressure": "fixed:0.1",
                "stop_flush": f'stop_flush = "{args.stop_flush}"' if args.stop_flush else ""}
    daemon = Daemon(program, folder, **settings)
    fill(daemon.client, args.entries, args.bytes)
    bind(daemon.client)
    stopped = daemon.stop()
    said = daemon.said()
    daemon = Daemon(program, folder, **settings)
    began = time.monotonic()
    found = count(daemon.client, args.entries, args.bytes)
    print(f"{args.entries} entries of {args.bytes} B, stop_flush {args.stop_flush or 'by default'}: "
          f"stopped after {stopped:.1f} s; {found} found after the start "
          f"({100 * found / args.entries:.1f} %), all read in {time.monotonic() - began:.1f} s")
    print(said)
    left = sum(int(n) for n in re.findall(r"(\d+) entries \([^)]*\) were left", said))
    wrong = []
    if args.entries - found > left:
        wrong.append(f"{args.entries - found} are missing, and {left} were said to be left")
    if left > 0 and not args.measure:
        wrong.append(f"{left} were left")
    if left == 0:
        wrong += check_bound(daemon.client)
    daemon.process.kill()
    daemon.process.wait(60)
    return wrong


def busy_tier(program, folder):
    """A disk tier in EMERGENCY takes nothing, as long as it is."""
    settings = {"capacity": "64MiB", "disk": "256MiB", "pressure": "fixed:0.99"}
    wrong = []
    daemon = Daemon(program, folder, stop_flush='stop_flush = "1500ms"', **settings)
    fill(daemon.client, 1000, 100)
    daemon.stop()
    for words in ("wrote 0 entries (0 B), 1000 (", "1000 entries (", "were left: 1.5 s (stop_flush)",
                  "it is in EMERGENCY"):
        if words not in daemon.said():
            wrong.append(f"'{words}' was not said by a daemon whose disk tier is busy:\n{daemon.said()}")
    daemon = Daemon(program, folder, stop_flush='stop_flush = "100s"', **settings)
    fill(daemon.client, 1000, 100)
    daemon.process.send_signal(signal.SIGTERM)
    daemon.until_said("stopping: wrote 0 entries")
    daemon.process.send_signal(signal.SIGHUP)  # Not a reason to die.
    began = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    took = daemon.ended(began)
    if took > 50 or "1000 entries (97.7 KiB) were left: a second signal ended" not in daemon.said():
        wrong.append(f"a second signal took {took:.1f} s to end it:\n{daemon.said()}")
    return wrong


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("program")
    parse.add_argument("--entries", type=int, default=20_000)
    parse.add_argument("--bytes", type=int, default=100)
    parse.add_argument("--stop-flush", default="120s")
    parse.add_argument("--measure", action="store_true")
    parse.add_argument("--folder", help="where to put the disk tier; else where temporary files go")
    args = parse.parse_args()
    if args.stop_flush == "default":
        args.stop_flush = ""
    folder = tempfile.mkdtemp(prefix="spillwayd-flush-", dir=args.folder)
    try:
        wrong = stop_and_restart(args.program, folder, args)
        if not args.measure:
            wrong += busy_tier(args.program, tempfile.mkdtemp(dir=folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in wrong:
        print("WRONG " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
