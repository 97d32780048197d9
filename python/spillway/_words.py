"""What a cache answers with: modes, departures, entries."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Mode(Enum):
    """What the cache makes of memory pressure (README, "The modes")."""

    RELAXED = "relaxed"
    NORMAL = "normal"
    PRESSURE = "pressure"
    CRITICAL = "critical"
    EMERGENCY = "emergency"
    WORKFLOW_AWARE = "workflow_aware"


MODES = [Mode.RELAXED, Mode.NORMAL, Mode.PRESSURE, Mode.CRITICAL, Mode.EMERGENCY,
         Mode.WORKFLOW_AWARE]


class Departure(NamedTuple):
    """One entry that left, or moved down, and why."""

    key: str | bytes
    action: str
    reason: str
    bytes: int
    tokens: int


class EntryInfo(NamedTuple):
    """What is known of one live entry."""

    key: str | bytes
    agent: str
    tokens: int
    bytes: int
    access_count: int
    idle: float
    leases: int
    offloaded: bool


class Reclaimed(NamedTuple):
    """What a reclaim freed, and why not more ("": all that was asked for)."""

    freed: int
    why_not_more: str
