# SPDX-License-Identifier: Apache-2.0
"""What each key may hold, as the replies of the daemon allow it to be.

A key belongs to one client, and so do the databases it lies in, so that the order of its
commands is known. Its state is None (absent) or (number of the value, deadline); the
deadline is None or (earliest, latest) in Unix milliseconds, since a relative one begins
somewhere between request and reply. A key has a set of possible states: one as long as all
commands were answered, more while it is not known which of the last ones were carried out.

`Op.outcomes` is the one description of a command: for a state of one of its keys, which
replies it may give and which state is left. Replies are held against it, and commands that
were never answered add what they may have done.
"""
import collections
import hashlib
import random
import time

ABSENT = None
TOLERANCE_MS = 60  # Between the clock of this process and the one the daemon looks at.
_POOL = random.Random(22).randbytes(1 << 20)


def now_ms():
    return time.time() * 1000


def value_of(name, number, size):
    """Made of key, number and size alone: a wrong byte anywhere shows."""
    head = b"%d %d " % (number, size)
    if size <= len(head):
        return head
    at = int.from_bytes(hashlib.blake2b(b"%s/%d" % (name, number), digest_size=4).digest(), "big")
    at %= len(_POOL)
    left = size - len(head)
    body = _POOL[at:at + left]
    while len(body) < left:
        body += _POOL[:left - len(body)]
    return head + body


def number_of(name, value):
    """The number of a value of that key; None: its bytes are not those of any."""
    words = bytes(value[:40]).split(b" ", 2)
    if len(words) < 3 or not words[0].isdigit() or not words[1].isdigit():
        return None
    number, size = int(words[0]), int(words[1])
    return number if value == value_of(name, number, size) else None


class Key:
    def __init__(self, db, name):
        self.db = db
        self.name = name
        self.states = {ABSENT}
        self.sizes = {}  # Bytes of its values, by their number.
        self.version = 0  # Commands that were sent and may change it.
        self.answered = 0  # Of those the last one that was answered.
        self.history = collections.deque(maxlen=6)  # What was asked and answered last.

    def __str__(self):
        return f"{self.name.decode()} (database {self.db})"

    def told(self):
        """What happened to it last."""
        now = now_ms()
        return "; ".join(f"{(op.ended - now) / 1000:.3f} s: {op} -> {reply}"
                         for op, reply in self.history)

    def is_settled(self):
        return self.version == self.answered


def living(state, began, ended):
    """What a command that ran between these moments may have met of a state."""
    if state is ABSENT or state[1] is None:
        return [state]
    earliest, latest = state[1]
    if ended < earliest - TOLERANCE_MS:
        return [state]
    return [ABSENT] if began > latest + TOLERANCE_MS else [state, ABSENT]


def shown(states):
    def one(state):
        if state is ABSENT:
            return "absent"
        return f"number {state[0]}" + (f" until {state[1][0]:.0f}..{state[1][1]:.0f}"
                                       if state[1] else "")
    return " or ".join(sorted(one(state) for state in states))


# --- one command on one key: [(reply, state after it)] for a state that it meets ---
# A reply is compared by `fits`; Old stands for the value of the state that was met.

OK, NIL, OLD = b"+OK", None, "old"


def set_plain(op, met):
    return [(OK, op.new)]


def set_nx(op, met):
    return [(OK, op.new)] if met is ABSENT else [(NIL, met)]


def set_xx(op, met):
    return [(NIL, ABSENT)] if met is ABSENT else [(OK, op.new)]


def set_get(op, met):
    return [(OLD, op.new)]


def set_keep(op, met):
    kept = (OK, (op.new[0], met[1] if met else None))
    # Where keys are evicted OK does not say whether this one had been, and then there is no
    # deadline to keep.
    return [kept, (OK, (op.new[0], None))] if op.may_evict else [kept]


def setnx(op, met):
    return [(1, op.new)] if met is ABSENT else [(0, met)]


def msetnx(op, met):
    return [(1, op.new), (0, met)] if met is ABSENT else [(0, met)]


def delete(op, met):
    return [(0 if met is ABSENT else 1, ABSENT)]


def flush(op, met):
    return [(OK, ABSENT)]


def get(op, met):
    return [(OLD, met)]


def getdel(op, met):
    return [(OLD, ABSENT)]


def exists(op, met):
    return [(0 if met is ABSENT else 1, met)]


