# SPDX-License-Identifier: Apache-2.0
"""Settings by keyword, converted to the text of a TOML file, which the library parses."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from ._values import INT64_MAX, whole
from .errors import InvalidArgument


def _value(name: str, value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if hasattr(value, "__index__"):
        return str(whole(value, name, -INT64_MAX - 1))  # The range of a TOML integer.
    if isinstance(value, timedelta):
        return f'"{round(value.total_seconds() * 1000)}ms"'
    if hasattr(value, "__fspath__"):
        value = str(value)
    if isinstance(value, str):
        return json.dumps(value)
    raise InvalidArgument(f"{name} is {value!r}: a setting is a number, a text, a flag, a "
                          "timedelta or None")


def to_toml(settings: dict[str, Any]) -> str:
    """``{"capacity": "1GiB", "thresholds": {"pressure": 0.8}}`` as TOML."""
    lines, tables = [], []
    for name, value in settings.items():
        if isinstance(value, dict):
            tables.append(f"[{name}]")
            tables += [f"{json.dumps(key)} = {_value(name + '.' + key, inner)}"
                       for key, inner in value.items()]
        else:
            lines.append(f"{json.dumps(name)} = {_value(name, value)}")
    return "\n".join(lines + tables) + "\n"
