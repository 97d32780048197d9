# SPDX-License-Identifier: Apache-2.0
"""Leases: the right to read an entry's bytes in place, from Python.

The bytes stay in place while any object refers to them: a view of a lease keeps the lease.
Releasing never fails, even after the cache was closed.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_char_p, c_int64, c_void_p
from typing import Any

from . import _native as native
from ._values import INT32_MAX, INT64_MAX, whole
from .errors import InvalidArgument, LeaseReleased, NotResident

_release = native.lib.spillway_lease_release
_array_types: dict[int, Any] = {}


def _array_type(size: int) -> Any:
    # Making a ctypes type costs more than the lease, and contexts come in few sizes.
    found = _array_types.get(size)
    if found is None:
        if len(_array_types) >= 1024:
            _array_types.clear()
        found = _array_types[size] = ctypes.c_ubyte * size
    return found


class _Anchor:
    """Owns one native lease. Everything that refers to its bytes keeps a reference to this."""

    __slots__ = ("struct", "__weakref__")

    def __init__(self, struct: native.LeaseStruct):
        self.struct = struct

    def release(self) -> None:
        if self.struct.handle:
            _release(byref(self.struct))

    def __del__(self, release: Any = _release, ref: Any = byref) -> None:
        # Bound early: at interpreter exit, globals may be gone.
        if self.struct.handle:
            release(ref(self.struct))


def _view(anchor: _Anchor) -> memoryview:
    size = anchor.struct.bytes
    if not size:
        return memoryview(b"")
    array = _array_type(size).from_address(anchor.struct.data)
    array._spillway_anchor = anchor
    return memoryview(array).cast("B").toreadonly()


class Lease:
    """An entry's bytes, in place: ``bytes(lease)``, ``memoryview(lease.view)``, ``lease.dlpack()``.

    A context manager. A lease that is not released explicitly is released with its last reference.
    While a lease lives its bytes are neither moved nor overwritten, even if the key is set or
    erased.
    """

    __slots__ = ("_anchor", "_facts", "_memory", "_on_host", "__weakref__")

    def __init__(self, struct: native.LeaseStruct, on_host: bool = False):
        self._anchor: _Anchor | None = _Anchor(struct)
        self._facts: native.LeaseFacts | None = None
        self._memory: memoryview | None = None
        self._on_host = on_host  # None: not known yet; the library is asked.

    def _held(self) -> _Anchor:
        if self._anchor is None:
            raise LeaseReleased("the lease was released; its memory may be in use for something else")
        return self._anchor

    def _read_facts(self) -> native.LeaseFacts:
        if self._facts is None:
            facts = native.LeaseFacts(size=ctypes.sizeof(native.LeaseFacts))
            native.check(native.lib.spillway_lease_read_facts(byref(self._held().struct),
                                                              byref(facts)))
            self._facts = facts
        self._held()
        return self._facts

    @property
    def view(self) -> memoryview:
        """The bytes as a read-only memoryview, not copied. Bytes on a GPU cannot be viewed."""
        if self._memory is None:
            anchor = self._held()
            if not self._on_host and self.on_device:
                raise NotResident("the lease is on device memory, which the host can't view: "
                                  "lease.dlpack(), or get without where=\"device\"")
            self._memory = _view(anchor)
        self._held()
        return self._memory

    @property
    def address(self) -> int:
        """The address of the bytes; a GPU address if ``on_device``."""
        return self._held().struct.data or 0

    @property
    def on_device(self) -> bool:
        """Whether ``address`` is a GPU address."""
        return self._read_facts().place == native.DEVICE

    @property
    def tokens(self) -> int:
        """The number given to ``set``."""
        return self._read_facts().tokens

    @property
    def generation(self) -> int:
        """Counts up each time a key is set."""
        return self._read_facts().generation

    @property
    def agent(self) -> str:
        """The agent it belongs to; "" if none was given."""
        return native.take_bytes(self._read_facts().agent).decode("utf-8", "replace")

    @property
    def meta(self) -> bytes:
        """The blob that was set with it."""
        return native.take_bytes(self._read_facts().meta)

    def __len__(self) -> int:
        return self._held().struct.bytes

    def __bytes__(self) -> bytes:
        return bytes(self.view)

    def __buffer__(self, flags: int) -> memoryview:  # Python 3.12 and later.
        return self.view

    def release(self) -> bool:
        """Releases the lease. False: views of it are still in use, and keep the bytes."""
        anchor, self._anchor, self._facts = self._anchor, None, None
        memory, self._memory = self._memory, None
        if anchor is None:
            return True
        if memory is not None:
            try:
                memory.release()
            except BufferError:
                # The views keep the anchor; the lease is released with the last of them.
                return False
            del memory
        if sys.getrefcount(anchor) > 2:  # A view was made from our view.
            return False
        anchor.release()
        return True

    def dlpack(self, code: int = 1, bits: int = 8, shape: list[int] | None = None,
               strides: list[int] | None = None, *, offset: int = 0, device_id: int = 0) -> Any:
        """The bytes as an object with ``__dlpack__``: ``torch.from_dlpack(lease.dlpack())``.

        ``code`` and ``bits`` are DLPack's (0 int, 1 uint, 2 float, 4 bfloat). Takes over the lease:
        it is released when the tensor is gone.
        """
        return _Exported(self, code, bits, shape, strides, offset, device_id)

    def __enter__(self) -> Lease:
        self._held()
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()

    def __repr__(self) -> str:
        if self._anchor is None:
            return "<spillway.Lease, released>"
        return f"<spillway.Lease of {len(self)} bytes>"


# --- DLPack: exporting ---

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
_Destructor = ctypes.CFUNCTYPE(None, c_void_p)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))


class _Managed(ctypes.Structure):  # A DLManagedTensor up to its deleter.
    _fields_ = [("tensor", ctypes.c_byte * 48), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("context", c_void_p), ("deleter", c_void_p)]


@_Destructor
def _unused(capsule: int) -> None:
    """Called for a capsule that was never consumed: frees its tensor."""
    for name, layout in ((b"dltensor", _Managed), (b"dltensor_versioned", _Versioned)):
        if _is_valid(capsule, name):
            address = _pointer(capsule, name)
            ctypes.CFUNCTYPE(None, c_void_p)(layout.from_address(address).deleter)(address)


class _Exported:
    """The argument of ``from_dlpack``; gives its lease away once."""

    def __init__(self, lease: Lease, code: int, bits: int, shape: list[int] | None,
                 strides: list[int] | None, offset: int, device_id: int):
        self._anchor = lease._held()
        code, bits = whole(code, "code", 0, 255), whole(bits, "bits", 1, 255)
        offset = whole(offset, "offset", 0, len(lease))
        device_id = whole(device_id, "device_id", 0, INT32_MAX)
        self._device = (2 if lease.on_device else 1, device_id if lease.on_device else 0)
        if shape is None:
            item = max(bits // 8, 1)
            shape = [(len(lease) - offset) // item]
        shape = [whole(extent, f"shape[{at}]") for at, extent in enumerate(shape)]
        self._shape = (c_int64 * max(len(shape), 1))(*shape)
        self._strides = None
        if strides is not None:
            if len(strides) != len(shape):
                raise InvalidArgument(f"strides has {len(strides)} numbers, shape {len(shape)}: as "
                                      "many are needed")
            self._strides = (c_int64 * max(len(strides), 1))(
                *(whole(stride, f"strides[{at}]", -INT64_MAX) for at, stride in enumerate(strides)))
        self._struct = native.Shape(
            size=ctypes.sizeof(native.Shape), device_type=self._device[0],
            device_id=self._device[1], code=code, bits=bits, lanes=1, ndim=len(shape),
            shape=self._shape, strides=self._strides, offset=offset)
        lease._anchor = lease._memory = None

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: Any = None, copy: bool | None = None) -> Any:
        if copy:
            raise InvalidArgument("copy=True: a lease is lent in place; clone the tensor")
        if not self._anchor.struct.handle:
            raise LeaseReleased("the lease was handed over already")
        versioned = max_version is not None and max_version[0] >= 1
        managed = c_void_p()
        native.check(native.lib.spillway_lease_to_dlpack(
            byref(self._anchor.struct), byref(self._struct), 1 if versioned else 0,
            byref(managed)))
        return _api.PyCapsule_New(managed, _NAMES[versioned], ctypes.cast(_unused, c_void_p))


# A capsule keeps the address of its name, so the names must never be freed.
_NAMES = {False: c_char_p(b"dltensor"), True: c_char_p(b"dltensor_versioned")}
