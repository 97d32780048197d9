#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory given back on a real GPU, measured in the process that needs it.

Usage, on the machine with the GPU, after bench/gpu/pack.sh:
  bench/gpu/giveback.py PACK PART...
Parts: `backed`, `unbacked`, share, chaos, ledger, restore, disk.
Every part prints its figures and one JSON line; contexts are compared bit for bit.
"""
import json, mmap, os, random, subprocess, sys, tempfile, time

GIB = 1 << 30
pack = sys.argv[1]
run_dir = tempfile.mkdtemp(prefix="spillway-run-")
env = dict(os.environ, SPILLWAY_RUN_DIR=run_dir,
           LD_LIBRARY_PATH=pack + "/lib:" + os.environ.get("LD_LIBRARY_PATH", ""))


said = {}


class Program:
    def __init__(self, *words):
        self.process = subprocess.Popen([pack + "/giveback", *words], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the program ended: {self.process.wait()}")
            if line.startswith("{"):
                return json.loads(line)
            said[line] = said.get(line, 0) + 1  # Its log lines.
            if said[line] < 3:
                print("|", line, end="", flush=True)

    def do(self, line):
        self.send(line)
        return self.answer()

    def quit(self):
        try:
            self.send("quit")
            self.process.wait(60)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
        self.process.wait()


def p(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0


def say(part, **figures):
    print(part, json.dumps(figures), flush=True)


def checked(cache, part):
    seen = cache.do("verify 0")
    stats = cache.do("stats")
    say(part + " contents", right=seen["right"], wrong=seen["wrong"], missing=seen["missing"],
        destroyed=stats["destroyed"], seconds=seen["seconds"], why=seen["why"])


# Idle memory that the host tier can hold clean; the rest belongs to other processes.
def hold_back(blocker, keep):
    free = blocker.do("look")["free"]
    if free > keep:
        blocker.do(f"take {free - keep}")


def backed():
    blocker, neighbour = Program("neighbour"), Program("neighbour")
    hold_back(blocker, 82 * GIB)
    cache = Program("cache", "--host", "88GiB")
    # As many contexts of 256 MiB as fit beside the reserve: more would go to the host tier, and
    # take the room for the copies of these.
    say("fill", **cache.do(f"fill {74 * 4}"))
    say("backed", **cache.do("backed 60"))
    say("stats", **cache.do("stats"))
    times, asks, failed = [], [], 0
    for _ in range(20):
        took = neighbour.do(f"ask {10 * GIB}")
        failed += took["code"] != 0
        if took["code"] == 0:
            times.append(took["ms"])
            asks.append(took["ask_ms"])
        neighbour.do("free")
        cache.do("up")
        cache.do("backed 20")
    say("10 GiB backed, ms", n=len(times), p50=p(times, .5), p99=p(times, .99), failed=failed,
        ask_p50=p(asks, .5))
    times = []
    for _ in range(3):
        took = neighbour.do(f"ask {64 * GIB}")
        if took["code"] == 0:
            times.append(took["ms"])
        else:
            say("64 GiB refused", **took)
        neighbour.do("free")
        cache.do("up")
        cache.do("backed 20")
    say("64 GiB backed, ms", n=len(times), p50=p(times, .5), max=max(times, default=0))
    checked(cache, "backed")
    for program in (cache, neighbour, blocker):
        program.quit()


def unbacked():
    blocker, neighbour = Program("neighbour"), Program("neighbour")
    hold_back(blocker, 40 * GIB)
    cache = Program("cache", "--host", "60GiB", "--no-behind")
    time.sleep(28)  # The host tier is registered with the driver in the background.
    say("fill", **cache.do("fill 0"))
    times, failed, freed, backed = [], 0, [], []
    for _ in range(12):
        stats = cache.do("stats")
        backed.append(stats["backed"])
        took = neighbour.do(f"ask {10 * GIB}")
        failed += took["code"] != 0
        if took["code"] == 0:
            times.append(took["ms"])
            freed.append(took["freed"])
        else:
            say("10 GiB refused", **took)
        neighbour.do("free")
        # Demoted contexts are compared and erased, and new ones set.
        cache.do("fill 0")
        if cache.do("stats")["host_bytes"] > 40 * GIB:
            checked(cache, "unbacked")
            cache.do("erase 160")
    say("10 GiB unbacked, ms", n=len(times), p50=p(times, .5), p99=p(times, .99), failed=failed,
        freed_gib=p(freed, .5) / GIB, backed_before_gib=max(backed) / GIB)
    say("stats", **cache.do("stats"))
    checked(cache, "unbacked")
    for program in (cache, neighbour, blocker):
        program.quit()


def share(seconds):
    # RAM and disk together hold more than all contexts: none must be destroyed.
    folder = tempfile.TemporaryDirectory(prefix="spillway-disk-", dir=os.environ.get("DISK_DIR"))
    neighbour = Program("neighbour")
    cache = Program("cache", "--host", "98GiB", "--disk", folder.name, "--disk-bytes", "43GiB")
    cache.do("fill 500")
    say("backed", **cache.do("backed 75"))
    say("stats", **cache.do("stats"))
    cache.do("churn 1")
    total = cache.do("stats")["total"]
    for part in (0, .5, .8, .92):
        neighbour.do("free")
        time.sleep(1)
        target = int(total * part)
        # Like a program that loads: in steps that fit the reserve.
        taken, failed = 0, 0
        while taken < target:
            step = min(2 * GIB, target - taken)
            got = neighbour.do(f"take {step}")
            if got["code"] == 0:
                taken += step
            else:
                failed += 1
                time.sleep(.01)
                if failed > 500:
                    break
        start = cache.do("stats")
        before = start["changes"]
        shares = []
        end = time.time() + seconds
        while time.time() < end:
            s = cache.do("stats")
            idle = s["total"] - s["others"] - s["reserve"]
            if time.time() > end - seconds * .8 and idle > 0:
                shares.append(s["held"] / idle)
            time.sleep(.25)
        s = cache.do("stats")
        say("share", others=part, share=p(shares, .5), least=min(shares, default=0),
            level=s["level"], changes=s["changes"] - before, refused_steps=failed,
            read=s["read"] - start["read"], refused_reads=s["refused"] - start["refused"],
            host=s["host_level"], disk=s["disk_level"],
            reserve_gib=round(s["reserve"] / GIB, 1), destroyed=s["destroyed"],
            idle_gib=round((s["total"] - s["others"] - s["reserve"]) / GIB, 1))
    neighbour.do("free")
    cache.do("churn 0")
    checked(cache, "share")
    for program in (cache, neighbour):
        program.quit()
    folder.cleanup()


def chaos(seconds):
    neighbour, blocker = Program("neighbour"), Program("neighbour")
    hold_back(blocker, 84 * GIB)
    cache = Program("cache", "--host", "88GiB")
    cache.do("fill 0")
    cache.do("backed 60")
    cache.do("churn 1")
    reserve = cache.do("stats")["reserve"]
    rng = random.Random(4)

    def rounds(name, how_long, allocate):
        tried = failed = 0
        times = []
        end = time.time() + how_long
        while time.time() < end:
            code, ms, calls = allocate()
            tried += calls
            failed += code
            times.append(ms)
            time.sleep(rng.uniform(0, .2))
            neighbour.do("free")
            time.sleep(rng.uniform(0, .3))
        say(name, calls=tried, failed=failed, p50_ms=p(times, .5), p99_ms=p(times, .99))

    def asking():
        got = neighbour.do(f"ask {int(rng.uniform(.1, 40) * GIB)}")
        if got["code"]:
            say("refused", **got)
        return int(got["code"] != 0), got["ms"], 1

    def steps(loads):
        left, failed, ms, calls = rng.uniform(.1, 40) * GIB, 0, 0, 0
        while left > 0:
            step = min(left, rng.uniform(.1, 1) * reserve)
            got = neighbour.do(f"take {int(step)}")
            failed += got["code"] != 0
            ms += got["ms"]
            calls += 1
            left -= step
            if loads:
                time.sleep(step / 55e9)  # The memory it took is filled over the link.
        return failed, ms, calls

    def single():
        got = neighbour.do(f"take {int(rng.uniform(.1, 40) * GIB)}")
        return int(got["code"] != 0), got["ms"], 1

    rounds("asks first", seconds * .5, asking)
    rounds("steps up to the reserve, each loaded over the link", seconds * .25, lambda: steps(True))
    rounds("steps up to the reserve, back to back", seconds * .125, lambda: steps(False))
    rounds("single calls without asking", seconds * .125, single)
    cache.do("churn 0")
    checked(cache, "chaos")
    for program in (cache, neighbour, blocker):
        program.quit()


def ledger():
    neighbour = Program("neighbour")
    cache = Program("cache", "--host", "8GiB", "--no-behind")
    time.sleep(4)
    cache.do("cycle 200")
    before = neighbour.do("look")["free"]
    cycles = cache.do("cycle 100000")
    after = neighbour.do("look")["free"]
    say("ledger", **cycles, free_before=before, free_after=after, chunks=(before - after) / (32 << 20))
    start = neighbour.do("look")["free"]
    cache.do("fill 0")
    held = cache.do("stats")["held"]
    cache.process.kill()
    gone = neighbour.do(f"gone {start}")
    say("kill -9", held_gib=held / GIB, back_s=gone["seconds"], free_gib=gone["free"] / GIB)
    cache.process.wait()
    neighbour.quit()


def restore():
    cache = Program("cache", "--host", "24GiB", "--context", "4GiB")
    time.sleep(10)
    say("set 4", **cache.do("fill 4"))
    say("backed", **cache.do("backed 60"))
    neighbour = Program("neighbour")
    times = []
    for i in range(6):
        neighbour.do(f"ask {17 * GIB}")
        neighbour.do("free")
        time.sleep(.5)  # The driver clears freed memory.
        for n in range(4):
            got = cache.do(f"restore {n}")
            if i > 0:
                times.append(got["restore_s"])
        cache.do("backed 20")
    say("4 GiB from host, ms", p50=p(times, .5) * 1e3, max=max(times) * 1e3,
        least=min(times) * 1e3, gbs=4 * GIB / p(times, .5) / 1e9)
    checked(cache, "restore")
    cache.quit()
    neighbour.quit()


# Disks of rented machines allow a burst and slow down after it. Therefore every read starts rested,
# and the sides take turns being first, since a second read may come from a cache of the host
# machine. `dd` reads into the same 8 MiB again and again; where a hypervisor copies, that is its
# processor's cache and not memory. So the comparison is a raw read into separate memory for the
# whole context.
def disk():
    memory = mmap.mmap(-1, 4 * GIB)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, 4 * GIB, 2 << 20):
        memory[at] = 1

    def raw(n):
        file = os.open(data, os.O_RDONLY | os.O_DIRECT)
        view, step = memoryview(memory), 8 << 20
        start = time.time()
        for at in range(0, 4 * GIB, step):
            assert os.preadv(file, [view[at:at + step]], n * 4 * GIB + at) == step
        took = time.time() - start
        os.close(file)
        return 4 * GIB / took / 1e9

    def dd(n):
        start = time.time()
        subprocess.run(["dd", f"if={data}", "of=/dev/null", "bs=8M", "count=512", f"skip={512 * n}",
                        "iflag=direct"], check=True, capture_output=True)
        return 4 * GIB / (time.time() - start) / 1e9

    def ours(n):
        got = cache.do(f"restore {n}")
        assert got["there"], got["why"]
        return got["gbs"]

    with tempfile.TemporaryDirectory(prefix="spillway-disk-", dir=os.environ.get("DISK_DIR")) as at:
        cache = Program("cache", "--host", "24GiB", "--context", "4GiB", "--disk", at,
                        "--disk-bytes", "20GiB")
        time.sleep(10)
        cache.do("fill 4")
        cache.do("backed 60")
        for _ in range(600):
            if cache.do("stats")["disk_bytes"] >= 16 * GIB:
                break
            time.sleep(.1)
        time.sleep(40)  # The tier's space is written while it is reserved.
        data = max((os.path.join(at, name) for name in os.listdir(at)), key=os.path.getsize)
        say("reopened", **cache.do("reopen"))
        time.sleep(12)  # The host tier is registered again.
        rates = {"raw": [], "ours": [], "dd": []}
        sides = [raw, ours, dd]
        for n in range(4):
            for side in sides[n % 3:] + sides[:n % 3]:
                time.sleep(6)
                rates[side.__name__].append(round(side(n), 2))
        say("4 GiB from disk, GB/s", **rates, ratio_of_means=sum(rates["ours"]) / sum(rates["raw"]))
        checked(cache, "disk")
        cache.quit()


for part in sys.argv[2:]:
    name, _, argument = part.partition("=")
    start = time.time()
    {"backed": backed, "unbacked": unbacked, "ledger": ledger, "restore": restore,
     "disk": disk,
     "share": lambda: share(float(argument or 30)),
     "chaos": lambda: chaos(float(argument or 300))}[name]()
    print(f"-- {name}: {time.time() - start:.0f} s", flush=True)
