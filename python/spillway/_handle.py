"""The native cache behind a Cache: open until the last call is over, closed once."""

from __future__ import annotations

import os
import threading
from typing import Any

from . import _native as native
from .errors import Closed

lib = native.lib
CLOSE_WAIT = 60.0  # Seconds for calls of other threads to return.


class Handle:
    """An open native cache. Closed once, by whoever comes first: close(), exit, or nobody left."""

    def __init__(self, pointer: int):
        self.pointer = pointer
        self.pid = os.getpid()
        self.users = 0
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
        with self.lock:
            self.closing = True
            if not self.lock.wait_for(lambda: not self.users, CLOSE_WAIT):
                return "another thread has been inside a call for a minute; left open"
            pointer, self.pointer = self.pointer, 0
        if not pointer or lib.spillway_cache_close(pointer) == 0:
            return ""
        return native.message()


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
            handle.users += 1
            return handle.pointer

    def __exit__(self, *_: Any) -> None:
        with self.handle.lock:
            self.handle.users -= 1
            if self.handle.closing:
                self.handle.lock.notify_all()
