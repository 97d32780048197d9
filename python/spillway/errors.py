"""What can go wrong, by name. Every exception of this package is a SpillwayError."""

from __future__ import annotations


class SpillwayError(Exception):
    """The base of them all. ``code`` is the C ABI's word for it, or ""."""

    code: str = ""


class InvalidArgument(SpillwayError, ValueError):
    """The request itself is wrong; the message says what would be right."""

    code = "InvalidArgument"


class KeyTypeError(SpillwayError, TypeError):
    """A key is str or bytes, and it was something else."""

    code = "InvalidArgument"


class ValueTypeError(SpillwayError, TypeError):
    """A value has no bytes that could be stored: it is neither a buffer nor a tensor."""

    code = "InvalidArgument"


class Refused(SpillwayError):
    """The cache does not take it now. Nothing has changed."""


class Blocked(Refused):
    """No tier may take it now: pressure is too high, or there is no room."""

    code = "Blocked"


class OverBudget(Refused):
    """The token budget is spent and nothing may leave."""

    code = "OverBudget"


class TooLarge(SpillwayError):
    """Larger than any tier could ever hold."""

    code = "TooLarge"


class NoMemory(SpillwayError, MemoryError):
    """A device or the system refused memory."""

    code = "NoMemory"


class NotResident(SpillwayError):
    """It exists, but not where it was asked for."""

    code = "NotResident"


class DeadlineExceeded(SpillwayError, TimeoutError):
    """The time allowed ran out."""

    code = "Deadline"


class Cancelled(SpillwayError):
    """It was called off."""

    code = "Cancelled"


class Busy(SpillwayError):
    """A bound was reached; try again later."""

    code = "Busy"


class Closed(SpillwayError):
    """The cache is closed, or belongs to the process this one was forked from."""

    code = "Closed"


class Unavailable(SpillwayError):
    """A device, file, daemon or source that is not there."""

    code = "Unavailable"


class Corrupt(SpillwayError):
    """The bytes are not those that were stored. They are never served."""

    code = "Corrupt"


class LeaseReleased(SpillwayError):
    """The lease was released already; its bytes may be somebody else's by now."""

    code = "InvalidArgument"


class NotInstalled(SpillwayError, ImportError):
    """This part needs a package that is not installed; the message names it."""

    code = "Unavailable"


class CannotRestore(SpillwayError, ValueError):
    """A model's cache that could not be given back exactly as it was. The message says why."""

    code = "InvalidArgument"


BY_CODE = {
    1: InvalidArgument, 2: Blocked, 3: OverBudget, 4: TooLarge, 5: NoMemory, 6: NotResident,
    7: DeadlineExceeded, 8: Cancelled, 9: Busy, 10: Closed, 11: Unavailable, 12: SpillwayError,
    13: Corrupt,
}


def from_code(code: int, message: str) -> SpillwayError:
    """The exception for a spillway_code and its words."""
    return BY_CODE.get(code, SpillwayError)(message)
