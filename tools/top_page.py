#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""top_page.py: writes docs/top.md, with screens of the real `spillway top`.

Builds both programs, runs them in tmux (tests/top/drive.py) and puts what the terminal showed into
the page.
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"

PAGE = """# spillway top

A running `spillwayd`, live in a terminal: device and tiers with their levels, what flows between them, the contexts in the order you choose, and evictions with their reasons. It shows the same data as `/metrics` and the dashboard, from the daemon's [HTTP API](reference/http.md).

```
spillway top [--url URL] [--password-file F] [--every 500ms] [--for TIME] [--once | --json]
```

```
{top}```

| line | says |
|---|---|
| 1 | the daemon's address, the card's size, the machine's name and how long the daemon has run |
| 2 | mode and level, for how long (at most since `top` began), pressure; whether sets are refused |
| the bar | the device: `#` ours, `o` theirs, `.` free; the letters under it are where NORMAL, PRESSURE, CRITICAL and EMERGENCY begin by default |
| `host`, `disk` | the tiers below, if there are any: held of capacity, pressure and level, entries |
| `per s` | bytes copied down and up, gets, sets, entries dropped, and last copies destroyed (in red: a loss), between two requests. From 100 columns on also entries demoted, expired, and erased by clients |
| `lost` | last copies destroyed though nothing erased them (in red: a loss), and entries that clients erased, replaced or cleared, since the daemon began; how long reads took between two requests, if there were any |
| `card` | on a shared virtual card: the other processes on it, by name and pid |
| `contexts` | `C`: clean (a lower tier has a copy), so it can be evicted at once; `lea`: leases. From 100 columns on with their agents |
| evictions | those of one action, reason and level at about the same time are one line; the time is since `top` began |

## Keys

| key | |
|---|---|
| `s`, `r` | sort by the next column (idle, bytes, tokens, uses, leases, tier, agent, key); reverse |
| `/` | show only contexts with this text in key or agent; Enter keeps it, Esc ends it |
| up, down, PgUp, PgDn, Home | choose a context |
| `e`, Enter | where it is and why: `explain` |
| `l` | losses alone among the evictions, and all again |
| `p` | pause, and continue |
| `?` | the keys |
| `q`, Ctrl-C | quit; the terminal is as it was |

A filter:

```
{filter}```

## Without a daemon

If no daemon answers, `top` shows how full this machine's memory is, by the sources that [`spillway probe`](monitor.md) finds, and what level that would be. It keeps trying: as soon as a daemon answers, it is shown.

```
{alone}```

If a daemon becomes unreachable, `top` says since when and why; its last data stays on the screen, and `top` retries until the daemon is back:

```
{gone}```

## Elsewhere

- `--once` prints one screen, without escapes, as wide as `$COLUMNS`; `--json` prints stats, contexts and events as one object.
- No terminal, or `TERM=dumb`: one line each second. `NO_COLOR` is respected; outside UTF-8 locales it draws in ASCII.
- [Which daemon, and its password](reference/spillwayd.md#commands-that-ask-it), are given as to every command: `--url` or `$SPILLWAY_URL` (here by default http://127.0.0.1:7380), `--password-file` or `$SPILLWAY_PASSWORD`. If the daemon requires a password that was not given, `top` says so and ends.
- Keys are any bytes: control and non-ASCII bytes are shown as `\\xNN` and long keys are cut, so that no key disturbs the terminal.
- Exit status: 0; 1 if the daemon asks for a password, or if no daemon answers at the URL that `--once` or `--json` was given; 2 after bad use.

This page is written by `tools/top_page.py`; its screens are those of `tests/top/drive.py`.
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
