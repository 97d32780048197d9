#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""demo_test.py SPILLWAYD SPILLWAY FAKES_DIR GROUP: examples/demo as a user starts it, with the
real programs. GROUP: story, ends, words or gpu. Bounds are for machines that are busy; nothing is
measured."""
import os, pty, re, signal, socket, subprocess, sys, tempfile, threading, time, urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
from spillway.client import Client  # noqa: E402

spillwayd, spillway, fakes, group = sys.argv[1:5]
WITHIN = 240
SCENES = ["fill", "work", "a stranger", "an ask", "relief", "kill -9", "summary"]
fetch = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def check(what, holds, saw=""):
    print(("ok    " if holds else "FAILED") + f" {what}", "" if holds else f"\nsaw: {saw}"[-6000:],
          flush=True)
    check.failed += not holds


check.failed = 0


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def eventually(holds, within=WITHIN):
    until = time.monotonic() + within
    while not (found := holds()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


class Demo:
    """A run of it; what it says is read as it comes. No library of Spillway can be loaded."""

    def __init__(self, scratch, *arguments, terminal=False, programs=True, **env):
        words = [sys.executable, str(ROOT / "examples/demo"), *arguments]
        if programs:
            words += ["--spillwayd", spillwayd, "--spillway", spillway]
        env = {**os.environ, "TMPDIR": str(scratch), "SPILLWAY_LIBRARY": "/nowhere/lib.so",
               "SPILLWAY_CUDA_LIBRARY": "", "SPILLWAY_HIP_LIBRARY": "", **env}
        self.scratch, self.text, (self.out, theirs) = scratch, "", pty.openpty() if terminal \
            else os.pipe()
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=theirs,
                                        stderr=theirs, env=env, start_new_session=True)
        os.close(theirs)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        try:
            while data := os.read(self.out, 65536):
                self.text += data.decode("utf-8", "replace")
        except OSError:
            pass  # A terminal that nothing has open any more.

    def says(self, pattern):
        """What `pattern` caught, once it has been said; None: it ended without."""
        while not eventually(lambda: re.search(pattern, self.text) or not self.reader.is_alive()):
            return None
        match = re.search(pattern, self.text)
        return match and (match[1] if match.groups() else match[0])

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self):
        """Its exit status; None: it did not end."""
        try:
            status = self.process.wait(WITHIN)
            self.reader.join(20)
            return status
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None

    def pids(self):
        return set(map(int, re.findall(r"pid (\d+)", self.text)))

    def left(self):
        """Processes and files that should not be there any more."""
        eventually(lambda: not any(map(running, self.pids())), 20)
        return [pid for pid in self.pids() if running(pid)] + list(self.scratch.glob("spillway-*"))


def expect_end(what, demo, status, *patterns):
    ended = demo.end()
    check(f"{what}: exit status {status}", ended == status, f"{ended}\n{demo.text}")
    for pattern in patterns:
        check(f"{what}: {pattern}", re.search(pattern, demo.text), demo.text)
    check(f"{what}: nothing is left", not demo.left(), f"{demo.left()}\n{demo.text}")


def metrics_of(url):
    with fetch(url + "/metrics", timeout=60) as answer:
        rows = (line.rsplit(" ", 1) for line in answer.read().decode().splitlines()
                if not line.startswith("#"))
        return {name: float(value) for name, value in rows}


def said_by_metrics(page):
    destroyed = sum(value for name, value in page.items()
                    if name.startswith("spillway_destroyed_total"))
    return (f"hits {page['spillway_hits_total']:.0f}, misses {page['spillway_misses_total']:.0f}, "
            f"sets {page['spillway_sets_total']:.0f}, destroyed {destroyed:.0f}, "
            f"recovered {page['spillway_disk_recovered']:.0f};")


STORY_SAYS = [
    r"a stranger: pid \d+ took [\d.]+ MiB: (sensed after [\d.]+ [mu]?s, )?had it after [\d.]+ m?s",
    r"an ask: pid \d+ asked for [\d.]+ MiB: [\d.]+ [KM]iB given back, free after [\d.]+ m?s, had it after",
    r"blocks in memory as steps began: [1-9][\d,]* of [\d,]+; LRU with the same tiers: \d",
    r"\n  destroyed  0 entries lost",
    r"\n  compared   [\d.]+ [MG]iB read back, 0 wrong bytes",
    r"\n  resumed    [1-9][\d,]* of [\d,]+ turns found their whole context: [\d,]+ tokens in",
    r"\n  kill -9    pid \d+ killed, pid \d+ answers after .*; [1-9]\d* of \d+ entries on disk "
    r"found again, 0 wrong bytes"]


def tell_story(what, scratch, *arguments, **env):
    demo = Demo(scratch, "--for", "16s", "--card-size", "64MiB", *arguments, **env)
    url = demo.says(r"open (http://127.0.0.1:\d+)/")
    demo.says(r"\n  /metrics .*\n")
    said = said_by_metrics(metrics_of(url)) if url else "no daemon"
    check(f"{what}: its last line is what /metrics says", said in demo.text, f"{said}\n{demo.text}")
    expect_end(what, demo, 0, *STORY_SAYS)
    at = 0
    for scene in SCENES[:-1]:
        for when in ("begins", "has an end"):
            at = demo.text.find(f" s  {scene}: ", at + 1)
            check(f"{what}: {scene} {when}", at > 0, demo.text)
    found, on_disk = re.search(r"(\d+) of (\d+) entries on disk found", demo.text.replace(",", "")) \
        .groups()
    check(f"{what}: the kill loses nothing", int(found) >= int(on_disk) > 0, demo.text)
    check(f"{what}: no trouble, no escapes", not re.search("trouble|\x1b", demo.text), demo.text)
    first = demo.text.split("\n")[:10]
    check(f"{what}: ten lines say what is coming",
          all(any(line.startswith(f"  {scene} ") for line in first) for scene in SCENES), first)
    return demo


def story(scratch):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 7380))
            taken.listen(1)
        except OSError:
            pass  # By another program.
        demo = tell_story("on a virtual card, 7380 taken", scratch, "--device", "cpu", "--record",
                          str(scratch / "record.csv"), "--seed", "7")
    check("no GPU is touched", "no GPU is touched" in demo.text, demo.text)
    head, *rows = (scratch / "record.csv").read_text().splitlines()
    check("the record has its columns",
          head == "t,total,free,others,ours_backed,ours_unbacked,level", head)
    rows = [[float(each) for each in row.split(",")[:-1]] for row in rows]
    check("the record is of the card", len(rows) > 50 and all(
        row[1] == 64 << 20 and sum(row[2:]) <= row[1] for row in rows), rows[:3])
    check("others are in it", any(row[3] >= 32 << 20 for row in rows), rows[-1:])


def ends(scratch):
    for scene in (r" s  fill: ", r"pid \d+ takes", r"pid \d+ asks", r" s  kill -9: ",
                  r"killed, pid"):
        demo = Demo(scratch, "--for", "10s", "--card-size", "32MiB")
        demo.says(scene)
        status = demo.interrupt()
        check(f"Ctrl-C at '{scene}' ends it", status == 0 and "\nsummary: " in demo.text,
              f"{status}\n{demo.text}")
        check(f"Ctrl-C at '{scene}' leaves nothing", not demo.left(), demo.left())
    demo = Demo(scratch, "--for", "10min", "--card-size", "32MiB")
    path = demo.says(r"redis-cli -s (\S+)")
    with Client(socket=path, timeout=60) as client:
        check("its agents are clients of the socket",
              eventually(lambda: "system/0" in client and "planner/prefix/0" in client))
        value = bytearray(client.get("system/0"))
        value[-1] ^= 1
        client.set("system/0", value, tokens=256)
    eventually(lambda: re.search("[1-9] wrong bytes|wrong bytes [1-9]", demo.text))
    status = demo.interrupt()
    check("a wrong byte is exit status 1",
          status == 1 and re.search(r"compared .* [1-9][\d,]* wrong bytes", demo.text),
          f"{status}\n{demo.text}")
    demo = Demo(scratch, "--for", "10min", "--card-size", "32MiB")
    daemon = int(demo.says(r"spillwayd, pid (\d+)"))
    demo.says(" s  fill: ")
    os.kill(daemon, signal.SIGKILL)
    expect_end("a daemon that dies", demo, 1, r"\(pid \d+\) ended by itself, signal 9")
    demo = Demo(scratch, "--for", "10min", "--card-size", "32MiB")
    demo.says(" s  fill: ")
    os.close(demo.out)
    expect_end("nothing reads any more", demo, 0)
    demo = Demo(scratch, "--for", "10s", "--card-size", "32MiB")
    demo.says(r"pid \d+ takes")
    demo.process.kill()
    demo.end()
    check("killed, it leaves no process", eventually(
        lambda: not any(map(running, demo.pids())), 30), demo.pids())
    old = list(scratch.glob("spillway-demo-*"))
    Demo(scratch, "--for", "10s", "--device", "none").end()
    check("what it left is there", len(old) == 1 and old[0].exists(), old)
    demo = Demo(scratch, "--for", "10s", "--card-size", "32MiB")
    demo.says("spillwayd, pid")
    check("the next one removes it", not old[0].exists(), old)
    check("and ends", demo.interrupt() == 0 and not demo.left(), demo.text)
    os.environ["TERM"] = "xterm"
    demo = Demo(scratch, "--for", "10min", "--card-size", "32MiB", terminal=True)
    demo.says("researcher-1 .*auditor|researcher-1")
    status = demo.interrupt()
    text = demo.text
    check("a terminal gets a table and is left as it was", status == 0
          and 0 < text.find("\x1b[?1049h") < text.find("researcher-1") < text.rfind("\x1b[?1049l")
          < text.find("summary: "), f"{status} {text[-2000:]}")


def lru_tiers():
    """The cache by last use that Spillway is compared with, by hand."""
    sys.path.insert(0, str(ROOT / "examples/demo"))
    from lru import LruTiers
    lru = LruTiers()
    lru.set_sizes(30, 20)
    for key in "abcde":
        lru.touch(key, 10)
    check("three in memory, two on disk", lru.where("abcde") == [3, 2], lru.where("abcde"))
    lru.touch("a", 10)
    check("a use brings a block to memory", lru.where("a") == [1, 0] and lru.where("b") == [0, 1]
          and lru.where("c") == [0, 1], lru.where("abc"))
    lru.touch("f", 10)
    check("the least recently used is gone", lru.where("abcdef") == [3, 2]
          and lru.where("b") == [0, 0], lru.where("abcdef"))
    lru.set_sizes(10, 20)
    check("less memory, and some is gone", lru.where("abcdef") == [1, 2]
          and lru.where("f") == [1, 0], lru.where("abcdef"))
    lru.forget(["f", "nowhere"])
    check("what is forgotten makes room", lru.where("fae") == [1, 1], lru.where("fae"))


def words(scratch):
    lru_tiers()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for flag in ("--port", "--http-port"):
            demo = Demo(scratch, "--for", "5s", "--card-size", "16MiB", flag, port)
            expect_end(f"{flag} that is taken", demo, 1, f"127.0.0.1:{port}")
    for what, status, *arguments in [
            ("argument --for: '20'", 2, "--for", "20"), ("argument --for: '0s'", 2, "--for", "0s"),
            ("argument --card-size: '4G'", 2, "--card-size", "4G"),
            ("argument --card-size: '1MiB'", 2, "--card-size", "1MiB"),
            ("more than half of the", 2, "--card-size", "1024TiB", "--device", "cpu"),
            ("argument --port: '65536'", 2, "--port", "65536"),
            ("argument --http-port: '0'", 2, "--http-port", "0"),
            ("argument --device: 'gpu'", 2, "--device", "gpu"),
            ("argument --seed", 2, "--seed", "x"), ("--fast", 2, "--fast"),
            ("No such file or directory: '/nowhere/record.csv'", 1, "--record", "/nowhere/record.csv"),
            ("cuda:3: .* --device cpu is right", 1, "--device", "cuda:3")]:
        expect_end(" ".join(arguments), Demo(scratch, *arguments), status, what)
    demo = Demo(scratch, "--spillwayd", "/nowhere/spillwayd", programs=False)
    expect_end("a program that is not there", demo, 1, "needs the program spillwayd.*/nowhere")
    for program, arguments in ((spillway, ["demo"]), (spillwayd, ["--demo", "--for", "20s"])):
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60)
        check(f"{Path(program).name} {' '.join(arguments)} names the demo",
              done.returncode == 2 and "python3 examples/demo" in done.stderr, done.stderr)


def gpu(scratch):
    gpu_of = {"SPILLWAY_CUDA_LIBRARY": f"{fakes}/fake_gpu_cuda.so",
              "SPILLWAY_STATE_DIR": str(scratch / "state"),
              "SPILLWAY_FAKE_GPU": f"total {2 << 30};granularity 65536;thread 1;"
                                   f"together {scratch / 'together'}"}
    demo = tell_story("on a GPU", scratch, **gpu_of)
    check("on the GPU", re.search(r"on 64 MiB of cuda:0 \(Fake GPU\) \(of 2 GiB free", demo.text),
          demo.text)
    for what, status, *arguments in [
            ("512 MiB of cuda:0 .Fake GPU. are more than an eighth of the 2 GiB free", 2,
             "--device", "cuda:0", "--card-size", "512MiB"),
            ("cuda:0 .Fake GPU.: .* less than 512 MiB .see --card-size", 2, "--device", "cuda"),
            ("cuda:3: .* finds no such GPU; without one, --device cpu", 1, "--device", "cuda:3")]:
        expect_end(" ".join(arguments), Demo(scratch, *arguments, **gpu_of), status, what)
    for arguments, note in (([], "less than 512 MiB"), (["--device", "cpu"], "no GPU is touched")):
        demo = Demo(scratch, "--for", "5s", *arguments, **gpu_of)
        said = demo.says("spillwayd, pid .*")
        check(f"{arguments}: on a virtual card", said and "virtual card" in said and note in said,
              demo.text)
        check(f"{arguments}: ends", demo.interrupt() == 0 and not demo.left(), demo.text)


with tempfile.TemporaryDirectory(prefix="demo-", dir="/tmp") as folder:
    {"story": story, "ends": ends, "words": words, "gpu": gpu}[group](Path(folder))
print(f"{check.failed} failed")
sys.exit(1 if check.failed else 0)
