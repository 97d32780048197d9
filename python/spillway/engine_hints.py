# SPDX-License-Identifier: Apache-2.0
"""Tells an OpenAI-compatible server which run, agent and step a request belongs to.

>>> hints = RequestHints(document)                      # a run of a step graph, or a dict
>>> client.chat.completions.create(model=..., messages=..., **hints.step("plan"))

``step`` returns keyword arguments for openai's client: ``kv_transfer_params`` in ``extra_body``. The
server passes them to SpillwayTier, which orders eviction by the run's graph and prefetches what the
next steps need. Imports nothing; ``hints.params("plan")`` is the bare dictionary for any client.
"""

from __future__ import annotations

from typing import Any


class RequestHints:
    """The hints of one run. Its first request carries the graph, later ones the step only.

    ``graph`` is a run's document (docs/reference/step-graph.md), a ``spillway.langgraph.Cursor``, or
    None for requests without a graph. ``session`` tells conversations of one agent apart; the graph
    must then name its agents SESSION/AGENT.
    """

    def __init__(self, graph: Any = None, *, run: str | None = None, session: str | None = None,
                 ttl: float | None = None):
        if hasattr(graph, "document"):
            run = run or graph.run or "run"
            graph = graph.document(run)
        self._graph, self._session, self._ttl = graph, session, ttl
        self._run = run or (graph or {}).get("run")
        self._agents = {step["id"]: step.get("agent") or step["id"]
                        for step in (graph or {}).get("steps", ())}

    def params(self, step: str | None = None, *, agent: str | None = None,
               hint: str | None = None, eta: float | None = None) -> dict[str, Any]:
        """``kv_transfer_params`` of a request by this step."""
        if agent is None and step is not None:  # An agent of a session's graph is SESSION/AGENT.
            agent = self._agents.get(step, step)
            if self._session and agent.startswith(self._session + "/"):
                agent = agent[len(self._session) + 1:]
        said = {"agent": agent, "session": self._session, "run": self._run, "step": step,
                "ttl": self._ttl, "hint": hint, "eta": eta, "graph": self._graph}
        self._graph = None  # The server keeps it.
        return {f"spillway.{name}": value for name, value in said.items() if value is not None}

    def step(self, step: str | None = None, **more: Any) -> dict[str, Any]:
        """Keyword arguments for ``client.chat.completions.create``."""
        return {"extra_body": {"kv_transfer_params": self.params(step, **more)}}
