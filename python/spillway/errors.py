# SPDX-License-Identifier: Apache-2.0
"""Errors by name. Every exception of this package is a SpillwayError."""

from __future__ import annotations


class SpillwayError(Exception):
    """The base class of all. ``code`` is the C ABI's name for it, or ""."""

    code: str = ""


class InvalidArgument(SpillwayError, ValueError):
    """The request itself is wrong; the message says what would be accepted."""

    code = "InvalidArgument"


class KeyTypeError(SpillwayError, TypeError):
    """A key was neither str nor bytes."""

    code = "InvalidArgument"


class ValueTypeError(SpillwayError, TypeError):
    """A value has no bytes to store: it is neither a buffer nor a tensor."""

    code = "InvalidArgument"


class Refused(SpillwayError):
    """The cache refuses a set now. Nothing has changed."""


class Blocked(Refused):
    """No tier accepts new entries now: pressure is too high, or there is no room."""

    code = "Blocked"


class OverBudget(Refused):
    """The token budget is used up and no entry may be evicted."""

    code = "OverBudget"


class TooLarge(SpillwayError):
    """Larger than the capacity of every tier."""

    code = "TooLarge"


class NoMemory(SpillwayError, MemoryError):
    """A device or the system refused to allocate memory."""

    code = "NoMemory"


class NotResident(SpillwayError):
    """The entry exists, but not in the tier asked for."""

    code = "NotResident"


class DeadlineExceeded(SpillwayError, TimeoutError):
    """The time limit was reached."""

    code = "Deadline"


class Cancelled(SpillwayError):
    """The operation was cancelled."""

    code = "Cancelled"


class Busy(SpillwayError):
    """A limit was reached; try again later."""

    code = "Busy"


class Closed(SpillwayError):
    """The cache is closed, or belongs to the process this one was forked from."""

    code = "Closed"


class Unavailable(SpillwayError):
    """A device, file, daemon or source is missing."""

    code = "Unavailable"


class Corrupt(SpillwayError):
    """The bytes differ from those that were stored. They are never returned."""

    code = "Corrupt"


class LeaseReleased(SpillwayError):
    """The lease was released already; its memory may be in use for something else."""

    code = "InvalidArgument"


class NotInstalled(SpillwayError, ImportError):
    """This part needs a package that is not installed; the message names it."""

    code = "Unavailable"


class CannotRestore(SpillwayError, ValueError):
    """A model's cache cannot be restored exactly as it was. The message says why."""

    code = "InvalidArgument"


class CacheTypeError(SpillwayError, TypeError):
    """A ``Cache`` was expected. The message says what would be accepted."""

    code = "InvalidArgument"


# The errors for which a set that is not ``strict`` returns False.
NOT_TAKEN = (Refused, NoMemory)

BY_CODE = {
    1: InvalidArgument, 2: Blocked, 3: OverBudget, 4: TooLarge, 5: NoMemory, 6: NotResident,
    7: DeadlineExceeded, 8: Cancelled, 9: Busy, 10: Closed, 11: Unavailable, 12: SpillwayError,
    13: Corrupt,
}


def from_code(code: int, message: str) -> SpillwayError:
    """The exception for a spillway_code and its message."""
    return BY_CODE.get(code, SpillwayError)(message)
