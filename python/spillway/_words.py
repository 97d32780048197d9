# SPDX-License-Identifier: Apache-2.0
"""The types of a cache's answers: modes, evictions, entries."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Mode(Enum):
    """The cache's mode: its level of memory pressure, or WORKFLOW_AWARE (README, "The modes")."""

    RELAXED = "relaxed"
    NORMAL = "normal"
    PRESSURE = "pressure"
    CRITICAL = "critical"
    EMERGENCY = "emergency"
    WORKFLOW_AWARE = "workflow_aware"


MODES = [Mode.RELAXED, Mode.NORMAL, Mode.PRESSURE, Mode.CRITICAL, Mode.EMERGENCY,
         Mode.WORKFLOW_AWARE]


class Departure(NamedTuple):
    """One entry that was evicted or demoted, and why."""

    key: str | bytes
    action: str
    reason: str
    bytes: int
    tokens: int


class EntryInfo(NamedTuple):
    """Facts about one live entry."""

    key: str | bytes
    agent: str
    tokens: int
    bytes: int
    access_count: int
    idle: float
    leases: int
    offloaded: bool


class Reclaimed(NamedTuple):
    """How much a reclaim freed, and why not more ("": everything requested)."""

    freed: int
    why_not_more: str
