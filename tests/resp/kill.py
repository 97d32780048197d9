#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill.py SPILLWAYD [--kills N] [--seed N] [--leave-out multi,...] [--only NAME=VALUE,...]
                  [--slow-disk slow_disk.so]

The daemon killed under load, in configurations drawn at random: memory from 1 MiB, with and
without a host tier, disks that hold everything or far less, write-back at once, soon or
never, levels up to EMERGENCY (every write goes straight to disk), one to eight clients, one
command at a time or many in flight, values from 10 bytes to more than memory holds. Each
round has a folder, a configuration and a seed of its own, and up to three kills: SIGKILL or
SIGTERM under load or when the clients have just stopped, sometimes a second kill right behind
the start. After each, every key is read.

In some rounds reading the folder in takes seconds (slow_disk.c delays it), so that the daemon is
asked, written to and killed while it does not know yet what its disk holds; in some thousands of
small entries lie there from earlier, some of which are erased meanwhile.

What is checked (kill_clients.py draws the commands, kill_model.py knows their replies; behind a
kill they are GET, MGET, EXISTS, STRLEN, TTL, PTTL and PEXPIRETIME in any order, then DBSIZE and
SCAN of each database):

  wrong      bytes that nobody set, or a reply that no order of its client's commands allows
  stale      a value older than the last acknowledged one, also one under a deleted key
  deadlines  a key that outlives its deadline, or has lost it, or has another
  missing    every key that was acknowledged and is not there needs a reason:
             - before a kill: SPILL.EXPLAIN names a cause that is the cache's to decide (room,
               order, ...). `erased`, `replaced` and `cleared` are none: its client did not.
             - after SIGTERM: the stop's log says that entries were left, and that many at most
               are missing.
             - after SIGKILL: only memory had it. Just before the kill SPILL.EXPLAIN is asked of
               all keys. One that was on disk, has not been written since and lies on a disk
               that holds everything must be there. So must every key where each write goes
               straight to that disk. (What is being written cannot be asked at the moment of
               the kill; those keys are counted as `unseen`.)
             While the folder is being read in it is not known yet what lies there: then what was
             seen on disk before counts, as long as the key has not been written since.

A failing round prints its configuration; `--seed S --kills 1` runs the round with seed S
first. What is random in time stays random.

