# SPDX-License-Identifier: Apache-2.0
"""The C ABI by ctypes: structs, prototypes, errors. Nothing here knows what a cache is.

The library is loaded on the first use of ``lib``: a program that only uses ``spillway.client``
needs none.

A call through ``ctypes.CDLL`` releases the interpreter's lock, so other threads run while the
library waits.
"""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import (
    POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t,
    c_uint8, c_uint16, c_uint64, c_void_p,
)
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import SpillwayError, Unavailable, from_code

if TYPE_CHECKING:
    lib: ctypes.CDLL

ABI_VERSION = 1
NONE = -1

HOST, DEVICE = 0, 1
HINTS = {None: 0, "": 0, "again": 1, "done": 2}
PUT, GET, ERASE, TOUCH = 1, 2, 3, 4
AFTER_NONE, AFTER_STREAM, AFTER_EVENT = 0, 1, 2


class Bytes(Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


class Fragment(Structure):  # Also a sink: the layouts are the same.
    _fields_ = [("data", c_void_p), ("bytes", c_uint64), ("place", c_int32)]


class Order(Structure):
    _fields_ = [("after", c_int32), ("handle", c_void_p)]


class LeaseStruct(Structure):
    _fields_ = [("handle", c_uint64), ("data", c_void_p), ("bytes", c_uint64)]


class LeaseFacts(Structure):
    _fields_ = [("size", c_size_t), ("tokens", c_int64), ("generation", c_uint64),
                ("agent", Bytes), ("meta", Bytes), ("place", c_int32)]


class PutOptions(Structure):
    _fields_ = [("size", c_size_t), ("tokens", c_int64), ("agent", Bytes), ("parent", Bytes),
                ("meta", Bytes), ("ttl_ms", c_int64), ("hint", c_int32), ("no_idle_ttl", c_int32),
                ("eta_ms", c_int64), ("step", Bytes), ("recompute_us", c_int64)]


class GetOptions(Structure):
    _fields_ = [("size", c_size_t), ("where", c_int32), ("hint", c_int32), ("wait_ms", c_int64),
                ("eta_ms", c_int64), ("step", Bytes)]


class TouchOptions(Structure):
    _fields_ = [("size", c_size_t), ("hint", c_int32), ("eta_ms", c_int64), ("agent", Bytes),
                ("run", Bytes), ("step", Bytes)]


class Operation(Structure):
    _fields_ = [
        ("size", c_size_t), ("kind", c_int32), ("hint", c_int32), ("key", Bytes),
        ("source", c_void_p), ("source_count", c_size_t), ("tokens", c_int64), ("agent", Bytes),
        ("parent", Bytes), ("meta", Bytes), ("ttl_ms", c_int64), ("into", c_void_p),
        ("into_count", c_size_t),
        ("code", c_int32), ("found", c_int32), ("bytes", c_uint64), ("lease", LeaseStruct),
        ("message", c_char * 160),
        ("order", Order), ("where", c_int32), ("no_idle_ttl", c_int32), ("wait_ms", c_int64),
        ("eta_ms", c_int64), ("step", Bytes), ("recompute_us", c_int64),
    ]


class Completion(Structure):
    _fields_ = [("tag", c_uint64), ("operations", c_void_p), ("count", c_size_t),
                ("failed", c_size_t)]


class State(Structure):
    _fields_ = [("size", c_size_t), ("mode", c_int32), ("level", c_int32),
                ("pressure_known", c_int32), ("blocked", c_int32), ("pressure", c_double),
                ("entries", c_uint64), ("tokens", c_int64)]


class Eviction(Structure):
    _fields_ = [("key", Bytes), ("action", c_int32), ("reason", c_int32), ("bytes", c_uint64),
                ("tokens", c_int64)]


class Entry(Structure):
    _fields_ = [("size", c_size_t), ("key", Bytes), ("agent", Bytes), ("tokens", c_int64),
                ("bytes", c_uint64), ("access_count", c_uint64), ("idle_ms", c_int64),
                ("leases", c_uint64), ("offloaded", c_int32)]


class Shape(Structure):
    _fields_ = [("size", c_size_t), ("device_type", c_int32), ("device_id", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("ndim", c_int32),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("offset", c_uint64)]


EvictionVisitor = ctypes.CFUNCTYPE(None, POINTER(Eviction), c_void_p)
EntryVisitor = ctypes.CFUNCTYPE(c_int32, POINTER(Entry), c_void_p)
KeyVisitor = ctypes.CFUNCTYPE(c_int32, Bytes, c_void_p)
LogCall = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)

_P = c_void_p
_B = Bytes
_OUT_P, _OUT_SIZE, _OUT_I32 = POINTER(c_void_p), POINTER(c_size_t), POINTER(c_int32)
_OUT_U64, _OUT_I64 = POINTER(c_uint64), POINTER(c_int64)
_LEASE = POINTER(LeaseStruct)

# name: argument types. All of them return a spillway_code.
_CALLS: dict[str, list[Any]] = {
    "cache_open_toml": [_B, c_char_p, _OUT_P],
    "cache_open_file": [c_char_p, _OUT_P],
    "cache_close": [_P],
    "cache_start": [_P],
    "cache_stop": [_P],
    "lease_release": [_LEASE],
    "lease_read_facts": [_LEASE, POINTER(LeaseFacts)],
    "lease_to_dlpack": [_LEASE, POINTER(Shape), c_int32, _OUT_P],
    "cache_put": [_P, _B, c_void_p, c_uint64, POINTER(PutOptions)],
    "cache_get_with": [_P, _B, POINTER(GetOptions), _LEASE],
    "cache_erase": [_P, _B, _OUT_I32],
    "cache_touch_with": [_P, _B, POINTER(TouchOptions), _OUT_I32],
    "cache_contains": [_P, _B, _OUT_I32],
    "cache_contains_many": [_P, POINTER(Bytes), c_size_t, POINTER(c_uint8), _OUT_SIZE],
    "cache_clear": [_P],
    "cache_flush_deletes": [_P, c_int64],
    "cache_match": [_P, POINTER(Bytes), c_size_t, _OUT_SIZE],
    "cache_get_chain_with": [_P, POINTER(Bytes), c_size_t, POINTER(GetOptions), _LEASE, _OUT_SIZE],
    "cache_get_many": [_P, POINTER(Bytes), c_size_t, _LEASE, _OUT_SIZE],
    "cache_prefetch": [_P, POINTER(Bytes), c_size_t, _OUT_SIZE],
    "cache_submit": [_P, POINTER(Operation), c_size_t, c_int64, c_uint64],
    "cache_submit_away": [_P, POINTER(Operation), c_size_t, c_int64, c_uint64],
    "cache_run": [_P, POINTER(Operation), c_size_t, c_int64, _OUT_SIZE],
    "cache_poll": [_P, POINTER(Completion), c_size_t, c_int64, _OUT_SIZE],
    "cache_apply": [_P, POINTER(c_double), _OUT_I32, EvictionVisitor, c_void_p],
    "cache_reclaim": [_P, c_uint64, c_int64, _OUT_U64, _OUT_P],
    "cache_read_state": [_P, POINTER(State)],
    "cache_stats_json": [_P, _OUT_P],
    "cache_explain": [_P, _B, _OUT_P],
    "cache_for_each": [_P, EntryVisitor, c_void_p],
    "cache_eviction_order": [_P, KeyVisitor, c_void_p],
    "cache_attach": [_P, _P],
    "cache_graph": [_P, _OUT_P],
    "cache_attach_agents": [_P, POINTER(Bytes), c_size_t],
    "graph_open": [_OUT_P],
    "graph_close": [_P],
    "graph_load": [_P, _B, _OUT_P],
    "graph_begin": [_P, _B, _B, _B],
    "graph_add_step": [_P, _B, _B, _B],
    "graph_add_edge": [_P, _B, _B, _B, c_int32, _B],
    "graph_bind": [_P, _B, _B, _B, c_int32],
    "graph_start": [_P, _B, _B],
    "graph_finish": [_P, _B, _B, POINTER(Bytes), c_size_t],
    "graph_skip": [_P, _B, _B],
    "graph_fail": [_P, _B, _B, c_int32],
    "graph_loop": [_P, _B, _B, _B],
    "graph_end": [_P, _B, c_int32],
    "graph_steps": [_P, _B, _OUT_P],
    "graph_steps_to": [_P, _B, _B, _OUT_I64],
    "graph_agents": [_P, _B, _OUT_P],
    "graph_order": [_P, c_size_t, KeyVisitor, c_void_p],
    "graph_validate": [_P, _B, _OUT_P],
    "graph_explain": [_P, _B, _OUT_P],
    "set_log": [c_int32, LogCall, c_void_p],
}


def _find_library() -> str:
    named = os.environ.get("SPILLWAY_LIBRARY")
    if named:
        return named
    inside = Path(__file__).parent / "_lib" / "libspillway.so.0"
    return str(inside) if inside.exists() else "libspillway.so.0"


def _load() -> ctypes.CDLL:
    path = _find_library()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Unavailable(
            f"the library of Spillway could not be loaded ({error}); it is part of the installed "
            "package, and SPILLWAY_LIBRARY names another") from None
    try:
        version = library.spillway_abi_version()
    except AttributeError:
        raise Unavailable(f"{path} is not the library of Spillway") from None
    if version != ABI_VERSION:
        raise Unavailable(f"{path} has version {version} of the C ABI; this package needs "
                          f"{ABI_VERSION}")
    for name, arguments in _CALLS.items():
        call = getattr(library, "spillway_" + name)
        call.argtypes = arguments
        call.restype = c_int32
    for name in ("version", "error_message"):
        getattr(library, "spillway_" + name).restype = c_char_p
    for name in ("code_name", "mode_name", "action_name", "reason_name"):
        call = getattr(library, "spillway_" + name)
        call.argtypes = [c_int32]
        call.restype = c_char_p
    library.spillway_cache_fd.argtypes = [c_void_p]
    library.spillway_cache_fd.restype = c_int
    library.spillway_free.argtypes = [c_void_p]
    library.spillway_free.restype = None
    library.spillway_set_log(1, LogCall(), None)  # By default it logs warnings and errors only.
    return library


_loading = threading.Lock()


def __getattr__(name: str) -> Any:
    """Loads ``lib`` on its first use; from then on it is a global of this module."""
    if name != "lib":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _loading:
        if "lib" not in globals():
            globals()["lib"] = _load()
    return globals()["lib"]


def message() -> str:
    """The message of the last call of this thread that failed."""
    return lib.spillway_error_message().decode("utf-8", "replace")


def check(code: int) -> None:
    """Raises the exception for a code that is not OK."""
    if code:
        raise from_code(code, message())


def check_operation(operation: Operation) -> None:
    """The same for one operation of a batch."""
    if operation.code:
        raise from_code(operation.code, operation.message.decode("utf-8", "replace"))


def view(data: bytes | None) -> Bytes:
    """The struct for some bytes, which must outlive it."""
    if not data:
        return Bytes(None, 0)
    return Bytes(ctypes.cast(c_char_p(data), c_void_p), len(data))


class Names:
    """Many names in one block of memory: the address and length of each."""

    def __init__(self, names: list[bytes]):
        self.lengths = [len(name) for name in names]
        self._memory = b"".join(names)
        start = ctypes.cast(c_char_p(self._memory), c_void_p).value or 0
        self.addresses = list(accumulate(self.lengths, initial=start))[:-1]


def views(names: list[bytes]) -> Any:
    """An array of the structs for them; it keeps the bytes alive."""
    array = (Bytes * max(len(names), 1))()
    array.names = Names(names)
    words = memoryview(array).cast("B").cast("Q")
    for at, (address, length) in enumerate(zip(array.names.addresses, array.names.lengths)):
        words[2 * at] = address
        words[2 * at + 1] = length
    return array


def take_bytes(struct: Bytes) -> bytes:
    """A copy of the bytes a struct points to."""
    return ctypes.string_at(struct.data, struct.bytes) if struct.bytes else b""


def take_text(call: Any, *arguments: Any) -> str | None:
    """Calls a function whose last argument is a ``char**``; returns the text and frees it."""
    out = c_void_p()
    check(call(*arguments, byref(out)))
    if not out.value:
        return None
    try:
        return ctypes.string_at(out.value).decode("utf-8", "replace")
    finally:
        lib.spillway_free(out)


__all__ = ["SpillwayError", "check", "lib", "view", "views"]
