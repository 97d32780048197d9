# SPDX-License-Identifier: Apache-2.0
"""A compiled LangGraph as a step graph that is updated while it runs.

>>> cursor = spillway.graph.from_langgraph(compiled, cache=cache)
>>> cursor.invoke({"question": "..."})

Imports nothing of LangGraph: it uses the compiled graph's drawing and its stream of tasks. Nodes
that only appear at run time (Command, Send) are added when they start.
"""

from __future__ import annotations

import itertools
from typing import Any, AsyncIterator, Iterable, Iterator

from .errors import InvalidArgument, SpillwayError
from .graph import StepGraph

_ENDS = ("__start__", "__end__")
_numbers = itertools.count(1)


def _back_edges(edges: list[tuple[str, str]], roots: list[str]) -> set[tuple[str, str]]:
    """Edges to a node on the path to their source: a depth-first search with its own stack."""
    after: dict[str, list[str]] = {}
    for source, target in edges:
        after.setdefault(source, []).append(target)
    back: set[tuple[str, str]] = set()
    done: set[str] = set()
    on_way: set[str] = set()
    for root in roots:
        stack: list[tuple[str, Iterator[str]]] = []
        if root not in done:
            stack.append((root, iter(after.get(root, ()))))
            on_way.add(root)
        while stack:
            node, targets = stack[-1]
            target = next(targets, "")
            if not target:
                stack.pop()
                on_way.discard(node)
                done.add(node)
            elif target in on_way:
                back.add((node, target))
            elif target not in done:
                stack.append((target, iter(after.get(target, ()))))
                on_way.add(target)
    return back


class Cursor:
    """One graph and its current run.

    ``graph`` is the StepGraph (attached to ``cache``, if one is given). ``key`` returns the context
    that a node's agent needs, by default ``context:<node>``. ``stream``, ``invoke``, ``astream``
    and ``ainvoke`` call the compiled graph and follow it; ``follow`` takes events you already have.
    """

    def __init__(self, compiled: Any, *, cache: Any = None, graph: StepGraph | None = None,
                 client: str = "", workflow: str = "", key: str = "context:{node}"):
        if not hasattr(compiled, "get_graph"):
            raise InvalidArgument(f"a {type(compiled).__name__} has no get_graph(): a compiled "
                                  "LangGraph is right here")
        self.compiled = compiled
        if graph is None:
            graph = cache.step_graph if cache is not None else StepGraph()
        self.graph = graph
        self.run = ""
        self._client, self._key = client, key
        self._workflow = workflow or getattr(compiled, "name", None) or "langgraph"
        drawing = compiled.get_graph()
        self._nodes = [name for name in drawing.nodes if name not in _ENDS]
        edges = [(edge.source, edge.target, bool(edge.conditional)) for edge in drawing.edges]
        roots = [target for source, target, _ in edges if source == "__start__"]
        inner = [edge for edge in edges if edge[0] not in _ENDS and edge[1] not in _ENDS]
        self._back = _back_edges([edge[:2] for edge in inner], roots + self._nodes)
        self._edges = inner
        # A node with a choice may also end the run: that is one more branch.
        self._choosers = {source for source, _, conditional in edges if conditional}
        self._joins = {target for starts, target in
                       getattr(getattr(compiled, "builder", None), "waiting_edges", ())}
        self._undecided: set[str] = set()
        self._known: set[str] = set()

    def document(self, run: str) -> dict[str, Any]:
        """The run as a document for StepGraph.load."""
        return {
            "run": run, "client": self._client, "workflow": self._workflow,
            "steps": [{"id": node, "join": "all" if node in self._joins else "any"}
                      for node in self._nodes],
            "edges": [{"from": source, "to": target,
                       "kind": "back" if (source, target) in self._back else "forward",
                       **({"choice": source} if conditional else {})}
                      for source, target, conditional in self._edges],
            "bind": [{"agent": node, "key": self._key.format(node=node)} for node in self._nodes],
        }

    # --- running ---

    def begin(self, run: str | None = None) -> str:
        """Begins a new run and ends the one before."""
        self.finish()
        name = run or f"{self._workflow}-{next(_numbers)}"
        self.run = self.graph.load(self.document(name))
        self._undecided, self._known = set(), set(self._nodes)
        return self.run

    def finish(self, how: str = "finished") -> None:
        """The run has ended."""
        if self.run:
            self._decide(None)
            self.graph.end(self.run, how)
            self.run = ""

    def _decide(self, started: str | None) -> None:
        """Steps that had to choose have chosen: the step that starts now was taken."""
        for node in sorted(self._undecided):
            targets = [target for source, target, _ in self._edges if source == node]
            if started is None or started in targets or started not in self._known:
                taken = [started] if started is not None and started in targets else []
                self.graph.finish(self.run, node, taken)
                self._undecided.discard(node)

    def event(self, task: dict[str, Any]) -> None:
        """Handles one event of ``stream_mode="tasks"``: a task has started or ended."""
        node = task.get("name", "")
        if not self.run or node in _ENDS:
            return
        if "triggers" in task or "input" in task:
            self._decide(node)
            if node not in self._known:
                self._known.add(node)
                self.graph.add_step(self.run, node)
                self.graph.bind(self.run, node, self._key.format(node=node))
            self.graph.start(self.run, node)
        elif task.get("error"):
            self.graph.fail(self.run, node, "retry")
        elif node in self._choosers:
            self._undecided.add(node)
        else:
            self.graph.finish(self.run, node)

    def follow(self, events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Passes task events through and reports each to the graph."""
        for event in events:
            self.event(event)
            yield event

    def stream(self, inputs: Any, config: Any = None, *, run: str | None = None,
               **options: Any) -> Iterator[Any]:
        """Calls ``compiled.stream`` and follows it: yields (mode, event), including tasks."""
        self.begin(run)
        how = "failed"
        try:
            for mode, event in self.compiled.stream(inputs, config, **self._modes(options)):
                if mode == "tasks":
                    self.event(event)
                yield mode, event
            how = "finished"
        finally:
            self._end(how)

    async def astream(self, inputs: Any, config: Any = None, *, run: str | None = None,
                      **options: Any) -> AsyncIterator[Any]:
        """The same for asyncio."""
        self.begin(run)
        how = "failed"
        try:
            async for mode, event in self.compiled.astream(inputs, config, **self._modes(options)):
                if mode == "tasks":
                    self.event(event)
                yield mode, event
            how = "finished"
        finally:
            self._end(how)

    def invoke(self, inputs: Any, config: Any = None, *, run: str | None = None) -> Any:
        """Calls ``compiled.invoke`` and follows it: returns the last values."""
        last = None
        for mode, event in self.stream(inputs, config, run=run, stream_mode=["values"]):
            last = event if mode == "values" else last
        return last

    async def ainvoke(self, inputs: Any, config: Any = None, *, run: str | None = None) -> Any:
        """The same for asyncio."""
        last = None
        async for mode, event in self.astream(inputs, config, run=run, stream_mode=["values"]):
            last = event if mode == "values" else last
        return last

    def _modes(self, options: dict[str, Any]) -> dict[str, Any]:
        modes = options.pop("stream_mode", [])
        modes = [modes] if isinstance(modes, str) else list(modes)
        return {"stream_mode": [*modes, *([] if "tasks" in modes else ["tasks"])], **options}

    def _end(self, how: str) -> None:
        try:
            self.finish(how)
        except SpillwayError:
            self.run = ""  # The run had expired already; that is harmless.
