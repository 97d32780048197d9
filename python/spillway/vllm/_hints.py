# SPDX-License-Identifier: Apache-2.0
"""What a request says about itself: kv_transfer_params and kv_hints.

  {"spillway.agent": "planner", "spillway.session": "s17", "spillway.run": "r1",
   "spillway.step": "plan", "spillway.ttl": 600, "spillway.hint": "again", "spillway.eta": 30,
   "spillway.graph": {...}}

or the same names without the prefix in {"spillway": {...}}. A value that makes no sense is ignored,
with one warning for the process: hints may cost time, never an answer.
"""

from __future__ import annotations

import json
import warnings
from typing import Any, Callable

NAME_MAX = 512            # Bytes of a name.
GRAPH_MAX = 256 << 10     # Bytes of a run's document.
SECONDS_MAX = 1e9
_PREFIX = "spillway."
_PARTS_MAX = 64           # Actions of one envelope that are looked at.


def _name(value: Any) -> str | None:
    if not isinstance(value, str) or not value or len(value.encode("utf-8", "replace")) > NAME_MAX:
        return None
    return value if value.isprintable() else None


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 < value <= SECONDS_MAX else None  # NaN fails too.


def _hint(value: Any) -> str | None:
    return value if value in ("again", "done") else None


def _graph(value: Any) -> str | None:
    try:
        text = value if isinstance(value, str) else json.dumps(value)
        fine = isinstance(json.loads(text), dict) if isinstance(value, str) \
            else isinstance(value, dict)
    except (TypeError, ValueError, RecursionError):
        return None
    return text if fine and len(text) <= GRAPH_MAX else None


READERS: dict[str, Callable[[Any], Any]] = {
    "agent": _name, "session": _name, "run": _name, "step": _name, "ttl": _seconds,
    "hint": _hint, "eta": _seconds, "graph": _graph,
}


class Hints:
    """The hints of one request; None where it says nothing."""

    __slots__ = tuple(READERS)

    def __init__(self) -> None:
        for name in READERS:
            setattr(self, name, None)

    @property
    def owner(self) -> str | None:
        """The agent the blocks belong to. A session's agents are agents of their own."""
        if self.session and self.agent:
            return f"{self.session}/{self.agent}"
        return self.agent or self.session

    @property
    def waits_for(self) -> str | None:
        """The event after which the context is used next, or the step it belongs to."""
        if self.step and self.run:
            return f"{self.run}/{self.step}"
        return self.step


NOTHING = Hints()
_warned: set[str] = set()


def _ignore(what: str, value: Any) -> None:
    if what not in _warned and len(_warned) < 64:
        _warned.add(what)
        shown = repr(value)
        warnings.warn(f"Spillway ignores {what} = {shown[:80]}{'...' * (len(shown) > 80)}: "
                      "docs/engines.md lists what a request may say. This is said once",
                      RuntimeWarning, stacklevel=4)


def _parts(params: Any, kv_hints: Any) -> list[dict[str, Any]]:
    """All dictionaries in which hints may be."""
    found = [params] if isinstance(params, dict) else []
    try:
        actions = list(getattr(kv_hints, "actions", None) or ())[:_PARTS_MAX]
    except TypeError:
        actions = []
    for action in actions:
        payload = getattr(action, "payload", None)
        if isinstance(payload, dict):
            kind = getattr(action, "action_type", "")
            found.append({"spillway": payload} if kind == "spillway" else payload)
    return found


def read(params: Any, kv_hints: Any = None) -> Hints:
    """The hints of a request. Never raises."""
    if not params and kv_hints is None:
        return NOTHING
    hints = None
    for part in _parts(params, kv_hints):
        nested = part.get("spillway")
        if nested is not None and not isinstance(nested, dict):
            _ignore("spillway", nested)
            nested = None
        for name in part:
            if not isinstance(name, str) or not name.startswith(_PREFIX):
                continue
            if name[len(_PREFIX):] not in READERS:
                _ignore(name, part[name])
        for name, reader in READERS.items():
            value = part.get(_PREFIX + name)
            if value is None and nested is not None:
                value = nested.get(name)
            if value is None:
                continue
            good = reader(value)
            if good is None:
                _ignore(_PREFIX + name, value)
                continue
            hints = hints or Hints()
            setattr(hints, name, good)
    return hints or NOTHING
