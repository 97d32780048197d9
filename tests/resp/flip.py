#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""flip.py SPILLWAYD [--every BITS] [--flips N] [--seed N] [--without-mirror] [--folder DIR]

One flipped bit in the journal of a daemon's disk tier, again and again: at every BITS-th bit
(1,000), or at N bits that are drawn. 600 keys are there; before, 100 more were there and
deleted, and 100 of the 600 had another value. For each flip the folder is put back as it was,
one bit of its journal is flipped, the daemon is started, and every key is read and compared.

  wrong      bytes that are not the key's last ones, or a deleted key that is there
  missing    fewer than 99 % of the keys are served, or fewer than all and the log and SPILL.STATS
             do not say that something was lost
  silent     the flip is in neither the log nor SPILL.STATS

--without-mirror removes the journal's mirror first, as folders of format 1 have none.

Exit status: 0 all good, 1 something is wrong.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # Nothing is written beside the sources.
from flush import Daemon, frame, pipelined, read  # noqa: E402

KEYS = 600
DELETED = 100
CHANGED = 100
SETTINGS = {"capacity": "64MiB", "disk": "256MiB", "pressure": "fixed:0.1",
            "stop_flush": 'stop_flush = "120s"'}


def name_of(number):
    # Some names are long, so that records differ in length.
    return b"k%d" % number if number % 3 else b"a-key-of-some-more-bytes-%d" % number


def value_of(number, version):
    size = (10, 100, 1000, 5000)[number % 4] + number
    return (b"%d.%d " % (number, version)).ljust(size, b"%d" % (number % 10))


def is_ok(number, reply):
    if reply != b"+OK":
        raise SystemExit(f"SET of key {number}: {reply}")


def fill(program, folder):
    """Two lives, so that the second one's changes are records that end others."""
    daemon = Daemon(program, folder, **SETTINGS)
    pipelined(daemon.client, [frame(b"SET", name_of(n), value_of(n, 1))
                              for n in range(KEYS + DELETED)], is_ok)
    daemon.stop()
    daemon = Daemon(program, folder, **SETTINGS)
    pipelined(daemon.client, [frame(b"SET", name_of(n), value_of(n, 2)) for n in range(CHANGED)],
              is_ok)
    for n in range(KEYS, KEYS + DELETED):
        if daemon.client(b"DEL", name_of(n)) != b":1":
            raise SystemExit(f"key {n} was not there to be deleted")
    daemon.stop()


def counts_of(client):
    """What SPILL.STATS counts of the start: records mended, ranges lost, values given up."""
    text = client(b"SPILL.STATS", b"JSON").decode()
    json.loads(text)
    return [int(re.search(rf'"recovery_{name}":\s*(\d+)', text)[1])
            for name in ("mended", "rejected", "given_up")]


class Flips:
    def __init__(self, program, folder, without_mirror):
        self.program = program
        self.folder = folder
        self.disk = os.path.join(folder, "disk")
        self.kept = os.path.join(folder, "kept")
        self.wrong = []
        self.least = KEYS
        self.mended = self.lossy = self.lost = 0
        fill(program, folder)
        if without_mirror:
            for name in os.listdir(self.disk):
                if name.startswith("mirror-"):
                    os.remove(os.path.join(self.disk, name))
        shutil.copytree(self.disk, self.kept)
        journals = [n for n in os.listdir(self.kept) if re.fullmatch(r"journal-\d+", n)]
        if len(journals) != 1:
            raise SystemExit(f"there are {journals} in the folder")
        self.journal = journals[0]
        self.bits = 8 * os.path.getsize(os.path.join(self.kept, self.journal))

    def at(self, bit):
        shutil.rmtree(self.disk)
        shutil.copytree(self.kept, self.disk)
        with open(os.path.join(self.disk, self.journal), "r+b") as file:
            file.seek(bit // 8)
            byte = file.read(1)[0]
            file.seek(bit // 8)
            file.write(bytes([byte ^ 1 << bit % 8]))
        daemon = Daemon(self.program, self.folder, **SETTINGS)
        served = self.read(daemon.client, bit)
        mended, rejected, given_up = counts_of(daemon.client)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait(60)
        said = daemon.said()
        self.judge(bit, served, mended, rejected + given_up, said)

    def read(self, client, bit):
        served = 0
        names = [name_of(number) for number in range(KEYS + DELETED)]
        for number, value in enumerate(read(client, names)):
            if value is None:
                continue
            if number < KEYS and value == value_of(number, 2 if number < CHANGED else 1):
                served += 1
            else:
                self.wrong.append(f"bit {bit}: key {number} has {value[:40]}")
        return served

    def judge(self, bit, served, mended, counted, said):
        self.least = min(self.least, served)
        self.mended += mended > 0
        self.lossy += served < KEYS
        self.lost += KEYS - served
        if served < 0.99 * KEYS:
            self.wrong.append(f"bit {bit}: {served} of {KEYS} keys are served\n{said}")
        if served < KEYS and counted == 0:
            self.wrong.append(f"bit {bit}: {KEYS - served} keys are lost, and none is counted")
        if "damaged" not in said or mended + counted == 0:
            self.wrong.append(f"bit {bit}: nothing is said of it ({mended} mended, {counted} lost "
                              f"by SPILL.STATS)\n{said}")


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("program")
    parse.add_argument("--every", type=int, default=1000)
    parse.add_argument("--flips", type=int, help="so many, drawn at random, in place of all")
    parse.add_argument("--seed", type=int, default=int(time.time()))
    parse.add_argument("--without-mirror", action="store_true")
    parse.add_argument("--folder", help="where to put the disk tier; else where temporary files go")
    args = parse.parse_args()
    began = time.monotonic()
    folder = tempfile.mkdtemp(prefix="spillwayd-flip-", dir=args.folder)
    try:
        flips = Flips(args.program, folder, args.without_mirror)
        bits = range(0, flips.bits, args.every)
        if args.flips is not None:
            print(f"seed {args.seed}")
            bits = random.Random(args.seed).sample(range(flips.bits), args.flips)
        for done, bit in enumerate(bits, 1):
            flips.at(bit)
            if done % 100 == 0:
                print(f"{done} flips: at least {flips.least} keys served, {len(flips.wrong)} wrong",
                      flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in flips.wrong[:20]:
        print("WRONG " + line)
    print(f"{len(bits)} of {flips.bits} bits of the journal flipped, one at a time"
          f"{', without a mirror' if args.without_mirror else ''}: at least {flips.least} of {KEYS} "
          f"keys served ({100 * flips.least / KEYS:.1f} %), {flips.mended} flips mended, "
          f"{flips.lossy} with losses ({flips.lost} values), {len(flips.wrong)} wrong; "
          f"{time.monotonic() - began:.0f} s")
    return 1 if flips.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
