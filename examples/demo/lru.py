# SPDX-License-Identifier: Apache-2.0
"""What an LRU cache would hold of the same blocks in the same tiers. Keys only, no bytes."""

import threading
from collections import OrderedDict


class LruTiers:
    """Gets the reads and sets that spillwayd gets, and has the memory and disk that Spillway has at
    each moment. A use brings a block to memory; blocks that do not fit there are on disk, and those
    that do not fit there are gone. Its transfers cost nothing and are never late.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._blocks = OrderedDict()  # Key: bytes, the least recently used first.
        self._memory = self._disk = self._used = 0

    def set_sizes(self, memory, disk):
        with self._lock:
            self._memory, self._disk = memory, disk
            self._evict()

    def touch(self, key, size):
        with self._lock:
            self._used += size - self._blocks.pop(key, 0)
            self._blocks[key] = size
            self._evict()

    def forget(self, keys):
        with self._lock:
            self._used -= sum(self._blocks.pop(key, 0) for key in keys)

    def _evict(self):
        while self._used > self._memory + self._disk:
            self._used -= self._blocks.popitem(last=False)[1]

    def where(self, keys):
        """Of `keys`: how many are in memory, and how many on disk."""
        with self._lock:
            wanted, above, found = set(keys), 0, [0, 0]
            for key, size in reversed(self._blocks.items()):
                above += size
                found[above > self._memory] += key in wanted
            return found
