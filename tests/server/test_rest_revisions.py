"""History over REST: one list, who set each field, the graph as it was, what differs, and
back to it.
"""

from typing import Any

import pytest

from datasources.instructions import GraphInstruction
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.approvals import Approve, ProposalRefused
from graphrag.layout import MAX_EDGES
from graphrag.leases import now_ms
from graphrag.live.instruction_batch import apply_instructions
from graphrag.roles import Person
from tests.server.test_live_edits import Edited, edited
from tests.support.agents import an_ask
from tests.support.service import GRAPH, error_of, service, token
from tests.support.waiting import another_moment

PATH = f"/api/graphs/{GRAPH}"


async def _get(it: Edited, path: str, **query: Any) -> dict[str, Any]:
    answer = await it.ed.get(f"{PATH}/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_person_looks_back_compares_and_brings_a_node_back() -> None:
    async with edited() as it:
        was = it.value("root", "posX")
        begin = now_ms()
        await another_moment()
        for value in range(1, 6):
            await it.does("root", "posX", 1000 + value, "ann")
        first = await _get(it, "revisions", limit=3)
        rest = await _get(it, "revisions", limit=3, cursor=first["cursor"])
        shown = [*first["revisions"], *rest["revisions"]]
        assert [(one["kind"], one["by"]) for one in shown[:5]] == [("edit", "ann")] * 5
        assert len({one["revision"] for one in shown}) == len(shown)
        past = await _get(it, f"revisions/{begin}")
        assert next(node for node in past["nodes"] if node["_key"] == "root")["posX"] == was
        [moved] = (await _get(it, "compare", **{"from": begin}))["preview"]["nodesMoved"]
        assert moved["key"] == "root"
        assert moved["fields"] == [{"path": ["posX"], "before": was, "after": 1005}]
        fields = {one["field"]: one for one in (await _get(it, "blame", node="root"))["fields"]}
        assert (fields["posX"]["by"], fields["posX"]["time"]) == (
            "ann",
            first["revisions"][0]["revision"],
        )
        restore = f"{PATH}/revisions/{begin}/restore"
        proposed = (await it.ed.post(restore, json={"propose": True, "nodes": ["root"]})).json()[
            "approval"
        ]
        assert (proposed["status"], it.value("root", "posX")) == ("pending", 1005)
        done = await it.ed.post(restore, json={})
        assert it.value("root", "posX") == was
        assert error_of(await it.ed.post(restore, json={}))["code"] == "invalid"
        assert (await it.undo(done.json()["id"])).status_code == 200
        assert it.value("root", "posX") == 1005


async def test_viewers_look_and_strangers_find_nothing() -> None:
    async with edited() as it, it.running.as_("vic", "viewer") as viewer:
        await it.does("root", "posX", 11)
        assert (await viewer.get(f"{PATH}/blame", params={"node": "root"})).status_code == 200
        assert (await viewer.post(f"{PATH}/revisions/1/restore", json={})).status_code == 403
        assert (
            error_of(await viewer.get(f"{PATH}/blame", params={"node": "nope"}))["code"]
            == "invalid"
        )
        assert (await viewer.get(f"{PATH}/revisions/-1")).status_code == 422
        async with it.running.client(token("sam", "admin", ("globex",))) as stranger:
            for path in ("revisions", "revisions/5", "compare?from=5", "blame?node=root"):
                assert (await stranger.get(f"{PATH}/{path}")).status_code == 404
            assert (await stranger.post(f"{PATH}/revisions/5/restore", json={})).status_code == 404


async def test_a_deletion_and_a_restore_change_nothing_of_the_graph_as_it_was() -> None:
    async with edited() as it, it.running.as_("rita", "reviewer") as rita:
        begin = now_ms()
        await another_moment()
        await it.does("root", "posX", 1234, "ann")
        changes = {"nodeKey": "error-handler", "changes": {"data.level": "warning"}}
        action = {"type": "update_node", "payload": changes}
        approvals = (await it.running.state.services("default")).approvals
        ed = Person("ed", "editor", "default")
        reviewer = Person("rita", "reviewer", "default")
        made = await approvals.propose(action, an_ask(asker=ed))
        await approvals.decide(made.id, Approve(), reviewer)
        past = await _get(it, f"revisions/{begin}")
        assert (await it.ed.delete(PATH)).status_code == 200
        assert (await it.ed.post(f"{PATH}/restore")).status_code == 200
        again = await _get(it, f"revisions/{begin}")
        assert (again["nodes"], again["edges"], again["gaps"]) == (past["nodes"], past["edges"], 0)
        [level] = [
            one
            for one in (await _get(it, "blame", node="error-handler"))["fields"]
            if one["field"] == "data.level"
        ]
        assert level["approvalId"] == made.id
        assert (await rita.post(f"{PATH}/undo", json={"approvalId": made.id})).status_code == 200


def put(node: str, sheet: str, field: str, value: object) -> GraphInstruction:
    sent: dict[str, Any] = {
        "i": {"o": 1, "p": [field], "v": value},
        "sheetId": sheet,
        "nodeId": node,
    }
    return GraphInstruction.model_validate(sent)


async def test_tidy_says_where_nodes_would_stand_and_stores_nothing() -> None:
    async with service() as running, running.as_() as client:
        path = f"/api/graphs/{GRAPH}"
        before = (await client.get(f"{path}/nodes")).json()
        live = await running.state.backend.live.open("default", GRAPH)
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
        assert (
            await client.post(f"/api/graphs/{GRAPH}/tidy", json={"nodes": []})
        ).status_code == 422
        assert (await client.post("/api/graphs/nothing/tidy", json={})).status_code == 404
    async with service() as running, running.as_("eve", "admin", "elsewhere") as client:
        assert (await client.post(f"/api/graphs/{GRAPH}/tidy", json={})).status_code == 404


async def test_what_would_take_many_seconds_is_refused_also_as_a_proposal_and_a_sheet_of_it_is_arranged() -> (
    None
):
    async with service() as running, running.as_("vic", "viewer") as client:
        ends = {"graph_key": "many", "source": "a", "target": "b", "sheet": "1"}
        nodes = [
            Node(key=key, graph_key="many", type="task", sheet=sheet)
            for key, sheet in ("a1", "b1", "c0")
        ]
        edges = [Edge(key=f"e{i}", **ends) for i in range(MAX_EDGES + 1)]
        graph = Graph(
            key="many", name="Many", workspace="default", sheets_list={"0": "small", "1": "large"}
        )
        approvals = (await running.state.services("default")).approvals
        content = Mutation(graph_key="many", put_nodes=nodes, put_edges=edges)
        await approvals.source.create_graph(graph, content)
        assert error_of(await client.post("/api/graphs/many/tidy", json={}))["code"] == "invalid"
        assert (await client.post("/api/graphs/many/tidy", json={"sheet": "0"})).status_code == 200
        action = {"type": "reorganize_layout", "payload": {"nodeKeys": ["a", "b"]}}
        asker = Person("ed", "editor", "default")
        with pytest.raises(ProposalRefused, match="cannot be arranged at once"):
            await approvals.propose(action, an_ask("many", asker))
