"""The native cache behind a Cache: open until the last call is over, closed once."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import FrameType
from typing import Any

from . import _native as native
from .errors import Closed

lib = native.lib
CLOSE_WAIT = 60.0  # Seconds for calls of other threads to return.
_LOOK = 0.05  # Seconds between looks for them.
_HERE = os.path.dirname(__file__)


def _is_ours(frame: FrameType) -> bool:
    return os.path.dirname(frame.f_code.co_filename) == _HERE


def _on_stack(frame: FrameType | None) -> bool:
    """Whether a call of this package stands on that stack."""
    while frame is not None and not _is_ours(frame):
        frame = frame.f_back
    return frame is not None


class Handle:
    """An open native cache. Closed once, by whoever comes first: close(), exit, or nobody left."""

    def __init__(self, pointer: int):
        self.pointer = pointer
        self.pid = os.getpid()
        self.inside: dict[int, int] = {}  # Calls that are not over, by thread.
        self.closing = False
        self.lock = threading.Condition()
        self.closers: list[Any] = []  # Who uses it past this package, to be told first.

    def close(self) -> str:
        # In a forked child the parent's threads are not here, and one may have held the lock.
        if os.getpid() != self.pid:
            self.pointer = 0
            return ""
        while self.closers:
            self.closers.pop()()
        until = time.monotonic() + CLOSE_WAIT
        with self.lock:
            self.closing = True
            while self._anybody_inside():
                if time.monotonic() > until:
                    return "another thread has been inside a call for a minute; left open"
                self.lock.wait(_LOOK)
            pointer, self.pointer = self.pointer, 0
        if not pointer or lib.spillway_cache_close(pointer) == 0:
            return ""
        return native.message()


    def _anybody_inside(self) -> bool:
        """An interrupt in the wrong moment ends a call that is still counted: no stack has it."""
        if not self.inside:
            return False
        frames = sys._current_frames()
        own: FrameType | None = sys._getframe()
        while own is not None and _is_ours(own):  # Who closes it.
            own = own.f_back
        frames[threading.get_ident()] = own  # type: ignore[assignment]
        for thread in list(self.inside):
            if not _on_stack(frames.get(thread)):
                del self.inside[thread]
        return bool(self.inside)


def close_handle(handle: Handle) -> None:
    handle.close()


class Use:
    """Holds a cache open for one call."""

    __slots__ = ("handle",)

    def __init__(self, handle: Handle):
        self.handle = handle

    def __enter__(self) -> int:
        handle = self.handle
        if handle.pid != os.getpid():
            raise Closed("the cache was opened by the process this one was forked from; open one "
                         "here")
        with handle.lock:
            if not handle.pointer or handle.closing:
                raise Closed("the cache is closed")
            thread = threading.get_ident()
            handle.inside[thread] = handle.inside.get(thread, 0) + 1
            return handle.pointer

    def __exit__(self, *_: Any) -> None:
        inside, thread = self.handle.inside, threading.get_ident()
        with self.handle.lock:
            left = inside.get(thread, 1) - 1
            if left > 0:
                inside[thread] = left
            else:
                inside.pop(thread, None)
            if self.handle.closing:
                self.handle.lock.notify_all()
