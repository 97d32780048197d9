# SPDX-License-Identifier: Apache-2.0
"""Fills operations of the C ABI from a caller's arguments."""

from __future__ import annotations

import ctypes
from array import array
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
    """The keywords of a set, checked, with the names of the C structs."""
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
    """An operation that stores `value`. Key, value and options must outlive it."""
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
    """An operation that reads: into memory, or by lease. `step` must outlive it."""
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


# Fields of an operation, as indexes of 8-byte words.
_KEY = native.Operation.key.offset // 8
_INTO = native.Operation.into.offset // 8
_WORDS = ctypes.sizeof(native.Operation) // 8


def fill_gets(operations: Any, first: int, names: native.Names, tables: list[int], rows: int,
              order: native.Order) -> None:
    """Operations that read, from ``first`` on: each into the ``rows`` fragments at its address.

    The first one is filled field by field; the others are copies that differ in three words.
    Filling each by its fields would take as long as copying megabytes.
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


_SOURCE = native.Operation.source.offset // 8
_PARENT = native.Operation.parent.offset // 8
_CODE = native.Operation.code.offset // 8    # And `found`, in the upper half.
_BYTES = native.Operation.bytes.offset // 8
_FOUND = 1 << 32                             # code 0, found 1, little-endian.


class Many:
    """Operations of one kind on many keys, each with ``rows`` fragments of host memory.

    The first one is filled field by field by the caller; the others are copies that differ in key,
    fragments and parent. This runs beside an engine's scheduler, so it must not hold the
    interpreter's lock for milliseconds.
    """

    def __init__(self, keys: list[bytes], blocks: list[Any]):
        self.count, self.names, self.rows = len(keys), native.Names(keys), len(blocks[0])
        pieces = [word for block in blocks for address, size in block
                  for word in (address, size, native.HOST)]
        self._table = array("Q", pieces)  # The layout of native.Fragment.
        self._keep = keys, blocks
        start, step = self._table.buffer_info()[0], self.rows * ctypes.sizeof(native.Fragment)
        self.tables = range(start, start + step * self.count, step)
        self.operations = (native.Operation * self.count)()
        self.first = self.operations[0]
        self._words = memoryview(self.operations).cast("B").cast("Q")

    def spread(self, table: int, parents: list[bytes] | None = None) -> None:
        """Copies the first operation; ``table`` is the word that points to the fragments."""
        words, names = self._words, self.names
        words[:] = memoryview(words[:_WORDS].tobytes() * self.count).cast("Q")
        for at, (name, length, rows) in enumerate(zip(names.addresses, names.lengths,
                                                      self.tables)):
            word = at * _WORDS
            words[word + _KEY] = name
            words[word + _KEY + 1] = length
            words[word + table] = rows
        if parents is not None:
            self._parents = native.Names(parents)
            for at, (name, length) in enumerate(zip(self._parents.addresses,
                                                    self._parents.lengths)):
                words[at * _WORDS + _PARENT] = name
                words[at * _WORDS + _PARENT + 1] = length

    def fill_reads(self, hint: int, eta_ms: int) -> None:
        fill_get(self.first, b"", None, 0, native.HOST, hint, None, eta_ms)
        self.first.order = native.Order(native.AFTER_NONE, None)
        self.first.into_count = self.rows
        self.spread(_INTO)

    def fill_writes(self, options: dict[str, Any], parents: list[bytes]) -> None:
        nothing = Value(None, 0, 0, None)
        fill_put(self.first, b"", nothing, options, None)
        self.first.source_count = self.rows
        self.spread(_SOURCE, parents)

    def codes(self) -> list[int]:
        """The code of each operation; 0: done."""
        return [word & 0xFFFFFFFF for word in self._words[_CODE::_WORDS].tolist()]

    def found(self, size: int) -> list[bool]:
        """Which reads found a value of that size."""
        words = self._words
        return [word == _FOUND and size == read for word, read in
                zip(words[_CODE::_WORDS].tolist(), words[_BYTES::_WORDS].tolist())]


def place_code(where: str) -> int:
    """ "host" or "device"."""
    if where not in ("host", "device"):
        raise InvalidArgument(f'where is {where!r}: it must be "host" or "device"')
    return native.DEVICE if where == "device" else native.HOST


def wait_code(wait: float | timedelta | None) -> int:
    """Seconds to wait for a copy from a lower tier; None: 10; 0: no wait."""
    if wait is None:
        return 0
    if wait == 0 or wait == timedelta(0):
        return native.NONE
    return milliseconds(wait, "wait")
