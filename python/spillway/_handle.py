# SPDX-License-Identifier: Apache-2.0
"""The native cache behind a Cache. It stays open until the last call ends, and is closed once."""

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
CLOSE_WAIT = 60.0  # Seconds to wait for calls of other threads.
_LOOK = 0.05  # Seconds between checks for them.
_HERE = os.path.dirname(__file__)


def _is_ours(frame: FrameType) -> bool:
    return os.path.dirname(frame.f_code.co_filename) == _HERE


def _on_stack(frame: FrameType | None) -> bool:
    """Whether a call of this package is on that stack."""
    while frame is not None and not _is_ours(frame):
        frame = frame.f_back
    return frame is not None


class Handle:
    """An open native cache. Closed once: by close(), at exit, or when the last reference is gone.
    """

    def __init__(self, pointer: int):
        self.pointer = pointer
        self.pid = os.getpid()
        self.inside: dict[int, int] = {}  # Number of calls in progress, by thread.
        self.closing = False
        self.lock = threading.Condition()
        self.closers: list[Any] = []  # Objects to notify before the cache is closed.

    def close(self) -> str:
        # In a forked child the parent's threads do not exist, and one may have held the lock.
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
        """Whether a call is really in progress. An interrupt at the wrong moment leaves a call
        counted that no stack has.
        """
        if not self.inside:
            return False
        frames = sys._current_frames()
        own: FrameType | None = sys._getframe()
        while own is not None and _is_ours(own):  # Without the frames of the call that closes.
            own = own.f_back
        frames[threading.get_ident()] = own  # type: ignore[assignment]
        for thread in list(self.inside):
            if not _on_stack(frames.get(thread)):
                del self.inside[thread]
        return bool(self.inside)


def close_handle(handle: Handle) -> None:
    handle.close()


class Use:
    """Keeps a cache open for one call."""

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
