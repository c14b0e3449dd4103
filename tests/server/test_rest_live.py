"""One look at a graph, and who edits it."""

from __future__ import annotations

import httpx2

from graphrag.live.edits import create_sheet
from tests.support.service import GRAPH, service
from tests.support.ws_server import token, ws_server


async def test_a_look_holds_the_graph_its_nodes_edges_and_types() -> None:
    async with service() as running, running.as_(role="viewer") as client:
        seen = (await client.get(f"/api/graphs/{GRAPH}/view")).json()
        nodes = (await client.get(f"/api/graphs/{GRAPH}/nodes")).json()["nodes"]
        edges = (await client.get(f"/api/graphs/{GRAPH}/edges")).json()["edges"]
    assert seen["graph"]["sheetsList"] == {"0": "main", "1": "data-processing"}
    assert seen["nodes"] == nodes
    assert seen["edges"] == edges
    assert seen["timestamp"] == 0
    types = {kind["type"]: kind for kind in seen["types"]}
    assert types["api-call"]["displayName"] == "API Call"
    assert "await fetch" in types["api-call"]["process"]
    assert types["starter"]["icon"] == "Play"
    assert "content" not in types["html"]
    assert set(types["api-call"]["handles"]) == {"L", "R"}
    assert types["api-call"]["size"]["width"] > 0


async def test_a_look_of_a_live_graph_tells_the_time_of_the_last_edit_it_holds() -> None:
    async with service() as running, running.as_() as client:
        live = await running.state.live.open("default", GRAPH)
        done = await live.edit("ed", None, create_sheet, "new")
        seen = (await client.get(f"/api/graphs/{GRAPH}/view")).json()
        assert seen["timestamp"] == done.timestamp
        assert "new" in seen["graph"]["sheetsList"].values()


async def test_editors_are_listed_by_sheet_and_window_until_they_leave() -> None:
    async with service() as running, running.as_() as client:
        path = f"/api/graphs/{GRAPH}/editors"
        assert (await client.get(path)).json()["editors"] == []
        live = await running.state.live.open("default", GRAPH)
        members = [live.join(user, sheet) for user, sheet in (("ed", "0"), ("ed", "0"), ("flo", "1"))]
        assert (await client.get(path)).json()["editors"] == [
            {"userId": "ed", "sheet": "0", "windows": 2},
            {"userId": "flo", "sheet": "1", "windows": 1},
        ]
        for member in members:
            live.leave(member)
        assert (await client.get(path)).json()["editors"] == []


async def test_a_graph_of_another_workspace_is_not_there() -> None:
    async with service() as running, running.as_("eve", "admin", "elsewhere") as client:
        await running.state.live.open("default", GRAPH)
        for what in ("view", "editors"):
            answer: httpx2.Response = await client.get(f"/api/graphs/{GRAPH}/{what}")
            nothing = await client.get(f"/api/graphs/nothing/{what}")
            assert answer.status_code == nothing.status_code == 404
            assert answer.json()["error"]["code"] == nothing.json()["error"]["code"]


async def test_a_websocket_answers_in_the_language_that_its_address_asks_for() -> None:
    async with ws_server() as running, running.client(token()) as english:
        refused = await english.ask("applyInstructionToGraph", _id=1, instructions=[{}])
        async with running.client(token(), path="/ws?lang=fr") as french:
            refuse = await french.ask("applyInstructionToGraph", _id=1, instructions=[{}])
    assert refused["_response"]["message"] != refuse["_response"]["message"]
