# SPDX-License-Identifier: Apache-2.0
"""Keys and values of a caller, as addresses and lengths.

Bytes are not copied here: a value is a list of fragments, each with an address of host or device
memory. Values are buffers (bytes, bytearray, memoryview, array, NumPy ...) and everything with
DLPack (torch, CuPy, JAX, NumPy). Memory that is not contiguous is passed piece by piece.
"""

from __future__ import annotations

import ctypes
import operator
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, \
    c_uint64, c_void_p
from datetime import timedelta
from typing import Any

from . import _native as native
from .errors import InvalidArgument, KeyTypeError, ValueTypeError

FRAGMENTS_MAX = 1 << 20
TOKENS_MAX = 1_000_000_000  # The library's limit.
INT8_MAX, INT32_MAX, INT64_MAX = (1 << 7) - 1, (1 << 31) - 1, (1 << 63) - 1


def whole(number: Any, what: str, least: int = 0, most: int = INT64_MAX) -> int:
    """A whole number in [least, most]; everything with ``__index__`` is one, except bool.

    ctypes silently cuts numbers that are too large for a field. So every number from a caller is
    checked here before it goes into a struct or a call.
    """
    try:
        if isinstance(number, bool):
            raise TypeError
        found = operator.index(number)
    except TypeError:
        raise InvalidArgument(f"{what} is {number!r}: it must be a whole number from {least} to "
                              f"{most}") from None
    if not least <= found <= most:
        # Python refuses to print a number of thousands of digits.
        bits = found.bit_length()
        shown = str(found) if bits <= 1024 else f"a number of {bits} bits"
        raise InvalidArgument(f"{what} is {shown}: it must be from {least} to {most}")
    return found


def key_bytes(key: str | bytes, what: str = "key") -> bytes:
    """A key as its bytes: text is UTF-8."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    if isinstance(key, (bytearray, memoryview)):
        return bytes(key)
    raise KeyTypeError(f"{what} is {key!r}, a {type(key).__name__}: it must be str or bytes")


def key_name(key: bytes) -> str | bytes:
    """A key for display and programs: text if it is text."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def token_count(tokens: int | None, alias: int | None) -> int:
    """``tokens=``, or its alias ``token_count=``; not both."""
    given = "tokens"
    if alias is not None:
        if tokens is not None and tokens != alias:
            raise InvalidArgument(f"tokens={tokens} and token_count={alias}: they are the same "
                                  "argument, so one of them is enough")
        given, tokens = "tokens" if tokens is not None else "token_count", alias
    return 0 if tokens is None else whole(tokens, given, 0, TOKENS_MAX)


def milliseconds(time: float | timedelta | None, what: str) -> int:
    """Converts seconds or a timedelta for the ABI; None is 0."""
    return _seconds_times(1_000, time, what)


def microseconds(time: float | timedelta | None, what: str) -> int:
    """The same, in microseconds."""
    return _seconds_times(1_000_000, time, what)


def _seconds_times(factor: int, time: float | timedelta | None, what: str) -> int:
    if time is None:
        return 0
    seconds = time.total_seconds() if isinstance(time, timedelta) else time
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds < 0 \
            or seconds != seconds:
        raise InvalidArgument(f"{what} is {time!r}: it must be seconds, 0 or more")
    return max(1, round(seconds * factor)) if seconds < 2**53 / 1000 else 2**62


def hint_code(hint: str | None) -> int:
    """None, "again" or "done"."""
    try:
        return native.HINTS[hint]
    except (KeyError, TypeError):
        raise InvalidArgument(f'hint is {hint!r}: it must be "again", "done" or None') from None


class Value:
    """A value's fragments, and the objects that keep them alive."""

    __slots__ = ("array", "count", "bytes", "keep", "order", "on_device")

    def __init__(self, array: Any, count: int, size: int, keep: Any, on_device: bool = False):
        self.array = array          # An array of native.Fragment, or the address of one.
        self.count = count
        self.bytes = size
        self.keep = keep
        self.on_device = on_device
        self.order = native.Order(native.AFTER_NONE, None)


# --- DLPack: importing ---


class _DlTensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32),
                ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _DlVersioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p),
                ("deleter", c_void_p), ("flags", c_uint64), ("tensor", _DlTensor)]


CPU_DEVICES = (1, 3, 11)       # kDLCPU, kDLCUDAHost, kDLROCMHost
GPU_DEVICES = (2, 10, 13)      # kDLCUDA, kDLROCM, kDLCUDAManaged

_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, c_char_p]
_api.PyCapsule_IsValid.restype = ctypes.c_int
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, c_char_p]


def _capsule(tensor: Any) -> Any:
    # On a GPU the producer makes the default stream wait for it (stream 1; 0 on ROCm), and we wait
    # for the default stream.
    kind = tensor.__dlpack_device__()[0]
    stream = {"stream": 0 if kind == 10 else 1} if kind in GPU_DEVICES else {}
    try:
        return tensor.__dlpack__(max_version=(1, 1), **stream)
    except TypeError:
        return tensor.__dlpack__(**stream)


def dl_tensor(capsule: Any) -> _DlTensor:
    """The tensor inside a capsule that has not been consumed yet."""
    if _api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        address = _api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        return ctypes.cast(address, POINTER(_DlVersioned)).contents.tensor
    if not _api.PyCapsule_IsValid(capsule, b"dltensor"):
        raise ValueTypeError("__dlpack__ gave no DLPack capsule")
    return ctypes.cast(_api.PyCapsule_GetPointer(capsule, b"dltensor"),
                       POINTER(_DlTensor)).contents


