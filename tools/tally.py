# SPDX-License-Identifier: Apache-2.0
"""Counts of checks, and the line in which every tool here reports them."""

import re
import sys
from dataclasses import dataclass

LINE = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def __iadd__(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self

    @staticmethod
    def parse(line):
        """The tally in a line, or None."""
        match = LINE.match(line.strip())
        return Tally(*map(int, match.groups())) if match else None

    def finish(self):
        """Prints the line and ends the program, with 1 if anything failed."""
        print(self, flush=True)
        sys.exit(1 if self.failed else 0)
