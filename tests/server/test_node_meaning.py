"""What a node does, as the page's panel and the review of a proposal show it."""

from typing import Any

from datasources.instructions import GraphInstruction
from graphrag.live.instruction_batch import apply_instructions
from tests.server.test_live_edits import edited
from tests.support.agents import an_ask
from tests.support.service import GRAPH, error_of

PATH = f"/api/graphs/{GRAPH}/meaning"


async def test_the_line_is_of_the_node_as_it_is_being_edited() -> None:
    async with edited() as it:
        before = (await it.ed.get(PATH, params={"node": "filter-active"})).json()
        assert before == {"node": "filter-active", "does": "minGames: 10"}
        sheet = it.value("filter-active", "sheet")
        sent: dict[str, Any] = {
            "i": {"o": 1, "p": ["data", "minGames"], "v": 25},
            "sheetId": sheet,
            "nodeId": "filter-active",
        }
        change = GraphInstruction.model_validate(sent)
        await it.live.edit("ann", None, apply_instructions, [change])
        after = (await it.ed.get(PATH, params={"node": "filter-active"})).json()
        assert after["does"] == "minGames: 25"
        missing = await it.ed.get(PATH, params={"node": "nope"})
        assert "no node 'nope'" in error_of(missing)["message"]


async def test_lines_of_several_nodes_leave_out_those_that_say_nothing_or_are_gone() -> None:
    async with edited() as it:
        asked = {"nodes": ["filter-active", "root", "gone", "filter-active"]}
        answer = await it.ed.post(f"/api/graphs/{GRAPH}/meanings", json=asked)
        assert answer.json() == {"does": {"filter-active": "minGames: 10"}}
        refused_bodies: list[dict[str, list[str]]] = [{"nodes": []}, {"nodes": ["a"] * 301}, {}]
        for wrong in refused_bodies:
            refused = await it.ed.post(f"/api/graphs/{GRAPH}/meanings", json=wrong)
            assert refused.status_code == 422


async def test_a_proposed_node_says_what_it_does_alone_and_in_a_batch() -> None:
    request = {
        "type": "create_node",
        "payload": {
            "typeKey": "api-call",
            "data": {"name": "Get teams", "method": "GET", "url": "https://api.example.com/teams"},
        },
    }
    rename = {
        "type": "update_node",
        "payload": {"nodeKey": "root", "changes": {"data.name": "Start"}},
    }
    async with edited() as it:
        approvals = (await it.running.state.services("default")).approvals
        alone = await approvals.propose(request, an_ask())
        batch = {"type": "batch", "payload": {"actions": [rename, request]}}
        several = await approvals.propose(batch, an_ask())
        does = "method: GET; url: https://api.example.com/teams"
        [part] = (await it.ed.get(f"/api/approvals/{alone.id}")).json()["parts"]
        assert part["does"] == does
        renamed, created = (await it.ed.get(f"/api/approvals/{several.id}")).json()["parts"]
        assert "does" not in renamed
        assert created["does"] == does
