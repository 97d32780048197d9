# SPDX-License-Identifier: Apache-2.0
"""The dict methods that make sense for a cache, whose entries may be evicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable


class DictLike:
    """``cache[key]``, ``cache[key] = value``, ``del cache[key]``, ``key in cache``."""

    if TYPE_CHECKING:
        get: Callable[..., memoryview | None]
        set: Callable[..., bool]
        delete: Callable[..., bool]
        contains: Callable[..., bool]

    def __getitem__(self, key: str | bytes) -> memoryview:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: str | bytes, value: Any) -> None:
        self.set(key, value, strict=True)

    def __delitem__(self, key: str | bytes) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self.contains(key)

    def __bool__(self) -> bool:
        return True  # An empty cache is still true.
