# SPDX-License-Identifier: Apache-2.0
"""Which slot of llama-server holds what; save and restore.

A request that is helped holds a slot from `enter` to `leave`, and names it to llama-server, so that
we know what the slot holds afterwards. Whether it really does is checked where it counts: what is
stored under which tokens is read from the slot file itself, and llama-server compares the tokens of
a restored slot with the prompt's. So a mistake here costs computing, and never an answer.

Three kinds of threads: those of requests; one that saves slots that have been idle for a while; one
that takes saved files to Spillway. All state is under `_turn`. No call to llama-server or Spillway
is made under it: a slot that is held belongs to the thread that holds it.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from array import array
from typing import Any, Callable

from .._blocks import Guarded
from ..errors import Cancelled
from ._state import common_prefix, tokens_of
from ._store import State

ASK = Callable[..., Any]
UPLOADS = 4       # Saved files that wait to be stored. More are given up.
SLOTS_MAX = 4096


class Slot:
    """One slot of llama-server."""

    def __init__(self, number: int):
        self.number = number
        self.tokens = array("i")        # What it holds, as far as we know.
        self.changed = False            # Holds more than Spillway was given of it.
        self.held = False
        self.acting = False             # A save or restore is in progress.
        self.used = 0.0
        self.state: State | None = None  # What Spillway was last given of it,
        self.stored = array("i")         # and its tokens.
        self.login: str | None = None    # The Authorization of the last request served.


class Slots:
    """All slots of one llama-server."""

    def __init__(self, ask: ASK, reads: Guarded, writes: Guarded, folder: str, min_tokens: int,
                 wait: float, save_after: float):
        self._ask, self._reads, self._writes, self._folder = ask, reads, writes, folder
        self._min, self._wait, self._save_after = min_tokens, wait, save_after
        self._turn = threading.Condition()
        self._slots: list[Slot] = []
        self._off = ""
        self._stopping = False
        self._files = 0
        self._late: set[str] = set()  # Files that llama-server may still write.
        self._uploads: queue.Queue[Any] = queue.Queue(UPLOADS)
        self.counts = dict.fromkeys(
            ("requests", "passed", "restored", "restored_tokens", "saved", "saved_tokens",
             "refused", "gone", "given_up", "faults"), 0)
        self.last_error = ""
        self._threads = [threading.Thread(target=run, name=name, daemon=True) for run, name in
                         ((self._run_saves, "slots_save"), (self._run_uploads, "slots_upload"))]
        for thread in self._threads:
            thread.start()

    # --- facts ---

    def count(self, name: str, by: int = 1) -> None:
        with self._turn:
            self.counts[name] += by

    def fault(self, error: BaseException) -> None:
        """Counts a fault, and remembers the last."""
        with self._turn:
            self.counts["faults"] += 1
            self.last_error = f"{type(error).__name__}: {error}"[:400]

    def facts(self) -> dict[str, Any]:
        """What was counted, for /spillway/slots."""
        with self._turn:
            stores = (self._reads, self._writes)
            return {**self.counts, "spillway_faults": sum(one.faults for one in stores),
                    "last_error": self.last_error or next(
                        (str(one.last_error) for one in stores if one.last_error), ""),
                    "off": self._off, "slots": len(self._slots),
                    "unsaved": sum(slot.changed for slot in self._slots)}

    def learn(self, count: int) -> None:
        """llama-server has so many slots."""
        with self._turn:
            if not self._slots:
                self._slots = [Slot(number) for number in range(min(count, SLOTS_MAX))]

    @property
    def known(self) -> bool:
        return bool(self._slots)

    @property
    def off(self) -> str:
        """Why slots are neither saved nor restored any more, or ""."""
        return self._off

    def stand_down(self, why: str) -> None:
        """From now on nothing is saved or restored: what slots hold depends on more than the
        namespace says. Returns when no save or restore is in progress.
        """
        with self._turn:
            self._off = self._off or why
            for slot in self._slots:
                slot.changed = False
            # Each is bounded by `wait`, so this ends.
            self._turn.wait_for(lambda: not any(slot.acting for slot in self._slots))

    # --- requests ---

    def enter(self, tokens: array[int], login: str | None) -> Slot | None:
        """A slot for this prompt, restored if that helps. None: llama-server may choose."""
        slot = self._take(tokens)
        if slot is None:
            return None
        deadline = time.monotonic() + self._wait
        try:
            common = common_prefix(slot.tokens, tokens)
            if slot.changed and len(slot.tokens) - common >= self._min:
                self._save(slot, slot.login)
            if len(tokens) >= self._min:
                state = self._reads._call("find", None, tokens, common, self._min)
                if state is not None:
                    self._restore(slot, state, login, deadline)
        except Exception as error:  # Whatever it is, the prompt is computed.
            self.fault(error)
        return slot

    def _take(self, tokens: array[int]) -> Slot | None:
        """Holds the free slot that holds most of the prompt, or else the least recently used."""
        with self._turn:
            def free() -> list[Slot]:
                return [slot for slot in self._slots if not slot.held]

            # llama-server would let the request wait for a slot just as well.
            self._turn.wait_for(lambda: self._stopping or self._off or free(), self._wait)
            if self._off or self._stopping or not free():
                return None

            def worth(slot: Slot) -> tuple[int, float]:
                common = common_prefix(slot.tokens, tokens)
                # One that would lose most of what it holds is another context's.
                mine = common if common * 2 >= len(slot.tokens) else 0
                return -mine, slot.used
            slot = min(free(), key=worth)
            slot.held = True
            return slot

    def leave(self, slot: Slot, tokens: array[int], good: bool, login: str | None) -> None:
        """The request has ended; `good`: it was served, so that the slot holds its prompt."""
        with self._turn:
            slot.tokens = tokens if good else array("i")
            slot.changed = good and not self._off and len(tokens) >= self._min
            slot.used, slot.login = time.monotonic(), login
            self._release(slot)

    def _release(self, slot: Slot) -> None:
        slot.held = False
        self._turn.notify_all()

    # --- restore and save, with the slot held ---

    def _new_file(self) -> tuple[str, str]:
        with self._turn:
            self._files += 1
            name = f"{self._files}.bin"
            late = list(self._late)
        for path in late:
            if _remove(path):
                self._late.discard(path)
        return name, os.path.join(self._folder, name)

    def _act(self, slot: Slot, action: str, name: str, login: str | None) -> Any:
        with self._turn:
            if self._off:
                raise Cancelled(self._off)
            slot.acting = True
        try:
            return self._ask("POST", f"/slots/{slot.number}?action={action}", {"filename": name},
                             login, self._wait)
        finally:
            with self._turn:
                slot.acting = False
                self._turn.notify_all()

    def _restore(self, slot: Slot, state: State, login: str | None, deadline: float) -> None:
        name, path = self._new_file()
        try:
            with open(path, "w+b", opener=_private) as file:
                if not self._reads._call("read", False, state, file, deadline):
                    self.count("gone")
                    return
                file.flush()
                file.seek(0)
                tokens = tokens_of(file)
            # Whatever comes of it, the slot no longer holds what it held.
            slot.tokens, slot.changed = array("i"), False
            answer = self._act(slot, "restore", name, login)
        finally:
            _remove(path)
        with self._turn:
            slot.tokens = slot.stored = tokens or array("i")
            slot.state = state
            self.counts["restored"] += 1
            self.counts["restored_tokens"] += int(answer.get("n_restored", 0))

    def _save(self, slot: Slot, login: str | None) -> None:
        """Saves a slot, and hands the file to the thread that stores it."""
        slot.changed = False  # If this fails it is not tried again before the next request.
        name, path = self._new_file()
        try:
            self._act(slot, "save", name, login)
            file = open(path, "rb")
        finally:
            if not _remove(path):
                self._late.add(path)
        try:
            tokens = tokens_of(file)
            if tokens is None:
                raise ValueError("llama-server's slot file is of no kind known here")
            slot.tokens = tokens
            if len(tokens) < self._min or tokens == slot.stored:
                return
            self._uploads.put_nowait((slot, tokens, file))
            file = None
        except queue.Full:
            self.count("given_up")
        finally:
            if file is not None:
                file.close()

    # --- threads ---

    def _due(self, now: float) -> Slot | None:
        due = [slot for slot in self._slots if slot.changed and not slot.held
               and now - slot.used >= self._save_after]
        return min(due, key=lambda slot: slot.used, default=None)

    def _run_saves(self) -> None:
        while True:
            with self._turn:
                slot = None if self._off else self._due(time.monotonic())
                if slot is None:
                    if self._stopping:
                        return
                    self._turn.wait(self._next_due())
                    continue
                slot.held = True
            self._save_now(slot)

    def _next_due(self) -> float | None:
        """Seconds until a slot that is free becomes due, or None."""
        free = [slot.used for slot in self._slots if slot.changed and not slot.held]
        if not free or self._off:
            return None
        return max(0.01, min(free) + self._save_after - time.monotonic())

    def _save_now(self, slot: Slot) -> None:
        try:
            self._save(slot, slot.login)
        except Exception as error:
            self.fault(error)
        finally:
            with self._turn:
                self._release(slot)

    def _run_uploads(self) -> None:
        while True:
            item = self._uploads.get()
            if item is None:
                return
            slot, tokens, file = item
            try:
                with file:
                    self._upload(slot, tokens, file)
            except Exception as error:
                self.fault(error)

    def _upload(self, slot: Slot, tokens: array[int], file: Any) -> None:
        faults = self._writes.faults
        state = self._writes._call("write", None, tokens, file)
        if state is None:
            # A fault was counted by the store.
            down = self._writes.faults != faults or not self._writes.ready
            self.count("given_up" if down else "refused")
            return
        with self._turn:
            old, was = slot.state, slot.stored
            slot.state, slot.stored = state, tokens
            self.counts["saved"] += 1
            self.counts["saved_tokens"] += len(tokens)
        if old is not None and tokens[:len(was)] == was:
            self._writes._call("delete", None, old)  # The new state holds all that the old one did.

    def stop(self, within: float) -> None:
        """Saves what is not saved yet, for at most so many seconds."""
        until = time.monotonic() + within
        with self._turn:
            self._save_after = 0.0
            self._stopping = True
            self._turn.notify_all()
        self._threads[0].join(max(0.0, until - time.monotonic()))
        try:
            self._uploads.put(None, timeout=max(0.01, until - time.monotonic()))
        except queue.Full:
            return
        self._threads[1].join(max(0.0, until - time.monotonic()))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _remove(path: str) -> bool:
    """Whether there was such a file."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
