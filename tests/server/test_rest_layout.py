"""The preview of a tidy layout: read by viewers too, with unsaved edits, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest

from datasources.instructions import GraphInstruction
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.approvals import Asked, ProposalRefused
from graphrag.layout import MAX_EDGES
from graphrag.live.instruction_batch import apply_instructions
from graphrag.roles import Person
from tests.support.service import GRAPH, error_of, service


def put(node: str, sheet: str, field: str, value: object) -> GraphInstruction:
    sent: dict[str, Any] = {"i": {"o": 1, "p": [field], "v": value}, "sheetId": sheet, "nodeId": node}
    return GraphInstruction.model_validate(sent)


async def test_tidy_says_where_nodes_would_stand_and_stores_nothing() -> None:
    async with service() as running, running.as_() as client:
        path = f"/api/graphs/{GRAPH}"
        before = (await client.get(f"{path}/nodes")).json()
        live = await running.state.live.open("default", GRAPH)
        await live.edit("ed", None, apply_instructions, [put("root", "0", "posX", 5000)])
        found = (await client.post(f"{path}/tidy", json={"sheet": "0"})).json()
        assert "root" in found["positions"], "the unsaved edit counts"
        assert found["crossingsAfter"] <= found["crossingsBefore"]
        names = {node["_key"] for node in before["nodes"] if node["sheet"] == "0"}
        assert found["positions"].keys() <= names
        await live.edit("ed", None, apply_instructions, [put("root", "0", "pinned", True)])
        pinned = (await client.post(f"{path}/tidy", json={"sheet": "0"})).json()["positions"]
        assert "root" not in pinned
        some = (await client.post(f"{path}/tidy", json={"nodes": ["root"]})).json()["positions"]
        assert some == {}
        now = {n["_key"]: n["posX"] for n in (await client.get(f"{path}/nodes")).json()["nodes"]}
        assert {**now, "root": 0} == {n["_key"]: n["posX"] for n in before["nodes"]} | {"root": 0}
        await live.edit(
            "ed",
            None,
            apply_instructions,
            [
                put(key, "0", name, spot[at])
                for key, spot in pinned.items()
                for name, at in (("posX", "x"), ("posY", "y"))
            ],
        )
        again = (await client.post(f"{path}/tidy", json={"sheet": "0"})).json()
        assert again["crossingsBefore"] == again["crossingsAfter"]


async def test_tidy_refuses_what_it_does_not_know() -> None:
    async with service() as running, running.as_() as client:
        assert (await client.post(f"/api/graphs/{GRAPH}/tidy", json={"nodes": []})).status_code == 422
        assert (await client.post("/api/graphs/nothing/tidy", json={})).status_code == 404
    async with service() as running, running.as_("eve", "admin", "elsewhere") as client:
        assert (await client.post(f"/api/graphs/{GRAPH}/tidy", json={})).status_code == 404


async def test_what_would_take_many_seconds_is_refused_also_as_a_proposal_and_a_sheet_of_it_is_arranged() -> (
    None
):
    async with service() as running, running.as_("vic", "viewer") as client:
        ends = {"graph_key": "many", "source": "a", "target": "b", "sheet": "1"}
        nodes = [
            Node(key=key, graph_key="many", type="task", sheet=sheet) for key, sheet in ("a1", "b1", "c0")
        ]
        edges = [Edge(key=f"e{i}", **ends) for i in range(MAX_EDGES + 1)]
        graph = Graph(key="many", name="Many", workspace="default", sheets_list={"0": "small", "1": "large"})
        approvals = (await running.state.services("default")).approvals
        content = Mutation(graph_key="many", put_nodes=nodes, put_edges=edges)
        await approvals.source.create_graph(graph, content)
        assert error_of(await client.post("/api/graphs/many/tidy", json={}))["code"] == "invalid"
        assert (await client.post("/api/graphs/many/tidy", json={"sheet": "0"})).status_code == 200
        action = {"type": "reorganize_layout", "payload": {"nodeKeys": ["a", "b"]}}
        asker = Person("ed", "editor", "default")
        with pytest.raises(ProposalRefused, match="not arranged at once"):
            await approvals.propose(
                action,
                Asked(graph_key="many", thread_id="t", turn=0, tool_call_id="c", asker=asker, model="m"),
            )
