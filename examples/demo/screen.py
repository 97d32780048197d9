# SPDX-License-Identifier: Apache-2.0
"""The display of the demo: a table that is redrawn on a terminal, plain lines everywhere else."""

import os
import shutil


def size(count):
    """"512 MiB", "3.61 GiB": three digits, as in spillwayd's own messages."""
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1000 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{_three(value)} {units[0]}"


def span(seconds):
    """"1.73 s", "12.1 ms"."""
    for unit in ("s", "ms"):
        if seconds >= 1:
            return f"{_three(seconds)} {unit}"
        seconds *= 1000
    return f"{_three(seconds)} us"


def _three(value):
    text = f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def printable(text):
    """Keys may come from any client: escaped, so that nothing in them moves the cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


class Screen:
    """Shows the table; afterwards the terminal is as before."""

    def __init__(self, out):
        self._out = out
        out.write("\x1b[?1049h\x1b[?25l")

    @staticmethod
    def possible(out):
        return out.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def close(self):
        self._out.write("\x1b[?25h\x1b[?1049l")
        self._out.flush()

    def draw(self, top, news, bottom):
        """`news` gets the remaining rows, its newest lines first."""
        width, height = shutil.get_terminal_size()
        room = max(0, height - len(top) - len(bottom))
        shown = news[-room:] if room else []
        lines = [*top, *shown, *[""] * (room - len(shown)), *bottom][:height]
        cut = [printable(line)[:width] for line in lines]
        self._out.write("\x1b[H" + "\x1b[K\r\n".join(cut) + "\x1b[J")
        self._out.flush()
