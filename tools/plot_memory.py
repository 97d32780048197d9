#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plot_memory.py FILE.csv OUT.svg: a card's memory over time, as written by `examples/demo
--record`.

Our memory is drawn from the bottom, other processes' from the top, free memory between them; the
strip below shows the level. The picture has its own light background. Standard library only.
"""

import csv
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 960, 440
LEFT, RIGHT, TOP = 64, 20, 62
PLOT_H, STRIP_GAP, STRIP_H = 272, 10, 18
PLOT_W = WIDTH - LEFT - RIGHT
FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\""

INK, FAINT, PAPER, GRID = "#1f2933", "#5b6975", "#ffffff", "#d5dce3"
AREAS = (  # From the bottom up; the name is the column.
    ("ours_unbacked", "ours: agents' contexts", "#3d7fc1"),
    ("ours_backed", "ours, with a copy below", "#8cc5e8"),
    ("free", "free", "#eef3f7"),
    ("others", "others: processes that need memory now", "#e9a23b"),
)
LEVELS = {
    "relaxed": "#63a974", "normal": "#45a5b5", "pressure": "#d9ae33",
    "critical": "#b765ad", "emergency": "#d24a43",
}


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    samples = []
    for number, row in enumerate(rows, 2):
        try:
            sample = {name: float(row[name]) for name in
                      ("t", "total", "free", "others", "ours_backed", "ours_unbacked")}
            sample["level"] = row["level"]
        except (KeyError, TypeError, ValueError) as error:
            raise SystemExit(f"{path}:{number}: not a line of a record: {error}") from error
        samples.append(sample)
    if len(samples) < 2:
        raise SystemExit(f"{path}: {len(samples)} samples; at least 2 are needed to draw")
    return samples


def human(size):
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.4g} {unit}"
        size /= 1024
    return ""


def tick_step(span, most):
    for base in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400):
        if span / base <= most:
            return base
    return span


class Plot:
    def __init__(self, samples):
        self.samples = samples
        self.total = max(s["total"] for s in samples)
        last = max(samples[-1]["t"], 1e-3)
        # The last sample is a little early.
        self.end = round(last) if 0 < round(last) - last < 0.2 else last
        self.out = []

    def x(self, t):
        return LEFT + PLOT_W * t / self.end

    def y(self, size):
        return TOP + PLOT_H * (1 - min(size, self.total) / self.total)

    def text(self, x, y, words, size=12, color=INK, anchor="start", weight="normal"):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" '
                        f'text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>')

    def rect(self, x, y, w, h, color, extra=""):
        self.out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
                        f'fill="{color}"{extra}/>')

    def areas(self):
        """The edges between the areas, each a list of y values over all samples."""
        edges = [[0.0] * len(self.samples)]
        for name, _, _ in AREAS:
            edges.append([low + s[name] for low, s in zip(edges[-1], self.samples)])
        edges[-1] = [self.total] * len(self.samples)  # The top edge is the size of the card.
        for (_, _, color), low, high in zip(AREAS, edges, edges[1:]):
            points = [(self.x(s["t"]), self.y(v)) for s, v in zip(self.samples, high)]
            points += [(self.x(s["t"]), self.y(v)) for s, v in zip(self.samples[::-1], low[::-1])]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            self.out.append(f'<polygon points="{path}" fill="{color}"/>')

    def axes(self):
        for share in (0, 0.25, 0.5, 0.75, 1):
            y = self.y(share * self.total)
            self.out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
                            f'stroke="{GRID}" stroke-opacity="0.7"/>')
            self.text(LEFT - 8, y + 4, human(share * self.total), 11, FAINT, "end")
        bottom = TOP + PLOT_H + STRIP_GAP + STRIP_H
        step = tick_step(self.end, 12)
        t = 0
        while t <= self.end + 1e-6:
            anchor = "start" if t == 0 else "end" if self.end - t < step / 4 else "middle"
            self.text(self.x(t), bottom + 18, f"{t:g} s", 11, FAINT, anchor)
            t += step

    def levels(self):
        y = TOP + PLOT_H + STRIP_GAP
        self.text(LEFT - 8, y + 13, "level", 11, FAINT, "end")
        start = 0
        for i in range(1, len(self.samples) + 1):
            if i < len(self.samples) and self.samples[i]["level"] == self.samples[start]["level"]:
                continue
            level = self.samples[start]["level"]
            x = self.x(self.samples[start]["t"] if start else 0)
            end = self.x(self.samples[i]["t"]) if i < len(self.samples) else WIDTH - RIGHT
            title = f'<title>{escape(level)}</title>'
            self.out.append(f'<rect x="{x:.1f}" y="{y}" width="{max(end - x, 0.5):.1f}" '
                            f'height="{STRIP_H}" fill="{LEVELS.get(level, FAINT)}">{title}</rect>')
            if end - x > 7.5 * len(level) + 6:
                self.text((x + end) / 2, y + 13, level.upper(), 10.5, PAPER, "middle", "600")
            start = i

    def legend(self):
        y = TOP + PLOT_H + STRIP_GAP + STRIP_H + 40
        x = LEFT
        for name, words, color in reversed(AREAS):
            if name == "ours_backed" and not any(s[name] for s in self.samples):
                words += " (none: one tier)"
            self.rect(x, y - 10, 12, 12, color, f' stroke="{GRID}"')
            self.text(x + 18, y, words, 12)
            x += 18 + 6.4 * len(words) + 22
        x = LEFT
        for level, color in LEVELS.items():
            self.rect(x, y + 10, 12, 12, color)
            self.text(x + 18, y + 20, level.upper(), 11, FAINT)
            x += 18 + 8.2 * len(level) + 16

    def draw(self):
        self.rect(0, 0, WIDTH, HEIGHT, PAPER, f' rx="8" stroke="{GRID}"')
        self.text(LEFT, 28, "Idle memory is lent to contexts and given back when others come",
                  17, INK, "start", "600")
        self.text(LEFT, 48, f"a card of {human(self.total)} over {self.end:.0f} s, recorded by "
                  "`examples/demo --record`: real bytes, neighbours are processes of their own",
                  12, FAINT)
        self.areas()
        self.axes()
        self.levels()
        self.legend()
        body = "\n".join(self.out)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" {FONT}>\n'
                "<title>A card's memory over time: ours, free, others</title>\n"
                f"{body}\n</svg>\n")


def main():
    if len(sys.argv) != 3:
        raise SystemExit("usage: plot_memory.py FILE.csv OUT.svg")
    picture = Plot(read(sys.argv[1])).draw()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
