# SPDX-License-Identifier: Apache-2.0
"""Twelve agents with real bytes, clients of spillwayd, and the order in which they work.

No model runs. An agent computes a block again by writing the right bytes after the time a model
would take. That time is declared (PREFILL_S), not measured, and figures made of it are marked.
"""

import hashlib
import random
import threading
import time
from collections import Counter, namedtuple
from concurrent.futures import ThreadPoolExecutor

from spillway.client import Client
from spillway.errors import SpillwayError

PREFILL_S = 43e-6  # Per token.
THINK_S = 0.15     # A round takes about a second, so that it can be followed.
AT_ONCE = 8        # Keys of one MGET.
ROUNDS = 3         # Of a job: researchers act in the first, coders in the second, then writers.

# For each agent: turns it has behind it at the start, after how many its conversation ends, and how
# many the next one begins with. They differ, so that conversations do not all end at once.
ROLES = {"planner": (10, 20, 5), "researcher-1": (15, 19, 7), "researcher-2": (14, 18, 6),
         "researcher-3": (13, 17, 6), "coder": (15, 20, 7), "tester": (12, 16, 5),
         "debugger": (13, 17, 6), "writer": (14, 18, 6), "editor": (12, 16, 5),
         "translator": (11, 15, 5), "reviewer": (10, 20, 5), "auditor": (15, 20, 7)}

Block = namedtuple("Block", "key parent tokens")


class Content:
    """The bytes of each key: a piece of one random text, from an offset given by the key. Writing a
    block computes nothing, and comparing one is a memcmp.
    """

    def __init__(self, seed, bytes_per_token):
        self._seed, self.bytes_per_token = seed, bytes_per_token
        self._text = memoryview(random.Random(seed).randbytes((8 << 20) + 512 * bytes_per_token))

    def of(self, block):
        size = block.tokens * self.bytes_per_token
        digest = hashlib.blake2b(f"{self._seed}/{block.key}".encode(), digest_size=8).digest()
        at = int.from_bytes(digest, "little") % (len(self._text) - size)
        return self._text[at:at + size]

    def wrong_bytes(self, block, value):
        """How many bytes of a value differ from what was written."""
        right = self.of(block)
        if value.obj == right:  # A bytearray compares itself with any buffer at once.
            return 0
        if value.nbytes != right.nbytes:
            return right.nbytes
        return sum(a != b for a, b in zip(value, right))


class World:
    """What all agents share."""

    def __init__(self, socket, content, lru, on_step, on_gpu):
        self.socket, self.content, self.lru, self.on_gpu = socket, content, lru, on_gpu
        self.on_step = on_step  # Called when an agent's step begins, before it reads.
        self.counts, self._lock = Counter(), threading.Lock()

    def count(self, **counts):
        with self._lock:
            self.counts.update(counts)


class Agent:
    """An agent's context is a chain of blocks: the prompt all agents share, its own prefix, then
    turns (a tool's output and an answer each). Each turn it reads the cached blocks, compares every
    byte, computes the rest again, thinks, and adds a turn.
    """

    def __init__(self, name, world):
        self.name, self._world, self._client = name, world, None
        self._at_first, self._most, self._kept = ROLES[name]
        self.state, self.trouble, self.turns = "idle", "", 0
        self.resumed = None  # Tokens and seconds, if the last turn found the whole context.
        self.blocks, self._conversation = [], 0
        self._begin(self._at_first)

    def _begin(self, turns):
        """Begins a new conversation; returns the keys of the old one."""
        over = [block.key for block in self.blocks[6:]]
        self.blocks, self._turn = [], 0
        self._conversation += 1
        for i in range(4):
            self._append(f"system/{i}", 256)
        for i in range(2):
            self._append(f"{self.name}/prefix/{i}", 256)
        for _ in range(turns):
            self._append_turn()
        return over

    def _append(self, key, tokens):
        self.blocks.append(Block(key, self.blocks[-1].key if self.blocks else None, tokens))

    def _append_turn(self):
        self._turn += 1
        where = f"{self.name}/{self._conversation}/t{self._turn:02}"
        self._append(f"{where}/tool", 256)
        self._append(f"{where}/answer", 128)

    @property
    def tokens(self):
        return sum(block.tokens for block in self.blocks)

    def disconnect(self):
        if self._client:
            self._client.close()
        self._client = None

    def take_turn(self, stop):
        try:
            self._client = self._client or Client(socket=self._world.socket, timeout=60)
            self._take_turn(stop)
        except SpillwayError as error:
            self.trouble = str(error)
            self._world.count(turns_given_up=1)
            stop.wait(THINK_S)
        finally:
            self.state = "idle"

    def _take_turn(self, stop):
        self.state = "reads"
        found, asked = self._read(), self.tokens
        missing = sum(block.tokens for block in self.blocks[found:])
        if missing:
            self.state = "computes"
            if stop.wait(missing * PREFILL_S):
                return
            self._write()
        self.state = "thinks"
        if stop.wait(THINK_S):
            return
        self.state = "writes"
        if self._turn < self._most:
            self._append_turn()
            self._write()
        else:  # The next turn computes what the next conversation begins with.
            over = self._begin(self._kept)
            self._world.lru.forget(over)
            for key in over:
                self._client.delete(key)
        self.turns += 1
        self._world.count(turns=1, asked_tokens=asked, found_tokens=asked - missing)

    def _get(self, blocks):
        """Yields for each block whether it was present, after comparing its bytes."""
        for at in range(0, len(blocks), AT_ONCE):
            some = blocks[at:at + AT_ONCE]
            for block, value in zip(some, self._client.get_many([each.key for each in some])):
                if value is not None:
                    self._world.count(compared=value.nbytes,
                                      wrong_bytes=self._world.content.wrong_bytes(block, value))
                self._world.lru.touch(block.key, block.tokens * self._world.content.bytes_per_token)
                yield value is not None
        # Data from a socket is in host memory and goes to the host tier.
        if self._world.on_gpu and blocks:
            self._client.prefetch([block.key for block in blocks])

    def _read(self):
        """How many blocks are present, up to the first gap."""
        began = time.monotonic()
        there = list(self._get(self.blocks))
        took = time.monotonic() - began
        self.resumed = (self.tokens, took) if all(there) else None
        if self.resumed:
            self._world.count(resumes=1, resumed_tokens=self.tokens, resumed_us=round(took * 1e6))
        return [*there, False].index(False)

    def _write(self):
        """Sets the missing blocks, in order, and reads them back. Another agent may have written
        the shared prompt meanwhile; setting it again would cut off every chain after it.
        """
        written = []
        for block in self.blocks[self._client.match([each.key for each in self.blocks]):]:
            if not self._client.set(block.key, self._world.content.of(block), tokens=block.tokens,
                                    agent=self.name, parent=block.parent):
                self._world.count(sets_refused=1)
                break  # Blocks after a refused one would not be found.
            written.append(block)
        for _ in self._get(written):
            pass


