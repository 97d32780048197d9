# SPDX-License-Identifier: Apache-2.0
"""States of slots in Spillway, found by prefix.

A state is a slot file, cut into parts of 32 MiB that form a chain, so that it is evicted from its
end. For every 128 tokens of it there is a *mark*, a small entry whose key is a hash over all tokens
up to there and whose value names the state. The longest prefix of a prompt is then one question for
all of the prompt's marks. A mark may name a state that has been evicted, in part or wholly; reading
it finds that out. Marks of a prefix that several states share name the one stored last.

A mark has a token, so that for its size it is worth more than the state it names.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from array import array
from typing import Any, BinaryIO, Iterator

from ..client import Client
from ..errors import Blocked, Corrupt, DeadlineExceeded

BLOCK = 128            # Tokens between two marks.
PART = 32 << 20        # Bytes of one entry.
_MARK = struct.Struct("<16sIQ8s")  # Hash over all tokens, their number, bytes, the storing's number.
_CANDIDATES = 4        # States looked at for one prompt.
# Reading so many tokens' state is worth one token that need not be computed.
WORTH = 8


class State:
    """A state in Spillway: where it is, and how much of a prompt it begins with, at least."""

    __slots__ = ("name", "tokens", "bytes", "common")

    def __init__(self, name: bytes, tokens: int, size: int, common: int):
        self.name, self.tokens, self.bytes, self.common = name, tokens, size, common

    def parts(self) -> Iterator[tuple[bytes, int, int]]:
        """Key, begin and size of each."""
        for number, begin in enumerate(range(0, self.bytes, PART)):
            yield b"%s:%d" % (self.name, number), begin, min(PART, self.bytes - begin)


def _hashes(tokens: array[int]) -> Iterator[tuple[int, bytes]]:
    """For each whole block of tokens where it ends and a hash over all up to there; last, all."""
    total = hashlib.sha256()
    for end in range(BLOCK, len(tokens) + 1, BLOCK):
        total.update(tokens[end - BLOCK:end].tobytes())
        yield end, total.digest()[:16]
    total.update(tokens[len(tokens) // BLOCK * BLOCK:].tobytes())
    yield len(tokens), total.digest()[:16]


class Store:
    """The states of one namespace, in a running spillwayd."""

    def __init__(self, space: str, client: Client):
        self._prefix = f"llama:{space}:".encode()
        self._client = client

    def _mark(self, digest: bytes) -> bytes:
        return self._prefix + b"mark:" + digest.hex().encode()

    def _state(self, value: Any, common: int) -> State | None:
        if len(value) != _MARK.size:
            return None
        digest, tokens, size, number = _MARK.unpack(value)
        name = b"%sstate:%s:%s" % (self._prefix, digest.hex().encode(), number.hex().encode())
        return State(name, tokens, size, common)

    def _whole(self, state: State) -> bool:
        return all(self._client.contains_many(key for key, _, _ in state.parts()))

    def find(self, tokens: array[int], have: int, gain: int) -> State | None:
        """The state that saves most of computing a prompt, of which `have` tokens are there already;
        None if none saves `gain` tokens.
        """
        ends = [one for one in _hashes(tokens) if one[0] % BLOCK == 0 and one[0] >= have + gain]
        if not ends:
            return None
        values = self._client.get_many(self._mark(digest) for _, digest in ends)
        seen: set[bytes] = set()
        for (end, digest), value in zip(reversed(ends), reversed(values)):
            state = None if value is None else self._state(value, end)
            if state is None or state.name in seen:
                continue
            if (end - have) * WORTH < state.tokens:
                continue
            if self._whole(state):
                return state
            seen.add(state.name)
            if len(seen) >= _CANDIDATES:
                break
        return None

    def read(self, state: State, file: BinaryIO, deadline: float) -> bool:
        """Copies a state into a file. False: a part of it is gone."""
        for key, _, size in state.parts():
            value = self._client.get(key)
            if value is None:
                return False
            if len(value) != size:
                raise Corrupt(f"{key!r} has {len(value)} bytes, not {size}")
            file.write(value)
            if time.monotonic() > deadline:
                raise DeadlineExceeded("reading a state took too long")
        return True

    def write(self, tokens: array[int], file: BinaryIO) -> State | None:
        """Stores a slot file and its marks. None: Spillway takes nothing now."""
        hashes = list(_hashes(tokens))
        whole = file.seek(0, os.SEEK_END)
        number = os.urandom(8)
        value = _MARK.pack(hashes[-1][1], len(tokens), whole, number)
        state = self._state(value, len(tokens))
        assert state is not None
        parent = None
        for key, begin, size in state.parts():
            file.seek(begin)
            share = max(1, len(tokens) * size // whole)
            if not self._client.set(key, file.read(size), share, parent=parent):
                self.delete(state)
                return None
            parent = key
        try:
            self._client._calls([("SPILL.SET", self._mark(digest), value, "TOKENS", "1")
                                 for _, digest in hashes[:-1]])
        except Blocked:
            pass  # Some marks were refused; the state is found by the others, or by none.
        return state

    def delete(self, state: State) -> None:
        """Removes a state; its marks stay, and name nothing or another one soon."""
        self._client._call("DEL", *(key for key, _, _ in state.parts()))

    def present(self, keys: Any) -> Any:
        """As all stores have it; asked with no key to see whether the daemon answers."""
        return self._client.contains_many(keys) if keys else self._client._call("PING")

    def close(self) -> None:
        self._client.close()
