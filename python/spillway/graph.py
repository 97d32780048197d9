"""StepGraph: agents' steps and their order, so that a cache knows who needs what, how soon.

Everything told to it is a hint; a wrong one is accepted, counted, and costs no more than that.
``from_langgraph`` (in spillway.langgraph, offered here too) makes one of a compiled LangGraph.
"""

from __future__ import annotations

import json
import os
import weakref
from contextlib import contextmanager
from ctypes import byref, c_int64, c_void_p
from typing import Any, Iterator

from . import _native as native
from ._values import key_bytes, key_name
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

    # --- what there is to do ---

    def load(self, document: dict[str, Any] | str) -> str:
        """A whole run from a document (docs/reference/step-graph.md); its name."""
        text = (document if isinstance(document, str) else json.dumps(document)).encode()
        return native.take_text(lib.spillway_graph_load, self._pointer, native.view(text)) or ""

    def begin(self, run: str, *, client: str = "", workflow: str = "") -> None:
        """An empty run, to be filled by add_step and add_edge."""
        self._tell(lib.spillway_graph_begin, run, client, workflow)

    def add_step(self, run: str, step: str, agent: str = "") -> None:
        """A step; without an agent it is named as its agent is."""
        self._tell(lib.spillway_graph_add_step, run, step, agent)

    def add_edge(self, run: str, source: str, target: str, *, back: bool = False,
                 choice: str = "") -> None:
        """``target`` comes after ``source``. Edges of one step with one ``choice`` exclude one
        another; a ``back`` edge closes a loop."""
        self._tell(lib.spillway_graph_add_edge, run, source, target, 1 if back else 0, choice)

    def bind(self, run: str, agent: str, key: str | bytes, kind: str = "fixed") -> None:
        """``key`` belongs to the agent: "fixed", "history", or "volatile"."""
        self._tell(lib.spillway_graph_bind, run, agent, key, _word(_KINDS, kind, "kind"))

    # --- what happens ---

    def start(self, run: str, step: str) -> None:
        """The step runs. One that was not ready runs all the same; a misprediction is counted."""
        self._tell(lib.spillway_graph_start, run, step)

    def finish(self, run: str, step: str, taken: list[str] | None = None) -> None:
        """It is done. Of exclusive edges those to ``taken`` are; None: all."""
        names = [key_bytes(run), key_bytes(step)]
        steps = None if taken is None else [key_bytes(name) for name in taken]
        native.check(lib.spillway_graph_finish(
            self._pointer, native.view(names[0]), native.view(names[1]),
            None if steps is None else native.views(steps), len(steps or [])))

    def skip(self, run: str, step: str) -> None:
        """Those after it go on without it."""
        self._tell(lib.spillway_graph_skip, run, step)

    def fail(self, run: str, step: str, on_fail: str = "poison") -> None:
        """It failed: "skip" it, "poison" those that need it, or "retry"."""
        self._tell(lib.spillway_graph_fail, run, step, _word(_FAILS, on_fail, "on_fail"))

    def loop(self, run: str, source: str, target: str) -> None:
        """The back edge is taken: the loop's steps are to be done again."""
        self._tell(lib.spillway_graph_loop, run, source, target)

    def end(self, run: str, how: str = "finished") -> None:
        """The run is over: "finished", "failed" or "cancelled"."""
        self._tell(lib.spillway_graph_end, run, _word(_ENDS, how, "how"))

    @contextmanager
    def step(self, run: str, step: str) -> Iterator[None]:
        """Started on the way in, finished on the way out; failed if an exception leaves it."""
        self.start(run, step)
        try:
            yield
        except BaseException:
            self.fail(run, step)
            raise
        self.finish(run, step)

    # --- what follows ---

    def steps(self, run: str) -> list[dict[str, Any]]:
        """All steps of a live run: id, agent, state, visits, steps, eta_ms, p, conf."""
        name = key_bytes(run)
        return json.loads(native.take_text(lib.spillway_graph_steps, self._pointer,
                                           native.view(name)) or "[]")

    def steps_to_execution(self, run: str, step: str) -> int | None:
        """Step completions before it can start; None: never."""
        names = key_bytes(run), key_bytes(step)
        out = c_int64()
        native.check(lib.spillway_graph_steps_to(self._pointer, native.view(names[0]),
                                                 native.view(names[1]), byref(out)))
        return None if out.value < 0 else out.value

    def get_eviction_priority_order(self, client: str = "") -> list[str]:
        """Agents of live runs: who has finished first, who runs last."""
        name = key_bytes(client)
        return json.loads(native.take_text(lib.spillway_graph_agents, self._pointer,
                                           native.view(name)) or "[]")

    def eviction_order(self, most: int = 1024) -> list[str | bytes]:
        """Keys by how gladly the graph would let them go."""
        found: list[str | bytes] = []

        @native.KeyVisitor
        def visit(key: Any, _: Any) -> int:
            found.append(key_name(native.take_bytes(key)))
            return 0

        native.check(lib.spillway_graph_order(self._pointer, most, visit, None))
        return found

    def validate(self, run: str) -> list[dict[str, Any]]:
        """What is allowed and probably not meant."""
        name = key_bytes(run)
        return json.loads(native.take_text(lib.spillway_graph_validate, self._pointer,
                                           native.view(name)) or "[]")

    def explain(self, key: str | bytes) -> str | None:
        """Why a key is wanted; None: it was never heard of."""
        name = key_bytes(key)
        return native.take_text(lib.spillway_graph_explain, self._pointer, native.view(name))


def from_langgraph(compiled: Any, **options: Any) -> Any:
    """A StepGraph of a compiled LangGraph, with a live cursor (spillway.langgraph.Cursor)."""
    from .langgraph import Cursor
    return Cursor(compiled, **options)
