# SPDX-License-Identifier: Apache-2.0
"""Cache: contexts by key in idle memory, which is given back when other programs need it."""

from __future__ import annotations

import ctypes
import json
import os
import weakref
from ctypes import byref, c_double, c_int32, c_size_t, c_uint8, c_uint64, c_void_p
from datetime import timedelta
from typing import Any, Iterable, Iterator

from . import _native as native
from ._dict import DictLike
from ._handle import Handle, Use, close_handle
from ._lease import Lease
from ._operations import fill_get, fill_put, place_code, put_options, wait_code
from ._settings import to_toml
from ._values import Value, hint_code, key_bytes, key_name, milliseconds, sink_of, token_count, \
    value_of, whole
from ._words import MODES, Departure, EntryInfo, Mode, Reclaimed
from .errors import NOT_TAKEN, CacheTypeError, InvalidArgument, SpillwayError

lib = native.lib


class Cache(DictLike):
    """Contexts by key, in idle memory of this machine's card and the tiers below it.

    >>> with spillway.Cache(capacity="256MiB") as cache:
    ...     cache.set("context:planner", b"what it knows", tokens=4096)
    ...     cache.get("context:planner")

    Keywords are settings (docs/reference/settings.md): ``capacity``, ``device="cuda:0"``,
    ``host_capacity``, ``disk_dir``, ``policy`` ... Instead of keywords, ``config`` may name a TOML
    file. Pressure is sampled from the start, unless ``start=False``.

    Safe from any thread. A cache does not survive a fork: using it in the child raises ``Closed``.
    """

    def __init__(self, *, config: str | os.PathLike[str] | None = None, start: bool = True,
                 step_graph: Any = None, **settings: Any):
        out = c_void_p()
        if config is not None:
            if settings:
                raise InvalidArgument(f"config={os.fspath(config)!r} and {', '.join(settings)}: "
                                      "settings come from a file or from keywords, not from both")
            native.check(lib.spillway_cache_open_file(os.fsencode(config), byref(out)))
        else:
            text = to_toml(settings).encode()
            native.check(lib.spillway_cache_open_toml(native.view(text), b"Cache(...)",
                                                      byref(out)))
        self._handle = Handle(out.value or 0)
        self._use = Use(self._handle)
        # Closes the cache when the last reference is gone, at the latest at exit.
        self._finalizer = weakref.finalize(self, close_handle, self._handle)
        self._step_graph: Any = None
        self.device = str(settings.get("device", "cpu"))
        try:
            if start:
                self.start()
            if step_graph is not None:
                self.step_graph = step_graph
        except BaseException:
            self.close()
            raise

    # --- life ---

    def start(self) -> None:
        """Begins pressure sampling and background work. May be repeated."""
        with self._use as cache:
            native.check(lib.spillway_cache_start(cache))

    def stop(self) -> None:
        """Ends them; entries stay, and writes are not refused for pressure."""
        with self._use as cache:
            native.check(lib.spillway_cache_stop(cache))

    def close(self) -> None:
        """Closes the cache; leases and views of values stay valid. May be repeated."""
        self._finalizer.detach()
        trouble = self._handle.close()
        if trouble:
            raise SpillwayError(f"closed, but: {trouble}")

    @property
    def closed(self) -> bool:
        """Whether the cache has been closed."""
        return not self._handle.pointer

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<spillway.Cache, closed>"
        return f"<spillway.Cache: {len(self)} entries, {self.total_tokens} tokens, " \
               f"{self.mode.value}>"

    # --- one key ---

    def set(self, key: str | bytes, value: Any, tokens: int | None = None, *,
            token_count: int | None = None, agent: str | None = None,
            parent: str | bytes | None = None, meta: bytes | None = None,
            ttl: float | timedelta | None = None, hint: str | None = None,
            eta: float | timedelta | None = None, step: str | None = None,
            recompute: float | timedelta | None = None, strict: bool = False) -> bool:
        """Stores a buffer or tensor under a key. Other threads see it only when it is complete.

        False: the cache refuses it now (``Blocked``, ``OverBudget`` or ``NoMemory``; with
        ``strict`` these are raised), and nothing has changed. ``parent`` is the key of the prefix
        this continues; ``agent`` is the agent it belongs to; ``ttl``, ``eta`` and ``recompute``
        (the time to compute it again) are seconds; ``hint`` is "again" or "done"; ``step`` is the
        event after which it is used next ("tool", "human", or "RUN/STEP" of the step graph).
        Strided tensors are stored densely; scattered buffers cost a copy.
        """
        return self._put(key_bytes(key), value_of(value),
                         put_options(_tokens(tokens, token_count), agent, parent, meta, ttl, hint,
                                     eta, step, recompute), strict)

    def _put(self, key: bytes, value: Value, options: dict[str, Any], strict: bool,
             order: native.Order | None = None) -> bool:
        try:
            # There is no stream to wait for.
            if value.count <= 1 and not value.on_device and order is None:
                self._put_one(key, value, options)
            else:
                operation = native.Operation()
                fill_put(operation, key, value, options, order)
                self._run(operation)
                native.check_operation(operation)
        except NOT_TAKEN:
            if strict:
                raise
            return False
        return True

    def _put_one(self, key: bytes, value: Value, options: dict[str, Any]) -> None:
        """The short path for most values: one piece of host memory."""
        given = native.PutOptions(size=ctypes.sizeof(native.PutOptions))
        for name, option in options.items():
            if option:
                setattr(given, name, native.view(option) if isinstance(option, bytes) else option)
        with self._use as cache:
            code = lib.spillway_cache_put(cache, native.view(key), value.array[0].data,
                                          value.bytes, byref(given))
        if code:
            native.check(code)

    def _run(self, operations: Any, count: int = 1) -> int:
        failed = c_size_t()
        with self._use as cache:
            native.check(lib.spillway_cache_run(
                cache, ctypes.cast(byref(operations), ctypes.POINTER(native.Operation)), count,
                -1, byref(failed)))
        return failed.value

    def get(self, key: str | bytes, *, into: Any = None, wait: float | timedelta | None = None,
            hint: str | None = None, eta: float | timedelta | None = None,
            step: str | None = None) -> Any:
        """The value as a read-only memoryview of the bytes in place, or None.

        The view keeps its lease, so the bytes stay while it lives. With ``into`` (a writable buffer
        or a tensor, on the host or on the GPU) the value is copied there, and the number of its
        bytes is returned. ``wait`` is how long to wait for a copy from a lower tier (10 s); 0
        raises ``NotResident`` instead. ``hint``, ``eta`` and ``step`` describe the next use, as in
        ``set``.
        """
        if into is not None:
            return self._get_into(key_bytes(key), sink_of(into), wait, hint, eta=eta, step=step)
        lease = self.lease(key, wait=wait, hint=hint, eta=eta, step=step)
        return None if lease is None else lease.view

    def _get_into(self, key: bytes, sink: Value, wait: Any, hint: str | None,
                  order: native.Order | None = None, eta: float | timedelta | None = None,
                  step: str | None = None) -> int | None:
        operation = native.Operation()
        name = b"" if step is None else key_bytes(step, "step")
        fill_get(operation, key, sink, wait_code(wait), native.HOST, hint_code(hint), order,
                 milliseconds(eta, "eta"), name)
        self._run(operation)
        native.check_operation(operation)
        return operation.bytes if operation.found else None

    def lease(self, key: str | bytes, *, where: str = "host",
              wait: float | timedelta | None = None, hint: str | None = None,
              eta: float | timedelta | None = None, step: str | None = None) -> Lease | None:
        """A lease on the newest value, or None: ``with cache.lease(key) as lease: ...``.

        ``where="device"`` asks for its address on the GPU.
        """
        name = key_bytes(key)
        options = None
        waits_for = b"" if step is None else key_bytes(step, "step")
        if where != "host" or wait is not None or hint is not None or step is not None:
            options = byref(native.GetOptions(
                size=ctypes.sizeof(native.GetOptions), where=place_code(where),
                hint=hint_code(hint), wait_ms=wait_code(wait), eta_ms=milliseconds(eta, "eta"),
                step=native.view(waits_for)))
        struct = native.LeaseStruct()
        with self._use as cache:
            code = lib.spillway_cache_get_with(cache, native.view(name), options, byref(struct))
        if code:
            native.check(code)
        return Lease(struct, where == "host") if struct.handle else None

    def delete(self, key: str | bytes) -> bool:
        """Removes the key. False: it was not present."""
        return self._flag(lib.spillway_cache_erase, key)

    def contains(self, key: str | bytes) -> bool:
        """Whether the key is present. Not counted as a use."""
        return self._flag(lib.spillway_cache_contains, key)

    def _flag(self, call: Any, key: str | bytes) -> bool:
        name = key_bytes(key)
        out = c_int32()
        with self._use as cache:
            native.check(call(cache, native.view(name), byref(out)))
        return bool(out.value)

    def touch(self, key: str | bytes, *, hint: str | None = None,
              eta: float | timedelta | None = None, agent: str | None = None,
              run: str | None = None, step: str | None = None) -> bool:
        """Counts as a use; a hint describes the next one: "again" (in ``eta`` seconds) or "done".

        ``agent``: the key belongs to that agent from now on. ``run`` and ``step``: that step of the
        step graph has started. ``step`` alone: the event after which the key is used next, as in
        ``set``. False: the key is not present.
        """
        names = [key_bytes(key)] + [b"" if name is None else key_bytes(name, what) for name, what
                                    in ((agent, "agent"), (run, "run"), (step, "step"))]
        options = native.TouchOptions(
            size=ctypes.sizeof(native.TouchOptions), hint=hint_code(hint),
            eta_ms=milliseconds(eta, "eta"), agent=native.view(names[1]),
            run=native.view(names[2]), step=native.view(names[3]))
        out = c_int32()
        with self._use as cache:
            native.check(lib.spillway_cache_touch_with(cache, native.view(names[0]),
                                                       byref(options), byref(out)))
        return bool(out.value)

    def clear(self) -> None:
        """Removes all entries from all tiers, including disk."""
        with self._use as cache:
            native.check(lib.spillway_cache_clear(cache))

    def settle(self, within: float = 10) -> None:
        """Waits until deletes are durable: replaced or erased values stay gone after a crash."""
        with self._use as cache:
            native.check(lib.spillway_cache_flush_deletes(cache, milliseconds(within, "within")))

    # --- many keys ---

    def _names(self, keys: Iterable[str | bytes]) -> list[bytes]:
        if isinstance(keys, (str, bytes)):
            raise InvalidArgument(f"keys is {keys!r}: a list of keys is needed")
        return [key_bytes(key) for key in keys]

    def get_many(self, keys: Iterable[str | bytes]) -> list[Lease | None]:
        """A lease for each key; None where one is missing."""
        return self._leases(lib.spillway_cache_get_many, keys)[0]

    def get_chain(self, keys: Iterable[str | bytes], *, hint: str | None = None,
                  eta: float | timedelta | None = None, step: str | None = None) -> list[Lease]:
        """Leases on the longest chain of prefixes at the beginning of ``keys``.

        ``hint``, ``eta`` and ``step`` describe the next use of its last entry, as in ``set``.
        """
        waits_for = b"" if step is None else key_bytes(step, "step")
        said = native.GetOptions(size=ctypes.sizeof(native.GetOptions), hint=hint_code(hint),
                                 eta_ms=milliseconds(eta, "eta"), step=native.view(waits_for))

        def call(cache: Any, names: Any, count: int, structs: Any, run: Any) -> int:
            return lib.spillway_cache_get_chain_with(cache, names, count, byref(said), structs,
                                                     run)

        leases, run = self._leases(call, keys)
        return leases[:run]  # type: ignore[return-value]

    def _leases(self, call: Any, keys: Iterable[str | bytes]) -> tuple[list[Lease | None], int]:
        names = self._names(keys)
        structs = (native.LeaseStruct * max(len(names), 1))()
        out = c_size_t()
        with self._use as cache:
            native.check(call(cache, native.views(names), len(names), structs, byref(out)))
        leases: list[Lease | None] = []
        for at in range(len(names)):
            copy = native.LeaseStruct.from_buffer_copy(structs[at])
            leases.append(Lease(copy) if copy.handle else None)
        return leases, out.value

    def match(self, keys: Iterable[str | bytes]) -> int:
        """How many keys are present, from the first on, as a chain of prefixes without a gap."""
        return self._count(lib.spillway_cache_match, keys)

    def prefetch(self, keys: Iterable[str | bytes]) -> int:
        """Starts to copy these keys into free device memory; returns how many are there or coming.
        """
        return self._count(lib.spillway_cache_prefetch, keys)

    def _count(self, call: Any, keys: Iterable[str | bytes]) -> int:
        names = self._names(keys)
        out = c_size_t()
        with self._use as cache:
            native.check(call(cache, native.views(names), len(names), byref(out)))
        return out.value

    def contains_many(self, keys: Iterable[str | bytes]) -> list[bool]:
        """For each key, whether it is present."""
        names = self._names(keys)
        present = (c_uint8 * max(len(names), 1))()
        with self._use as cache:
            native.check(lib.spillway_cache_contains_many(cache, native.views(names), len(names),
                                                          present, None))
        return [bool(flag) for flag in present[:len(names)]]

    def __len__(self) -> int:
        return self._state().entries

    def keys(self) -> list[str | bytes]:
        """The keys of all live entries now, in no particular order."""
        return [entry.key for entry in self.entries()]

    def __iter__(self) -> Iterator[str | bytes]:
        return iter(self.keys())

    # --- pressure ---

    def apply(self, pressure: float | None = None) -> list[Departure]:
        """One pass of the policy now, with this pressure or the source's own; returns evictions."""
        left: list[Departure] = []

        @native.EvictionVisitor
        def visit(eviction: Any, _: Any) -> None:
            facts = eviction.contents
            left.append(Departure(
                key_name(native.take_bytes(facts.key)),
                lib.spillway_action_name(facts.action).decode(),
                lib.spillway_reason_name(facts.reason).decode(), facts.bytes, facts.tokens))

        given = None if pressure is None else byref(c_double(pressure))
        with self._use as cache:
            native.check(lib.spillway_cache_apply(cache, given, None, visit, None))
        return left

    def reclaim(self, bytes: int, within: float = 1.0) -> Reclaimed:
        """Frees memory of the card for another user in this process. Never destroys a last copy."""
        freed, why = c_uint64(), c_void_p()
        wanted, time = whole(bytes, "bytes"), milliseconds(within, "within")
        with self._use as cache:
            native.check(lib.spillway_cache_reclaim(cache, wanted, time, byref(freed), byref(why)))
        try:
            words = ctypes.string_at(why.value).decode("utf-8", "replace") if why.value else ""
        finally:
            lib.spillway_free(why)
        return Reclaimed(freed.value, words)

    def _state(self) -> native.State:
        state = native.State(size=ctypes.sizeof(native.State))
        with self._use as cache:
            native.check(lib.spillway_cache_read_state(cache, byref(state)))
        return state

    @property
    def size(self) -> int:
        """Number of live entries; each counts once, however many copies it has."""
        return self._state().entries

    @property
    def total_tokens(self) -> int:
        """Tokens of all live entries."""
        return self._state().tokens

    @property
    def mode(self) -> Mode:
        """The level, or WORKFLOW_AWARE."""
        return MODES[self._state().mode]

    @property
    def level(self) -> Mode:
        """The level of pressure, without WORKFLOW_AWARE."""
        return MODES[self._state().level]

    @property
    def pressure(self) -> float | None:
        """From 0 to 1; None: unknown."""
        state = self._state()
        return state.pressure if state.pressure_known else None

    @property
    def is_blocked(self) -> bool:
        """Whether a set would be refused for pressure now."""
        return bool(self._state().blocked)

    # --- state ---

    def stats(self) -> dict[str, Any]:
        """All counters, with the names of ``spillway_cache_stats_json``."""
        with self._use as cache:
            return json.loads(native.take_text(lib.spillway_cache_stats_json, cache) or "{}")

    def explain(self, key: str | bytes) -> str:
        """Explains where a key is, why it was evicted, and what would bring it back."""
        name = key_bytes(key)
        with self._use as cache:
            return native.take_text(lib.spillway_cache_explain, cache, native.view(name)) or ""

    def entries(self) -> list[EntryInfo]:
        """Every live entry."""
        found: list[EntryInfo] = []

        @native.EntryVisitor
        def visit(entry: Any, _: Any) -> int:
            facts = entry.contents
            found.append(EntryInfo(
                key_name(native.take_bytes(facts.key)),
                native.take_bytes(facts.agent).decode("utf-8", "replace"), facts.tokens,
                facts.bytes, facts.access_count, facts.idle_ms / 1000, facts.leases,
                bool(facts.offloaded)))
            return 0

        with self._use as cache:
            native.check(lib.spillway_cache_for_each(cache, visit, None))
        return found

    def leaving_order(self) -> list[str | bytes]:
        """All keys that may be evicted, evict-first in front, by the order in force."""
        found: list[str | bytes] = []

        @native.KeyVisitor
        def visit(key: Any, _: Any) -> int:
            found.append(key_name(native.take_bytes(key)))
            return 0

        with self._use as cache:
            native.check(lib.spillway_cache_eviction_order(cache, visit, None))
        return found

    # --- step graph ---

    @property
    def step_graph(self) -> Any:
        """The attached step graph; attaches a new one if there is none. Assign to attach another.

        Any object with ``get_eviction_priority_order()`` may be assigned: it returns names of
        agents, evict-first in front. It is called when it is assigned, and by ``refresh_order()``.
        """
        from .graph import StepGraph
        if self._step_graph is None:
            out = c_void_p()
            with self._use as cache:
                native.check(lib.spillway_cache_graph(cache, byref(out)))
            self._step_graph = StepGraph._of(out.value or 0)
        return self._step_graph

    @step_graph.setter
    def step_graph(self, graph: Any) -> None:
        from .graph import StepGraph
        with self._use as cache:
            if graph is None:
                native.check(lib.spillway_cache_attach(cache, None))
            elif isinstance(graph, StepGraph):
                native.check(lib.spillway_cache_attach(cache, graph._pointer))
            elif hasattr(graph, "get_eviction_priority_order"):
                self._attach_agents(cache, graph)
            else:
                raise InvalidArgument(f"step_graph is a {type(graph).__name__}: a StepGraph, or "
                                      "anything with get_eviction_priority_order(), is right here")
        self._step_graph = graph

    def _attach_agents(self, cache: int, graph: Any) -> None:
        names = [key_bytes(str(agent)) for agent in graph.get_eviction_priority_order()]
        native.check(lib.spillway_cache_attach_agents(cache, native.views(names), len(names)))

    def refresh_order(self) -> None:
        """Asks an assigned external step graph for its order again."""
        graph = self._step_graph
        if graph is None or not hasattr(graph, "get_eviction_priority_order"):
            return
        from .graph import StepGraph
        if isinstance(graph, StepGraph):
            return  # A StepGraph reports changes by itself.
        with self._use as cache:
            self._attach_agents(cache, graph)


def cache_of(cache: Any) -> Cache:
    """The Cache itself. For functions that work on its memory, which a Client cannot offer."""
    if isinstance(cache, Cache):
        return cache
    why = ""
    if type(cache).__module__.startswith("spillway."):
        why = {"Client": " (a Client speaks to another process, whose memory can't be had here)",
               "AsyncCache": " (its Cache is cache.sync)"}.get(type(cache).__name__, "")
    raise CacheTypeError(f"cache is {'None' if cache is None else 'a ' + type(cache).__name__}: a "
                         f"spillway.Cache of this process is needed{why}")


_tokens = token_count  # The keyword argument of the same name hides it in methods.
