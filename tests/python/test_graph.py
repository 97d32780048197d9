# SPDX-License-Identifier: Apache-2.0
"""Step graphs, ours and LangGraph's."""

import pytest

import spillway

RUN = {"run": "r", "steps": [{"id": "plan"}, {"id": "act"}, {"id": "review"}],
       "edges": [{"from": "plan", "to": "act"}, {"from": "act", "to": "review"}],
       "bind": [{"agent": agent, "key": f"context:{agent}"}
                for agent in ("plan", "act", "review")]}


def test_a_run_orders_who_leaves(cache):
    graph = spillway.StepGraph()
    cache.step_graph = graph
    assert graph.load(RUN) == "r"
    for agent in ("plan", "act", "review"):
        cache.set(f"context:{agent}", b"x")
    with graph.step("r", "plan"):
        assert cache.leaving_order() == ["context:review", "context:act"]  # Who runs, stays.
        cache.apply(0.75)
        assert cache.mode is spillway.Mode.WORKFLOW_AWARE and cache.level is spillway.Mode.NORMAL
    assert [step["state"] for step in graph.steps("r")] == ["done", "ready", "pending"]
    assert graph.get_eviction_priority_order()[-1] == "act"
    assert graph.eviction_order()[0] == "context:plan"
    graph.end("r")
    with pytest.raises(spillway.InvalidArgument):
        graph.start("r", "act")


def test_a_step_that_raises_has_failed():
    graph = spillway.StepGraph()
    graph.load(RUN)
    with pytest.raises(ZeroDivisionError):
        with graph.step("r", "plan"):
            1 / 0
    assert graph.steps("r")[0]["state"] == "failed"


def test_bit_by_bit_with_a_choice_and_a_loop():
    graph = spillway.StepGraph()
    graph.begin("s", workflow="flow")
    for step in ("one", "two", "three"):
        graph.add_step("s", step)
    graph.add_edge("s", "one", "two", choice="c")
    graph.add_edge("s", "one", "three", choice="c")
    graph.add_edge("s", "two", "one", back=True)
    graph.bind("s", "two", "k", "volatile")
    graph.start("s", "one")
    graph.finish("s", "one", taken=["two"])
    assert graph.steps_to_execution("s", "two") == 0
    assert graph.validate("s") == []
    graph.start("s", "two")
    graph.finish("s", "two")
    graph.loop("s", "two", "one")
    graph.skip("s", "one")
    for wrong in (lambda: graph.bind("s", "two", "k", "eternal"),
                  lambda: graph.fail("s", "two", "panic"), lambda: graph.end("s", "well"),
                  lambda: graph.load({"run": 3}), lambda: graph.load("{")):
        with pytest.raises(spillway.InvalidArgument):
            wrong()
    assert graph.explain("never heard of") is None


def test_a_graph_from_elsewhere(cache):
    class Order:
        agents = ["late", "soon"]

        def get_eviction_priority_order(self):
            return self.agents

    cache.set("context:late", b"1")
    cache.set("context:soon", b"2")
    graph = Order()
    cache.step_graph = graph
    assert cache.step_graph is graph
    assert cache.leaving_order() == ["context:late", "context:soon"]
    graph.agents = ["soon", "late"]
    cache.refresh_order()
    with pytest.raises(spillway.InvalidArgument, match="get_eviction_priority_order"):
        cache.step_graph = object()
    cache.step_graph = None


# --- LangGraph, for real ---


def _compiled():
    langgraph = pytest.importorskip("langgraph.graph")
    import operator
    from typing import Annotated, TypedDict

    class State(TypedDict):
        rounds: Annotated[int, operator.add]
        log: Annotated[list, operator.add]

    def node(name):
        return lambda state: {"log": [name], "rounds": int(name == "review")}

    builder = langgraph.StateGraph(State)
    for name in ("plan", "act", "test", "review"):
        builder.add_node(name, node(name))
    builder.add_edge(langgraph.START, "plan")
    builder.add_edge("plan", "act")
    builder.add_edge("plan", "test")
    builder.add_edge(["act", "test"], "review")
    builder.add_conditional_edges("review", lambda state: "plan" if state["rounds"] < 2 else "end",
                                  {"plan": "plan", "end": langgraph.END})
    return builder.compile()


def test_langgraph_becomes_a_step_graph(cache):
    cursor = spillway.graph.from_langgraph(_compiled(), cache=cache)
    document = cursor.document("r")
    assert {step["id"] for step in document["steps"]} == {"plan", "act", "test", "review"}
    joins = {step["id"]: step["join"] for step in document["steps"]}
    assert joins["review"] == "all" and joins["plan"] == "any"
    kinds = {(edge["from"], edge["to"]): edge["kind"] for edge in document["edges"]}
    assert kinds[("review", "plan")] == "back" and kinds[("plan", "act")] == "forward"
    cursor.begin("r")
    assert cache.step_graph.validate("r") == []
    assert cache.step_graph.steps_to_execution("r", "review") == 2
    cursor.finish()


def test_the_cursor_follows_a_run(cache):
    cursor = spillway.graph.from_langgraph(_compiled(), cache=cache)
    graph, seen = cache.step_graph, {}
    for mode, event in cursor.stream({"rounds": 0, "log": []}, run="live"):
        if mode == "tasks" and "triggers" in event:
            states = {step["id"]: step for step in graph.steps("live")}
            assert states[event["name"]]["state"] == "running"
            seen[event["name"]] = states[event["name"]]["visits"]
    assert seen == {"plan": 2, "act": 2, "test": 2, "review": 2}
    assert cursor.run == ""
    result = cursor.invoke({"rounds": 0, "log": []})
    assert result["rounds"] == 2 and len(result["log"]) == 8


def test_the_cursor_follows_asyncio(cache):
    import asyncio
    cursor = spillway.graph.from_langgraph(_compiled(), cache=cache)
    result = asyncio.run(cursor.ainvoke({"rounds": 0, "log": []}))
    assert result["rounds"] == 2


def test_nodes_that_only_show_up_at_run_time():
    cursor = spillway.graph.from_langgraph(_compiled())
    cursor.begin("r")
    cursor.event({"id": "1", "name": "surprise", "input": {}, "triggers": []})
    assert cursor.graph.steps("r")[-1]["id"] == "surprise"
    cursor.event({"id": "1", "name": "surprise", "error": None, "result": {}, "interrupts": []})
    cursor.finish()
    with pytest.raises(spillway.InvalidArgument, match="compiled"):
        spillway.graph.from_langgraph(object())
