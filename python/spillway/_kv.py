# SPDX-License-Identifier: Apache-2.0
"""A model's KV cache as chunks and a tail, and their layout in a Spillway cache.

Layers that keep all tokens are cut into chunks of a fixed number of tokens. A chunk's key is a hash
over the model, all tokens so far and its parent's key, so that prompts with a common beginning
share its chunks. What cannot be shared goes into the *tail* for that exact length: the tokens after
the last whole chunk, and everything of layers that only keep a window.

A chunk contains, layer by layer, all of K and then all of V, each as [batch][head][token][dim].
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Callable

import torch

from . import _native as native
from ._cache import Cache
from ._operations import fill_get, fill_gets, fill_put
from ._values import TOKENS_MAX, Value, whole
from .errors import NOT_TAKEN, CannotRestore
from .torch import _DTYPES, _on_cache_device, stream_order

VERSION = 1


@dataclass(frozen=True)
class LayerShape:
    """What one layer keeps: a window of tokens (0: all), and the shape of a token."""

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
    """All layers, and the number of tokens in a chunk."""

    layers: tuple[LayerShape, ...]
    chunk: int

    def __post_init__(self) -> None:
        whole(self.chunk, "chunk", 1, TOKENS_MAX)

    @property
    def full(self) -> list[int]:
        return [at for at, layer in enumerate(self.layers) if not layer.window]

    @property
    def windowed(self) -> list[int]:
        return [at for at, layer in enumerate(self.layers) if layer.window]

    def kept(self, layer: int, tokens: int) -> int:
        """How many tokens a layer keeps after so many."""
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


# --- keys ---


def token_bytes(ids: torch.Tensor, start: int, end: int) -> bytes:
    """Tokens of all rows, column by column, so that a longer prompt begins like a shorter one."""
    columns = ids[:, start:end].t().contiguous().to(device="cpu", dtype=torch.int64)
    return ctypes.string_at(columns.data_ptr(), columns.nbytes) if columns.nbytes else b""


class PromptNames:
    """The keys of one prompt. They are made from its content, so equal beginnings have equal keys.
    """

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
        """The hash over the first ``chunks`` chunks."""
        size = self.layout.chunk
        while len(self._digests) <= chunks:
            at = len(self._digests) - 1
            self._digests.append(hashlib.sha256(
                self._digests[at] + self._slice(at * size, (at + 1) * size)).digest())
        return self._digests[chunks]

    def chunk_key(self, at: int) -> bytes:
        """The key of chunk ``at``, counted from 0."""
        return b"kv:" + self.digest(at + 1).hex().encode()

    def tail_key(self, tokens: int) -> bytes:
        """The key of the tail after so many tokens."""
        whole = tokens // self.layout.chunk
        rest = hashlib.sha256(self.digest(whole) + b"tail" +
                              self._slice(whole * self.layout.chunk, tokens))
        return b"kv-tail:" + rest.hexdigest().encode()

    def tails_between(self, start: int, end: int) -> list[tuple[int, bytes]]:
        """Tails of all lengths in [start, end], which are in one chunk, longest first."""
        whole = start // self.layout.chunk
        hashed = hashlib.sha256(self.digest(whole) + b"tail" +
                                self._slice(whole * self.layout.chunk, start))
        found = []
        for tokens in range(start, end + 1):
            found.append((tokens, b"kv-tail:" + hashed.hexdigest().encode()))
            hashed.update(self._slice(tokens, tokens + 1))
        return found[::-1]


# --- bytes ---


# The number of elements that torch handles on the CPU in the calling thread. Larger operations wake
# other threads, which can take tens of milliseconds, and those keep the processors busy afterwards.
BY_ONE_THREAD = 16384


class Grid:
    """Where the tokens of some layers are: a row for each [K|V][batch][head], all of one length.

    Tables of fragments are made for all chunks at once: rows of (address, bytes, place), with the
    memory layout of native.Fragment.
    """

    def __init__(self, layers: list[int], tensors: list[tuple[torch.Tensor, torch.Tensor]],
                 place: int):
        self.layers, self.tensors, self.place = layers, tensors, place
        base: list[int] = []
        token: list[int] = []
        owner: list[int] = []
        known: dict[Any, tuple[list[int], list[int]]] = {}  # Most layers have the same shape.
        for at in layers:
            for tensor in tensors[at]:
                kind = (tensor.shape, tensor.stride(), tensor.dtype)
                if kind not in known:
                    known[kind] = self._rows(tensor)
                offsets, tokens = known[kind]
                start = tensor.data_ptr()
                base += [start + offset for offset in offsets]
                token += tokens
                owner += [at] * len(tokens)
        self.base = torch.tensor(base, dtype=torch.int64)
        self.token = torch.tensor(token, dtype=torch.int64)
        self.owner = owner

    @staticmethod
    def _rows(tensor: torch.Tensor) -> tuple[list[int], list[int]]:
        """The address of each row, and the bytes of a token in it."""
        batch, heads, _, dim = tensor.shape
        item = tensor.element_size()
        if tensor.stride(3) != 1 or (tensor.stride(2) != dim and tensor.shape[2] > 1):
            raise CannotRestore("a layer's tokens do not lie one after another")
        row, head = tensor.stride(0) * item, tensor.stride(1) * item
        return ([b * row + h * head for b in range(batch) for h in range(heads)],
                [dim * item] * (batch * heads))

    def value(self, table: torch.Tensor, at: int, count: int) -> Value:
        """A value of ``count`` rows of the table, beginning at row ``at``."""
        if not count:
            return Value((native.Fragment * 1)(), 0, 0, None)
        array = ctypes.cast(table.data_ptr() + at * ctypes.sizeof(native.Fragment),
                            ctypes.POINTER(native.Fragment))
        return Value(array, count, 0, (table, self.tensors), self.place == native.DEVICE)

    def chunks(self, first: int, end: int, size: int) -> Chunks:
        """Tokens [at * size, (at + 1) * size) of each chunk ``at`` from ``first`` to ``end``."""
        table = torch.empty((max(end - first, 0), len(self.base), 3), dtype=torch.int64)
        starts = torch.arange(first, max(end, first), dtype=torch.int64)[:, None] * size
        together = max(1, BY_ONE_THREAD // max(len(self.base), 1))
        for at in range(0, len(table), together):
            part = table[at:at + together]
            part[:, :, 0] = self.base + starts[at:at + together] * self.token
            part[:, :, 1] = size * self.token
            part[:, :, 2] = self.place
        return Chunks(self, table)

    def spans(self, span: Callable[[int], tuple[int, int]]) -> Value:
        """Tokens [start, end) of each layer, as given by ``span``."""
        each = {at: span(at) for at in self.layers}
        starts = torch.tensor([each[at][0] for at in self.owner], dtype=torch.int64)
        lengths = torch.tensor([each[at][1] - each[at][0] for at in self.owner],
                               dtype=torch.int64)
        table = torch.empty((len(self.base), 3), dtype=torch.int64)
        table[:, 0] = self.base + starts * self.token
        table[:, 1] = lengths * self.token
        table[:, 2] = self.place
        table = table[lengths > 0].contiguous()
        return self.value(table, 0, len(table))


class Chunks(Sequence[Value]):
    """The values of some chunks, each made on demand."""

    def __init__(self, grid: Grid, table: torch.Tensor):
        self.grid, self.table = grid, table
        self.rows = table.shape[1]

    def __len__(self) -> int:
        return self.table.shape[0]

    def __getitem__(self, at: Any) -> Any:
        if not 0 <= at < len(self):
            raise IndexError(at)
        return self.grid.value(self.table, at * self.rows, self.rows)

    def addresses(self) -> list[int]:
        """The address of each chunk's fragments."""
        start, step = self.table.data_ptr(), self.rows * ctypes.sizeof(native.Fragment)
        return [start + at * step for at in range(len(self))]


