# SPDX-License-Identifier: Apache-2.0
"""The story: what happens when, what the daemon is asked, and what is shown."""

import json
import shutil
import threading
import time
import urllib.request
from collections import Counter, deque
from types import SimpleNamespace

from agents import PREFILL_S, Content, Workflow, World
from lru import LruTiers
from neighbours import Neighbour
from processes import DemoError
from screen import size, span
from spillway.client import Client
from spillway.errors import SpillwayError

# Each scene: its begin, in thousandths of a story, and its subject.
SCENES = {"fill": (0, "twelve agents come, with all they remember"),
          "work": (120, "a plan, three that act on it, a review, round after round"),
          "a stranger": (250, "another process takes half of the card without asking"),
          "an ask": (400, "a second one asks for its memory; agents go on with what is left"),
          "relief": (600, "both are gone: contexts come back to the card as they are wanted"),
          "kill -9": (750, "the daemon is killed and started again on the same disk"),
          "summary": (900, "what it came to; the daemon still answers")}
STORY_S = 60      # A longer demo repeats it.
PATIENCE_S = 60   # A scene waits until it has shown its subject, but at most this long.
SETTLE_S = 10     # How long dirty entries may take to be written to disk before the kill.
COUNTERS = ("hits", "misses", "sets", "destroyed")
_open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def counters(stats):
    """Counters that are summed over both runs of the daemon."""
    return Counter(hits=stats["hits"], misses=stats["misses"], sets=stats["sets"],
                   dropped=stats["left_by_action"]["drop"],
                   destroyed=sum(stats["destroyed_by_reason"].values()))


