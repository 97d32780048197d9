# SPDX-License-Identifier: Apache-2.0
"""A demo of spillwayd: `make run`, or python3 examples/demo [--for 20s] once it is built."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(1, str(ROOT / "python"))

from processes import Daemon, DemoError, Folder  # noqa: E402
from screen import Screen, printable, span  # noqa: E402
from stage import MIB, Stage  # noqa: E402
from story import SCENES, Story  # noqa: E402

TICK_S, DRAW_S, STATUS_S = 0.05, 0.2, 1.0


def number(units, low, high, right):
    """A type for argparse: a number with one of `units`, from `low` to `high`, in the forms that
    spillwayd takes: "1.5 GiB", "90s", in upper or lower case."""
    known = {name.lower(): scale for name, scale in units.items()}

    def read(text):
        match = re.fullmatch(r"(\d{1,15})(\.\d{1,6})? ?([A-Za-z]*)", text)
        if match and match[3].lower() in known and not (match[2] and match[3] == ""):
            scale = known[match[3].lower()]
            value = int(match[1]) * scale
            if match[2]:
                value = type(scale)(value + float(match[2]) * scale)
            if low <= value <= high:
                return value
        raise argparse.ArgumentTypeError(f"'{text}': right is {right}")
    return read


def device(text):
    if re.fullmatch(r"auto|cpu|(cuda|hip)(:\S+)?", text):
        return text
    raise argparse.ArgumentTypeError(f"'{text}': right is auto, cpu, cuda, cuda:N, hip or hip:N "
                                     "(N: a number, UUID or PCI address)")


TIME = number({"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}, 5, 86400, "5s to 24h")
SIZE = number({"B": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB, "TiB": MIB * MIB,
               "kB": 1000, "MB": 10**6, "GB": 10**9, "TB": 10**12}, 16 * MIB, 1 << 60,
              "512MiB or 4GiB, at least 16MiB")
PORT = number({"": 1}, 1, 65535, "1 to 65535")


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="demo", description="Twelve agents and their neighbours on a real spillwayd.")
    add = parser.add_argument
    add("--for", dest="length", type=TIME, default=60.0, metavar="TIME", help="5s to 24h [60s]")
    add("--device", type=device, default="auto", help="cpu (a virtual card), cuda:N or hip:N "
        "[a GPU if there is one, else cpu]")
    add("--card-size", type=SIZE, metavar="SIZE", help="of the card, or of the GPU's part [an "
        "eighth of what is free, at most 512MiB; of a GPU 4GiB]")
    add("--port", type=PORT, help="RESP on TCP, too [a Unix socket only]")
    add("--http-port", type=PORT, help="[7380, or a free one if that is taken]")
    add("--spillwayd", metavar="PATH", help="[build/release/bin/spillwayd]")
    add("--spillway", metavar="PATH", help="[build/release/bin/spillway]")
    add("--seed", type=int, default=1, help="of the contexts' bytes [1]")
    add("--record", metavar="FILE", help="write the card's memory over time to this CSV file")
    return parser.parse_args()


def say(*lines):
    sys.stdout.write("".join(printable(line) + "\n" for line in lines))
    sys.stdout.flush()


def program(name, named):
    built = ROOT / "build/release/bin" / name
    path = named or (str(built) if built.exists() else shutil.which(name))
    if path and os.access(path, os.X_OK) and not os.path.isdir(path):
        return path
    raise DemoError(f"the demo needs the program {name}, and {path or built} is not there: `make` "
                    f"builds it, --{name} PATH names another")


def as_typed(path):
    """How a shell here starts this program: by its name where PATH has it."""
    name, found = os.path.basename(path), shutil.which(os.path.basename(path))
    return name if found and os.path.samefile(found, path) else os.path.relpath(path)


def watch(story, screen, title, notes, stop):
    """Shows the story until it is over or stopped. Without a screen, prints a summary before
    anything is stopped.
    """
    drawn = -STATUS_S
    while not story.over and not stop.is_set():
        story.tick()
        if story.now >= drawn + (DRAW_S if screen else STATUS_S) and (screen or not story.summary):
            drawn = story.now
            if screen:
                screen.draw(story.table(f"{title}, {story.now:.0f} of {story.length:.0f} s"),
                            list(story.news), notes)
            else:
                say(story.status())
        stop.wait(TICK_S)
    story.finish()


def play(args, stop):
    spillwayd, spillway = program("spillwayd", args.spillwayd), program("spillway", args.spillway)
    record, folder = open(args.record, "w") if args.record else None, Folder()
    stage = daemon = story = screen = None
    try:
        stage = Stage(args.device, args.card_size, spillway, folder)
        daemon = Daemon(spillwayd, folder, stage.env, stage.daemon_settings(), args.port,
                        args.http_port)
        daemon.start()
        stage.look_at_daemon()
        url = f"http://127.0.0.1:{daemon.http_port}"
        name = as_typed(spillway)
        notes = [f"open {url}/ or type: {name} top --url {url}",
                 f"join in: SPILLWAY_RUN_DIR={folder.path} {name} squeeze 64MiB "
                 f"{' '.join(stage.where)} --for 5s"]
        say(f"spillwayd, pid {daemon.pid}, on {stage.name} ({stage.note})", *notes,
            f"redis-cli -s {daemon.socket} SPILL.MODE")
        on_terminal = Screen.possible(sys.stdout)
        story = Story(daemon, stage, args.length, args.seed,
                      (lambda *_: None) if on_terminal else say, record)
        screen = Screen(sys.stdout) if on_terminal else None
        watch(story, screen, f"spillway demo on {stage.name}", notes, stop)
        if screen:
            screen.close()
            screen = None
            say(*story.summary)
        return 1 if story.wrong else 0
    finally:
        for each in (screen, story, daemon, stage, record, folder):
            if each:
                each.close()


def main():
    args, stop = read_arguments(), threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    try:
        say(f"spillway demo: twelve agents, their neighbours and a kill -9 in "
            f"{span(args.length)}; Ctrl-C ends it. In turn:",
            *(f"  {name:<11}{about}" for name, (_, about) in SCENES.items()))
        return play(args, stop)
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.status
    # The reader is gone; nothing more can be written, not even buffered text.
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, subprocess.SubprocessError) as error:  # The message names the file or program.
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
