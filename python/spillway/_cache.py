"""Cache: contexts by key, lent idle memory, given back when others need it."""

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
    value_of
from ._words import MODES, Departure, EntryInfo, Mode, Reclaimed
from .errors import InvalidArgument, Refused, SpillwayError

lib = native.lib


class Cache(DictLike):
    """Contexts by key, in idle memory of this machine's card and the tiers below it.

    >>> with spillway.Cache(capacity="256MiB") as cache:
    ...     cache.set("context:planner", b"what it knows", tokens=4096)
    ...     cache.get("context:planner")

    Keywords are settings (docs/reference/settings.md): ``capacity``, ``device="cuda:0"``,
    ``host_capacity``, ``disk_dir``, ``policy`` ... ``config`` names a TOML file instead; both
    together do not go. Pressure is sensed from the start, unless ``start=False``.

    Safe from any thread. A cache does not survive a fork: its use in the child is ``Closed``.
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
        # Closes it when nobody holds it any more, and at the latest at exit.
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
        """Senses pressure and works in the background from here on. May be repeated."""
        with self._use as cache:
            native.check(lib.spillway_cache_start(cache))

    def stop(self) -> None:
        """Ends that; entries stay, and writes are not refused for pressure."""
        with self._use as cache:
            native.check(lib.spillway_cache_stop(cache))

    def close(self) -> None:
        """Closes the cache; leases and views of values stay good. May be repeated."""
        self._finalizer.detach()
        trouble = self._handle.close()
        if trouble:
            raise SpillwayError(f"closed, but: {trouble}")

    @property
    def closed(self) -> bool:
        """Whether it was."""
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
        """Stores a buffer or tensor under a key. Visible to others only when whole.

        False: the cache does not take it now (``Blocked`` or ``OverBudget``; with ``strict`` these
        are raised), and nothing has changed. ``parent`` is the key of the prefix this continues,
        ``agent`` whose context it is, ``ttl``, ``eta`` and ``recompute`` (what computing it anew
        would take) are seconds, ``hint`` is "again" or "done", ``step`` what it waits for ("tool",
        "human", or "RUN/STEP" of the step graph). Strided tensors are stored dense; scattered buffers cost a copy.
        """
        return self._put(key_bytes(key), value_of(value),
                         put_options(_tokens(tokens, token_count), agent, parent, meta, ttl, hint,
                                     eta, step, recompute), strict)

    def _put(self, key: bytes, value: Value, options: dict[str, Any], strict: bool,
             order: native.Order | None = None) -> bool:
        try:
            if value.count <= 1 and not value.on_device and order is None:  # No stream matters.
                self._put_one(key, value, options)
            else:
                operation = native.Operation()
                fill_put(operation, key, value, options, order)
                self._run(operation)
                native.check_operation(operation)
        except Refused:
            if strict:
                raise
            return False
        return True

    def _put_one(self, key: bytes, value: Value, options: dict[str, Any]) -> None:
        """Most values are one piece of host memory: that is the shortest way in."""
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

        The view keeps its lease: the bytes stay while it lives. ``into`` (a writable buffer or a
        tensor, on the host or on the GPU) has the value copied there, and the number of its bytes
        returned. ``wait`` is how long a copy may take to come up from below (10 s); 0 raises
        ``NotResident`` instead. ``hint``, ``eta`` and ``step`` speak of its next use, as in ``set``.
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

        ``where="device"`` lends the address on the GPU.
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
        """Removes it; False: it was not there."""
        return self._flag(lib.spillway_cache_erase, key)

    def contains(self, key: str | bytes) -> bool:
        """Whether it is there. Counts as no use."""
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
        """Counts as a use, and tells what is known: "again" (``eta`` seconds) or "done".

        ``agent``: the key is that agent's from now on. ``run`` and ``step``: that step of the step
        graph has started; ``step`` alone: what it waits for, as in ``set``. False: the key is not
        there.
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
        """Empties all tiers, disk too."""
        with self._use as cache:
            native.check(lib.spillway_cache_clear(cache))

    def settle(self, within: float = 10) -> None:
        """Waits until nothing set anew or erased can come back from disk after a kill."""
        with self._use as cache:
            native.check(lib.spillway_cache_settle(cache, milliseconds(within, "within")))

    # --- many keys ---

    def _names(self, keys: Iterable[str | bytes]) -> list[bytes]:
        if isinstance(keys, (str, bytes)):
            raise InvalidArgument(f"keys is {keys!r}: a list of keys is needed")
        return [key_bytes(key) for key in keys]

    def get_many(self, keys: Iterable[str | bytes]) -> list[Lease | None]:
        """Leases on all of them at once; None where one is missing."""
        return self._leases(lib.spillway_cache_get_many, keys)[0]

    def get_chain(self, keys: Iterable[str | bytes], *, hint: str | None = None,
                  eta: float | timedelta | None = None, step: str | None = None) -> list[Lease]:
        """Leases on the longest leading run of a chain of prefixes.

        ``hint``, ``eta`` and ``step`` speak of the next use of its end, as in ``set``.
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
        """How many, from the first on, are there as a chain of prefixes without a gap."""
        return self._count(lib.spillway_cache_match, keys)

    def prefetch(self, keys: Iterable[str | bytes]) -> int:
        """Begins to bring these into free memory; how many are there or on their way."""
        return self._count(lib.spillway_cache_prefetch, keys)

    def _count(self, call: Any, keys: Iterable[str | bytes]) -> int:
        names = self._names(keys)
        out = c_size_t()
        with self._use as cache:
            native.check(call(cache, native.views(names), len(names), byref(out)))
        return out.value

    def contains_many(self, keys: Iterable[str | bytes]) -> list[bool]:
        """Which of them are there."""
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
        """One pass of the policy now, with this pressure or the source's own; what left."""
        left: list[Departure] = []

        @native.DepartureVisitor
        def visit(departure: Any, _: Any) -> None:
            facts = departure.contents
            left.append(Departure(
                key_name(native.take_bytes(facts.key)),
                lib.spillway_action_name(facts.action).decode(),
                lib.spillway_reason_name(facts.reason).decode(), facts.bytes, facts.tokens))

        given = None if pressure is None else byref(c_double(pressure))
        with self._use as cache:
            native.check(lib.spillway_cache_apply(cache, given, None, visit, None))
        return left

    def reclaim(self, bytes: int, within: float = 1.0) -> Reclaimed:
        """Frees memory of the card for somebody in this process. Never destroys a last copy."""
        freed, why = c_uint64(), c_void_p()
        with self._use as cache:
            native.check(lib.spillway_cache_reclaim(cache, bytes, milliseconds(within, "within"),
                                                    byref(freed), byref(why)))
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
        """Live entries, each counted once wherever its copies are."""
        return self._state().entries

    @property
    def total_tokens(self) -> int:
        """Over all live entries."""
        return self._state().tokens

    @property
    def mode(self) -> Mode:
        """The level, or WORKFLOW_AWARE."""
        return MODES[self._state().mode]

    @property
    def level(self) -> Mode:
        """What pressure alone says."""
        return MODES[self._state().level]

    @property
    def pressure(self) -> float | None:
        """0 to 1; None: unknown."""
        state = self._state()
        return state.pressure if state.pressure_known else None

    @property
    def is_blocked(self) -> bool:
        """Would a set be refused for pressure now?"""
        return bool(self._state().blocked)

    # --- answers ---

    def stats(self) -> dict[str, Any]:
        """All counters, by the names of ``spillway_cache_stats_json``."""
        with self._use as cache:
            return json.loads(native.take_text(lib.spillway_cache_stats_json, cache) or "{}")

    def explain(self, key: str | bytes) -> str:
        """Where it is, why it left, what would bring it back."""
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
        """All keys that could leave, by the order in force."""
        found: list[str | bytes] = []

        @native.KeyVisitor
        def visit(key: Any, _: Any) -> int:
            found.append(key_name(native.take_bytes(key)))
            return 0

        with self._use as cache:
            native.check(lib.spillway_cache_leaving_order(cache, visit, None))
        return found

    # --- step graph ---

    @property
    def step_graph(self) -> Any:
        """The step graph attached; without one, a new one is. Assign to attach another.

        Anything with ``get_eviction_priority_order()`` may be assigned: it names agents, who may
        leave first in front. It is asked when it is assigned, and by ``refresh_order()``.
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
        """Asks a step graph from elsewhere for its order again."""
        graph = self._step_graph
        if graph is None or not hasattr(graph, "get_eviction_priority_order"):
            return
        from .graph import StepGraph
        if isinstance(graph, StepGraph):
            return  # It tells by itself.
        with self._use as cache:
            self._attach_agents(cache, graph)


_tokens = token_count  # The keyword of the same name hides it in methods.
