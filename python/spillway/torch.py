# SPDX-License-Identifier: Apache-2.0
"""Tensors, and nested structures of them, in and out of a cache; and OOM rescue.

>>> import spillway.torch
>>> spillway.torch.put(cache, "kv", {"k": k, "v": v}, tokens=4096)
>>> nest = spillway.torch.get(cache, "kv")

dtype, shape and strides are restored. CUDA tensors are copied on the current stream, directly from
and to their own memory if the cache is on that GPU, otherwise by way of the host.
"""

from __future__ import annotations

import ctypes
from datetime import timedelta
from typing import Any

from . import _native as native
from . import _nest as nest
from ._cache import Cache, cache_of
from ._operations import put_options
from ._values import Value, key_bytes, pieces, token_count
from .errors import InvalidArgument, NotInstalled, NotResident, ValueTypeError

try:
    import torch
except ImportError as missing:
    raise NotInstalled(f"spillway.torch needs torch, which can't be imported ({missing}); "
                       "pip install torch") from None

__all__ = ["Rescue", "RescueStats", "get", "install_rescue", "put", "retry", "unpack"]

_TRIES = 3  # Reads of an entry that is replaced meanwhile.
_PAD = (ctypes.c_ubyte * nest.ALIGN)()
_PAD_ADDRESS = ctypes.addressof(_PAD)
_DTYPES = {str(dtype).removeprefix("torch."): dtype
           for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}


# --- leaves ---


def _dense(tensor: torch.Tensor) -> bool:
    """Whether its memory has neither holes nor overlaps, in any order of dimensions."""
    expected = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape)):
        if extent == 1:
            continue
        if stride != expected:
            return False
        expected *= extent
    return True


def leaf_of(node: Any) -> nest.Leaf | None:
    """The leaf for a tensor or bytes."""
    if not isinstance(node, torch.Tensor):
        return nest.bytes_leaf(node)
    if node.layout != torch.strided or node.is_quantized or node.is_conj() or node.is_neg():
        raise nest.NotANest(f"a tensor of layout {node.layout}"
                            f"{', quantized' if node.is_quantized else ''} in it: only plain "
                            "strided ones can be stored")
    if node.device.type not in ("cpu", "cuda"):
        raise nest.NotANest(f"a tensor on {node.device} in it: host and CUDA memory can be stored")
    if type(node) not in (torch.Tensor, torch.nn.Parameter):
        raise nest.NotANest(f"a {type(node).__name__} in it: plain tensors can be stored")
    size = node.numel() * node.element_size()
    facts: dict[str, Any] = {"k": "tensor", "t": str(node.dtype).removeprefix("torch."),
                             "h": list(node.shape)}
    if size and not node.is_contiguous() and _dense(node):
        # Dense, but in another order of dimensions, which is kept.
        facts["r"] = list(node.stride())
    return nest.Leaf(node.detach(), facts, size)


def _leaf_pieces(tensor: torch.Tensor, facts: dict[str, Any]) -> list[tuple[int, int]]:
    size = tensor.element_size()
    if not tensor.numel():
        return []
    if "r" in facts or tensor.is_contiguous():
        return [(tensor.data_ptr(), tensor.numel() * size)]
    return pieces(tensor.data_ptr(), size, list(tensor.shape), list(tensor.stride()))


def _on_cache_device(cache: Cache, device: torch.device) -> bool:
    if device.type != "cuda" or not cache.device.startswith(("cuda", "hip")):
        return False
    number = cache.device.partition(":")[2]
    index = device.index if device.index is not None else torch.cuda.current_device()
    return not number.isdigit() or int(number) == index


def stream_order(device: torch.device) -> native.Order:
    """After everything submitted to torch's current stream of that device."""
    stream = torch.cuda.current_stream(device)
    return native.Order(native.AFTER_STREAM, stream.cuda_stream or None)


def _value(parts: list[tuple[int, int, int]], keep: Any, order: native.Order | None) -> Value:
    array = (native.Fragment * max(len(parts), 1))()
    total = 0
    for at, (address, size, place) in enumerate(parts):
        array[at].data, array[at].bytes, array[at].place = address, size, place
        total += size
    value = Value(array, len(parts), total, keep,
                  any(place == native.DEVICE for *_, place in parts))
    if order is not None:
        value.order = order
    return value


def _gather(cache: Cache, leaves: list[nest.Leaf]) -> Value:
    """All leaves, with the gaps between them, as fragments of their own memory."""
    parts: list[tuple[int, int, int]] = []
    keep: list[Any] = []
    order = None
    at = 0
    for leaf in leaves:
        if leaf.offset > at:
            parts.append((_PAD_ADDRESS, leaf.offset - at, native.HOST))
        source, place = leaf.value, native.HOST
        if isinstance(source, torch.Tensor):
            if source.device.type == "cuda":
                if _on_cache_device(cache, source.device):
                    place, order = native.DEVICE, stream_order(source.device)
                else:
                    source = source.cpu()  # Copied to the host: the cache is not on that GPU.
            parts += [(address, size, place) for address, size in _leaf_pieces(source, leaf.facts)]
        elif leaf.bytes:
            buffer = memoryview(source)
            buffer = buffer if buffer.c_contiguous else memoryview(buffer.tobytes())
            from ._values import address_of
            parts.append((address_of(buffer), leaf.bytes, native.HOST))
            source = buffer
        keep.append(source)
        at = leaf.offset + leaf.bytes
    return _value(parts, keep, order)