class Story:
    def __init__(self, daemon, stage, length, seed, say, record):
        self._daemon, self._stage, self._say_lines, self._record = daemon, stage, say, record
        self._start, self.length, self._late = time.monotonic(), length, 0.0
        # The number of tokens that fit the card: the story is the same for any size.
        content = Content(seed, max(8, stage.size // 98_304 // 8 * 8))
        self._lru = LruTiers()
        self._world = World(daemon.socket, content, self._lru, self._compare, stage.on_gpu)
        self._workflow = Workflow(self._world)
        self._neighbours, self._kills, self._killing = [], [], None
        self._past, self.news, self.summary = Counter(), deque(maxlen=99), []
        self.wrong, self._level = 0, "relaxed"
        if record:
            print("t,total,free,others,ours_backed,ours_unbacked,level", file=record)
        times = max(1, int(length // STORY_S))
        self._one = length / times
        self._plan = deque((name, (i + at / 1000) * self._one) for i in range(times)
                           for name, (at, _) in SCENES.items()
                           if not (i and name == "fill" or i < times - 1 and name == "summary"))
        self.scene, self._began, self._held_before = "", 0.0, 0
        self._stats = daemon.stats()

    @property
    def now(self):
        return time.monotonic() - self._start

    @property
    def over(self):
        return not self._plan and self.now - self._late >= self.length

    def tick(self):
        """Reads everything, and reports what has happened since the last call."""
        self._daemon.check_alive()
        if self._workflow.crashed:
            raise DemoError(f"an agent failed: {self._workflow.crashed!r}")
        self._stats = self._daemon.stats()
        card, memory = self._stats["device"], self._memory()
        mine = max(0, card["total"] - card["others"] - card["reserve"])
        self._lru.set_sizes(mine + self._stats["host"]["capacity"],
                            self._stats["disk"]["capacity"])
        if self._record:
            columns = [memory[name] for name in ("total", "free", "others", "clean", "dirty")]
            print(f"{self.now:.3f}", *columns, card["level"], sep=",", file=self._record)
        if card["level"] != self._level:
            self._say(f"level {self._level.upper()} -> {card['level'].upper()}")
            self._level = card["level"]
        for each in self._neighbours:
            for news in each.look(card["others_rose_unix_us"], self._totals()):
                self._say(news)
        if self._killing:
            self._go_on_killing()
        if self._plan and self.now - self._late >= self._plan[0][1]:
            self._next_scene()

    def _say(self, text):
        if not self.summary:
            self.news.append(f"{self.now:5.1f} s  {text}")
            self._say_lines(self.news[-1])

    # --- the scenes ---

    def _next_scene(self):
        if self.scene and not self._shown():
            # The machine is busy: everything after this is later, too.
            self._late = self.now - self._plan[0][1]
            if self.now - self._began > self._one + PATIENCE_S:
                raise DemoError(f"{self.scene}: this machine is too slow: {self.caption()}")
            return
        if self.scene:
            self._say(f"{self.scene}: {self.caption()}")
        self.scene, self._began = self._plan.popleft()[0], self.now
        self._held_before = self._stats["device"]["held"]
        self._say(f"{self.scene}: {SCENES[self.scene][1]}")
        begin = {"fill": lambda: self._workflow.start(0.12 * self._one),
                 "a stranger": lambda: self._send(0.50, 0.33, ask=False),
                 "an ask": lambda: self._send(0.30, 0.15, ask=True),
                 "relief": lambda: [each.end() for each in self._neighbours],
                 "kill -9": self._begin_kill,
                 "summary": self.finish}
        begin.get(self.scene, lambda: None)()

    def _shown(self):
        """Whether the scene has shown its subject."""
        shown = {"fill": lambda: all(each.turns for each in self._workflow.agents.values()),
                 "work": lambda: self._world.counts["resumes"] > 0,
                 "a stranger": lambda: self._neighbours[-1].settled,
                 "an ask": lambda: self._neighbours[-1].settled and self._world.counts["blocks"] > 0,
                 "kill -9": lambda: not self._killing}
        return shown.get(self.scene, lambda: True)()

    def _send(self, share, hold, ask):
        # In steps that fit the reserve: a neighbour that does not ask uses up the reserve.
        step = max(4096, self._stats["device"]["reserve"] // 2 // 4096 * 4096)
        new = Neighbour(self._stage, share, hold * self._one, step, ask, self._totals())
        self._neighbours.append(new)
        if ask and self._stage.on_gpu:
            began = time.monotonic()
            new.gave = size(self._daemon.reclaim(new.size))
            new.asked_s = time.monotonic() - began
        self._say(f"pid {new.pid} {'asks for' if ask else 'takes'} {size(new.size)} of the card")

    def _begin_kill(self):
        self._workflow.stop()
        self._killing = SimpleNamespace(thread=None, found=0, wrong=0, said="", trouble="")

    def _go_on_killing(self):
        k, stats = self._killing, self._stats
        if k.thread:
            if not k.thread.is_alive():
                self._killing = None
                self._workflow.start()
            return
        settled = stats["disk"]["entries"] >= stats["entries"] and not stats["moves"]["under_way"]
        if not settled and self.now - self._began < SETTLE_S:
            return
        k.before, k.on_disk = self._daemon.pid, stats["disk"]["entries"]
        if stats["entries"] > k.on_disk:
            k.trouble = f"; {stats['entries'] - k.on_disk:,} were in memory only"
        self._past += counters(stats)
        began = time.monotonic()
        self._daemon.kill()
        self._daemon.start()
        k.down, k.after = time.monotonic() - began, self._daemon.pid
        self._stats = self._daemon.stats()
        self._kills.append(k)
        k.thread = threading.Thread(target=self._verify, args=(k,))
        k.thread.start()

    def _verify(self, k):
        """Reads every block the agents had and compares it."""
        try:
            with Client(socket=self._daemon.socket, timeout=60) as client:
                for block in self._workflow.all_blocks():
                    value = client.get(block.key)
                    if value is not None:
                        wrong = self._world.content.wrong_bytes(block, value)
                        k.found, k.wrong = k.found + 1, k.wrong + wrong
                        self._world.count(compared=value.nbytes, wrong_bytes=wrong)
        except SpillwayError as error:
            k.trouble = f"; not all could be read: {error}"
        k.said = (f"{k.found:,} of {k.on_disk:,} entries on disk found again, {k.wrong:,} wrong "
                  f"bytes{k.trouble}")

    # --- requests to the daemon ---

    def _totals(self):
        return self._past + counters(self._stats)

    def _memory(self):
        card = self._stats["device"]
        ours = max(0, card["total"] - card["free"] - card["others"])
        clean = min(card["clean"], ours)
        return {**card, "ours": ours, "clean": clean, "dirty": ours - clean}

    def _compare(self, agent):
        """Called on the workflow's threads as a step begins: compares where its blocks are with
        where LRU with the same tiers would have them. Only while neighbours hold memory; otherwise
        all blocks are in memory.
        """
        if not self._stats["device"]["others"]:
            return
        own = {block.key for block in agent.blocks if block.key.startswith(agent.name + "/")}
        memory, disk = self._lru.where(own)
        page = f"http://127.0.0.1:{self._daemon.http_port}/api/v1/contexts?limit=1000&search="
        try:
            with _open_url(page + agent.name + "/", timeout=20) as answer:
                rows = json.load(answer)["contexts"]
        except OSError:
            return
        tiers = Counter(row["tier"] for row in rows if row["key"] in own)
        self._world.count(blocks=len(own), memory=tiers["device"] + tiers["host"],
                          disk=tiers["disk"], lru_memory=memory, lru_disk=disk)

    # --- texts ---

    def _comparison(self):
        c = self._world.counts
        return (f"blocks in memory as steps began: {c['memory']:,} of {c['blocks']:,}; LRU with the "
                f"same tiers: {c['lru_memory']:,}; on disk {c['disk']:,}, LRU {c['lru_disk']:,}")

    def _kill_text(self):
        if self._killing and not self._killing.thread:
            return "the agents hold still; what only memory has goes to disk"
        k = self._kills[-1]
        return (f"pid {k.before} killed, pid {k.after} answers after {span(k.down)}; "
                f"{k.said or f'{k.on_disk:,} entries were on disk, they are compared'}")

    def _resume_text(self):
        c, resumes = self._world.counts, max(1, self._world.counts["resumes"])
        tokens = c["resumed_tokens"] // resumes
        return (f"{c['resumes']:,} of {c['turns']:,} turns found their whole context: {tokens:,} "
                f"tokens in {span(c['resumed_us'] / resumes / 1e6)} on average, to compute them "
                f"again {span(tokens * PREFILL_S)} (declared)")

    def caption(self):
        """The scene's result so far, in one sentence."""
        card = self._memory()
        said = {"fill": lambda: f"{self._stats['entries']:,} entries, {size(card['bytes'])} on the "
                f"card, {size(card['backed'])} of that clean",
                "work": self._resume_text,
                "a stranger": lambda: str(self._neighbours[-1]),
                "an ask": lambda: f"{self._neighbours[-1]}; {self._comparison()}",
                "relief": lambda: f"ours on the card {size(self._held_before)} -> "
                f"{size(card['held'])}, {size(card['free'])} free",
                "kill -9": self._kill_text}
        return said.get(self.scene, lambda: "")()

    def status(self):
        m, totals = self._memory(), self._totals()
        pressure = "unknown" if m["pressure"] is None else f"{m['pressure']:.2f}"
        return (f"{self.now:5.1f} s  {self._stats['mode'].upper()} pressure {pressure}  ours "
                f"{size(m['ours'])}  others {size(m['others'])}  free {size(m['free'])}  "
                f"{self._stats['entries']:,} entries  dropped {totals['dropped']:,}  wrong bytes "
                f"{self._world.counts['wrong_bytes']:,}")

    def table(self, title):
        """The lines of the screen, except the news and the keys."""
        width, m, counts = shutil.get_terminal_size().columns, self._memory(), self._world.counts
        bar = "".join(glyph * round((width - 2) * m[name] / max(1, m["total"]))
                      for name, glyph in (("clean", "#"), ("dirty", "+"), ("others", "o")))
        tiers = ", ".join(f"{name} {size(self._stats[name]['bytes'])} of "
                          f"{size(self._stats[name]['capacity'])}" for name in ("host", "disk"))
        asked = [span(n.asked_s) for n in self._neighbours if n.asked_s is not None]
        here = ", ".join(f"pid {n.pid} {size(n.size)}" for n in self._neighbours if not n.gone)
        rows = []
        for agent in self._workflow.agents.values():
            tokens, took = agent.resumed or (0, 0)
            times = f"{1e3 * took:.0f} | {1e3 * tokens * PREFILL_S:.0f} ms" if tokens else ""
            rows.append(f"{agent.name:<13}{agent.state:<9}{agent.tokens:>6,} {times}")
        caption = self.caption()
        return [title, self.status(), f"{self.scene}: {SCENES[self.scene][1] if self.scene else ''}",
                caption[:width], caption[width:], f"[{bar:.<{width - 2}}]",
                f" # ours, clean: {size(m['clean'])}  + ours, dirty: {size(m['dirty'])}  o others",
                f"level {m['level'].upper()}, reserve {size(m['reserve'])}; below: {tiers}",
                f"others: {here or 'none'}; give-back: {asked[-1] if asked else 'not asked yet'}; "
                f"compared {size(counts['compared'])}, {counts['wrong_bytes']:,} wrong bytes",
                self._comparison(),
                "-- agents: tokens, to read all | to compute it (declared) ".ljust(width, "-"),
                *(f"{a[:width // 2 - 1]:<{width // 2}}{b}" for a, b in zip(rows[:6], rows[6:])),
                "-- what happened ".ljust(width, "-")]

    # --- the end ---

    def close(self):
        """Ends agents and neighbours."""
        self._workflow.stop()
        if self._killing and self._killing.thread:
            self._killing.thread.join()
        for each in self._neighbours:
            each.end()

    def finish(self):
        """Sums up, when nothing changes the daemon's counters any more."""
        if self.summary:
            return
        self.close()
        self._stats = self._daemon.stats()
        c, totals, now = self._world.counts, self._totals(), counters(self._stats)
        self.wrong = c["wrong_bytes"] + sum(max(0, k.on_disk - k.found) for k in self._kills)
        saved, asked = c["found_tokens"] * PREFILL_S, c["asked_tokens"] * PREFILL_S
        rows = [("destroyed", f"{totals['destroyed']:,} entries lost their last copy"),
                ("compared", f"{size(c['compared'])} read back, {c['wrong_bytes']:,} wrong bytes"),
                ("resumed", self._resume_text()),
                ("prefill", f"{saved:.1f} s saved, {asked - saved:.1f} s spent again (declared: "
                 f"{span(PREFILL_S)} a token; no model runs)"),
                ("squeezed", self._comparison())]
        rows += [("give-back" if n.ask else "stranger", str(n)) for n in self._neighbours]
        rows += [("kill -9", self._kill_text())] if self._kills else []
        why = max(agent.trouble for agent in self._workflow.agents.values())
        if c["turns_given_up"] or c["hints_refused"]:
            rows.append(("trouble", f"{c['turns_given_up']:,} turns were given up ({why}), "
                         f"{c['hints_refused']:,} hints to the step graph refused"))
        rows += [("/metrics", "this daemon's: " + ", ".join(f"{n} {now[n]}" for n in COUNTERS)
                  + f", recovered {self._stats['disk']['files']['recovered']}; of the one before: "
                  + ", ".join(f"{n} {self._past[n]}" for n in COUNTERS))]
        self.summary = [f"summary: {self.now:.1f} s on {self._stage.name}",
                        *(f"  {name:<10} {text}" for name, text in rows)]
        self._say_lines(*self.summary)
