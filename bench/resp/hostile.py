#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile.py SPILLWAYD [--seconds S] [--check] [--gets N] [--keys N]: hostile clients, and how
they affect others.

One client at a time misbehaves, in a process of its own, while two well-behaved ones set and get
small values and compare each. Printed for each kind: the good clients' p50 and p99 beside those of
the quiet run before it, and the daemon's peak memory. With --check the exit status says whether the
daemon survived, no value was wrong, each hostile client was answered as it should be, and memory
stayed within the limit; times are only printed.

Then two attacks that need one connection. An EXEC of 100,000 GETs of 16 kB, whose client reads at
once, and a second later: are all replies there and in order, how much does the daemon grow (at most
twice output_max), and what is the p99 of another client's PING (goal: at most 50 ms)? And 60,000
keys that all have one hash by XXH3 without a seed: how much longer do their SETs take than those of
random keys (goal: at most 1.5 times)?
"""
import argparse
import multiprocessing
import os
import queue
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
CAPACITY = 64 * MIB
BIG = 8 * MIB
CONFIG = f"""capacity = "64MiB"
[server]
password = "secret"
port = 0
http_port = 0
input_max = "16MiB"
"""


def frame(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


FULL = b"-ERR max number of clients reached"


class Client:
    def __init__(self, path, password=True):
        end = time.monotonic() + 30
        while True:
            self.socket = connected(path, end)
            self.file = self.socket.makefile("rb")
            if not password:
                return
            self.send(frame(b"AUTH", b"secret"))
            answer = self.reply()
            if answer == b"+OK":
                return
            self.close()
            # With many clients before it, a connection waits until there is room.
            if answer != FULL or time.monotonic() > end:
                raise AssertionError(f"AUTH was answered {answer!r}")
            time.sleep(0.01)

    def __call__(self, *words):
        self.socket.sendall(frame(*words))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if line[:1] != b"$" or line == b"$-1\r\n":
            return line[:-2]
        return self.file.read(int(line[1:]) + 2)[:-2]

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # It was closed by the server, as it should be.

    def rest(self):
        """Everything until the other side closes; None: it does not."""
        data = b""
        try:
            while more := self.socket.recv(65536):
                data += more
        except TimeoutError:
            return None
        except OSError:
            pass
        return data

    def close(self):
        self.file.close()
        self.socket.close()


def connected(path, end):
    """A socket with a time limit does not wait for room in the listen queue, so it retries."""
    while True:
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(30)
        try:
            one.connect(path)
            return one
        except BlockingIOError:
            one.close()
            if time.monotonic() > end:
                raise
        except OSError:
            one.close()
            raise
        time.sleep(0.001)


# --- misbehaving clients: each returns a complaint, or nothing ---

def until(end, what):
    """Repeats until then; the first complaint ends it."""
    while time.monotonic() < end:
        if complaint := what():
            return complaint
    return None


def huge_before_auth(path, end):
    def one():
        client = Client(path, password=False)
        client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n" + b"x" * 65536)
        got = client.rest()
        client.close()
        # Data sent after the error may break the connection before the error is read.
        return None if got in (b"", b"-ERR Protocol error: unauthenticated bulk length\r\n") else got
    return until(end, one)


def slow_reader(path, end):
    clients = [Client(path) for _ in range(20)]
    for client in clients:
        client.socket.setblocking(False)
        with_many = frame(b"GET", b"big") * 200
        try:
            client.socket.send(with_many)
        except BlockingIOError:
            pass
    time.sleep(max(0.0, end - time.monotonic()))
    return None


def slow_writer(path, end):
    data = b"*3\r\n$3\r\nSET\r\n$4\r\nslow\r\n$8388608\r\n"
    clients = [Client(path) for _ in range(50)]
    at = 0
    while time.monotonic() < end:
        for client in clients:
            client.send(data[at:at + 1] if at < len(data) else b"x")
        at += 1
        time.sleep(0.01)
    return None


def large_and_stopped(path, end):
    """Values that are announced and half sent: each reserves memory in the tier, or none."""
    clients = [Client(path) for _ in range(30)]
    for n, client in enumerate(clients):
        client.socket.settimeout(2)
        client.send(b"*3\r\n$3\r\nSET\r\n$2\r\nh%d\r\n$%d\r\n" % (n % 10, BIG) + b"x" * (BIG // 2))
    time.sleep(max(0.0, end - time.monotonic()))
    return None


def many_large_words(path, end):
    """Arguments that stay in the stream, up to input_max and beyond."""
    def one():
        client = Client(path)
        client.send(b"*100\r\n$3\r\nDEL\r\n" + b"$1000000\r\n" + b"x" * 1000000 + b"\r\n" +
                    (b"$1000000\r\n" + b"x" * 1000000 + b"\r\n") * 20)
        got = client.rest()
        client.close()
        return None if got == b"" else f"not closed: {got!r}"
    return until(end, one)


def nested_arrays(path, end):
    def one():
        client = Client(path)
        client.send(b"*1\r\n" * 10000)
        got = client.rest()
        client.close()
        return None if got in (b"", b"-ERR Protocol error: expected '$', got '*'\r\n") else got
    return until(end, one)


def glob_bombs(path, end):
    client = Client(path)
    client(b"SET", b"a" * 60000, b"v")
    bomb = b"*a" * 1000 + b"b"

    def one():
        got = client(b"KEYS", bomb)
        return None if got == b"*0" else got
    complaint = until(end, one)
    client(b"DEL", b"a" * 60000)
    return complaint


def half_frames(path, end):
    clients = [Client(path) for _ in range(1000)]
    for client in clients:
        client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16000\r\n" + b"x" * 15000)
    time.sleep(max(0.0, end - time.monotonic()))
    return None


def http(path, end):
    def one():
        client = Client(path, password=False)
        client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got = client.rest()
        client.close()
        if got is None or not got.startswith(b"HTTP/1.1 400 ") or b"Redis protocol" not in got:
            return f"HTTP was answered {got!r}"
        return None
    return until(end, one)


def thousands(path, end):
    """As many connections as there are file descriptors, up to 10,000, all at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = []
    refused = 0
    # On a busy machine they take longer than the measurement of the others.
    while len(crowd) + refused < 10_000 and time.monotonic() < end + 60:
        one = socket.socket(socket.AF_UNIX)
        one.settimeout(10)
        try:
            one.connect(path)
            crowd.append(one)
        except OSError:
            refused += 1
            one.close()
    for one in crowd[::100]:
        one.send(b"PING\r\n")  # Without a password, and over the limit: an error each.
    time.sleep(max(0.0, end - time.monotonic()))
    got = len(crowd) + refused
    for one in crowd:
        one.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return None if got == 10_000 else f"only {got} of 10,000 connections were tried in time"


