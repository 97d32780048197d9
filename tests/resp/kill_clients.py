# SPDX-License-Identifier: Apache-2.0
"""The clients of kill.py: connections, commands drawn at random, and the replies that are
held against the model."""
import random
import re
import select
import socket

import kill_model as model
from kill_model import Failure, Key, Op

# Why the cache may remove a key by its own decision.
CAUSES = {"room", "order", "heavy", "idle", "reserve", "budget", "ask"}


class Closed(Exception):
    """The daemon has gone."""


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.got = bytearray()
        self.at = 0

    def close(self):
        self.socket.close()

    @staticmethod
    def frame(words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)

    def send(self, data):
        """Reads meanwhile: a daemon whose replies nobody reads stops reading."""
        left = memoryview(data)
        self.socket.setblocking(False)
        try:
            while left:
                readable, writable, _ = select.select([self.socket], [self.socket], [], 60)
                if not readable and not writable:
                    raise Closed("nothing moves for a minute")
                if readable:
                    self.receive()
                if writable:
                    left = left[self.socket.send(left[:1 << 18]):]
        except OSError as error:
            raise Closed from error
        finally:
            self.socket.settimeout(60)

    def receive(self):
        try:
            more = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError as error:
            raise Closed from error
        if not more:
            raise Closed
        self.got += more

    def take(self, count):
        while len(self.got) - self.at < count:
            if self.at > 1 << 20:
                del self.got[:self.at]
                self.at = 0
            self.receive()
        taken = bytes(self.got[self.at:self.at + count])
        self.at += count
        return taken

    def line(self):
        while (end := self.got.find(b"\r\n", self.at)) < 0:
            self.receive()
        return self.take(end + 2 - self.at)[:-2]

    def reply(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return line
        if kind == b"-":
            return Failure(line)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.take(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        raise Closed(f"no reply begins like this: {line[:80]!r}")

    def ask(self, *words):
        self.send(self.frame(words))
        return self.reply()


# --- requests ---


class Multi:
    """MULTI, commands, EXEC."""

    def __init__(self, ops):
        self.ops = ops

    def frames(self):
        return [[b"MULTI"], *[op.words for op in self.ops], [b"EXEC"]]

    def sent(self):
        for op in self.ops:
            op.sent()

    def take(self, client, drops, told):
        expected = [b"+OK"] + [b"+QUEUED"] * len(self.ops)
        replies = [client.reply() for _ in expected]
        if replies != expected:
            told.wrong(None, f"MULTI and its commands answered {model.brief(replies)}")
        whole = client.reply()
        if isinstance(whole, Failure) and whole.is_loading():
            for op in self.ops:
                op.answer(whole, drops, told)
            return None
        if not isinstance(whole, list) or len(whole) != len(self.ops):
            told.wrong(None, f"EXEC of {len(self.ops)} answered {model.brief(whole)}")
            return self.unanswered(drops)
        for op, reply in zip(self.ops, whole):
            op.answer(reply, drops, told)
        return None

    def unanswered(self, drops):
        for op in self.ops:
            op.unanswered(drops)


class Single:
    def __init__(self, op):
        self.op = op
        self.sent = op.sent
        self.unanswered = op.unanswered

    def frames(self):
        return [self.op.words]

    def take(self, client, drops, told):
        self.op.answer(client.reply(), drops, told)


class Upload(Single):
    """SPILL.BEGIN, its pieces, SPILL.COMMIT."""

    def __init__(self, op, name, value, pieces):
        super().__init__(op)
        step = max(1, len(value) // pieces)
        parts = [value[at:at + step] for at in range(0, len(value), step)]
        self.all = [[b"SPILL.BEGIN", name, b"%d" % len(value)],
                    *[[b"SPILL.APPEND", part] for part in parts], [b"SPILL.COMMIT"]]

    def frames(self):
        return self.all

    def take(self, client, drops, told):
        replies = [client.reply() for _ in self.all]
        failed = [each for each in replies if isinstance(each, Failure)]
        # Where BEGIN finds no room the rest has nothing to speak of.
        self.op.answer(failed[0] if failed else replies[-1], drops, told)


class Writer:
    """A client with two databases of its own."""

    def __init__(self, number, setup, report, leave_out):
        self.report = report
        self.setup = setup
        self.drops = setup.drops
        self.is_roomy = setup.is_roomy or setup.is_memory_ample
        self.sizes = setup.value_sizes
        self.window = setup.window
        self.random = random.Random(setup.seed * 1000 + number)
        self.databases = (number, number + 8)
        self.keys = [Key(self.databases[i % 5 == 4], b"w%d:%d" % (number, i))
                     for i in range(setup.keys)]
        self.next = 1
        self.db = 0
        self.acknowledged = 0
        self.suspects = []  # Keys missing in the replies of this batch.
        forms = (("set", "get", "get") if setup.commands == "sets" else tuple(FORMS))
        self.forms = [form for form in forms if form not in leave_out]

    # --- told by replies ---

    def wrong(self, key, text):
        self.report.wrong(f"under load: {key if key else ''} {text}")

    def missing(self, key, version, was):
        self.suspects.append((key, version, was))

    def refused(self, op):
        self.report.refused += 1

    def loading(self, op):
        self.report.loading(op, self.setup)

    # --- work ---

    def load(self, path, stop, killed):
        self.db = 0
        batch = []
        try:
            client = Client(path)
            while not stop.is_set():
                batch = [self.draw() for _ in range(self.random.randint(1, self.window))]
                self.run(client, batch)
                batch = []
                self.ask_why(client)
            client.close()
        except (Closed, OSError) as error:
            for request in batch:
                request.unanswered(self.drops)
            self.suspects = []  # Nobody is left to ask.
            if not killed.is_set():
                self.report.wrong(f"a connection ended before the daemon was killed: {error!r}")
        except Exception as error:  # A fault of this script must not look like a good round.
            self.report.wrong(f"{type(error).__name__}: {error}")
            raise

    def run(self, client, batch):
        data = bytearray()
        for request in batch:
            for words in request.frames():
                data += client.frame(words)
            request.sent()
        client.send(bytes(data))
        while batch:
            batch[0].take(client, self.drops, self)
            batch.pop(0)
            self.acknowledged += 1

    def ask_why(self, client):
        for key, version, was in self.suspects:
            if key.version != version:
                self.report.unasked += 1  # It has been written again meanwhile.
                continue
            client.ask(b"SELECT", b"%d" % key.db)
            answer = client.ask(b"SPILL.EXPLAIN", key.name)
            text = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
            cause = re.search(r"removed from the \w+ tier .*?: \w+ \((\w+)\)", text)
            if cause and cause[1] in CAUSES:
                self.report.evicted += 1
            else:
                self.wrong(key, f"is missing, was {was}: {text.splitlines()[0]} [{key.told()}]")
        if self.suspects:
            client.ask(b"SELECT", b"%d" % self.db)
        self.suspects = []

    # --- which command ---

    def draw(self):
        dice = self.random
        if "select" in self.forms and dice.random() < 0.05:
            self.db_to = dice.choice(self.databases)
        else:
            self.db_to = self.db
        there = [key for key in self.keys if key.db == self.db_to]
        if not there or self.db_to not in self.databases:
            self.db_to = self.databases[0]
            there = [key for key in self.keys if key.db == self.db_to]
        self.there = there
        request = self.one()
        if self.db_to != self.db:
            self.db = self.db_to
            return Behind(b"%d" % self.db, request)
        return request

    def one(self):
        form = self.random.choice(self.forms)
        while form == "select":
            form = self.random.choice(self.forms)
        if form == "multi":
            simple = [f for f in self.forms if f not in ("multi", "upload", "select")]
            ops = [FORMS[self.random.choice(simple)](self) for _ in range(self.random.randint(1, 5))]
            return Multi(ops)
        made = FORMS[form](self)
        return made if isinstance(made, Upload) else Single(made)

    def key(self):
        return self.random.choice(self.there)

    def some(self):
        return self.random.sample(self.there, min(len(self.there), self.random.randint(2, 4)))

    def value(self, key):
        number, self.next = self.next, self.next + 1
        value = model.value_of(key.name, number, self.random.choice(self.sizes))
        key.sizes[number] = len(value)
        return number, value

    def milliseconds(self):
        """Most last longer than the round; some end in it."""
        return self.random.choice((300, 900, 100_000, 500_000, 10_000_000))


class Behind:
    """A request behind a SELECT."""

    def __init__(self, db, request):
        self.db = db
        self.request = request
        self.sent = request.sent
        self.unanswered = request.unanswered

    def frames(self):
        return [[b"SELECT", self.db], *self.request.frames()]

    def take(self, client, drops, told):
        if client.reply() != b"+OK":
            told.wrong(None, "SELECT was not answered by OK")
        self.request.take(client, drops, told)


def plain_set(w, effect=model.set_plain, *more):
    key = w.key()
    number, value = w.value(key)
    return Op([b"SET", key.name, value, *more], [(key, effect, number)],
              may_drop=effect in (model.set_plain, model.set_keep), may_evict=not w.is_roomy)


def set_for(w):
    key = w.key()
    number, value = w.value(key)
    ms = w.milliseconds()
    words, deadline = w.random.choice((
        ([b"SET", key.name, value, b"PX", b"%d" % ms], {"in": ms}),
        ([b"PSETEX", key.name, b"%d" % ms, value], {"in": ms}),
        ([b"SETEX", key.name, b"%d" % (ms // 1000 + 1), value], {"in": (ms // 1000 + 1) * 1000}),
        ([b"SET", key.name, value, b"PXAT", b"%d" % int(model.now_ms() + ms)],
         {"at": int(model.now_ms() + ms)})))
    if "at" in deadline:
        deadline = {"at": int(words[-1])}
    return Op(words, [(key, model.set_plain, number)], deadline=deadline, may_drop=True)


def mset(w, word=b"MSET", effect=model.set_plain):
    words, effects = [word], []
    for key in w.some():
        number, value = w.value(key)
        words += [key.name, value]
        effects.append((key, effect, number))
    return Op(words, effects, whole=True, may_drop=effect is model.set_plain)


def expire(w):
    key = w.key()
    condition = w.random.choice((b"", b"", b"", b"NX", b"XX", b"GT", b"LT"))
    ms = -1000 if w.random.random() < 0.1 else w.milliseconds()
    words, deadline = w.random.choice((
        ([b"PEXPIRE", key.name, b"%d" % ms], {"in": ms}),
        ([b"PEXPIREAT", key.name, b"%d" % int(model.now_ms() + 10 * ms)], {})))
    if not deadline:
        deadline = {"in": -1} if ms < 0 else {"at": int(words[2])}
    return Op(words + ([condition] if condition else []), [(key, model.expire, None)],
              deadline=deadline, condition=condition)


def getex(w):
    key = w.key()
    ms = w.milliseconds()
    return Op([b"GETEX", key.name, b"PX", b"%d" % ms], [(key, model.getex, None)],
              deadline={"in": ms})


def one_key(word, effect, changes=True, sets=False):
    def make(w):
        key = w.key()
        if not sets:
            return Op([word, key.name], [(key, effect, None)], changes=changes)
        number, value = w.value(key)
        return Op([word, key.name, value], [(key, effect, number)])
    return make


def many_keys(word, effect, changes, counts):
    def make(w):
        keys = w.some()
        return Op([word, *[key.name for key in keys]], [(key, effect, None) for key in keys],
                  changes=changes, whole=counts, counts=counts)
    return make


def flushdb(w):
    if w.random.random() < 0.8:
        return plain_set(w)
    return Op([b"FLUSHDB"], [(key, model.flush, None) for key in w.there], whole=True)


def upload(w):
    key = w.key()
    number, value = w.value(key)
    return Upload(Op([b"SPILL.BEGIN", key.name], [(key, model.set_plain, number)]), key.name, value,
                  w.random.randint(1, 3))


FORMS = {
    "set": plain_set,
    "overwrite": plain_set,
    "setnx": one_key(b"SETNX", model.setnx, sets=True),
    "getset": one_key(b"GETSET", model.set_get, sets=True),
    "nx": lambda w: plain_set(w, model.set_nx, b"NX"),
    "xx": lambda w: plain_set(w, model.set_xx, b"XX"),
    "keepttl": lambda w: plain_set(w, model.set_keep, b"KEEPTTL"),
    "set_get": lambda w: plain_set(w, model.set_get, b"GET"),
    "set_for": set_for,
    "mset": mset,
    "msetnx": lambda w: mset(w, b"MSETNX", model.msetnx),
    "expire": expire,
    "getex": getex,
    "persist": one_key(b"PERSIST", model.persist),
    "get": one_key(b"GET", model.get, changes=False),
    "mget": many_keys(b"MGET", model.get, False, False),
    "exists": one_key(b"EXISTS", model.exists, changes=False),
    "strlen": one_key(b"STRLEN", model.strlen, changes=False),
    "ends": one_key(b"PEXPIRETIME", model.when_ends, changes=False),
    "ttl": one_key(b"TTL", model.seconds_left, changes=False),
    "pttl": one_key(b"PTTL", model.milliseconds_left, changes=False),
    "del": one_key(b"DEL", model.delete),
    "dels": many_keys(b"DEL", model.delete, True, True),
    "getdel": one_key(b"GETDEL", model.getdel),
    "flushdb": flushdb,
    "multi": None,
    "upload": upload,
    "select": None,
}
