#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clients.py SPILLWAYD VENV: unchanged clients against the real daemon.

redis-cli and redis-benchmark (Debian's redis-tools), redis-py 8 (sync and
asyncio) and LangGraph's RedisCache (both from PyPI, in VENV, which is made if it
can be). Each value that is read back is compared, and each client also runs while
the levels go up to EMERGENCY and back. What is not to be had is skipped, by name.

Exit status: 0 all good, 1 something is wrong, 77 nothing could be run.
"""
import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

PACKAGES = ["redis>=8,<9", "langgraph-checkpoint>=4,<5"]
# Each is less than 6 % from the next threshold: there pressure is looked at every 8 ms, whatever
# sample_period is. That is long, so that on a busy machine, too, pressure is known.
CALM = 0.65  # RELAXED.
LEVELS = [CALM, 0.80, 0.88, 0.93, 0.99, 0.93, CALM]


class Daemon:
    """spillwayd on a socket and a port of its own, with pressure by hand."""

    def __init__(self, program, folder):
        self.folder = folder
        self.socket = os.path.join(folder, "s.sock")
        self.press(CALM)
        # A port that was free may be somebody's by now: then it ends, and another is taken.
        for _ in range(5):
            if self.starts(program):
                return
        raise RuntimeError("the daemon did not start")

    def starts(self, program):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = os.path.join(self.folder, "d.toml")
        with open(config, "w") as f:
            f.write(f'capacity = "256MiB"\ndwell = "50ms"\nsample_period = "1s"\n'
                    f'pressure_source = "file:{self.folder}/pressure"\n'
                    f'[server]\nport = {self.port}\nhttp_port = 0\n')
        self.process = subprocess.Popen([program, "--config", config, "--socket", self.socket],
                                        stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not self.answers():
            if self.process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError("the daemon does not answer")
            time.sleep(0.01)
        return True

    def answers(self):
        """The socket is there before anybody listens on it."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(10)
                s.connect(self.socket)
                s.sendall(b"PING\r\n")
                return s.recv(100) == b"+PONG\r\n"
        except OSError:
            return False

    def press(self, pressure):
        path = os.path.join(self.folder, "pressure")
        with open(path + ".new", "w") as f:
            f.write(f"{pressure}\n")
        os.rename(path + ".new", path)

    def close(self):
        self.process.terminate()
        if self.process.wait(60) != 0:
            raise RuntimeError("the daemon did not stop in good order")


@contextlib.contextmanager
def levels(daemon):
    """Up to EMERGENCY and back, again and again, until the block ends."""
    stop = threading.Event()

    def run():
        while not stop.is_set():
            for pressure in LEVELS:
                daemon.press(pressure)
                if stop.wait(0.06):
                    break
        daemon.press(CALM)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def until_relaxed(daemon):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        out = subprocess.run(["redis-cli", "-s", daemon.socket, "SPILL.MODE"],
                             capture_output=True, text=True).stdout
        if "relaxed" in out:
            return
        time.sleep(0.02)
    raise AssertionError("still not RELAXED")


def check(what, ok):
    if not ok:
        raise AssertionError(what)


# --- redis-cli, redis-benchmark ---

def cli(daemon, *words, stdin=None):
    run = subprocess.run(["redis-cli", "-s", daemon.socket, *words], input=stdin,
                         capture_output=True)
    return run.stdout


def test_redis_cli(daemon):
    check("set", cli(daemon, "SET", "cli", "v") == b"OK\n")
    check("get", cli(daemon, "GET", "cli") == b"v\n")
    big = os.urandom(3 << 20)
    check("set -x", cli(daemon, "-x", "SET", "cli:big", stdin=big) == b"OK\n")
    check("get big", cli(daemon, "GET", "cli:big") == big + b"\n")
    check("resp3", b"proto" in cli(daemon, "-3", "HELLO", "3"))
    keys = b"".join(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$1\r\nv\r\n" % (len(k), k)
                    for k in (b"pipe:%d" % i for i in range(10000)))
    check("--pipe", b"errors: 0, replies: 10000" in cli(daemon, "--pipe", stdin=keys))
    scanned = cli(daemon, "--scan", "--pattern", "pipe:*").split()
    check("--scan", sorted(scanned) == sorted(b"pipe:%d" % i for i in range(10000)))
    with levels(daemon):
        for i in range(100):
            name = f"cli:{i}"
            answer = cli(daemon, "SET", name, str(i))
            got = cli(daemon, "GET", name).strip()
            check("refused or set", answer == b"OK\n" or answer.startswith(b"OOM"))
            check("value", got in (b"", str(i).encode()))


