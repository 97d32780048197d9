# SPDX-License-Identifier: Apache-2.0
"""The neighbours: `spillway squeeze`, processes that take memory of the card and free it again."""

import re
from collections import Counter

from processes import Process
from screen import size, span

PATIENCE = "30s"  # For memory that is not freed at once, even on a busy machine.


class Neighbour:
    """One neighbour, as described by its own output and clock."""

    def __init__(self, stage, share, hold, step, ask, totals):
        self.size, self.ask, self._before = stage.part(share), ask, totals
        self.had_s = self.asked_s = self.sensed_s = self._took_us = self.trouble = None
        self.gave, self.gone, self.cost, self._looks = "nothing", False, Counter(), 0
        words = [stage.spillway, "squeeze", str(self.size), *stage.where, "--step", str(step),
                 "--for", f"{round(1000 * hold)}ms", "--patience", PATIENCE, "--when"]
        words += ["--after", f"{stage.lead_s}s"] if stage.lead_s else []
        # A GPU has enough free memory, so the neighbour would not ask spillwayd: the demo asks for
        # it.
        words += ["--ask"] if ask and not stage.on_gpu else []
        self._process = Process(words, stage.env, self._hear)
        self.pid = self._process.pid

    def _hear(self, line):
        if match := re.match(r"squeeze: pid \d+ gave (\S+ \S+) of the", line):
            self.gave = match[1]
        if match := re.match(r"squeeze: asked: .* free after ([\d.]+) ms", line):
            self.asked_s = float(match[1]) / 1000
        if match := re.match(r"squeeze: began to take at (\d+)\.(\d{6})$", line):
            self._took_us = int(match[1] + match[2])
        if match := re.match(r"squeeze: (has only .*)", line):
            self.trouble = match[1]
        elif match := re.match(r"squeeze: has .* after ([\d.]+) ms", line):
            self.had_s = float(match[1]) / 1000

    @property
    def settled(self):
        return bool(self.gone or self.had_s or self.trouble)

    def look(self, others_rose_us, totals):
        """Yields new events. Costs are counted until just after the neighbour has all its memory.
        """
        if self.gone:
            return
        settled, gone = self.settled, self._process.ended() is not None
        if self.sensed_s is None and self._took_us and others_rose_us + 1000 >= self._took_us:
            self.sensed_s = max(0, others_rose_us - self._took_us) / 1e6
        if self._looks < 2:
            self.cost = totals - self._before
            self._looks += settled
            if self._looks == 2 or gone:
                yield str(self)
        if gone:
            self.gone = True
            if not self.settled:
                self.trouble = " ".join(self._process.lines) or "it ended without a word"
            yield f"pid {self.pid} is gone"

    def __str__(self):
        text = f"pid {self.pid} {'asked for' if self.ask else 'took'} {size(self.size)}: "
        if self.trouble or not self.had_s:
            return text + (self.trouble or "not all of it yet")
        if self.ask:
            text += f"{self.gave} given back, free after {span(self.asked_s or 0)}, "
        elif self.sensed_s is not None:
            text += f"sensed after {span(self.sensed_s)}, "
        return (f"{text}had it after {span(self.had_s)}; {self.cost['dropped']:,} dropped, "
                f"{self.cost['destroyed']:,} destroyed")

    def end(self):
        self._process.end(1)
        self.gone = True
