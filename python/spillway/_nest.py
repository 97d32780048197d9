# SPDX-License-Identifier: Apache-2.0
"""Nested structures of bytes and tensors as one value and a description, without pickle.

The description is JSON in an entry's meta blob. The leaves follow one another in the value, each at
a multiple of 64 bytes, so that tensors can be read in place. Scalars are in the description.
"""

from __future__ import annotations

import json
import math
import zlib
from typing import Any, Callable

ALIGN = 64
DEPTH_MAX = 64
DESCRIPTION_MAX = 64 << 20
_SCALARS = (type(None), bool, int, float, str)


class NotANest(Exception):
    """It contains something that cannot be stored."""


class Leaf:
    """A tensor or bytes: its offset in the value, and its description."""

    __slots__ = ("value", "facts", "bytes", "offset")

    def __init__(self, value: Any, facts: dict[str, Any], size: int):
        self.value, self.facts, self.bytes, self.offset = value, facts, size, 0


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise NotANest(f"a dict key is {key!r}, a {type(key).__name__}: text is needed")
    return key


def describe(nest: Any, leaf_of: Callable[[Any], Leaf | None]) -> tuple[Any, list[Leaf], int]:
    """Returns the description, the leaves in order, and their total size."""
    leaves: list[Leaf] = []
    at = 0

    def walk(node: Any, depth: int) -> Any:
        nonlocal at
        if depth > DEPTH_MAX:
            raise NotANest(f"it is nested more than {DEPTH_MAX} deep")
        leaf = leaf_of(node)
        if leaf is not None:
            at = -(-at // ALIGN) * ALIGN
            leaf.offset = at
            at += leaf.bytes
            leaves.append(leaf)
            return {"o": leaf.offset, "n": leaf.bytes, **leaf.facts}
        if isinstance(node, float) and not math.isfinite(node):
            return {"f": repr(node)}
        if type(node) in _SCALARS:
            return {"s": node}
        if type(node) in (list, tuple):
            return {"l" if type(node) is list else "t": [walk(item, depth + 1) for item in node]}
        if type(node) is dict:
            return {"d": [[_key(key), walk(item, depth + 1)] for key, item in node.items()]}
        raise NotANest(f"a {type(node).__name__} in it is neither bytes, a tensor, a number, a "
                       "text, a list, a tuple nor a dict")

    return walk(nest, 0), leaves, at


def restore(description: Any, leaf_of: Callable[[dict[str, Any]], Any]) -> Any:
    """Rebuilds the structure; ``leaf_of`` makes a leaf from its description."""
    if "o" in description:
        return leaf_of(description)
    if "s" in description:
        return description["s"]
    if "f" in description:
        return float(description["f"])
    if "l" in description:
        return [restore(item, leaf_of) for item in description["l"]]
    if "t" in description:
        return tuple(restore(item, leaf_of) for item in description["t"])
    return {key: restore(item, leaf_of) for key, item in description["d"]}


def pack_meta(description: Any) -> bytes:
    """The bytes of the meta blob. Its size is limited, so long ones are compressed."""
    text = json.dumps(description, separators=(",", ":")).encode()
    return b"nest1" + text if len(text) < 4096 else b"nest2" + zlib.compress(text, 6)


def unpack_meta(meta: bytes) -> Any | None:
    """None: the blob was not written by this module."""
    if meta.startswith(b"nest1"):
        return json.loads(meta[5:])
    if meta.startswith(b"nest2"):
        return json.loads(zlib.decompressobj().decompress(meta[5:], DESCRIPTION_MAX))
    return None


def bytes_leaf(node: Any) -> Leaf | None:
    """bytes, bytearray and memoryview; they are restored as bytes and bytearray."""
    if isinstance(node, bytes):
        return Leaf(node, {"k": "bytes"}, len(node))
    if isinstance(node, bytearray):
        return Leaf(node, {"k": "bytearray"}, len(node))
    if isinstance(node, memoryview):
        return Leaf(node, {"k": "bytes"}, node.nbytes)
    return None


def bytes_of(view: memoryview, facts: dict[str, Any]) -> bytes | bytearray:
    """The inverse of bytes_leaf."""
    part = view[facts["o"]:facts["o"] + facts["n"]]
    return bytearray(part) if facts["k"] == "bytearray" else bytes(part)
