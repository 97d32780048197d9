#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""drive.py SPILLWAY SPILLWAYD [--captures FOLDER]: `spillway top` in a real terminal.

tmux is the terminal, spillwayd the daemon: keys are typed, screens are read. With
--captures the screens are written there as text (docs/top.md is made of them).

Exit status: 0 all good, 1 something is wrong, 77 there is no tmux.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Daemon:
    def __init__(self, program, folder, port):
        self.socket = os.path.join(folder, "s.sock")
        config = os.path.join(folder, "d.toml")
        with open(config, "w") as file:
            file.write('sample_period = "1s"\n')  # On a busy machine, too, pressure is known.
        self.process = subprocess.Popen(
            [program, "--config", config, "--port", "0", "--socket", self.socket, "--http-port",
             str(port)], stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while True:
            try:
                if self.ask(b"PING") == b"+PONG":
                    return
            except OSError:
                pass
            if time.monotonic() > until or self.process.poll() is not None:
                self.process.kill()
                raise SystemExit("the daemon does not start")
            time.sleep(0.01)

    def ask(self, *words):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(self.socket)
            s.sendall(b"*%d\r\n" % len(words) +
                      b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            return s.makefile("rb").readline().rstrip()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Terminal:
    """A tmux of our own, with a shell in it."""

    def __init__(self, folder, width=80, height=24):
        self.base = ["tmux", "-S", os.path.join(folder, "tmux"), "-f", "/dev/null"]
        self.run("new-session", "-d", "-x", str(width), "-y", str(height),
                 "env PS1='$ ' LC_ALL=C sh")
        self.wait_for(lambda text: "$" in text, "a shell")

    def run(self, *words):
        return subprocess.run([*self.base, *words], check=True, capture_output=True, text=True).stdout

    def type(self, *keys):
        self.run("send-keys", *keys)

    def line(self, text):
        self.run("send-keys", "-l", text)
        self.run("send-keys", "Enter")

    def text(self):
        return self.run("capture-pane", "-p")

    def wait_for(self, good, what, within=60):
        until = time.monotonic() + within
        while True:
            text = self.text()
            # A half-drawn screen has not all that is looked for in it.
            with contextlib.suppress(StopIteration, IndexError):
                if good(text):
                    return text
            if time.monotonic() > until:
                raise AssertionError(f"{what} did not come:\n{text}")
            time.sleep(0.05)

    def resize(self, width, height):
        self.run("resize-window", "-x", str(width), "-y", str(height))

    def close(self):
        subprocess.run([*self.base, "kill-server"], capture_output=True)


def rows(text):
    """The contexts on a screen, without their mark."""
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("  key"))
    end = next(i for i, line in enumerate(lines) if "evictions, and why" in line)
    return [line[2:] for line in lines[head + 1:end] if line.strip()]


def has(*parts):
    return lambda text: all(part in text for part in parts)


def check(good, what):
    if not good:
        raise AssertionError(what)


def play(args, folder, terminal):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    top = f"{args.spillway} top --url {url} --every 100ms"
    captures = {}

    def keep(name):
        time.sleep(0.4)
        captures[name] = terminal.text()

    # Nobody there: the machine alone, and it says so.
    terminal.line(top)
    text = terminal.wait_for(has("no spillwayd at", "alone", "host", "q quit"), "the machine alone")
    keep("alone")
    check(len(text.splitlines()) <= 24, "more lines than the terminal has")

    # A daemon comes: it is found without being asked.
    daemon = Daemon(args.spillwayd, folder, port)
    try:
        for i in range(60):
            daemon.ask(b"SPILL.SET", b"agent-%d/%02d" % (i % 3, i), b"x" * (1000 + 100 * i), b"TOKENS",
                       b"%d" % (10 + i), b"AGENT", b"agent-%d" % (i % 3))
        terminal.wait_for(has("contexts 1 to", "of 60", "RELAXED"), "the daemon's contexts")
        keep("top")

        # Sorting: by bytes the largest come first, the other way round the smallest.
        terminal.type("s")
        text = terminal.wait_for(has("by bytes falling"), "another order")
        text = terminal.wait_for(lambda t: rows(t)[0].startswith("agent-2/59"), "the largest first")
        terminal.type("r")
        terminal.wait_for(lambda t: "by bytes rising" in t and rows(t)[0].startswith("agent-0/00"),
                          "the smallest first")

        # Choosing and explaining.
        terminal.type("Down", "e")
        terminal.wait_for(has("agent-1/01", "device"), "an explanation")
        keep("explain")
        terminal.type("x")
        terminal.wait_for(has("by bytes rising"), "the list again")

        # A filter: only what matches, and all of it when it ends.
        terminal.type("/")
        terminal.run("send-keys", "-l", "agent-1/")
        terminal.wait_for(has("of 20 with 'agent-1/' (60 in all)", "filter: agent-1/_"), "the filter")
        text = terminal.wait_for(lambda t: all(r.startswith("agent-1/") for r in rows(t)), "matching rows")
        keep("filter")
        terminal.type("Enter")
        terminal.wait_for(has("q quit", "(60 in all)"), "the filter stays")
        terminal.type("Escape")
        terminal.wait_for(lambda t: "of 60" in t and "with" not in t, "all of them again")

        # Another size, larger and smaller.
        terminal.resize(120, 40)
        text = terminal.wait_for(lambda t: "agent " in t and len(rows(t)) > 12, "more rows")
        keep("large")
        terminal.resize(60, 12)
        terminal.wait_for(lambda t: "spillway top" in t.splitlines()[0] and "q quit" in t.splitlines()[11],
                          "fewer")
        terminal.resize(20, 16)  # Lines are cut, none is continued on the next one.
        terminal.wait_for(lambda t: [line[:7] for line in t.splitlines()[:2]] == ["spillwa", "RELAXED"]
                          and t.splitlines()[15].startswith("q quit  s sort"), "20 columns")
        terminal.type("p")  # It is used as ever.
        terminal.wait_for(has("paused (p continues"), "a pause at 20 columns")
        terminal.type("p")
        terminal.resize(80, 24)
        terminal.wait_for(has("contexts 1 to", "by bytes rising", "q quit"), "80x24 again")

        # Hostile keys disturb nothing.
        daemon.ask(b"SET", b"\x1b[2J\x1b]0;owned\x07<b>markup</b>", b"v" * 100000)
        daemon.ask(b"SET", b"\xff\x00" * 30000, b"v" * 100001)
        terminal.type("r")
        text = terminal.wait_for(has("\\x1b[2J", "\\xff\\x00", "of 62", "q quit"), "escaped keys")
        check("spillway top" in text.splitlines()[0], "the first line went away")
        keep("hostile")

        # A loss and what clients erased are told apart, and losses can be seen alone.
        daemon.ask(b"DEL", b"agent-0/00")
        terminal.wait_for(has("1 erased by clients", "0 destroyed", "erased       1 x erased"), "what is gone")
        keep("gone-entry")
        terminal.type("l")
        terminal.wait_for(lambda t: "losses alone" in t and "1 x erased" not in t, "losses alone")
        terminal.type("l")
        terminal.wait_for(has("evictions, and why", "1 x erased"), "all again")

        # Pause and help.
        terminal.type("p")
        terminal.wait_for(has("paused"), "the pause")
        terminal.type("p")
        terminal.wait_for(lambda t: "paused" not in t, "going on")
        terminal.type("?")
        terminal.wait_for(has("sort by the next column"), "the help")
        keep("help")
        terminal.type("x")
        terminal.wait_for(has("contexts 1 to"), "the lists again")

        # The daemon dies and comes again.
        daemon.kill()
        terminal.wait_for(has("spillwayd is gone since", "asking again"), "that it is gone")
        keep("gone")
        daemon = Daemon(args.spillwayd, folder, port)
        terminal.wait_for(lambda t: "gone since" not in t and "of 0" in t, "the new one")

        # It ends, and the terminal is as it was.
        for key in ("q", "C-c"):
            terminal.type(key)
            terminal.wait_for(lambda t: "q quit" not in t and "contexts" not in t,
                              f"the end by {key}")
            terminal.line("clear; stty -a | tr ';' '\\n' | grep -c -w -e icanon; echo cursor=ok")
            text = terminal.wait_for(has("cursor=ok"), "the shell")
            settings = subprocess.run(["stty", "-a", "-F", terminal.run(
                "display-message", "-p", "#{pane_tty}").strip()], capture_output=True, text=True).stdout
            # The shell edits its line itself perhaps; what we changed is there again.
            check(re.search(r"susp = \^Z", settings), "Ctrl-Z is lost:\n" + settings)
            check(re.search(r"quit = \^\\", settings), "Ctrl-\\ is lost:\n" + settings)
            check(terminal.run("display-message", "-p", "#{cursor_flag}").strip() == "1", "no cursor")
            check(terminal.run("display-message", "-p", "#{alternate_on}").strip() == "0",
                  "the alternate screen stays")
            if key == "q":
                terminal.line(top)
                terminal.wait_for(has("contexts"), "top again")

        # A password is set while it looks on, and it is not the one that was said: it ends.
        terminal.line("clear; " + top + "; echo status=$?")
        terminal.wait_for(has("contexts", "q quit"), "top once more")
        check(daemon.ask(b"CONFIG", b"SET", b"requirepass", b"secret") == b"+OK", "no password is set")
        terminal.wait_for(has("asks for a password", "--password-file", "status=1"),
                          "that a password is needed")
        check(terminal.run("display-message", "-p", "#{alternate_on}").strip() == "0",
              "the alternate screen stays")
        daemon.kill()
        daemon = Daemon(args.spillwayd, folder, port)

        plain(args, url, daemon)
    finally:
        daemon.kill()
    return captures


def plain(args, url, daemon):
    """Without a terminal, and for programs."""
    daemon.ask(b"SPILL.SET", b"one", b"value", b"TOKENS", b"5")

    def run(*words, env=None, code=0):
        done = subprocess.run([args.spillway, "top", *words], capture_output=True, text=True, timeout=120,
                              env={**os.environ, **(env or {})})
        check(done.returncode == code, f"{words}: status {done.returncode}: {done.stderr}")
        return done.stdout + done.stderr

    once = run("--url", url, "--once")
    check("\x1b" not in once and "one" in once and "evictions, and why" in once, "--once:\n" + once)
    seen = json.loads(run("--url", url, "--json"))
    check(seen["stats"]["entries"] == 1 and seen["contexts"]["contexts"][0]["key"] == "one", "--json")
    lines = run("--url", url, "--for", "2500ms", env={"TERM": "dumb"})
    check("no table can be drawn" in lines and "RELAXED" in lines and "\x1b" not in lines, lines)
    check("is not a port" in run("--url", "http://127.0.0.1:x", code=2), "a bad port")
    check("would be right" in run("--url", "https://127.0.0.1", code=2), "https")
    check("127.0.0.1:1" in run("--url", "http://127.0.0.1:1", "--once", code=1), "nobody there")


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("spillway")
    parse.add_argument("spillwayd")
    parse.add_argument("--captures")
    args = parse.parse_args()
    if shutil.which("tmux") is None:
        print("there is no tmux: nothing was driven")
        return 77
    folder = tempfile.mkdtemp(prefix="spillway-top-")
    terminal = Terminal(folder)
    try:
        captures = play(args, folder, terminal)
    except AssertionError as error:
        print("WRONG", error)
        return 1
    finally:
        terminal.close()
        shutil.rmtree(folder, ignore_errors=True)
    if args.captures:
        os.makedirs(args.captures, exist_ok=True)
        for name, text in captures.items():
            with open(os.path.join(args.captures, name + ".txt"), "w") as out:
                out.write(text)
    print("spillway top was driven: alone, sort, reverse, explain, filter, resize, hostile keys, pause, "
          "help, gone and back, quit, Ctrl-C, locked out; " + f"{len(captures)} screens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
