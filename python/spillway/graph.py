# SPDX-License-Identifier: Apache-2.0
"""StepGraph: the steps of agents and their order, so that a cache knows which context is used next,
and how soon.

All input is a hint: wrong input is accepted and counted as a misprediction; it can cost time, never
correctness. ``from_langgraph`` (in spillway.langgraph, available here too) makes one from a
compiled LangGraph.
"""

from __future__ import annotations

import json
import os
import weakref
from contextlib import contextmanager
from ctypes import byref, c_int64, c_void_p
from typing import Any, Iterator

from . import _native as native
from ._values import key_bytes, key_name, whole
from .errors import InvalidArgument

lib = native.lib
_KINDS = {"fixed": 0, "history": 1, "volatile": 2}
_FAILS = {"skip": 0, "poison": 1, "retry": 2}
_ENDS = {"finished": 1, "failed": 2, "cancelled": 3}


def _close(pointer: int, pid: int) -> None:
    if pid == os.getpid():
        lib.spillway_graph_close(pointer)


def _word(table: dict[str, int], word: str, what: str) -> int:
    try:
        return table[word]
    except KeyError:
        raise InvalidArgument(f"{what} is {word!r}: it must be one of {', '.join(table)}") from None


class StepGraph:
    """Runs of agents' steps. Safe from any thread.

    >>> graph = spillway.StepGraph()
    >>> graph.load({"run": "r1", "steps": [{"id": "plan"}, {"id": "act"}],
    ...             "edges": [{"from": "plan", "to": "act"}]})
    >>> cache = spillway.Cache(step_graph=graph)
    >>> with graph.step("r1", "plan"): ...
    """

    def __init__(self) -> None:
        out = c_void_p()
        native.check(lib.spillway_graph_open(byref(out)))
        self._take(out.value or 0)

    @classmethod
    def _of(cls, pointer: int) -> StepGraph:
        graph = cls.__new__(cls)
        graph._take(pointer)
        return graph

    def _take(self, pointer: int) -> None:
        self._pointer = pointer
        weakref.finalize(self, _close, pointer, os.getpid())

    def _tell(self, call: Any, *names: Any) -> None:
        kept = [key_bytes(name, "name") if isinstance(name, (str, bytes)) else name
                for name in names]
        native.check(call(self._pointer, *(native.view(name) if isinstance(name, bytes) else name
                                           for name in kept)))

    # --- building the graph ---

    def load(self, document: dict[str, Any] | str) -> str:
        """Loads a whole run from a document (docs/reference/step-graph.md); returns its name."""
        text = (document if isinstance(document, str) else json.dumps(document)).encode()
        return native.take_text(lib.spillway_graph_load, self._pointer, native.view(text)) or ""

    def begin(self, run: str, *, client: str = "", workflow: str = "") -> None:
        """Begins an empty run, to be filled by add_step and add_edge."""
        self._tell(lib.spillway_graph_begin, run, client, workflow)

    def add_step(self, run: str, step: str, agent: str = "") -> None:
        """Adds a step. Without ``agent`` its agent has the step's name."""
        self._tell(lib.spillway_graph_add_step, run, step, agent)

    def add_edge(self, run: str, source: str, target: str, *, back: bool = False,
                 choice: str = "") -> None:
        """``target`` comes after ``source``. Edges of one step with one ``choice`` exclude one
        another; a ``back`` edge closes a loop."""
        self._tell(lib.spillway_graph_add_edge, run, source, target, 1 if back else 0, choice)

    def bind(self, run: str, agent: str, key: str | bytes, kind: str = "fixed") -> None:
        """``key`` belongs to the agent: "fixed", "history", or "volatile"."""
        self._tell(lib.spillway_graph_bind, run, agent, key, _word(_KINDS, kind, "kind"))

    # --- progress ---

    def start(self, run: str, step: str) -> None:
        """The step has started. If it was not ready, it starts anyway as a misprediction."""
        self._tell(lib.spillway_graph_start, run, step)

    def finish(self, run: str, step: str, taken: list[str] | None = None) -> None:
        """The step is done. Of exclusive edges, those to ``taken`` are followed; None: all."""
        names = [key_bytes(run), key_bytes(step)]
        steps = None if taken is None else [key_bytes(name) for name in taken]
        native.check(lib.spillway_graph_finish(
            self._pointer, native.view(names[0]), native.view(names[1]),
            None if steps is None else native.views(steps), len(steps or [])))

    def skip(self, run: str, step: str) -> None:
        """The step is skipped; later steps do not wait for it."""
        self._tell(lib.spillway_graph_skip, run, step)

    def fail(self, run: str, step: str, on_fail: str = "poison") -> None:
        """The step failed: "skip" it, "poison" the steps that depend on it, or "retry"."""
        self._tell(lib.spillway_graph_fail, run, step, _word(_FAILS, on_fail, "on_fail"))

    def loop(self, run: str, source: str, target: str) -> None:
        """The back edge is followed: the loop's steps run again."""
        self._tell(lib.spillway_graph_loop, run, source, target)

    def end(self, run: str, how: str = "finished") -> None:
        """The run has ended: "finished", "failed" or "cancelled"."""
        self._tell(lib.spillway_graph_end, run, _word(_ENDS, how, "how"))

    @contextmanager
    def step(self, run: str, step: str) -> Iterator[None]:
        """Reports the step as started on entry, and on exit as finished, or failed on an exception.
        """
        self.start(run, step)
        try:
            yield
        except BaseException:
            self.fail(run, step)
            raise
        self.finish(run, step)

    # --- queries ---

    def steps(self, run: str) -> list[dict[str, Any]]:
        """All steps of a live run: id, agent, state, visits, steps, eta_ms, p, conf."""
        name = key_bytes(run)
        return json.loads(native.take_text(lib.spillway_graph_steps, self._pointer,
                                           native.view(name)) or "[]")

    def steps_to_execution(self, run: str, step: str) -> int | None:
        """The least number of steps to complete before it can start; None: it will never run."""
        names = key_bytes(run), key_bytes(step)
        out = c_int64()
        native.check(lib.spillway_graph_steps_to(self._pointer, native.view(names[0]),
                                                 native.view(names[1]), byref(out)))
        return None if out.value < 0 else out.value

    def get_eviction_priority_order(self, client: str = "") -> list[str]:
        """Agents of live runs: those that have finished first, those that are running last."""
        name = key_bytes(client)
        return json.loads(native.take_text(lib.spillway_graph_agents, self._pointer,
                                           native.view(name)) or "[]")

    def eviction_order(self, most: int = 1024) -> list[str | bytes]:
        """Keys, evict-first in front, by the graph's knowledge."""
        found: list[str | bytes] = []
        limit = whole(most, "most")

        @native.KeyVisitor
        def visit(key: Any, _: Any) -> int:
            found.append(key_name(native.take_bytes(key)))
            return 0

        native.check(lib.spillway_graph_order(self._pointer, limit, visit, None))
        return found

    def validate(self, run: str) -> list[dict[str, Any]]:
        """Likely mistakes: things that are allowed but probably not intended."""
        name = key_bytes(run)
        return json.loads(native.take_text(lib.spillway_graph_validate, self._pointer,
                                           native.view(name)) or "[]")

    def explain(self, key: str | bytes) -> str | None:
        """Explains when and why a key is needed. None: the key is unknown to the graph."""
        name = key_bytes(key)
        return native.take_text(lib.spillway_graph_explain, self._pointer, native.view(name))


def from_langgraph(compiled: Any, **options: Any) -> Any:
    """A StepGraph of a compiled LangGraph that follows its runs (spillway.langgraph.Cursor)."""
    from .langgraph import Cursor
    return Cursor(compiled, **options)
