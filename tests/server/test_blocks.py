"""Blocks by every channel: checked when sent, previewed, and shown as notes beside the messages."""

from __future__ import annotations

from typing import Any

from tests.support.commands import run_command
from tests.support.each_row import each_row
from tests.support.scripted_provider import ScriptedProvider
from tests.support.service import GRAPH, service
from tests.support.ws_server import token, ws_server

USE: dict[str, Any] = {"id": "b1", "type": "USE", "target": {"kind": "node", "key": "fetch-api"}}
POINTER: dict[str, Any] = {"id": "b2", "type": "POINTER", "target": {"kind": "graph", "key": GRAPH}}
ASKED: dict[str, Any] = {"graphKey": GRAPH, "message": "What of it?"}


def changed(**fields: Any) -> dict[str, Any]:
    return {**USE, **fields}


async def test_what_blocks_find_is_listed_apart_from_the_messages() -> None:
    async with ScriptedProvider("Fine.") as model, service(model) as running, running.as_() as ed:
        sent = {**ASKED, "blocks": [USE, POINTER]}
        thread = (await ed.post("/api/ai/chat", json=sent)).json()["threadId"]
        read = (await ed.get(f"/api/ai/thread/{thread}/messages")).json()
    said = read["conversationHistory"]
    assert [one["role"] for one in said] == ["system", "system", "user", "assistant"]
    assert not any("systemKind" in one for one in said)
    [note] = read["notes"]
    assert (note["systemKind"], note["after"]) == ("DATA_ADDED", 3)
    assert note["content"] == note["summary"]
    assert len({one["id"] for one in (*said, note)}) == 5
    assert all(one["time"] > 0 for one in (*said, note))
    assert [part["block"]["id"] for part in said[2]["segments"] if "block" in part] == ["b1", "b2"]


@each_row(
    "blocks, status, says",
    ([USE, changed(id="b2", target={"kind": "node", "key": "fetch-apo"})], 422, ("2", "fetch-api")),
    ([changed(target={"kind": "graph", "key": GRAPH})], 422, ("blocks.0", "USE")),
    ([{"id": "b1", "type": "USE"}], 422, ("blocks.0.target",)),
    ([changed(period={"from": "soon", "to": "NOW"})], 422, ("1", "soon", "-1_WEEK")),
    ([changed(period={"from": "1_DAY", "to": "NOW"})], 422, ("1", "1_DAY")),
    ([changed(period={"from": "NOW", "to": "-1_WEEK"})], 422, ("1", "-1_WEEK")),
    ([changed(id=f"b{n}") for n in range(11)], 413, ("10", "11")),
)
async def test_wrong_blocks_are_refused_by_number_before_anything_is_stored(
    blocks: list[Any], status: int, says: tuple[str, ...]
) -> None:
    async with ScriptedProvider() as model, service(model) as running, running.as_() as ed:
        for path, body in (
            ("/api/ai/chat", {**ASKED, "blocks": blocks}),
            ("/api/enrichments/preview", {"graphKey": GRAPH, "blocks": blocks}),
        ):
            answer = await ed.post(path, json=body)
            assert answer.status_code == status, answer.text
            assert all(word in answer.text for word in says), answer.text
        assert (await ed.post("/api/ai/threads", json={})).json() == {"threads": []}


async def test_a_preview_says_each_block_in_the_readers_language() -> None:
    async with ScriptedProvider() as model, service(model) as running, running.as_("vi", "viewer") as viewer:
        body = {"graphKey": GRAPH, "blocks": [USE, POINTER]}
        french = await viewer.post("/api/enrichments/preview", json=body, headers={"Accept-Language": "fr"})
    found = french.json()
    assert found["budget"] == 8_000
    assert [one["id"] for one in found["blocks"]] == ["b1", "b2"]
    assert found["blocks"][0]["summary"].startswith("utilise ")
    assert all(one["tokens"] > 20 for one in found["blocks"])


async def test_blocks_come_by_websocket_and_a_wrong_one_ends_the_turn_by_name() -> None:
    with ScriptedProvider("Fine.") as model:
        async with ws_server(model) as server, server.client(token()) as client:
            await client.send("ai:chat", _id=1, **ASKED, blocks=[USE])
            assert (await client.turn(1))[-1]["type"] == "ai:complete"
            gone = changed(target={"kind": "node", "key": "fetch-apo"})
            await client.send("ai:chat", _id=2, **ASKED, blocks=[gone])
            refused = (await client.turn(2))[-1]
    assert (refused["type"], refused["code"]) == ("ai:error", "invalid_message")
    assert "fetch-api" in refused["error"]
    assert any("DATA_ADDED" in str(message) for message in model.requests[0].messages)


def test_the_command_line_takes_blocks() -> None:
    asked = ("ask", GRAPH, "Explain fetch-api", "--db", "memory:", "--provider", "offline")
    done = run_command(*asked, "--use", "fetch-api", "--pointer", "sheet:0", "--since", "-7_DAY")
    assert done.exit_code == 0, done.output
    refused = run_command(*asked, "--use", "fetch-apo")
    assert refused.exit_code != 0
    assert "fetch-api" in refused.output
    assert run_command(*asked, "--since", "-7_DAY").exit_code == 2
