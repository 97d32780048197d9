#!/usr/bin/env python3
"""top_page.py: writes docs/top.md, its screens taken from the real `spillway top`.

Builds both programs, drives them in tmux (tests/top/drive.py) and puts what the
terminal showed into the page.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"

PAGE = """# spillway top

A running `spillwayd`, live in a terminal: device and tiers with their levels, what flows between them, the contexts in the order you choose, and what left and why. The same truth as `/metrics` and the dashboard: it asks the daemon's [HTTP API](reference/http.md) and shows nothing else.

```
spillway top [--url http://127.0.0.1:7380] [--password-file F] [--every 500ms] [--for TIME] [--once | --json]
```

```
{top}```

| line | says |
|---|---|
| 2 | mode and level, for how long since `top` looks, pressure; whether sets are refused |
| the bar | the device: `#` ours, `o` theirs, `.` free; the letters under it are where NORMAL, PRESSURE, CRITICAL and EMERGENCY begin by default |
| `host`, `disk` | the tiers below, if there are any: held of capacity, pressure and level, entries |
| `per s` | bytes that went down and up, gets, sets, and what was dropped and destroyed, between two looks (from 100 columns on also what was demoted and expired) |
| `contexts` | `B`: it has a copy below and can leave at once; `lea`: leases. From 100 columns on with their agents |
| what left | those of one action, reason and level that left together are one line; the time is since `top` began |

While a [demo](reference/spillwayd.md#the-demo) runs on the daemon, its caption stands above the contexts.

## Keys

| key | |
|---|---|
| `s`, `r` | sort by the next column (idle, bytes, tokens, uses, leases, tier, agent, key); the other way round |
| `/` | show only contexts with this text in key or agent; Enter keeps it, Esc ends it |
| up, down, PgUp, PgDn, Home | choose a context |
| `e`, Enter | where it is and why: `explain` |
| `p` | pause, and go on |
| `?` | the keys |
| `q`, Ctrl-C | quit; the terminal is as it was |

A filter:

```
{filter}```

## Without a daemon

Where nobody answers, `top` shows how full this machine's memory is, by the sources that [`spillway probe`](monitor.md) finds, and what level that would be. It goes on asking: as soon as a daemon answers, it is shown.

```
{alone}```

A daemon that goes away is said to be gone, since when and why; what it said last stays on the screen, and it is asked for again until it is back:

```
{gone}```

## Elsewhere

- `--once` prints one screen, without escapes, as wide as `$COLUMNS`; `--json` prints stats, caption, contexts and events as one object.
- No terminal, or `TERM=dumb`: a line each second. `NO_COLOR` is heeded; outside UTF-8 locales it draws in ASCII.
- With a password on the daemon: `--password-file`, or `$SPILLWAY_PASSWORD`.
- Keys are any bytes: control and non-ASCII bytes are shown as `\\xNN` and long keys are cut, so that no key disturbs the terminal.
- Exit status: 0; 1 if nobody answers at the `--url` that `--once` or `--json` was given; 2 after bad use.

This page is written by `tools/top_page.py`, its screens are those of `tests/top/drive.py`.
"""


def trimmed(text):
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"


def main():
    subprocess.run([ROOT / "tools/build.sh", "release", "spillway_bin", "spillwayd_bin"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "tests/top/drive.py", BIN / "spillway", BIN / "spillwayd",
                        "--captures", folder], check=True)
        screens = {path.stem: trimmed(path.read_text()) for path in pathlib.Path(folder).glob("*.txt")}
    page = PAGE
    for name, screen in screens.items():
        page = page.replace("{" + name + "}", screen)
    (ROOT / "docs/top.md").write_text(page)
    print("wrote docs/top.md")


if __name__ == "__main__":
    main()