Exit status: 0 all good, 1 something is wrong.
"""
import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # Nothing is written beside the sources.
import kill_model as model  # noqa: E402
from kill_backlog import Backlog  # noqa: E402
from kill_clients import FORMS, Client, Closed, Writer  # noqa: E402
from kill_model import ABSENT, Op, now_ms  # noqa: E402

MIB = 1 << 20
SIZES = {
    "tiny": (10, 20, 50, 100),
    "small": (10, 100, 1000, 4000, 5000),
    "mixed": (10, 100, 1000, 5000, 20_000, 33_000, 60_000, 150_000, 300_000),
    "large": (100, 40_000, 300_000, 1_000_000),
}


# --- the daemon ---


class Setup:
    """What a round draws."""

    def __init__(self, seed, fixed):
        dice = random.Random(seed)
        self.seed = seed
        draw = {
            "memory": dice.choice((1, 1, 2, 4, 4, 8, 16, 64)) * MIB,
            "host": dice.choice((0, 0, 0, 1, 4, 16)) * MIB,
            "sizes": dice.choice(("tiny", "small", "mixed", "mixed", "mixed", "large", "huge")),
            "disk": dice.choice(("ample", "ample", "ample", "tight", "none" if dice.random() < 0.2
                                 else "ample")),
            "write_back": dice.choice(("none", "0ms", "10ms", "10ms", "500ms")),
            "pressure": dice.choice((0.1, 0.1, 0.1, 0.65, 0.75, 0.85, 0.97, 0.97)),
            "host_pressure": dice.choice((0.1, 0.1, 0.75, 0.97)),
            "disk_pressure": dice.choice((0.1,) * 7 + (0.75, 0.97)),
            "on_blocked": dice.choice(("error", "error", "drop")),
            "read_back": dice.choice(("true", "false")),
            "stop_flush": dice.choice(("60s", "60s", "0")),
            "clients": dice.choice((1, 1, 2, 4, 8)),
            "window": dice.choice((1, 1, 2, 8, 30)),
            "keys": dice.choice((3, 20, 60)),
            "commands": dice.choice(("all", "all", "sets")),
            "kills": dice.choice((1, 2, 2, 3)),
            # How much longer than it takes a restart reads its folder in. Behind 10 s commands
            # are answered by LOADING.
            "load_ms": dice.choice((0,) * 30 + (1500, 2500, 4000) * 3 + (12_000,)),
            # Entries that lie there from earlier.
            "backlog": dice.choice((0,) * 8 + (2000, 20_000)),
        }
        for name, value in fixed.items():
            if name not in draw:
                raise SystemExit(f"--only {name}: there is {', '.join(draw)}")
            draw[name] = type(draw[name])(value)
        self.__dict__.update(draw)
        self.dice = random.Random(seed + 1)
        if self.disk == "none":
            self.load_ms = self.backlog = 0
        if self.load_ms > 0:
            self.kills += 2
        if self.backlog > 0:  # Its database is the last.
            self.clients = min(self.clients, 4)
        sizes = SIZES.get(self.sizes) or (10, 5000, 300_000, self.memory * 5 // 4)
        if self.sizes == "huge" and self.memory > 8 * MIB:
            sizes = (10, 5000, 300_000, 2 * MIB)
        self.value_sizes = sizes
        mean = sum(sizes) / len(sizes)
        self.keys = max(2, min(self.keys, int(24 * MIB / mean / self.clients)))
        everything = int(self.keys * self.clients * (mean + 8192))
        # Ample: all values at their largest, twice, and what is on its way.
        most = self.keys * self.clients * (max(sizes) + 16384)
        self.disk_bytes = 2 * most + 64 * MIB if self.disk == "ample" else max(
            int(everything * self.dice.uniform(0.2, 0.8)), 1 * MIB)
        self.disk_bytes += self.backlog * 8192
        # Whether nothing need ever leave the disk.
        self.is_roomy = self.disk == "ample" and self.disk_pressure < 0.5
        # Whether memory holds everything, twice, so that nothing is evicted before a kill.
        self.is_memory_ample = self.memory > 2 * most and self.pressure < 0.5
        # Whether each write goes straight to a disk that holds everything.
        self.straight_to_disk = (self.is_roomy and self.pressure >= 0.95 and
                                 (self.host == 0 or self.host_pressure >= 0.95))
        self.drops = self.on_blocked == "drop"
        self.drawn = {name: getattr(self, name) for name in draw}

    def text(self, folder, fills=False):
        """`fills`: memory takes the backlog, and a stop writes all of it."""
        lines = [f"capacity = {64 * MIB if fills else self.memory}",
                 f'pressure_source = "fixed:{0.1 if fills else self.pressure}"',
                 'sample_period = "1s"']
        if self.host > 0:
            lines += [f"host_capacity = {self.host}",
                      f'host_pressure_source = "fixed:{self.host_pressure}"']
        if self.disk != "none":
            lines += [f'disk_dir = "{folder}/disk"', f"disk_capacity = {self.disk_bytes}",
                      f'disk_pressure_source = "fixed:{self.disk_pressure}"',
                      f"disk_read_back = {self.read_back}"]
        lines.append(f'write_back_after = "{self.write_back}"')
        lines += ["[server]", "port = 0", "http_port = 0",
                  f'stop_flush = "{"60s" if fills else self.stop_flush}"',
                  f'on_blocked = "{self.on_blocked}"']
        return "\n".join(lines) + "\n"


class Daemon:
    """`load_ms`: so much longer reading the folder in takes; `fills`: as in Setup.text."""

    def __init__(self, program, setup, folder, load_ms=0, fills=False):
        self.folder = folder
        self.path = os.path.join(folder, "s.sock")
        self.log_path = os.path.join(folder, "log")
        config = os.path.join(folder, "d.toml")
        with open(config, "w") as file:
            file.write(setup.text(folder, fills))
        env = dict(os.environ)
        if load_ms > 0:
            env |= {"LD_PRELOAD": setup.slow_disk, "SLOW_DISK_MS": str(load_ms)}
            # A sanitizer's runtime wants to be the first.
            env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        with open(self.log_path, "ab") as log:
            self.log_from = log.tell()
            self.process = subprocess.Popen([program, "--config", config, "--socket", self.path],
                                            stdout=log, stderr=log, env=env)
        began = time.monotonic()
        while True:
            try:
                client = Client(self.path)
                if client.ask(b"PING") == b"+PONG":
                    client.close()
                    break
            except (Closed, OSError):
                pass
            if self.process.poll() is not None or time.monotonic() - began > 60:
                raise SystemExit(f"seed {setup.seed}: the daemon does not start: "
                                 f"{self.process.poll()}\n{setup.text(folder)}{self.log()}")
            time.sleep(0.002)
        self.seconds = time.monotonic() - began

    def log(self):
        with open(self.log_path, "rb") as file:
            file.seek(self.log_from)
            return file.read().decode(errors="replace")

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(180)

    def is_loading(self, client):
        return b"loading:1" in client.ask(b"INFO", b"persistence")

    def until_loaded(self, client):
        end = time.monotonic() + 120
        while self.is_loading(client):
            if time.monotonic() > end:
                raise SystemExit(f"the daemon reads its folder in without end\n{self.log()}")
            time.sleep(0.01)


# --- rounds ---


class Report:
    def __init__(self):
        self.lock = threading.Lock()
        self.lines = []
        self.kills = {signal.SIGKILL: 0, signal.SIGTERM: 0}
        self.keys = {signal.SIGKILL: [0, 0], signal.SIGTERM: [0, 0]}
        self.acknowledged = self.refused = self.evicted = self.unasked = self.left = 0
        self.memory_only = self.unseen = self.no_room = 0
        self.killed_loading = self.written_loading = self.refused_loading = 0
        self.slowest = 0.0

    def wrong(self, line):
        with self.lock:
            self.lines.append(line)

    def loading(self, op, setup):
        """LOADING was answered."""
        self.refused_loading += 1
        if setup.load_ms < 9000:
            self.wrong(f"{op} was answered by LOADING, and that took {setup.load_ms} ms")


class Round:
    def __init__(self, program, setup, report, leave_out):
        self.program = program
        self.setup = setup
        self.report = report
        self.writers = [Writer(n, setup, report, leave_out) for n in range(setup.clients)]
        self.folder = tempfile.mkdtemp(prefix="spillwayd-kill-")
        self.on_disk = {}  # What SPILL.EXPLAIN said last: {key: version of then, on disk or not}.
        self.backlog = Backlog(setup, report) if setup.backlog > 0 else None
        self.done = 0
        self.left = 0
        self.unsettled = False

    def run(self, kills):
        """At most so many kills; returns how many there were."""
        setup = self.setup
        kills = min(kills, setup.kills)
        self.done = 0
        try:
            if setup.backlog > 0:
                self.fill()
            daemon = self.start(0 if setup.backlog == 0 else setup.load_ms)
            while self.done < kills:
                if self.done > 0 and setup.load_ms > 0:
                    # All that was read is written, too, while it is not known yet.
                    daemon = self.again(daemon)
                how = self.load_and_kill(daemon)
                if self.done < kills and setup.dice.random() < 0.2:
                    daemon = self.start(setup.load_ms)
                    time.sleep(setup.dice.uniform(0, 0.02))
                    daemon.end(signal.SIGKILL)
                    self.report.kills[signal.SIGKILL] += 1
                    self.done += 1
                daemon = self.start(setup.load_ms)
                self.report.slowest = max(self.report.slowest, daemon.seconds)
                self.verify(daemon, how)
            daemon.end(signal.SIGKILL)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.done

    def start(self, load_ms):
        return Daemon(self.program, self.setup, self.folder, load_ms)

    def fill(self):
        """Thousands of small entries, all of them on disk."""
        daemon = Daemon(self.program, self.setup, self.folder, fills=True)
        client = Client(daemon.path)
        self.backlog.fill(client)
        client.close()
        daemon.end(signal.SIGTERM)
        if "were left" in daemon.log() and self.setup.is_roomy:
            self.report.wrong(f"the backlog was not written: {daemon.log()[-500:]}")

    def again(self, daemon):
        """Killed while nobody does anything; what only memory had may be missing from now on."""
        self.look(daemon)
        daemon.end(signal.SIGKILL)
        self.report.kills[signal.SIGKILL] += 1
        self.done += 1
        for writer in self.writers:
            for key in writer.keys:
                version, there = self.on_disk.get(key, (-1, False))
                if not (self.setup.is_roomy and there and version == key.version):
                    key.states.add(ABSENT)
        return self.start(self.setup.load_ms)

    def load_and_kill(self, daemon):
        dice = self.setup.dice
        how = dice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        quiet = dice.random() < (0.4 if self.setup.load_ms == 0 else 0.1)
        stop, killed = threading.Event(), threading.Event()
        work = [w.load for w in self.writers]
        if self.backlog is not None:
            work.append(self.backlog.work)
        threads = [threading.Thread(target=one, args=(daemon.path, stop, killed)) for one in work]
        acknowledged = sum(w.acknowledged for w in self.writers)
        for thread in threads:
            thread.start()
        longest = 1.2 * self.setup.load_ms / 1000 if self.done > 0 else 0
        time.sleep(dice.uniform(0.05, max(longest, 0.6)))
        if quiet:
            stop.set()
            for thread in threads:
                thread.join(120)
        if self.look(daemon):
            self.report.killed_loading += 1
            self.report.written_loading += sum(w.acknowledged for w in self.writers) - acknowledged
        killed.set()
        status = daemon.end(how)
        stop.set()
        for thread in threads:
            thread.join(120)
        self.report.kills[how] += 1
        self.done += 1
        log = daemon.log()
        if how is signal.SIGTERM:
            if status != 0:
                self.report.wrong(f"SIGTERM: exit status {status}: {log[-500:]}")
            left = re.search(r"(\d+) entries \([^)]*\) were left", log)
            self.left = int(left[1]) if left else 0
            self.report.left += self.left
        self.unsettled = "deletes could not be written" in log
        return how

    def look(self, daemon):
        """Which keys are on disk, just before the kill; whether it is still being read in."""
        before, self.on_disk = self.on_disk, {}
        keys = [key for w in self.writers for key in w.keys]
        versions = [(key, key.version) for key in keys if key.is_settled()]
        try:
            client = Client(daemon.path)
            loading = daemon.is_loading(client)
            data = bytearray()
            for key, _ in versions:
                data += client.frame([b"SELECT", b"%d" % key.db])
                data += client.frame([b"SPILL.EXPLAIN", key.name])
            client.send(bytes(data))
            for key, version in versions:
                client.reply()
                answer = client.reply()
                there = isinstance(answer, bytes) and b"disk tier:" in answer.split(b"\n")[0]
                there = there or (loading and before.get(key) == (version, True))
                self.on_disk[key] = (version, there)
            client.close()
            return loading
        except (Closed, OSError):
            self.report.wrong("the daemon has gone before it was killed")
            return False

    # --- after the start ---

    def verify(self, daemon, how):
        self.how = how
        self.gone = 0
        dice = self.setup.dice
        client = Client(daemon.path)
        if self.setup.load_ms >= 9000 or dice.random() < 0.5:
            daemon.until_loaded(client)
        for writer in self.writers:
            for key in writer.keys:
                expected = ABSENT not in key.states
                client.ask(b"SELECT", b"%d" % key.db)
                others = [other for other in writer.keys if other.db == key.db]
                several = [key, *dice.sample(others, dice.randrange(min(3, len(others) + 1)))]
                reads = [([key], b"GET", model.get), ([key], b"EXISTS", model.exists),
                         ([key], b"STRLEN", model.strlen), (several, b"MGET", model.get),
                         ([key], b"PEXPIRETIME", model.when_ends),
                         ([key], b"PTTL", model.milliseconds_left),
                         ([key], b"TTL", model.seconds_left)]
                dice.shuffle(reads)
                for keys, word, effect in reads:
                    self.read(client, keys, word, effect)
                self.report.keys[how][0] += expected and key.states != {ABSENT}
                self.report.keys[how][1] += expected
            self.report.acknowledged += writer.acknowledged
            writer.acknowledged = 0
        daemon.until_loaded(client)
        for writer in self.writers:
            for db in writer.databases:
                self.compare_lists(client, db, [key for key in writer.keys if key.db == db])
        if self.backlog is not None:
            self.backlog.check(client, self.setup.is_roomy)
        client.close()
        if how is signal.SIGTERM and self.gone > self.left:
            self.report.wrong(f"after SIGTERM {self.gone} acknowledged keys are missing, and the "
                              f"log says that {self.left} were left")

    def read(self, client, keys, word, effect):
        op = Op([word, *[key.name for key in keys]], [(key, effect, None) for key in keys],
                changes=False)
        op.sent()
        op.answer(client.ask(*op.words), False, self)

    def compare_lists(self, client, db, keys):
        """SCAN and DBSIZE say what the single keys said."""
        client.ask(b"SELECT", b"%d" % db)
        end = time.monotonic() + 5  # What has ended is counted until it is looked at.
        while True:
            began = now_ms()
            size, listed, cursor = client.ask(b"DBSIZE"), set(), b"0"
            while True:
                cursor, some = client.ask(b"SCAN", cursor, b"COUNT", b"1000")
                listed.update(some)
                if cursor == b"0":
                    break
            met = {key: {state for one in key.states for state in model.living(one, began, now_ms())}
                   for key in keys}
            wrong = listed - {key.name for key in keys if met[key] != {ABSENT}}
            if wrong:
                return self.wrong(None, f"SCAN of database {db} lists {sorted(wrong)[:5]}, which are "
                                        "not there")
            lacking = [key for key in keys if ABSENT not in met[key] and key.name not in listed]
            if not lacking and size == len(listed):
                return None
            # They may have been evicted since they were read.
            for key in lacking:
                self.read(client, [key], b"GET", model.get)
            lacking = [key for key in lacking if key.states != {ABSENT}]
            if time.monotonic() > end:
                return self.wrong(None, f"database {db}: DBSIZE is {size}, SCAN lists {len(listed)}, "
                                        f"and not {[key.name for key in lacking[:5]]}")
            time.sleep(0.02)

    def wrong(self, key, text):
        also = " (the log says that deletes could not be written)" if self.unsettled else ""
        self.report.wrong(f"after {self.how.name}: {key if key else ''} {text}{also}")

    def refused(self, op):
        self.report.refused += 1

    def loading(self, op):
        self.report.loading(op, self.setup)

    def missing(self, key, _, was):
        setup = self.setup
        if self.how is signal.SIGTERM and setup.is_roomy:
            self.gone += 1
            return
        version, there = self.on_disk.get(key, (-1, False))
        if setup.straight_to_disk:
            self.wrong(key, f"is missing, was {was}, and every write went to disk")
        elif setup.disk == "none" or (version == key.version and not there):
            self.report.memory_only += 1
        elif not setup.is_roomy:
            self.report.no_room += 1
        elif version != key.version:
            self.report.unseen += 1
        else:
            self.wrong(key, f"is missing, was {was}, and was on disk just before the kill")


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("program")
    parse.add_argument("--kills", type=int, default=30)
    parse.add_argument("--seed", type=int, default=int(time.time()))
    parse.add_argument("--leave-out", default="", help="forms of commands, with commas between: " +
                       ",".join(FORMS))
    parse.add_argument("--only", default="", help="name=value,...: not drawn but so")
    parse.add_argument("--slow-disk", help="slow_disk.so; without it no round has a slow one")
    args = parse.parse_args()
    leave_out = set(filter(None, args.leave_out.split(",")))
    fixed = dict(pair.split("=") for pair in args.only.split(",") if pair)
    if args.slow_disk is None:
        fixed["load_ms"] = 0
        print("no --slow-disk: folders are read in as fast as they are")
    Setup.slow_disk = args.slow_disk
    print(f"seed {args.seed}", flush=True)
    report = Report()
    began = time.monotonic()
    kills = rounds = 0
    while kills < args.kills:
        setup = Setup(args.seed + rounds, fixed)
        rounds += 1
        before = len(report.lines)
        kills += Round(args.program, setup, report, leave_out).run(args.kills - kills)
        if len(report.lines) > before:
            print(f"seed {setup.seed}: {setup.drawn}", flush=True)
            for line in report.lines[before:before + 10]:
                print(f"  WRONG {line}", flush=True)
            if len(report.lines) > before + 10:
                print(f"  and {len(report.lines) - before - 10} more", flush=True)
    for how, count in report.kills.items():
        served, had = report.keys[how]
        print(f"{how.name}: {count} times; {served} of {had} keys that had a value were served")
    print(f"missing: {report.memory_only} only memory had, {report.unseen} written since they were "
          f"looked at, {report.no_room} on a disk that is too small; {report.evicted} evicted under "
          f"load ({report.unasked} written again before they could be asked for); "
          f"{report.left} left at a stop")
    print(f"{report.killed_loading} kills while the folder was still being read in, behind "
          f"{report.written_loading} replies; {report.refused_loading} commands waited 10 s for it")
    if int(fixed.get("load_ms", 0)) > 0 and report.killed_loading == 0:
        report.wrong("none was killed while its folder was being read in")
        print(f"  WRONG {report.lines[-1]}")
    print(f"{kills} kills in {rounds} configurations, {report.acknowledged} commands acknowledged, "
          f"{report.refused} refused, {len(report.lines)} wrong; slowest start "
          f"{report.slowest * 1000:.0f} ms; {time.monotonic() - began:.0f} s")
    return 1 if report.lines else 0


if __name__ == "__main__":
    sys.exit(main())
