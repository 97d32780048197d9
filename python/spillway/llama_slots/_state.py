# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's slot files: the tokens whose KV a file holds.

A file begins with a magic number, a version, a count of words and as many words; the KV follows.
The words are the tokens, or, in newer versions, -1, a version of their own, the count of tokens,
the tokens, and what there is of images and sound.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import BinaryIO

MAGIC, VERSION = 0x67677371, 3  # "ggsq"
_LIST_VERSION = 1
_HEAD = struct.Struct("<III")


def _words(data: bytes) -> array[int]:
    found = array("i")
    found.frombytes(data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def tokens_of(file: BinaryIO) -> array[int] | None:
    """The tokens of a slot file; None if it is of no kind known here, or holds more than text."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, version, count = _HEAD.unpack(head)
    if (magic, version) != (MAGIC, VERSION):
        return None
    data = file.read(4 * count)
    if len(data) != 4 * count:
        return None
    words = _words(data)
    if not words or words[0] != -1:
        return words
    if len(words) < 4 or words[1] != _LIST_VERSION or not 0 <= words[2] <= len(words) - 4:
        return None
    tokens = words[3:3 + words[2]]
    media = words[3 + words[2]]
    return tokens if media == 0 and -1 not in tokens else None


def common_prefix(one: array[int], other: array[int]) -> int:
    """How many tokens both begin with."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    low, high = 0, most  # They agree on `low` tokens, and not on `high`.
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