def test_redis_benchmark(daemon):
    run = subprocess.run(["redis-benchmark", "-s", daemon.socket, "-t", "ping,set,get,mset", "-n",
                          "20000", "-r", "1000", "-P", "8", "--csv"], capture_output=True, text=True,
                         timeout=600)
    check("all four ran: " + run.stdout + run.stderr,
          run.returncode == 0 and all(f'"{name}' in run.stdout for name in ("SET", "GET", "MSET")))
    # It ends at the first error, so under pressure it only reads.
    with levels(daemon):
        run = subprocess.run(["redis-benchmark", "-s", daemon.socket, "-t", "get", "-n", "50000",
                              "--csv"], capture_output=True, text=True, timeout=600)
    check("reads go on", run.returncode == 0)


# --- redis-py ---

def value(i, size=1000):
    return (b"%08d" % i) * (size // 8)


def test_redis_py(daemon):
    import redis
    for client in (redis.Redis(unix_socket_path=daemon.socket),
                   redis.Redis(port=daemon.port, db=2),
                   redis.Redis(port=daemon.port, protocol=2)):
        client.flushdb()
        began = time.monotonic()
        check("set", client.set("a", b"1", ex=100) is True)
        ttl = client.ttl("a")
        check(f"ttl {ttl}", 99 - (time.monotonic() - began) <= ttl <= 100)
        check("get", client.get("a") == b"1")
        check("mget", client.mget("a", "none") == [b"1", None])
        check("nx", client.set("a", b"2", nx=True) is None)
        big = os.urandom(5 << 20)
        client.set("big", big)
        check("big", client.get("big") == big)
        pipe = client.pipeline(transaction=True)
        for i in range(200):
            pipe.set(f"p{i}", value(i))
        for i in range(200):
            pipe.get(f"p{i}")
        check("pipeline", pipe.execute() == [True] * 200 + [value(i) for i in range(200)])
        check("scan_iter", sorted(client.scan_iter("p*")) == sorted(b"p%d" % i for i in range(200)))
        check("dbsize", client.dbsize() == 202)
        check("info", client.info()["redis_version"] == "7.0.15")
        check("config", client.config_get("maxclients") == {"maxclients": "10000"})
        check("client list", any(c.get("lib-name", "").startswith("redis-py")
                                 for c in client.client_list()))
        check("command", client.command()["get"]["arity"] == 2)
        try:
            client.incr("a")
            check("incr is refused", False)
        except redis.ResponseError as error:
            check("says why", "not offered" in str(error))
        with levels(daemon):
            last = {}  # As acknowledged: what is refused leaves it alone.
            for i in range(2000):
                key = f"l{i % 50}"
                with contextlib.suppress(redis.exceptions.OutOfMemoryError):
                    client.set(key, value(i))
                    last[key] = value(i)
                check("value", client.get(key) in (None, last.get(key)))
        until_relaxed(daemon)
        check("as before", client.set("again", b"x") is True)
        client.close()


def test_redis_py_asyncio(daemon):
    import redis
    import redis.asyncio as aredis

    async def one(client, n):
        for i in range(100):
            await client.set(f"async{n}:{i}", value(n * 1000 + i))
            check("value", await client.get(f"async{n}:{i}") == value(n * 1000 + i))

    def all_seen(seen):
        return seen["set"] > 0 and seen["refused"] > 0 and seen["hits"] > 0

    # Each key has one writer: what is read is the last value that was
    # acknowledged, or none if it was evicted since. A refused write changes
    # nothing.
    async def pressed(client, n, seen, until):
        last = {}
        i = 0

        # On a busy machine a level may pass unseen: until there was one of each, 60 s at most.
        def goes_on():
            now = time.monotonic()
            return now < until or i < 200 or (not all_seen(seen) and now < until + 60)

        while goes_on():
            key = f"pressed{n}:{i % 20}"
            fresh = value(n * 100000 + i, 64 if i % 3 else 50000)
            try:
                await client.set(key, fresh)
                last[key] = fresh
                seen["set"] += 1
            except redis.exceptions.OutOfMemoryError:
                seen["refused"] += 1
            got = await client.get(key)
            check("value under pressure", got in (None, last.get(key)))
            seen["hits" if got is not None else "misses"] += 1
            i += 1
        names = list(last)
        for key, got in zip(names, await client.mget(names)):
            check("value at the end", got in (None, last[key]))

    async def run(protocol):
        client = aredis.Redis(port=daemon.port, max_connections=32, protocol=protocol)
        await asyncio.gather(*(one(client, n) for n in range(16)))
        seen = dict.fromkeys(("set", "refused", "hits", "misses"), 0)
        with levels(daemon):
            until = time.monotonic() + 1.5
            await asyncio.gather(*(pressed(client, n, seen, until) for n in range(16)))
        check(f"some were set, some refused and some read: {seen}", all_seen(seen))
        until_relaxed(daemon)
        check("as before", await client.set("again", b"x") is True)
        await client.aclose()

    for protocol in (3, 2):
        asyncio.run(run(protocol))


def test_langgraph_cache(daemon):
    import redis
    from langgraph.cache.redis import RedisCache
    cache = RedisCache(redis.Redis(port=daemon.port, db=5))
    keys = [(("agents", "planner"), f"k{i}") for i in range(50)]
    cache.set({key: ({"answer": i, "text": "x" * i}, 60 if i % 2 else None)
               for i, key in enumerate(keys)})
    check("all are back", cache.get(keys) == {key: {"answer": i, "text": "x" * i}
                                               for i, key in enumerate(keys)})
    with levels(daemon):
        for i in range(300):
            key = (("agents", "coder"), f"k{i % 10}")
            cache.set({key: ({"round": i}, 60)})  # Refusals are its own affair.
            got = cache.get([key])
            check("value", got in ({}, {key: {"round": i}}) or got[key]["round"] < i)
    until_relaxed(daemon)
    cache.clear()
    check("cleared", cache.get(keys) == {})


def python_of(venv):
    """A Python that has the packages; None: they can't be had."""
    python = os.path.join(venv, "bin", "python")
    imports = [python, "-c", "import redis, langgraph.cache.redis; "
                             "assert int(redis.__version__.split('.')[0]) == 8"]
    if os.path.exists(python) and subprocess.run(imports, capture_output=True).returncode == 0:
        return python
    made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True)
    if made.returncode != 0:
        return None
    install = [python, "-m", "pip", "install", "-q", "--retries", "0", "--timeout", "10", *PACKAGES]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(install, capture_output=True, timeout=600)
    return python if subprocess.run(imports, capture_output=True).returncode == 0 else None


