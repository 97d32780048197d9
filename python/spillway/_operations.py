"""Operations of the C ABI, filled from what a caller gives."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from datetime import timedelta
from typing import Any

from . import _native as native
from ._values import Value, hint_code, key_bytes, microseconds, milliseconds
from .errors import InvalidArgument


def put_options(tokens: int, agent: str | None, parent: Any, meta: bytes | None,
                ttl: float | timedelta | None, hint: str | None, eta: float | timedelta | None,
                step: str | None = None, recompute: float | timedelta | None = None
                ) -> dict[str, Any]:
    """The keywords of a set, checked, by the names of the C structs."""
    if meta is not None and not isinstance(meta, bytes):
        raise InvalidArgument(f"meta is a {type(meta).__name__}: it must be bytes")
    return {
        "tokens": tokens,
        "agent": b"" if agent is None else key_bytes(agent, "agent"),
        "parent": b"" if parent is None else key_bytes(parent, "parent"),
        "meta": meta or b"",
        "ttl_ms": milliseconds(ttl, "ttl"),
        "hint": hint_code(hint),
        "eta_ms": milliseconds(eta, "eta"),
        "step": b"" if step is None else key_bytes(step, "step"),
        "recompute_us": microseconds(recompute, "recompute"),
    }


def fill_put(operation: native.Operation, key: bytes, value: Value, options: dict[str, Any],
             order: native.Order | None) -> None:
    """An operation that stores `value`; key, value and options must outlive it."""
    operation.size = ctypes.sizeof(native.Operation)
    operation.kind = native.PUT
    operation.key = native.view(key)
    operation.source = ctypes.cast(value.array, c_void_p) if value.count else None
    operation.source_count = value.count
    operation.order = order if order is not None else value.order
    for name, given in options.items():
        setattr(operation, name, native.view(given) if isinstance(given, bytes) else given)


def fill_get(operation: native.Operation, key: bytes, into: Value | None, wait_ms: int,
             where: int, hint: int, order: native.Order | None, eta_ms: int = 0,
             step: bytes = b"") -> None:
    """An operation that reads: into memory, or by lease; `step` must outlive it."""
    operation.size = ctypes.sizeof(native.Operation)
    operation.kind = native.GET
    operation.key = native.view(key)
    operation.wait_ms = wait_ms
    operation.where = where
    operation.hint = hint
    operation.eta_ms = eta_ms
    operation.step = native.view(step)
    if into is not None:
        operation.into = ctypes.cast(into.array, c_void_p) if into.count else None
        operation.into_count = into.count
        operation.order = order if order is not None else into.order


# Fields of an operation, as words of eight bytes.
_KEY = native.Operation.key.offset // 8
_INTO = native.Operation.into.offset // 8
_WORDS = ctypes.sizeof(native.Operation) // 8


def fill_gets(operations: Any, first: int, names: native.Names, tables: list[int], rows: int,
              order: native.Order) -> None:
    """Operations that read, from ``first`` on: each into the ``rows`` fragments at its address.

    One is filled as any other, and the rest are like it but for three words: filling each by its
    fields takes as long as a copy of megabytes.
    """
    one = operations[first]
    fill_get(one, b"", None, 0, native.HOST, 0, None)
    one.order = order
    one.into_count = rows
    words = memoryview(operations).cast("B").cast("Q")
    like = words[first * _WORDS:(first + 1) * _WORDS].tobytes()
    end = first + len(tables)
    words[first * _WORDS:end * _WORDS] = memoryview(like * len(tables)).cast("Q")
    for at, (name, length, table) in enumerate(zip(names.addresses, names.lengths, tables), first):
        word = at * _WORDS
        words[word + _KEY] = name
        words[word + _KEY + 1] = length
        words[word + _INTO] = table


def place_code(where: str) -> int:
    """ "host" or "device"."""
    if where not in ("host", "device"):
        raise InvalidArgument(f'where is {where!r}: it must be "host" or "device"')
    return native.DEVICE if where == "device" else native.HOST


def wait_code(wait: float | timedelta | None) -> int:
    """Seconds to wait for a copy below; None: 10; 0: not at all."""
    if wait is None:
        return 0
    if wait == 0 or wait == timedelta(0):
        return native.NONE
    return milliseconds(wait, "wait")
