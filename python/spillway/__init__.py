# SPDX-License-Identifier: Apache-2.0
"""Spillway lends idle memory to your agents' contexts and gives it back in milliseconds.

>>> import spillway
>>> with spillway.Cache(capacity="256MiB") as cache:
...     cache.set("context:planner", b"what the planner knows", tokens=6)
...     bytes(cache.get("context:planner"))

``Cache`` and ``AsyncCache`` hold contexts in this process; ``Client`` talks to a running spillwayd.
``spillway.torch``, ``spillway.transformers``, ``spillway.lmcache``, ``spillway.compat`` and
``spillway.graph`` are imported by name, and need the package they are named after.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors
from ._words import Departure, EntryInfo, Mode, Reclaimed
from .client import Client
from .errors import (
    Blocked, Busy, CacheTypeError, CannotRestore, Closed, Corrupt, DeadlineExceeded,
    InvalidArgument, KeyTypeError, LeaseReleased, NoMemory, NotInstalled, NotResident, OverBudget,
    Refused, SpillwayError, TooLarge, Unavailable, ValueTypeError,
)

if TYPE_CHECKING:
    from ._aio import AsyncCache
    from ._cache import Cache
    from ._lease import Lease
    from .graph import StepGraph
    __version__: str

__all__ = [
    "AsyncCache", "Blocked", "Busy", "Cache", "CacheTypeError", "CannotRestore", "Client",
    "Closed", "Corrupt", "DeadlineExceeded", "Departure", "EntryInfo", "InvalidArgument",
    "KeyTypeError", "Lease", "LeaseReleased", "Mode", "NoMemory", "NotInstalled", "NotResident",
    "OverBudget", "Reclaimed", "Refused", "SpillwayError", "StepGraph", "TooLarge", "Unavailable",
    "ValueTypeError", "__version__", "errors", "set_log",
]


# Names that need the C library, and their modules. They are imported on first use, so that a
# program that only uses `Client` needs no library.
_NATIVE = {"AsyncCache": "_aio", "Cache": "_cache", "Lease": "_lease", "StepGraph": "graph"}


def __getattr__(name: str) -> Any:
    if name in _NATIVE:
        found = getattr(import_module("." + _NATIVE[name], __name__), name)
    elif name == "__version__":
        from . import _native
        found = _native.lib.spillway_version().decode()
    elif name == "graph":
        found = import_module(".graph", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_NATIVE, "__version__"})


def set_log(least: str = "info") -> None:
    """Sets the log on standard error: lines of at least "info", "warning" or "error"; "off": none.
    """
    levels = ("info", "warning", "error", "off")
    if least not in levels:
        raise InvalidArgument(f"least is {least!r}: it must be one of {', '.join(levels)}")
    from . import _native
    _native.check(_native.lib.spillway_set_log(levels.index(least), _native.LogCall(), None))
