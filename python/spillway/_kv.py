"""A model's KV cache as chunks and a tail; how it lies in a Spillway cache.

Layers that keep every token are cut into chunks of a fixed number of tokens. A chunk's key is a
hash over the model, all tokens so far and its parent's key, so that prompts with a common beginning
share the chunks of it. What can't be shared goes into the *tail* of that exact length: the tokens
after the last whole chunk, and all of the layers that only keep a window.

In a chunk lies, layer by layer, all of K and then all of V, each as [batch][head][token][dim].
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Iterable

import torch

from . import _native as native
from ._cache import Cache, fill_get, fill_put
from ._values import Value
from .errors import CannotRestore, NoMemory, Refused
from .torch import _DTYPES, _on_cache_device, stream_order

VERSION = 1


@dataclass(frozen=True)
class LayerShape:
    """What one layer keeps: a window of tokens (0: all of them), and the shape of a token."""

    window: int
    batch: int
    heads: int
    k_dim: int
    v_dim: int
    dtype: str

    @property
    def item(self) -> int:
        return _DTYPES[self.dtype].itemsize

    def bytes(self, tokens: int) -> int:
        return self.batch * self.heads * tokens * (self.k_dim + self.v_dim) * self.item


@dataclass(frozen=True)
class Layout:
    """All layers, and how many tokens a chunk has."""

    layers: tuple[LayerShape, ...]
    chunk: int

    @property
    def full(self) -> list[int]:
        return [at for at, layer in enumerate(self.layers) if not layer.window]

    @property
    def windowed(self) -> list[int]:
        return [at for at, layer in enumerate(self.layers) if layer.window]

    def kept(self, layer: int, tokens: int) -> int:
        """Tokens that a layer has after so many."""
        window = self.layers[layer].window
        return min(tokens, window - 1) if window else tokens

    def to_json(self) -> dict[str, Any]:
        return {"v": VERSION, "chunk": self.chunk,
                "layers": [[la.window, la.batch, la.heads, la.k_dim, la.v_dim, la.dtype]
                           for la in self.layers]}

    @staticmethod
    def from_json(facts: dict[str, Any]) -> Layout:
        if facts.get("v") != VERSION:
            raise CannotRestore(f"saved in version {facts.get('v')} of the layout; this is "
                                f"{VERSION}")
        return Layout(tuple(LayerShape(*row) for row in facts["layers"]), facts["chunk"])


# --- names ---


def token_bytes(ids: torch.Tensor, start: int, end: int) -> bytes:
    """Tokens of all rows, column by column, so that a longer prompt begins like a shorter one."""
    return ids[:, start:end].t().contiguous().to(torch.int64).cpu().numpy().tobytes()


class Names:
    """Keys of one prompt: by content, so equal beginnings have equal keys."""

    def __init__(self, space: str, layout: Layout, ids: torch.Tensor):
        head = json.dumps([space, layout.to_json()], separators=(",", ":")).encode()
        self.root = hashlib.sha256(head).digest()
        self.layout = layout
        self.tokens = ids.shape[1]
        self._bytes = token_bytes(ids, 0, self.tokens)
        self._row = 8 * ids.shape[0]
        self._digests = [self.root]

    def _slice(self, start: int, end: int) -> bytes:
        return self._bytes[start * self._row:end * self._row]

    def digest(self, chunks: int) -> bytes:
        """Over the first so many chunks."""
        size = self.layout.chunk
        while len(self._digests) <= chunks:
            at = len(self._digests) - 1
            self._digests.append(hashlib.sha256(
                self._digests[at] + self._slice(at * size, (at + 1) * size)).digest())
        return self._digests[chunks]

    def chunk_key(self, at: int) -> bytes:
        """Of chunk ``at``, counted from 0."""
        return b"kv:" + self.digest(at + 1).hex().encode()

    def tail_key(self, tokens: int) -> bytes:
        """Of the tail after so many tokens."""
        whole = tokens // self.layout.chunk
        rest = hashlib.sha256(self.digest(whole) + b"tail" +
                              self._slice(whole * self.layout.chunk, tokens))
        return b"kv-tail:" + rest.hexdigest().encode()

    def tails_between(self, start: int, end: int) -> list[tuple[int, bytes]]:
        """Tails of all lengths in [start, end], which lie in one chunk, longest first."""
        whole = start // self.layout.chunk
        hashed = hashlib.sha256(self.digest(whole) + b"tail" +
                                self._slice(whole * self.layout.chunk, start))
        found = []
        for tokens in range(start, end + 1):
            found.append((tokens, b"kv-tail:" + hashed.hexdigest().encode()))
            hashed.update(self._slice(tokens, tokens + 1))
        return found[::-1]


# --- bytes ---


def rows(tensor: torch.Tensor, start: int, end: int, place: int) -> torch.Tensor:
    """The pieces of tokens [start, end) of a [batch, head, token, dim] tensor, one a row, as
    native.Fragment lies in memory: address, bytes, place."""
    batch, heads, _, dim = tensor.shape
    item = tensor.element_size()
    if tensor.stride(3) != 1 or tensor.stride(2) != dim:
        raise CannotRestore("a layer's tokens do not lie one after another")
    base = tensor.data_ptr() + start * dim * item
    outer = (torch.arange(batch)[:, None] * tensor.stride(0) +
             torch.arange(heads)[None, :] * tensor.stride(1)).flatten() * item
    made = torch.empty((batch * heads, 3), dtype=torch.int64)
    made[:, 0] = outer + base
    made[:, 1] = (end - start) * dim * item
    made[:, 2] = place
    return made


def fragments(parts: list[torch.Tensor], keep: Any) -> Value:
    """Rows as a value."""
    table = torch.cat(parts) if parts else torch.empty((0, 3), dtype=torch.int64)
    total = int(table[:, 1].sum()) if len(table) else 0
    address = table.data_ptr()
    array = ctypes.cast(address, ctypes.POINTER(native.Fragment)) if len(table) else \
        (native.Fragment * 1)()
    return Value(array, len(table), total, (table, keep))


class Mover:
    """Carries layers' tensors between a model's memory and the cache, many operations at once."""

    def __init__(self, cache: Cache, device: torch.device):
        self.cache = cache
        direct = device.type == "cpu" or _on_cache_device(cache, device)
        if not direct:
            raise CannotRestore(f"the cache is on {cache.device!r} and the model on {device}: open "
                                f"the cache with device={str(device)!r}")
        self.place = native.HOST if device.type == "cpu" else native.DEVICE
        self.order = native.Order(native.AFTER_NONE, None) if device.type == "cpu" \
            else stream_order(device)
        self._puts: list[tuple[bytes, Value, dict[str, Any]]] = []
        self._gets: list[tuple[bytes, Value]] = []

    def put(self, key: bytes, value: Value, **options: Any) -> None:
        """To be stored by ``run``."""
        self._puts.append((key, value, options))

    def get(self, key: bytes, value: Value) -> None:
        """To be read by ``run``."""
        self._gets.append((key, value))

    def run(self) -> list[bool]:
        """All of it; for each, in order, whether it was stored or found. Raises what is not that."""
        count = len(self._puts) + len(self._gets)
        if not count:
            return []
        operations = (native.Operation * count)()
        for at, (key, value, options) in enumerate(self._puts):
            fill_put(operations[at], key, value, options, self.order)
        for at, (key, value) in enumerate(self._gets, len(self._puts)):
            fill_get(operations[at], key, value, 0, native.HOST, 0, self.order)
        self.cache._run(operations, count)
        done = []
        for at, operation in enumerate(operations):
            try:
                native.check_operation(operation)
                done.append(at < len(self._puts) or bool(operation.found))
            except (Refused, NoMemory):
                done.append(False)
        self._puts, self._gets = [], []
        return done


def layer_rows(layout: Layout, layers: Iterable[int], tensors: Any, spans: Any, place: int
               ) -> list[torch.Tensor]:
    """K and then V of each of these layers, tokens [start, end) each, as rows of fragments."""
    parts = []
    for at in layers:
        start, end = spans(at)
        if end > start:
            keys, values = tensors[at]
            parts += [rows(keys, start, end, place), rows(values, start, end, place)]
    return parts