def pieces(address: int, item: int, shape: list[int], strides: list[int]) -> list[tuple[int, int]]:
    """The contiguous pieces of a strided tensor, in order, as (address, bytes)."""
    if 0 in shape:
        return []
    run, outer = item, len(shape)
    while outer > 0 and (shape[outer - 1] == 1 or strides[outer - 1] * item == run):
        run *= shape[outer - 1]
        outer -= 1
    dims = [(shape[i], strides[i] * item) for i in range(outer)]
    count = 1
    for extent, _ in dims:
        count *= extent
    if count > FRAGMENTS_MAX:
        raise InvalidArgument(
            f"the tensor is scattered over {count} pieces of {run} bytes, more than {FRAGMENTS_MAX}"
            ": make it contiguous first")
    starts = [address]
    for extent, stride in dims:
        starts = [start + i * stride for start in starts for i in range(extent)]
    return [(start, run) for start in starts]


def fragments(parts: list[tuple[int, int]], place: int, keep: Any) -> Value:
    """A value of these pieces, all in one address space."""
    array = (native.Fragment * max(len(parts), 1))()
    total = 0
    for at, (address, size) in enumerate(parts):
        array[at].data, array[at].bytes, array[at].place = address, size, place
        total += size
    return Value(array, len(parts), total, keep, place == native.DEVICE)


def _from_dlpack(tensor: Any) -> Value:
    capsule = _capsule(tensor)
    dl = dl_tensor(capsule)
    if dl.device_type not in CPU_DEVICES + GPU_DEVICES:
        raise ValueTypeError(f"a tensor on a device of DLPack's kind {dl.device_type}: host, CUDA "
                             "and ROCm memory are known")
    item = dl.bits * dl.lanes // 8
    if dl.bits * dl.lanes % 8:
        raise ValueTypeError(f"elements of {dl.bits} bits: whole bytes are needed")
    shape = [dl.shape[i] for i in range(dl.ndim)]
    if dl.strides:
        strides = [dl.strides[i] for i in range(dl.ndim)]
    else:
        strides = [1] * dl.ndim
        for i in range(dl.ndim - 1, 0, -1):
            strides[i - 1] = strides[i] * shape[i]
    place = native.HOST if dl.device_type in CPU_DEVICES else native.DEVICE
    start = (dl.data or 0) + dl.byte_offset
    value = fragments(pieces(start, item, shape, strides), place, (capsule, tensor))
    if place == native.DEVICE:
        value.order = native.Order(native.AFTER_STREAM, None)
    return value


_SCATTERED = "its memory is scattered; bytes(value) or a contiguous copy is right here"


def value_of(value: Any) -> Value:
    """Converts what can be stored into fragments. Only scattered buffers are copied."""
    if isinstance(value, str):
        raise ValueTypeError("a str is no bytes: value.encode() is right here")
    if isinstance(value, bytes):
        address = ctypes.cast(c_char_p(value), c_void_p).value or 0
        return fragments([(address, len(value))] if value else [], native.HOST, value)
    try:
        buffer = memoryview(value)
    except TypeError:
        buffer = None
    if buffer is None:
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            return _from_dlpack(_plain(value))
        raise ValueTypeError(
            f"a {type(value).__name__} has no bytes to store: buffers (bytes, bytearray, NumPy "
            "arrays ...) and tensors with DLPack (torch, CuPy, JAX) do")
    if not buffer.c_contiguous:
        copy = buffer.tobytes()  # The one copy of a scattered buffer.
        return value_of(copy)
    return fragments([(address_of(buffer), buffer.nbytes)] if buffer.nbytes else [], native.HOST,
                     buffer)


def _plain(tensor: Any) -> Any:
    """torch refuses to export tensors that require gradients; the bytes are the same without."""
    return tensor.detach() if getattr(tensor, "requires_grad", False) else tensor


class _PyBuffer(Structure):
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", c_void_p), ("shape", c_void_p), ("strides", c_void_p),
                ("suboffsets", c_void_p), ("internal", c_void_p)]


_api.PyObject_GetBuffer.argtypes = [ctypes.py_object, POINTER(_PyBuffer), ctypes.c_int]
_api.PyObject_GetBuffer.restype = ctypes.c_int
_api.PyBuffer_Release.argtypes = [POINTER(_PyBuffer)]
_api.PyBuffer_Release.restype = None


def address_of(buffer: memoryview, writable: bool = False) -> int:
    """The address of a contiguous buffer; valid while the memoryview lives."""
    if buffer.nbytes == 0:
        return 0
    struct = _PyBuffer()
    if _api.PyObject_GetBuffer(buffer, ctypes.byref(struct), 1 if writable else 0):
        raise InvalidArgument("the buffer can't be had")  # pythonapi raises before this.
    address = struct.buf
    _api.PyBuffer_Release(ctypes.byref(struct))
    return address


def sink_of(buffer: Any) -> Value:
    """Memory to read a value into: a writable buffer, or a tensor."""
    try:
        plain = memoryview(buffer)
    except TypeError:
        plain = None
    if plain is None:
        if hasattr(buffer, "__dlpack__") and hasattr(buffer, "__dlpack_device__"):
            return _from_dlpack(_plain(buffer))
        raise ValueTypeError(f"a {type(buffer).__name__} can't be written to: a writable buffer "
                             "(bytearray, NumPy array ...) or a tensor is right here")
    if plain.readonly:
        raise InvalidArgument("the buffer is read-only: a value can't be read into it")
    if not plain.c_contiguous:
        raise InvalidArgument("into: " + _SCATTERED)
    parts = [(address_of(plain, True), plain.nbytes)] if plain.nbytes else []
    return fragments(parts, native.HOST, plain)