def actors(i):
    return list(ROLES)[1 + 3 * i:4 + 3 * i]


def reviewer(i):
    return "auditor" if i == ROUNDS - 1 else "reviewer"


def job_document(number):
    """A job of three rounds as a document for the step graph: a plan, three that act on it, a
    review.
    """
    steps, edges = [], []
    for i in range(ROUNDS):
        plan, review = f"plan-{i}", f"review-{i}"
        edges += [{"from": f"review-{i - 1}", "to": plan}] if i else []
        steps += [{"id": plan, "agent": "planner"}, {"id": review, "agent": reviewer(i)}]
        for n, name in enumerate(actors(i)):
            steps.append({"id": f"act-{i}-{n}", "agent": name})
            edges += [{"from": plan, "to": f"act-{i}-{n}"}, {"from": f"act-{i}-{n}", "to": review}]
    return {"run": f"job-{number}", "workflow": "demo", "steps": steps, "edges": edges}


class Workflow:
    """The agents at work, on a thread of its own. Each step is reported to the daemon's step graph.
    """

    def __init__(self, world):
        self._world, self._stop, self._thread, self._graph = world, threading.Event(), None, None
        self.agents = {name: Agent(name, world) for name in ROLES}
        self._job, self.crashed = 0, None

    def start(self, arrival=0.0):
        """All agents have arrived after `arrival` seconds; 0: they are there already."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(arrival,), daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        if self._thread:
            self._thread.join()
        for agent in self.agents.values():
            agent.disconnect()

    def all_blocks(self):
        """Only while no agent works."""
        return {block.key: block for agent in self.agents.values()
                for block in agent.blocks}.values()

    def _run(self, arrival):
        try:
            self._graph = Client(socket=self._world.socket, timeout=60)
            with ThreadPoolExecutor(len(ROLES)) as pool:
                came = []
                for agent in self.agents.values() if arrival else ():
                    came.append(pool.submit(agent.take_turn, self._stop))
                    self._stop.wait(arrival / len(self.agents))
                for each in came:
                    each.result()
                self._tell("load", job_document(self._job))
                while not self._stop.is_set():
                    self._work(pool)
        except Exception as error:  # A programming error: the main thread ends the demo with it.
            self.crashed = error

    def _tell(self, what, *words):
        """Sends a hint; if it is not accepted, only its benefit is lost."""
        try:
            getattr(self._graph.step_graph, what)(*words)
        except SpillwayError:
            self._world.count(hints_refused=1)

    def _work(self, pool):
        job, self._job = f"job-{self._job}", self._job + 1
        for i in range(ROUNDS):
            if i == ROUNDS - 1:  # The next job is loaded before this one ends.
                self._tell("load", job_document(self._job))
            self._step(job, f"plan-{i}", "planner")
            for act in [pool.submit(self._step, job, f"act-{i}-{n}", name)
                        for n, name in enumerate(actors(i))]:
                act.result()
            self._step(job, f"review-{i}", reviewer(i))
        self._tell("end", job)

    def _step(self, job, step, name):
        if not self._stop.is_set():
            self._tell("start", job, step)
            self._world.on_step(self.agents[name])
            self.agents[name].take_turn(self._stop)
            self._tell("finish", job, step)
