#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bad_days.py SPILLWAYD SPILLWAY: what a new user and an operator meet: each mistake is named,
nothing is left half done, nothing is lost. docs/operating/trouble.md lists them."""
import os, re, shutil, socket, struct, subprocess, sys, tempfile, time
from pathlib import Path

spillwayd, spillway = sys.argv[1:3]
failed = 0


def check(what, holds, saw=""):
    global failed
    print(("ok    " if holds else "FAILED") + f" {what}", "" if holds else f"saw: {saw}"[:2000])
    failed += not holds


def run(*words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=60, **options)
    return done.returncode, done.stdout + done.stderr


class Daemon:
    def __init__(self, folder, *words):
        self.socket = f"{folder}/s.sock"
        self.process = subprocess.Popen(
            [spillwayd, "--port", "0", "--http-port", "0", "--socket", self.socket, *map(str, words)],
            stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60
        while not os.path.exists(self.socket) and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    def ask(self, *words):
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(30)
            link.connect(self.socket)
            link.sendall((f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)).encode())
            return link.recv(1 << 20).decode()

    def stop(self):
        self.process.terminate()
        return self.process.communicate(timeout=60)[1]


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(Path(folder).rglob("*"))
            if p.is_file()}


def try_start(folder, *words):
    return run(spillwayd, "--port", "0", "--http-port", "0", "--socket", f"{folder}/other.sock",
               "--for", "5s", *words)


def disk(folder):
    """Folders: of a newer version, of another daemon, read-only."""
    store = f"{folder}/store"
    daemon = Daemon(folder, "--dir", store)
    daemon.ask("SET", "kept", "value")
    code, said = try_start(folder, "--dir", store)
    check("a folder that another daemon uses is refused", code == 1 and store in said, said)
    check("and that one runs on", "value" in daemon.ask("GET", "kept"))
    daemon.stop()
    before = tree(store)
    newer = f"{folder}/newer"
    shutil.copytree(store, newer)
    for path in Path(newer).iterdir():  # Magic, then the version, in every file of the format.
        data = path.read_bytes() if path.is_file() else b""
        at = data.find(b"SPWY", 0, 64)
        if at >= 0:
            path.write_bytes(data[:at + 8] + struct.pack("<I", 99) + data[at + 12:])
    changed = tree(newer)
    check("the copy is of another version", changed != before)
    code, said = try_start(folder, "--dir", newer)
    check("a folder of a newer version is refused, with both versions",
          code == 1 and "99" in said and re.search(r"\b3\b", said), said)
    check("and left as it is", tree(newer) == changed)
    daemon = Daemon(folder, "--dir", store)
    check("the old folder has everything", "value" in daemon.ask("GET", "kept"))
    daemon.stop()
    # Root writes wherever it likes, but not to a file system that is mounted read-only.
    script = f"mount --bind {store} {store} && mount -o remount,ro,bind {store} && exec \"$@\""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0:
        before = tree(store)
        code, said = run("unshare", "--mount", "sh", "-c", script, "sh", spillwayd, "--port", "0",
                         "--http-port", "0", "--socket", f"{folder}/r.sock", "--dir", store, "--for", "5s")
        check("a read-only file system is named", code == 1 and store in said and
              "Read-only file system" in said, said)
        check("nothing was changed", tree(store) == before)
    else:
        print("skipped the read-only file system: no mount namespace")


def ports(folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        store = f"{folder}/unmade"
        for flag in ("--port", "--http-port"):
            other = {"--port": "--http-port", "--http-port": "--port"}[flag]
            code, said = run(spillwayd, flag, port, other, "0", "--socket", f"{folder}/p.sock",
                             "--dir", store, "--for", "5s")
            check(f"{flag} in use is named", code == 1 and f"127.0.0.1:{port}" in said, said)
            check("and no socket is left", not os.path.exists(f"{folder}/p.sock"))
            check("nor a folder begun", not os.path.exists(store))
    other = Daemon(folder)
    code, said = run(spillwayd, "--port", "0", "--http-port", "0", "--socket", other.socket, "--dir", store,
                     "--for", "5s")
    check("a socket in use is named", code == 1 and other.socket in said, said)
    check("nor is a folder begun for it", not os.path.exists(store))
    check("and that daemon runs on", "PONG" in other.ask("PING"))
    other.stop()
    code, said = run(spillwayd, "--port", "70000")
    check("a port that is none is named as it was given", code == 2 and "70000" in said, said)


def settings(folder):
    config = Path(folder) / "c.toml"
    for text, hint in (("capacity = 24GiB\n", 'write it in quotes: capacity = "24GiB"'),
                       ("ttl = 10min # long\n", 'write it in quotes: ttl = "10min"'),
                       ("[server]\nidle_max = 5min\n", 'write it in quotes: idle_max = "5min"'),
                       ("capcity = \"1GiB\"\n", "capacity"), ("[server]\nprot = 1\n", "port")):
        config.write_text(text)
        code, said = run(spillwayd, "--check-config", "--config", config)
        check(f"{text.strip()!r}: {hint}", code == 2 and hint in said and "c.toml:" in said, said)
    config.write_text('capacity = "64MiB"\n')
    code, said = run(spillwayd, "--check-config", "--config", config)
    check("a file that is right", code == 0 and "the settings are right" in said, said)
    config.write_text('capacity = "900TiB"\n')
    code, said = run(spillwayd, "--check-config", "--config", config)
    check("more than the machine has", code == 2 and "900 TiB" in said, said)
    code, sample = run(spillwayd, "--sample-config")
    config.write_text(sample)
    check("the sample is right", code == 0 and run(spillwayd, "--check-config", "--config", config)[0] == 0)


def units(folder):
    """Every duration and every size takes the same forms, and says them."""
    trace = Path(folder) / "trace.jsonl"
    trace.write_text('{"timestamp": 0, "input_length": 512, "hash_ids": [1]}\n')
    config = Path(folder) / "u.toml"
    config.write_text('ttl = "5 parsecs"\n')
    for words in ((spillwayd, "--for", "5 parsecs"), (spillwayd, "--check-config", "--config", config),
                  (spillway, "squeeze", "1MiB", "--card", "a", "--for", "5 parsecs"),
                  (spillway, "squeeze", "1MiB", "--card", "a", "--patience", "5 parsecs"),
                  (spillway, "room", "1MiB", "--within", "5 parsecs", "--", "true"),
                  (spillway, "room", "1MiB", "--for", "5 parsecs", "--", "true"),
                  (spillway, "top", "--for", "5 parsecs"), (spillway, "top", "--every", "5 parsecs"),
                  (spillway, "probe", "--watch", "--every", "5 parsecs"),
                  (spillway, "probe", "--watch", "--for", "5 parsecs"),
                  (spillway, "replay", "--trace", trace, "--spacing", "5 parsecs")):
        code, said = run(*words)
        check(f"durations of {Path(words[0]).name} {' '.join(map(str, words[1:3]))}",
              code == 2 and "is none of ns, us, ms, s, min, h or d" in said, said)
    config.write_text('capacity = "5 parsecs"\n')
    for words in ((spillwayd, "--check-config", "--config", config),
                  (spillway, "squeeze", "5 parsecs", "--card", "a"),
                  (spillway, "squeeze", "1MiB", "--card", "a", "--step", "5 parsecs"),
                  (spillway, "room", "5 parsecs", "--", "true"),
                  (spillway, "selftest", "--memory", "5 parsecs")):
        code, said = run(*words)
        check(f"sizes of {Path(words[0]).name} {' '.join(map(str, words[1:3]))}",
              code == 2 and "is none of B, KiB, MiB, GiB, TiB, kB, MB, GB or TB" in said, said)
    daemon = Daemon(folder)
    try:
        for words in (("SPILL.SET", "k", "v", "TTL", "5 parsecs"), ("CONFIG", "SET", "stop_flush", "5 parsecs")):
            said = daemon.ask(*words)
            check(f"durations of {words[0]}", "is none of ns, us, ms, s, min, h or d" in said, said)
        said = daemon.ask("SPILL.RECLAIM", "5 parsecs")
        check("sizes of SPILL.RECLAIM", "is none of B, KiB, MiB" in said, said)
    finally:
        daemon.stop()


def squeezes(folder):
    code, said = run(spillway, "squeeze", "1MiB", "--for", "0")
    check("without a shared card the message says how", code == 2 and "--card default" in said, said)
    daemon = Daemon(folder, "--card", "default")
    try:
        code, said = run(spillway, "squeeze", "1MiB", "--for", "0")
        check("a daemon with --card default can be squeezed", code == 0 and "squeeze: has" in said, said)
        code, said = run(spillway, "squeeze", "1MiB", "--for", "0", "--ask")
        check("and asked", code == 0 and "gave" in said, said)
        for flag in ("--card", "--device"):
            code, said = run(spillway, "squeeze", "1MiB", flag, "defualt", "--for", "0")
            check(f"a mistyped {flag} lists what exists", code == 2 and "did you mean 'default'" in said
                  and "in use: default" in said, said)
        code, said = run(spillway, "squeeze", "1MiB", "--device", "cuda:77")
        check("a GPU that is not there", code != 0 and "cuda:77" in said, said)
    finally:
        daemon.stop()


def helps(folder):
    code, said = run(spillway, "help", "squeeze")
    check("help COMMAND", code == 0 and said == run(spillway, "squeeze", "--help")[1], said)
    code, said = run(spillway, "help", "sqeeze")
    check("help of none", code == 2 and "squeeze" in said, said)
    daemon = Daemon(folder)
    try:
        said = daemon.ask("SPILL.HELP")
        check("SPILL.HELP", "SPILL.SET" in said and "SPILL.MODE" in said, said)
        one = daemon.ask("SPILL.HELP", "mode")
        check("SPILL.HELP of one", "SPILL.MODE" in one and "SPILL.SET" not in one, one)
        check("of none", "SPILL.HELP lists them" in daemon.ask("SPILL.HELP", "nothing"))
    finally:
        daemon.stop()


def narrow(folder):
    for columns in ("20", "1", "500"):
        code, said = run(spillway, "top", "--once", "--url", "http://127.0.0.1:1",
                         env=dict(os.environ, COLUMNS=columns))
        check(f"top at {columns} columns, without a daemon", code == 1 and said, said)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])
    daemon = subprocess.Popen([spillwayd, "--port", "0", "--http-port", port, "--socket", f"{folder}/s"],
                              stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            code, said = run(spillway, "top", "--once", "--url", f"http://127.0.0.1:{port}",
                             env=dict(os.environ, COLUMNS="20"))
            if code == 0:
                break
            time.sleep(0.05)
        wide = max(map(len, said.split("\n")))
        check("top at 20 columns draws within them", code == 0 and wide <= 20, (wide, said))
    finally:
        daemon.terminate()
        daemon.wait(30)


def main():
    for part in (disk, ports, settings, units, squeezes, helps, narrow):
        print(f"-- {part.__name__}")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SPILLWAY_RUN_DIR"] = f"{folder}/run"
            os.mkdir(f"{folder}/run", 0o700)
            part(folder)
    print("failed:", failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