KINDS = [thousands, huge_before_auth, slow_reader, slow_writer, large_and_stopped, many_large_words,
         nested_arrays, glob_bombs, half_frames, http]


# --- well-behaved clients ---

def good(path, seconds, number, out):
    try:
        out.put((*served(path, seconds, number), None))
    except Exception as error:  # noqa: BLE001: whatever it is, it is told.
        out.put(([], 0, 0, f"a good client ended: {type(error).__name__}: {error}"))


def served(path, seconds, number):
    client = Client(path)
    times, wrong, gone = [], 0, 0
    end = time.monotonic() + seconds
    i = 0
    while time.monotonic() < end:
        key, value = b"good%d:%d" % (number, i % 100), b"%d." % i * 100
        began = time.perf_counter()
        answer = client(b"SET", key, value)
        middle = time.perf_counter()
        got = client(b"GET", key)
        times += [middle - began, time.perf_counter() - middle]
        # An entry may be evicted if others announce values as large as the cache.
        gone += answer == b"+OK" and got == b"$-1"
        wrong += answer == b"+OK" and got not in (value, b"$-1")
        wrong += answer != b"+OK" and not answer.startswith(b"-OOM")
        i += 1
    return times, wrong, gone


def measured(path, seconds):
    """p50, p99, how many values were missing, how many wrong, and errors of the good clients."""
    out = multiprocessing.Queue()
    crowd = [multiprocessing.Process(target=good, args=(path, seconds, n, out)) for n in range(2)]
    for one in crowd:
        one.start()
    parts = []
    for _ in crowd:
        try:
            parts.append(out.get(timeout=seconds + 120))
        except queue.Empty:
            parts.append(([], 0, 0, "a good client came to no end"))
    for one in crowd:
        one.join(10)
        one.kill()
    times = sorted(t for part in parts for t in part[0]) or [float("nan")]
    return (times[len(times) // 2], times[len(times) * 99 // 100], sum(part[2] for part in parts),
            sum(part[1] for part in parts), [part[3] for part in parts if part[3]])


def misbehave(kind, path, seconds, out):
    try:
        out.put(kind(path, time.monotonic() + seconds))
    except Exception as error:  # noqa: BLE001: whatever it is, it is told.
        out.put(f"{type(error).__name__}: {error}")


def memory(pid, what):
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith(what):
                return int(line.split()[1]) * 1024
    return 0


def forget_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def start(program, folder, text=CONFIG):
    with open(os.path.join(folder, "d.toml"), "w") as config:
        config.write(text)
    return launched(program, folder)


def launched(program, folder):
    """The daemon with folder's d.toml, and the socket it serves on."""
    path = os.path.join(folder, "s.sock")
    process = subprocess.Popen([program, "--config", folder + "/d.toml", "--socket", path],
                               stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not answers(path):
        if time.monotonic() > end or process.poll() is not None:
            process.kill()
            raise SystemExit("the daemon did not start")
        time.sleep(0.01)
    return process, path


def answers(path):
    """The socket exists before the daemon listens on it."""
    try:
        client = Client(path, password=False)
        reply = client(b"PING")
        client.close()
    except OSError:
        return False
    return reply.startswith((b"+PONG", b"-NOAUTH"))


def fill(path):
    """Fills the cache before anything is measured, so that its memory does not count as growth."""
    client = Client(path)
    for i in range(2 * CAPACITY // MIB):
        client(b"SET", b"fill%d" % i, os.urandom(MIB))
    client.close()


def one_kind(kind, process, path, seconds):
    client = Client(path)
    client(b"SET", b"big", b"b" * BIG)
    quiet = measured(path, seconds)
    forget_peak(process.pid)
    out = multiprocessing.Queue()
    hostile = multiprocessing.Process(target=misbehave, args=(kind, path, seconds + 0.5, out))
    hostile.start()
    time.sleep(0.3)
    loud = measured(path, seconds)
    try:
        complaint = out.get(timeout=180)
    except queue.Empty:
        complaint = "it came to no end"
    hostile.join(10)
    hostile.kill()
    peak = memory(process.pid, "VmHWM")
    alive = process.poll() is None and client(b"PING") == b"+PONG"
    client.close()
    return quiet, loud, complaint, peak, alive


# --- one request that is enough ---

OUTPUT_MAX = 64 * MIB  # As it is by default.
BIG_CONFIG = """capacity = "256MiB"
pressure_source = "fixed:0.1"
sample_period = "60s"
[server]
password = "secret"
port = 0
http_port = 0
"""


def pinging(path, stop, out):
    """How long each PING takes until `stop`."""
    client, times = Client(path), []
    while not stop.is_set():
        began = time.perf_counter()
        if client(b"PING") != b"+PONG":
            out.put(None)
            return
        times.append(time.perf_counter() - began)
    out.put(times)


def peak_of(pid, stop, out):
    most = 0
    while not stop.is_set():
        most = max(most, memory(pid, "VmRSS"))
        time.sleep(0.001)
    out.put(most)


def value_of(number):
    return (b"%d " % number * 16_000)[:16_000]


def large_exec(program, gets, late):
    """Its client reads `late` seconds after EXEC. What is wrong, the growth, the p99 of PINGs."""
    folder = tempfile.mkdtemp(prefix="spillwayd-hostile-")
    process, path = start(program, folder, BIG_CONFIG)
    bad = []
    try:
        client = Client(path)
        for i in range(100):
            client(b"SET", b"k%d" % i, value_of(i))
        for word, count in ((b"MULTI", 1), (b"GET", gets)):
            for at in range(0, count, 1000):
                some = range(at, min(at + 1000, count))
                client.send(b"".join(frame(word, *([b"k%d" % (i % 100)] * (word == b"GET")))
                                     for i in some))
                for _ in some:
                    if client.reply() not in (b"+OK", b"+QUEUED"):
                        bad.append("it was not queued")
        stop = multiprocessing.Event()
        times, peak = multiprocessing.Queue(), multiprocessing.Queue()
        watching = [multiprocessing.Process(target=pinging, args=(path, stop, times)),
                    multiprocessing.Process(target=peak_of, args=(process.pid, stop, peak))]
        time.sleep(0.2)
        before = memory(process.pid, "VmRSS")
        for one in watching:
            one.start()
        time.sleep(0.2)
        client.send(frame(b"EXEC"))
        time.sleep(late)
        began = time.monotonic()
        if client.reply() != b"*%d" % gets:
            bad.append("EXEC was not answered by so many replies")
        else:
            wrong = sum(client.reply() != value_of(i % 100) for i in range(gets))
            if wrong:
                bad.append(f"{wrong} of {gets} replies are wrong, or not in their place")
        took = time.monotonic() - began
        stop.set()
        pings = times.get(timeout=60)
        grown = peak.get(timeout=60) - before
        for one in watching:
            one.join(10)
        if pings is None or client(b"PING") != b"+PONG":
            bad.append("PING was not answered")
        if grown > 2 * OUTPUT_MAX:
            bad.append(f"it grew by {grown / MIB:.0f} MiB, over {2 * OUTPUT_MAX // MIB}")
        pings = sorted(pings or [float("nan")])
        print(f"EXEC of {gets} GETs of 16 kB, read after {late:g} s: {took:.2f} s, in order: "
              f"{'no' if bad else 'yes'}; grown {grown / MIB:.0f} MiB of {2 * OUTPUT_MAX // MIB}; "
              f"PING p50 {pings[len(pings) // 2] * 1e3:.2f} p99 {pings[len(pings) * 99 // 100] * 1e3:.2f}"
              f" max {pings[-1] * 1e3:.2f} ms of {len(pings)} (goal: p99 <= 50)", flush=True)
        client.close()
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    return [f"EXEC of {gets} GETs: {line}" for line in bad]


# The first word of XXH3's public secret: a key that begins with it has the same hash
# whatever its second word is.
SECRET = bytes.fromhex("b8fe6c3923a44bbe")


def flood(program, keys):
    """SETs of keys that collide without a seed, in turns with random ones."""
    folder = tempfile.mkdtemp(prefix="spillwayd-hostile-")
    process, path = start(program, folder, BIG_CONFIG)
    kinds = {"random": lambda i: os.urandom(32),
             "colliding": lambda i: SECRET + i.to_bytes(8, "little") + b"k" * 16}
    best = dict.fromkeys(kinds, float("inf"))
    try:
        client = Client(path)
        for _ in range(3):
            for name, key_of in kinds.items():
                client(b"FLUSHALL")
                batches = [b"".join(frame(b"SET", key_of(i), b"value") for i in range(at, at + 1000))
                           for at in range(0, keys, 1000)]
                began = time.perf_counter()
                for batch in batches:
                    client.send(batch)
                    for _ in range(1000):
                        client.reply()
                best[name] = min(best[name], time.perf_counter() - began)
        ratio = best["colliding"] / best["random"]
        print(f"{keys} SETs of keys that collide in the public hash: {best['colliding']:.2f} s, of random "
              f"keys {best['random']:.2f} s: {ratio:.2f} times as long (goal: <= 1.5)", flush=True)
        # If each walked past all before it, this would be tens of times.
        return [f"colliding keys take {ratio:.1f} times as long"] if ratio > 8 else []
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("program")
    parse.add_argument("--seconds", type=float, default=3.0)
    parse.add_argument("--check", action="store_true")
    parse.add_argument("--growth", type=int, default=96, metavar="MIB",
                       help="most over what the quiet daemon with a full cache holds: loops' and "
                            "clients' buffers")
    parse.add_argument("--gets", type=int, default=100_000, help="of the large EXEC")
    parse.add_argument("--keys", type=int, default=60_000, help="that have one hash without a seed")
    args = parse.parse_args()
    folder = tempfile.mkdtemp(prefix="spillwayd-hostile-")
    process, path = start(args.program, folder)
    bad = []
    try:
        fill(path)
        measured(path, 0.3)
        base = memory(process.pid, "VmRSS")
        print(f"quiet, cache full: {base / MIB:.0f} MiB; others' times in ms, {args.seconds} s each")
        print(f"{'kind':18} {'p50':>6} {'p99':>6} {'quiet p99':>10} {'ratio':>6} {'peak MiB':>9} {'grown':>6}"
              f" {'forgotten':>9}")
        for kind in KINDS:
            quiet, loud, complaint, peak, alive = one_kind(kind, process, path, args.seconds)
            name = kind.__name__.replace("_", " ")
            print(f"{name:18} {loud[0] * 1e3:6.2f} {loud[1] * 1e3:6.2f} {quiet[1] * 1e3:10.2f} "
                  f"{loud[1] / quiet[1]:5.1f}x {peak / MIB:9.0f} {(peak - base) / MIB:6.0f}"
                  f" {loud[2]:9}", flush=True)
            if complaint:
                bad.append(f"{name}: {complaint}")
            bad += [f"{name}: {lost}" for lost in quiet[4] + loud[4]]
            if quiet[3] + loud[3]:
                bad.append(f"{name}: {quiet[3] + loud[3]} values were wrong")
            if not alive:
                bad.append(f"{name}: the daemon is gone")
                break
            if peak - base > args.growth * MIB:
                bad.append(f"{name}: it grew by {(peak - base) // MIB} MiB, over {args.growth}")
        process.terminate()
        if process.wait(30) != 0:
            bad.append("it did not stop in good order")
    finally:
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)
    for late in (0, 1):
        bad += large_exec(args.program, args.gets, late)
    bad += flood(args.program, args.keys)
    for line in bad:
        print("WRONG " + line)
    return 1 if bad and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