def put(cache: Cache, key: str | bytes, value: Any, tokens: int | None = None, *,
        token_count: int | None = None, agent: str | None = None,
        parent: str | bytes | None = None, ttl: float | timedelta | None = None,
        hint: str | None = None, strict: bool = False) -> bool:
    """Stores a tensor, or a nested structure (dicts, lists, tuples) of tensors, bytes, numbers and
    texts.

    False: the cache refuses it now. A dense tensor keeps its strides; one with holes or overlaps
    comes back contiguous, with the same elements. Gradients are not stored.
    """
    cache_of(cache)
    try:
        description, leaves, _ = nest.describe(value, leaf_of)
    except nest.NotANest as why:
        raise ValueTypeError(f"this can't be stored: {why}") from None
    if not leaves:
        raise ValueTypeError("there is no tensor and no bytes in it to store")
    options = put_options(_tokens(tokens, token_count), agent, parent,
                          nest.pack_meta(description), ttl, hint, None)
    return cache._put(key_bytes(key), _gather(cache, leaves), options, strict)


# --- reading ---


def _empty(facts: dict[str, Any], device: Any) -> torch.Tensor:
    dtype = _DTYPES[facts["t"]]
    if "r" in facts:
        return torch.empty_strided(facts["h"], facts["r"], dtype=dtype, device=device)
    return torch.empty(facts["h"], dtype=dtype, device=device)


def unpack(description: Any, view: memoryview) -> Any:
    """A structure of CPU tensors from its description and bytes; copied."""
    def leaf(facts: dict[str, Any]) -> Any:
        if facts["k"] != "tensor":
            return nest.bytes_of(view, facts)
        tensor = _empty(facts, "cpu")
        if facts["n"]:
            source = view[facts["o"]:facts["o"] + facts["n"]]
            from ._values import address_of
            ctypes.memmove(tensor.data_ptr(), address_of(source), facts["n"])
        return tensor
    return nest.restore(description, leaf)


def get(cache: Cache, key: str | bytes, *, device: Any = "cpu",
        wait: float | timedelta | None = None) -> Any:
    """The tensor or structure that was put, on ``device``. None: the key is missing.

    The tensors are yours: the bytes are copied once, directly to their place.
    """
    cache_of(cache)
    name = key_bytes(key)
    target = torch.device(device)
    for _ in range(_TRIES):
        lease = cache.get_many([name])[0]  # From any tier: only its description is read.
        if lease is None:
            return None
        with lease:
            description, generation = nest.unpack_meta(lease.meta), lease.generation
        if description is None:
            raise InvalidArgument(f"{key!r} was not stored by spillway.torch.put: it is plain "
                                  "bytes, for Cache.get")
        result, sink, copies = _scatter(cache, description, target)
        if sink.count:
            if cache._get_into(name, sink, wait, None) is None:
                return None
        again = cache.get_many([name])[0]
        if again is not None:
            with again:
                same = again.generation == generation
            if not same:
                continue  # Replaced meanwhile: parts of both values may have been read.
        return copies(result)
    raise NotResident(f"{key!r} is set anew faster than it can be read")


def _scatter(cache: Cache, description: Any, target: torch.device) -> tuple[Any, Value, Any]:
    """New leaves, and a sink over them and the gaps between them."""
    direct = target.type == "cpu" or _on_cache_device(cache, target)
    place = native.DEVICE if direct and target.type == "cuda" else native.HOST
    parts: list[tuple[int, int, int]] = []
    keep: list[Any] = []
    gap = (ctypes.c_ubyte * nest.ALIGN)()
    at = 0

    def leaf(facts: dict[str, Any]) -> Any:
        nonlocal at
        if facts["o"] > at:
            parts.append((ctypes.addressof(gap), facts["o"] - at, native.HOST))
        at = facts["o"] + facts["n"]
        if facts["k"] == "tensor":
            made: Any = _empty(facts, target if direct else "cpu")
            if facts["n"]:
                parts.append((made.data_ptr(), facts["n"], place))
        else:
            made = bytearray(facts["n"])
            if facts["n"]:
                from ._values import address_of
                parts.append((address_of(memoryview(made), True), facts["n"], native.HOST))
        keep.append(made)
        return made if facts["k"] != "bytes" else _Frozen(made)

    result = nest.restore(description, leaf)
    order = stream_order(target) if place == native.DEVICE else None
    return result, _value(parts, (keep, gap), order), \
        lambda built: _finish(built, None if direct else target)


class _Frozen:
    """A bytes leaf while it is filled."""

    def __init__(self, buffer: bytearray):
        self.buffer = buffer


def _finish(built: Any, device: Any) -> Any:
    if isinstance(built, _Frozen):
        return bytes(built.buffer)
    if isinstance(built, torch.Tensor):
        return built if device is None else built.to(device)
    if type(built) in (list, tuple):
        return type(built)(_finish(item, device) for item in built)
    if type(built) is dict:
        return {key: _finish(item, device) for key, item in built.items()}
    return built


# --- rescue ---


def install_rescue(cache: Cache, *, reserve: int = 1 << 30, within: float = 5.0,
                   sizes: bool = True, hook: bool = True) -> Any:
    """torch's allocator asks this cache for memory before it fails.

    The cache must be on a GPU. Returns a ``Rescue``; its ``kind`` tells which kind is active.
    Remove it with ``remove()`` or at the end of a ``with``. Compiles a small library on first use.
    """
    from ._rescue import Rescue as Installed
    return Installed(cache, reserve, within, sizes, hook)


def __getattr__(name: str) -> Any:  # Imported on first use only.
    if name in ("Rescue", "RescueStats", "retry"):
        from . import _rescue
        return getattr(_rescue, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_tokens = token_count