class Mover:
    """Transfers layers' tensors between a model's memory and the cache, many operations at once."""

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
        self._chunks: tuple[list[bytes], Chunks] | None = None

    def put(self, key: bytes, value: Value, **options: Any) -> None:
        """Adds a value for ``run`` to store."""
        self._puts.append((key, value, options))

    def get(self, key: bytes, value: Value) -> None:
        """Adds a value for ``run`` to read."""
        self._gets.append((key, value))

    def get_chunks(self, keys: list[bytes], chunks: Chunks) -> None:
        """Adds chunks for ``run`` to read before all others."""
        self._chunks = (keys, chunks) if keys else None

    def run(self) -> list[bool]:
        """Runs all operations. Returns for each, in order, whether it was stored or found; raises
        any other error.
        """
        puts, chunks = len(self._puts), len(self._chunks[0]) if self._chunks else 0
        count = puts + chunks + len(self._gets)
        if not count:
            return []
        operations = (native.Operation * count)()
        for at, (key, value, options) in enumerate(self._puts):
            fill_put(operations[at], key, value, options, self.order)
            # In sequence: a chunk is linked to its parent only if the parent is present already.
            self._carry(operations, at, at + 1)
        names = native.Names([])
        if self._chunks:
            names = native.Names(self._chunks[0])
            fill_gets(operations, puts, names, self._chunks[1].addresses(), self._chunks[1].rows,
                      self.order)
        for at, (key, value) in enumerate(self._gets, puts + chunks):
            fill_get(operations[at], key, value, 0, native.HOST, 0, self.order)
        if count > puts:
            self._read(operations, puts, count, names)
        done = []
        for at, operation in enumerate(operations):
            try:
                native.check_operation(operation)
                done.append(at < puts or bool(operation.found))
            except NOT_TAKEN:
                done.append(False)
        self._puts, self._gets, self._chunks = [], [], None
        return done

    def _carry(self, operations: Any, first: int, end: int) -> None:
        part = (native.Operation * (end - first)).from_buffer(
            operations, first * ctypes.sizeof(native.Operation))
        self.cache._run(part, end - first)

    def _read(self, operations: Any, first: int, end: int, names: native.Names) -> None:
        """On a GPU with several threads: while one waits for its copy, the next copy runs."""
        hands = HANDS_ON_HOST if self.place == native.HOST else HANDS
        if hands == 1 or end - first < 2:
            return self._carry(operations, first, end)
        each = max(1, min(TOGETHER, (end - first) // hands))
        left = SimpleQueue[int]()
        for at in range(first, end, each):
            left.put(at)

        # The memory they use must outlive them, even if this call is interrupted.
        def lend_a_hand(_: native.Names = names) -> None:
            while True:
                try:
                    at = left.get_nowait()
                except Empty:
                    return
                self._carry(operations, at, min(at + each, end))

        # The first part is done here, since starting the other threads takes a while.
        under_way = [_pool().submit(lend_a_hand) for _ in range(hands - 1)]
        try:
            lend_a_hand()
        finally:
            wait(under_way)
        for one in under_way:
            one.result()


HANDS, HANDS_ON_HOST = 4, 1
# Chunks a thread takes at a time; small, so that all threads end at about the same time.
TOGETHER = 4
_pools: dict[int, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """The thread pool of this process. A forked child makes its own."""
    found = _pools.get(os.getpid())
    return found or _pools.setdefault(os.getpid(), ThreadPoolExecutor(HANDS, "spillway-kv"))
