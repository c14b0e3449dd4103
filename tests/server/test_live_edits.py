"""Live graphs over REST: one look, who edits, and edits that are listed and taken back
one by one.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from datasources.instructions import GraphInstruction
from graphrag.client.rest import NodiusClient, ServiceError
from graphrag.live import AppliedEdit, LiveGraph
from graphrag.live.edits import create_elements, create_sheet
from graphrag.live.instruction_batch import apply_instructions
from tests.graphrag.live.helpers import heard
from tests.support.chosen_database import address_in
from tests.support.service import GRAPH, Service, error_of, service, token
from tests.support.ws_server import token as token_of
from tests.support.ws_server import ws_server
from tools.actions.field_changes import json_document

PATH = f"/api/graphs/{GRAPH}/history"


def put(node: str, field: str, value: Any) -> GraphInstruction:
    raw = {"i": {"o": 1, "p": field.split("."), "v": value}, "sheetId": "0", "nodeId": node}
    return GraphInstruction.model_validate(raw)


@dataclass(frozen=True, slots=True)
class Edited:
    """A service with an opened live graph."""

    running: Service
    live: LiveGraph
    ed: httpx2.AsyncClient

    async def does(self, node: str, field: str, value: Any, user: str = "ed") -> AppliedEdit:
        return await self.live.edit(user, None, apply_instructions, [put(node, field, value)])

    async def edits(self) -> list[dict[str, Any]]:
        answer = await self.ed.get(PATH)
        assert answer.status_code == 200, answer.text
        return answer.json()["edits"]

    async def undo(self, edit: AppliedEdit | str) -> httpx2.Response:
        edit_id = edit if isinstance(edit, str) else str(edit.timestamp)
        return await self.ed.post(f"{PATH}/{edit_id}/take-back")

    def value(self, node: str, name: str) -> Any:
        return next(n.to_document() for n in self.live.nodes if n.key == node).get(name)


@asynccontextmanager
async def edited() -> AsyncIterator[Edited]:
    async with service() as running, running.as_() as ed:
        yield Edited(running, await running.state.backend.live.open("default", GRAPH), ed)


@pytest.mark.parametrize("saved", [False, True])
async def test_edits_are_listed_newest_first_whether_saved_or_not(saved: bool) -> None:
    async with edited() as it:
        first = await it.does("root", "posX", 11, "ann")
        second = await it.does("root", "posY", 12, "bob")
        if saved:
            await it.live.save()
        found = await it.edits()
        assert [(e["id"], e["userId"], e["saved"]) for e in found] == [
            (str(second.timestamp), "bob", saved),
            (str(first.timestamp), "ann", saved),
        ]
        assert found[0]["steps"] == [{"type": "nodeUpdate", "keys": ["root"], "field": "posY"}]
        [latest] = (await it.ed.get(PATH, params={"limit": 1})).json()["edits"]
        assert latest == found[0]


@pytest.mark.parametrize("saved", [False, True])
async def test_one_edit_is_taken_back_and_the_others_stay(saved: bool) -> None:
    async with edited() as it:
        was = it.value("root", "posX")
        first = await it.does("root", "posX", 11)
        await it.does("root", "posY", 12)
        if saved:
            await it.live.save()
        member = it.live.join("bob", "0")
        done = (await it.undo(first)).json()
        assert (it.value("root", "posX"), it.value("root", "posY")) == (was, 12)
        assert [m["timestamp"] for m in heard(member) if "userId" in m] == [int(done["id"])]
        back, _, taken = await it.edits()
        assert (
            (back["takesBack"], taken["takenBackBy"])
            == (taken["id"], back["id"])
            == (done["takenBack"], done["id"])
        )
        assert (await it.undo(done["id"])).status_code == 200
        assert it.value("root", "posX") == 11


async def test_a_node_that_somebody_worked_on_is_not_taken_away_by_who_made_it() -> None:
    async with edited() as it:
        root = next(node for node in it.live.nodes if node.key == "root")
        made = {**json_document(root), "_key": "made"}
        created = await it.live.edit("ann", None, create_elements, "0", [made], [])
        moved = await it.does("made", "posX", 99, "bob")
        assert "changed since" in error_of(await it.undo(created))["message"]
        assert (await it.undo(moved)).status_code == 200
        assert (await it.undo(created)).status_code == 200
        assert "made" not in {node.key for node in it.live.nodes}
        assert "deleted" in error_of(await it.undo(created))["message"]


async def test_a_taken_back_edit_is_stored_by_a_server_that_starts_later(tmp_path: Any) -> None:
    db = address_in(tmp_path / "n.db")
    async with service(db=db) as running, running.as_() as ed:
        raw = (await _sample()).encode()
        key = (await ed.post("/api/graphs/import", content=raw)).json()["graphKey"]
        live = await running.state.backend.live.open("default", key)
        await live.edit("ed", None, apply_instructions, [put("root", "posX", 11)])
    async with service(db=db) as running, running.as_() as ed:
        path = f"/api/graphs/{key}/history"
        [edit] = (await ed.get(path)).json()["edits"]
        assert edit["saved"]
        assert (await ed.post(f"{path}/{edit['id']}/take-back")).status_code == 200
    async with service(db=db) as running, running.as_() as ed:
        nodes = (await ed.get(f"/api/graphs/{key}/nodes")).json()["nodes"]
        assert next(n for n in nodes if n["_key"] == "root")["posX"] != 11


async def _sample() -> str:
    async with service() as running, running.as_() as ed:
        return (await ed.get(f"/api/graphs/{GRAPH}/export")).text


async def test_viewers_look_and_take_nothing_back() -> None:
    async with edited() as it, it.running.as_("vic", "viewer") as viewer:
        done = await it.does("root", "posX", 11)
        assert len((await viewer.get(PATH)).json()["edits"]) == 1
        assert (await viewer.post(f"{PATH}/{done.timestamp}/take-back")).status_code == 403
        assert it.value("root", "posX") == 11


async def test_an_edit_or_graph_that_is_not_there_is_said_so() -> None:
    async with edited() as it:
        assert error_of(await it.undo("17"))["code"] == "not_found"
        assert (await it.ed.get("/api/graphs/nope/history")).status_code == 404
        assert (await it.ed.post("/api/graphs/nope/history/17/take-back")).status_code == 404


async def test_the_client_lists_and_takes_back() -> None:
    async with edited() as it:
        done = await it.does("root", "posX", 11)
        transport = httpx2.ASGITransport(app=it.running.app)
        async with NodiusClient(token=token(), transport=transport) as client:
            [edit] = (await client.get("graphs", GRAPH, "history"))["edits"]
            taken = await client.post("graphs", GRAPH, "history", edit["id"], "take-back")
            assert taken["takenBack"] == str(done.timestamp)
            with pytest.raises(ServiceError, match="changed since"):
                await client.post("graphs", GRAPH, "history", edit["id"], "take-back")
            assert it.value("root", "posX") != 11


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
        live = await running.state.backend.live.open("default", GRAPH)
        done = await live.edit("ed", None, create_sheet, "new")
        seen = (await client.get(f"/api/graphs/{GRAPH}/view")).json()
        assert seen["timestamp"] == done.timestamp
        assert "new" in seen["graph"]["sheetsList"].values()


async def test_editors_are_listed_by_sheet_and_window_until_they_leave() -> None:
    async with service() as running, running.as_() as client:
        path = f"/api/graphs/{GRAPH}/editors"
        assert (await client.get(path)).json()["editors"] == []
        live = await running.state.backend.live.open("default", GRAPH)
        members = [
            live.join(user, sheet) for user, sheet in (("ed", "0"), ("ed", "0"), ("flo", "1"))
        ]
        assert (await client.get(path)).json()["editors"] == [
            {"userId": "ed", "sheet": "0", "windows": 2},
            {"userId": "flo", "sheet": "1", "windows": 1},
        ]
        for member in members:
            live.leave(member)
        assert (await client.get(path)).json()["editors"] == []


async def test_a_websocket_answers_in_the_language_that_its_address_asks_for() -> None:
    async with ws_server() as running, running.client(token_of()) as english:
        refused = await english.ask("applyInstructionToGraph", _id=1, instructions=[{}])
        async with running.client(token_of(), path="/ws?lang=fr") as french:
            refuse = await french.ask("applyInstructionToGraph", _id=1, instructions=[{}])
    assert refused["_response"]["message"] != refuse["_response"]["message"]