def strlen(op, met):
    return [("length", met)]


def when_ends(op, met):
    return [("ends", met)]


def milliseconds_left(op, met):
    return [("left", met)]


def seconds_left(op, met):
    return [("left in seconds", met)]


def persist(op, met):
    if met is ABSENT or met[1] is None:
        return [(0, met)]
    return [(1, (met[0], None))]


def getex(op, met):
    return [(OLD, met if met is ABSENT else (met[0], op.deadline))]


def is_later(new, old):
    """None: they are too near to one another to tell."""
    if new[0] > old[1] + TOLERANCE_MS:
        return True
    return False if new[1] < old[0] - TOLERANCE_MS else None


def expire(op, met):
    if met is ABSENT:
        return [(0, met)]
    yes = (1, ABSENT if op.deadline == "past" else (met[0], op.deadline))
    no = (0, met)
    old = met[1]
    new = (0, 0) if op.deadline == "past" else op.deadline
    if op.condition == b"NX":
        return [yes] if old is None else [no]
    if op.condition == b"XX":
        return [no] if old is None else [yes]
    if op.condition in (b"GT", b"LT"):
        later = None if old is None else is_later(new, old)
        if op.condition == b"LT":
            later = True if old is None else None if later is None else not later
        elif old is None:
            later = False
        return [yes, no] if later is None else [yes] if later else [no]
    return [yes]


