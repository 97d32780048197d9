#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plan, act, review: three agents, their contexts in a cache, and a step graph that predicts which
context is needed next.

Calls only functions of this file: put your model in place of `think`.
"""

import spillway

WORKFLOW = {
    "run": "fix-the-bug",
    "workflow": "plan-act-review",
    "steps": [{"id": "plan"}, {"id": "act"}, {"id": "review"}, {"id": "report"}],
    "edges": [{"from": "plan", "to": "act"},
              {"from": "act", "to": "review"},
              {"from": "review", "to": "act", "kind": "back"},
              {"from": "review", "to": "report"}],
    "bind": [{"agent": agent, "key": f"context:{agent}"}
             for agent in ("plan", "act", "review", "report")],
}


def think(agent: str, context: bytes) -> bytes:
    """Stands for a model: returns the context it was given, and some more."""
    return context + f"[{agent} thought] ".encode()


def turn(cache: spillway.Cache, agent: str) -> None:
    """One step of an agent: reads its context from the cache, and stores it longer."""
    key = f"context:{agent}"
    known = cache.get(key)
    context = b"" if known is None else bytes(known)
    answer = think(agent, context)
    if not cache.set(key, answer, tokens=len(answer) // 4, agent=agent):
        print(f"  not kept: {cache.explain(key)}")


def main() -> None:
    with spillway.Cache(capacity="64MiB") as cache:
        graph = cache.step_graph
        run = graph.load(WORKFLOW)
        for agent in ("plan", "act", "review"):
            with graph.step(run, agent):
                turn(cache, agent)
            print(f"after {agent}: next to leave", cache.leaving_order())
        graph.loop(run, "review", "act")  # The review was not satisfied.
        print("act runs again in", graph.steps_to_execution(run, "act"), "steps")
        for agent in ("act", "review", "report"):
            with graph.step(run, agent):
                turn(cache, agent)
        graph.end(run)
        print(cache.size, "contexts,", cache.total_tokens, "tokens, mode", cache.mode.value)
        assert bytes(cache.get("context:act")).count(b"act thought") == 2


if __name__ == "__main__":
    main()
