# SPDX-License-Identifier: Apache-2.0
"""Thousands of small entries that lie on disk from before kill.py's round began: a daemon that
starts has to find them all. Some are erased, also while they have not been found yet."""
import random

from kill_clients import Closed, Client
from kill_model import value_of

DATABASE = 15  # No writer has it where there is a backlog.
SIZE = 100
AT_ONCE = 500

GONE, THERE, EITHER = range(3)


def name_of(number):
    return b"backlog:%d" % number


class Backlog:
    def __init__(self, setup, report):
        self.report = report
        self.roomy = setup.is_roomy
        self.random = random.Random(setup.seed + 2)
        self.states = bytearray([THERE]) * setup.backlog

    def fill(self, client):
        client.ask(b"SELECT", b"%d" % DATABASE)
        for at in range(0, len(self.states), AT_ONCE):
            numbers = range(at, min(at + AT_ONCE, len(self.states)))
            client.send(b"".join(client.frame([b"SET", name_of(n), value_of(name_of(n), n, SIZE)])
                                 for n in numbers))
            for n in numbers:
                if client.reply() != b"+OK":
                    self.states[n] = EITHER

    # --- under load ---

    def work(self, path, stop, killed):
        """Erases some and reads some, until it is told to stop or the daemon has gone."""
        doubtful = []
        try:
            client = Client(path)
            client.ask(b"SELECT", b"%d" % DATABASE)
            while not stop.is_set():
                doubtful = []
                if self.random.random() < 0.02:
                    doubtful = range(len(self.states))
                    self.expect(client.ask(b"FLUSHDB"), b"+OK", "FLUSHDB", doubtful)
                    continue
                some = self.random.sample(range(len(self.states)), 40)
                if self.random.random() < 0.5:
                    self.read(client, some)
                    continue
                doubtful = some
                there = sum(self.states[n] == THERE for n in some)
                most = there + sum(self.states[n] == EITHER for n in some)
                got = client.ask(b"DEL", *map(name_of, some))
                ok = isinstance(got, int) and (there if self.roomy else 0) <= got <= most
                self.expect(got, got if ok else f"{there} to {most}", "DEL of the backlog", some)
        except (Closed, OSError) as error:
            for n in doubtful:
                if self.states[n] == THERE:
                    self.states[n] = EITHER
            if not killed.is_set():
                self.report.wrong(f"a connection ended before the daemon was killed: {error!r}")
        except Exception as error:  # A fault of this script must not look like a good round.
            self.report.wrong(f"{type(error).__name__}: {error}")
            raise

    def expect(self, got, wanted, what, erased):
        if hasattr(got, "is_loading") and got.is_loading():
            return
        if got != wanted:
            self.report.wrong(f"{what} answered {got}; it should be {wanted}")
        for n in erased:
            self.states[n] = GONE

    def read(self, client, numbers):
        got = client.ask(b"MGET", *map(name_of, numbers))
        if hasattr(got, "is_loading") and got.is_loading():
            return
        if not isinstance(got, list):
            self.report.wrong(f"MGET of the backlog answered {got}")
            return
        for n, value in zip(numbers, got):
            state = self.states[n]
            if value is None:
                if state == THERE and self.roomy:
                    self.report.wrong(f"{name_of(n)} is missing, and was on disk from the beginning")
                continue
            if value != value_of(name_of(n), n, SIZE):
                self.report.wrong(f"{name_of(n)} has other bytes: {value!r}")
            elif state == GONE:
                self.report.wrong(f"{name_of(n)} was erased, and is there")

    # --- after a kill ---

    def check(self, client, roomy):
        """All is known. Most are asked for by EXISTS: reading each would take long."""
        client.ask(b"SELECT", b"%d" % DATABASE)
        for state in (GONE, THERE):
            of_it = [n for n in range(len(self.states)) if self.states[n] == state]
            for at in range(0, len(of_it), AT_ONCE):
                some = of_it[at:at + AT_ONCE]
                count = client.ask(b"EXISTS", *map(name_of, some))
                if state == GONE and count != 0:
                    self.report.wrong(f"{count} of {len(some)} erased keys of the backlog are there")
                if state == THERE and roomy and count != len(some):
                    self.report.wrong(f"{count} of {len(some)} keys of the backlog are there, and all "
                                      "were on disk from the beginning")
        self.read(client, self.random.sample(range(len(self.states)), min(300, len(self.states))))
        least = self.states.count(THERE) if roomy else 0
        most = len(self.states) - self.states.count(GONE)
        size = client.ask(b"DBSIZE")
        if not isinstance(size, int) or not least <= size <= most:
            self.report.wrong(f"DBSIZE of the backlog is {size}; it should be {least} to {most}")