class Op:
    """A command. `effects`: [(key, function above, number of the new value or None)]; the reply
    tells of each of them, or, as one of MSET does, of all together."""

    def __init__(self, words, effects, changes=True, deadline=None, condition=b"", whole=False,
                 counts=False, may_drop=False, may_evict=True):
        self.words = words
        self.effects = effects
        self.changes = changes
        self.relative_ms = None if deadline is None else deadline.get("in")
        self.at_ms = None if deadline is None else deadline.get("at")
        self.condition = condition
        self.whole = whole  # One reply speaks of all its keys.
        self.counts = counts  # It is a number of keys, which does not say of which.
        self.may_drop = may_drop  # Where on_blocked is drop, OK may also mean that it was erased.
        self.may_evict = may_evict  # A tier may be too small for all keys.
        self.began = 0.0
        self.ended = 0.0

    def times(self):
        if self.relative_ms is not None:
            if self.relative_ms <= 0:
                return "past"
            return (self.began + self.relative_ms, self.ended + self.relative_ms)
        if self.at_ms is not None:
            return "past" if self.at_ms < self.began - 10_000 else (self.at_ms, self.at_ms)
        return None

    def sent(self):
        self.began = now_ms()
        for key, _, _ in self.effects:
            key.version += self.changes
        self.versions = [key.version for key, _, _ in self.effects]

    def outcomes(self, effect, number, state):
        """[(reply, state after)] from a state that may have ended meanwhile."""
        self.deadline = self.times()
        self.new = None
        if number is not None:
            self.new = ABSENT if self.deadline == "past" else (number, self.deadline)
        return [one for met in living(state, self.began, self.ended)
                for one in [(reply, after, met) for reply, after in effect(self, met)]]

    def unanswered(self, drops):
        """It may have been carried out, or not, or in part."""
        self.ended = now_ms() + TOLERANCE_MS
        for key, effect, number in self.effects:
            more = {after for state in key.states | {ABSENT}
                    for _, after, _ in self.outcomes(effect, number, state)}
            key.states |= more
            if drops and self.may_drop:
                key.states.add(ABSENT)
            key.answered = key.version

    def answer(self, reply, drops, told):
        """Holds the reply against what may be. told.wrong(key, text), told.missing(key, version, was):
        version 0: it has been set again."""
        self.ended = now_ms()
        if isinstance(reply, Failure):
            return self.failed(reply, told)
        replies = reply if isinstance(reply, list) and not self.whole else [reply]
        if not self.whole and len(replies) != len(self.effects):
            return told.wrong(None, f"{self}: a reply of {len(replies)} parts: {brief(reply)}")
        for at in range(len(self.effects)):
            self.one(at, replies[0 if self.whole else at], drops, told)
        return None

    def one(self, at, reply, drops, told):
        key, effect, number = self.effects[at]
        version = self.versions[at]
        key.answered += self.changes
        for states in (key.states, {ABSENT}):
            after = set()
            for state in states:
                for expected, left, met in self.outcomes(effect, number, state):
                    fit = self.fits(key, expected, met, reply)
                    if fit is not None:
                        after.add(fit if fit != "as is" else left)
            if not after:
                continue
            if states is not key.states and ABSENT not in key.states:
                told.missing(key, version if number is None else 0, shown(key.states))
            if drops and self.may_drop:
                after.add(ABSENT)
            key.history.append((self, reply if not isinstance(reply, bytes) else len(reply)))
            key.states = after
            return
        told.wrong(key, f"{self} answered {self.seen(key, reply)}; it may be {shown(key.states)}"
                   f" [{key.told()}]")
        # Go on from what it says, so that one fault is told of once.
        key.history.append((self, self.seen(key, reply)))
        number_seen = number_of(key.name, reply) if isinstance(reply, bytes) else None
        key.states = {ABSENT} if number is None else {self.new}
        if number_seen is not None and effect is get:
            key.states = {(number_seen, None)}

    def fits(self, key, expected, met, reply):
        """"as is", or the state in which the reply leaves it; None: it does not fit."""
        if expected == "ends":
            if met is ABSENT or met[1] is None:
                return "as is" if reply == (-2 if met is ABSENT else -1) else None
            near = isinstance(reply, int) and (met[1][0] - TOLERANCE_MS <= reply <=
                                               met[1][1] + TOLERANCE_MS)
            return (met[0], (reply, reply)) if near else None
        if expected == "length":
            return "as is" if reply == (0 if met is ABSENT else key.sizes[met[0]]) else None
        if expected in ("left", "left in seconds"):
            if met is ABSENT or met[1] is None:
                return "as is" if reply == (-2 if met is ABSENT else -1) else None
            # TTL is the nearest second.
            unit, off = (1, 0) if expected == "left" else (1000, 500)
            least = met[1][0] - self.ended - TOLERANCE_MS - off
            most = met[1][1] - self.began + TOLERANCE_MS + off
            near = isinstance(reply, int) and reply >= 0 and least <= reply * unit <= most
            return "as is" if near else None
        if expected == OLD:
            if met is ABSENT:
                return "as is" if reply is None else None
            same = isinstance(reply, bytes) and number_of(key.name, reply) == met[0]
            return "as is" if same else None
        if self.counts:
            return "as is" if isinstance(reply, int) and 0 <= reply <= len(self.effects) else None
        return "as is" if type(expected) is type(reply) and expected == reply else None

    def failed(self, reply, told):
        if reply.is_loading():  # Nothing of it was done.
            for key, _, _ in self.effects:
                key.answered += self.changes
                key.history.append((self, reply))
            return told.loading(self)
        refused = (reply.text.startswith((b"-OOM", b"-ERR the value could not be read")) or
                   b"do not fit into the" in reply.text)
        if not refused:
            told.wrong(None, f"{self} answered {reply.text[:160].decode(errors='replace')}")
        for key, effect, number in self.effects:
            key.answered += self.changes
            key.history.append((self, reply))
            # Of several keys some may have been written before one was refused.
            if refused and not (len(self.effects) > 1 and self.changes):
                continue
            key.states = key.states | {after for state in key.states
                                       for _, after, _ in self.outcomes(effect, number, state)}
            # All or none: MSETNX wrote a key that had been evicted, and erased it again.
            if self.words[0] == b"MSETNX":
                key.states.add(ABSENT)
        return told.refused(self)

    def seen(self, key, reply):
        if not isinstance(reply, bytes) or reply[:1] == b"+":
            return brief(reply)
        number = number_of(key.name, reply)
        return f"damaged bytes ({len(reply)})" if number is None else f"number {number}"

    def __str__(self):
        return " ".join(w.decode(errors="replace") if len(w) < 40 else f"({len(w)} bytes)"
                        for w in self.words)


class Failure:
    """An error that the daemon answered."""

    def __init__(self, text):
        self.text = text

    def is_loading(self):
        """The disk has been read in for longer than a command waits; EXEC says it of all its own."""
        return self.text.startswith((b"-LOADING ", b"-EXECABORT Transaction discarded because of: "
                                     b"LOADING "))

    def __str__(self):
        return self.text.decode(errors="replace")


def brief(reply):
    if isinstance(reply, list):
        return "[" + ", ".join(brief(each) for each in reply[:4]) + "]"
    return f"{len(reply)} bytes" if isinstance(reply, bytes) and len(reply) > 60 else str(reply)