TOOLS = {"redis-cli": test_redis_cli, "redis-benchmark": test_redis_benchmark}
LIBRARIES = {"redis-py": test_redis_py, "redis-py asyncio": test_redis_py_asyncio,
             "LangGraph RedisCache": test_langgraph_cache}


def run_all(tests, program):
    failed = 0
    for name, test in tests.items():
        folder = tempfile.mkdtemp(prefix="clients-")
        daemon = None
        began = time.monotonic()
        try:
            daemon = Daemon(program, folder)
            test(daemon)
            print(f"ok       {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as error:  # noqa: BLE001: whatever it is, it is a failure.
            failed += 1
            print(f"FAILED   {name}: {type(error).__name__}: {error}", flush=True)
        try:
            if daemon is not None:
                daemon.close()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed += 1
            daemon.process.kill()
            print(f"FAILED   {name}: {error}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    return failed


def main():
    program, venv = sys.argv[1], sys.argv[2]
    if len(sys.argv) > 3:  # Inside the venv.
        return 1 if run_all(LIBRARIES, program) else 0
    tools = {name: test for name, test in TOOLS.items() if shutil.which(name)}
    for name in TOOLS.keys() - tools.keys():
        print(f"skipped  {name}: not installed")
    failed = run_all(tools, program)
    python = python_of(venv)
    if python is None or not shutil.which("redis-cli"):
        print("skipped  redis-py and LangGraph: they could not be installed")
    else:
        failed += subprocess.run([python, __file__, program, venv, "inside"]).returncode
    if not tools and python is None:
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
