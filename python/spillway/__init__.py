"""Spillway lends idle memory to your agents' contexts and gives it back in milliseconds.

>>> import spillway
>>> with spillway.Cache(capacity="256MiB") as cache:
...     cache.set("context:planner", b"what the planner knows", tokens=6)
...     bytes(cache.get("context:planner"))

``Cache`` and ``AsyncCache`` hold contexts in this process, ``Client`` speaks to a running
spillwayd. ``spillway.torch``, ``spillway.transformers``, ``spillway.lmcache``,
``spillway.compat`` and ``spillway.graph`` are imported by name and need what they are named after.
"""

from . import errors
from ._aio import AsyncCache
from ._cache import Cache
from ._lease import Lease
from ._native import lib as _lib
from ._words import Departure, EntryInfo, Mode, Reclaimed
from .client import Client
from .errors import (
    Blocked, Busy, CannotRestore, Closed, Corrupt, DeadlineExceeded, InvalidArgument, KeyTypeError,
    LeaseReleased, NoMemory, NotInstalled, NotResident, OverBudget, Refused, SpillwayError,
    TooLarge, Unavailable, ValueTypeError,
)
from .graph import StepGraph

__version__: str = _lib.spillway_version().decode()

__all__ = [
    "AsyncCache", "Blocked", "Busy", "Cache", "CannotRestore", "Client", "Closed", "Corrupt",
    "DeadlineExceeded", "Departure", "EntryInfo", "InvalidArgument", "KeyTypeError", "Lease",
    "LeaseReleased", "Mode", "NoMemory", "NotInstalled", "NotResident", "OverBudget", "Reclaimed",
    "Refused", "SpillwayError", "StepGraph", "TooLarge", "Unavailable", "ValueTypeError",
    "__version__", "errors", "set_log",
]


def set_log(least: str = "info") -> None:
    """What the library says on standard error: "info", "warning", "error" or "off"."""
    levels = ("info", "warning", "error", "off")
    if least not in levels:
        raise InvalidArgument(f"least is {least!r}: it must be one of {', '.join(levels)}")
    from . import _native
    _native.check(_lib.spillway_set_log(levels.index(least), _native.LogCall(), None))


set_log("warning")  # Of its own accord a library says only what is wrong.
