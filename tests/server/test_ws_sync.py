"""Live editing over the WebSocket: answers, broadcasts, missed messages,
saving, roles, isolation.
"""

import asyncio
import itertools
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest

from server.limits import EDIT_BYTES_A_MINUTE, RateLimiter
from tests.server.test_ws_ai import propose
from tests.support.scripted_provider import Says, call
from tests.support.service import replace_part
from tests.support.ws_server import GRAPH, Client, Running, answered_ws, token, ws_server

LATE = 10**14
"""A time after everything: nothing was missed since."""


async def register(
    client: Client, *, sheet: str = "0", since: int = LATE, **more: Any
) -> dict[str, Any]:
    answer = await client.ask(
        "registerUserOnGraph",
        _id=1,
        name="Ed",
        sheetId=sheet,
        graphKey=GRAPH,
        fromTimestamp=since,
        **more,
    )
    assert answer["_response"]["status"], answer
    return answer


def move(key: str, x: float, *, sheet: str = "0", **more: Any) -> dict[str, Any]:
    return {"i": {"o": 1, "p": ["posX"], "v": x}, "sheetId": sheet, "nodeId": key, **more}


async def apply(client: Client, *instructions: dict[str, Any], id_: int = 2) -> dict[str, Any]:
    return await client.ask("applyInstructionToGraph", _id=id_, instructions=list(instructions))


def node(key: str, **more: Any) -> dict[str, Any]:
    return {
        "_key": key,
        "graphKey": GRAPH,
        "sheet": "0",
        "type": "log-node",
        "typeVersion": 1,
        "posX": 1,
        "posY": 2,
        "size": {"width": 10, "height": 10},
        "handles": {
            "L": {"position": "separate", "point": [{"id": "0", "type": "in", "accept": "any"}]},
            "R": {"position": "separate", "point": [{"id": "1", "type": "out", "accept": "any"}]},
        },
        **more,
    }


def edge(key: str, source: str, target: str) -> dict[str, Any]:
    ends = {"source": source, "sourceHandle": "1", "target": target, "targetHandle": "0"}
    return {"_key": key, "graphKey": GRAPH, "sheet": "0", **ends}


async def stored_x(server: Running, key: str) -> float:
    services = await server.state.services("default")
    (found,) = await services.source.get_nodes_by_key(GRAPH, [key])
    return found.pos_x


async def test_an_edit_is_echoed_to_its_sender_and_sent_to_the_others() -> None:
    async with (
        ws_server() as server,
        server.client(token("a")) as a,
        server.client(token("b")) as b,
    ):
        await register(a)
        await register(b)
        sent = move("root", 42.5, animatePos=True)
        answer = await apply(a, sent)
        assert answer["_response"] == {"status": True}
        assert answer["instructions"] == [sent]
        received = await b.until("applyInstructionToGraph")
        assert received["instructions"] == [sent]
        assert (received["userId"], received["timestamp"]) == ("a", answer["timestamp"])
        assert "_id" not in received
        assert await stored_x(server, "root") == 42.5
        assert not [m for m in a.seen if m["type"] == "applyInstructionToGraph" and "_id" not in m]


async def test_editors_of_other_sheets_are_sent_nothing() -> None:
    async with (
        ws_server() as server,
        server.client(token("a")) as a,
        server.client(token("b")) as b,
    ):
        await register(a)
        await register(b, sheet="1")
        await apply(a, move("root", 1))
        await a.ask("renameSheet", _id=3, key="0", name="first")
        assert (await b.until("renameSheet"))["name"] == "first"
        assert "applyInstructionToGraph" not in [m["type"] for m in b.seen]


BAD_INSTRUCTIONS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"i": {"o": 99, "p": []}, "sheetId": "0", "nodeId": "root"}, "instructions.0"),
    ({"i": {"o": 1, "p": ["_key"], "v": "x"}, "sheetId": "0", "nodeId": "root"}, "_key"),
    ({"i": {"o": 1, "p": ["posX"], "v": 1}, "sheetId": "0"}, "nodeId"),
    (move("root", 1, targetedIdentifier="another"), "targetedIdentifier"),
    (move("root", 1, surprise=1), "surprise"),
)


async def test_bad_instructions_are_refused_by_name() -> None:
    async with ws_server() as server, server.client(token()) as client:
        await register(client)
        before = await stored_x(server, "root")
        for bad, named in BAD_INSTRUCTIONS:
            refused = await apply(client, bad)
            assert not refused["_response"]["status"]
            assert named in refused["_response"]["message"]
            assert "internal" not in refused["_response"]["message"].lower()
        assert await stored_x(server, "root") == before


async def test_elements_are_created_and_deleted_in_batches() -> None:
    async with (
        ws_server() as server,
        server.client(token("a")) as a,
        server.client(token("b")) as b,
    ):
        await register(a)
        await register(b)
        made = await a.ask(
            "batchCreateElements",
            _id=2,
            sheetId="0",
            nodes=[node("n1"), node("n2")],
            edges=[edge("e1", "n1", "n2")],
        )
        assert made["_response"]["status"], made
        assert [n["_key"] for n in (await b.until("batchCreateElements"))["nodes"]] == ["n1", "n2"]
        twice = await a.ask("batchCreateElements", _id=3, sheetId="0", nodes=[node("n1")], edges=[])
        assert not twice["_response"]["status"]
        gone = await a.ask("batchDeleteElements", _id=4, sheetId="0", nodeKeys=["n1"], edgeKeys=[])
        assert gone["_response"]["status"]
        received = await b.until("batchDeleteElements")
        assert (received["nodeKeys"], received["edgeKeys"]) == (["n1"], ["e1"])
        foreign = node("n3", graphKey="another")
        refused = await a.ask("batchCreateElements", _id=5, sheetId="0", nodes=[foreign], edges=[])
        assert "graphKey" in refused["_response"]["message"]


async def test_sheets_are_made_named_and_deleted_for_everybody() -> None:
    async with (
        ws_server() as server,
        server.client(token("a")) as a,
        server.client(token("b")) as b,
    ):
        await register(a)
        await register(b, sheet="1")
        key = (await a.ask("createSheet", _id=2, name="new"))["key"]
        assert (await b.until("createSheet"))["key"] == key
        assert (await a.ask("deleteSheet", _id=4, key=key))["_response"]["status"]
        assert (await b.until("deleteSheet"))["key"] == key
        assert not (await a.ask("deleteSheet", _id=5, key="77"))["_response"]["status"]


async def test_who_comes_back_gets_what_was_missed() -> None:
    async with ws_server() as server, server.client(token("a")) as a:
        await register(a)
        async with server.client(token("b")) as b:
            since = (await register(b))["timestamp"]
        await apply(a, move("root", 5))
        await apply(a, move("root", 6))
        async with server.client(token("b")) as b:
            back = await register(b, since=since)
    assert [m["instructions"][0]["i"]["v"] for m in back["missingMessages"]] == [5, 6]
    assert back["missingComplete"] is True


async def test_saving_is_asked_for_and_everybody_gets_the_state() -> None:
    async with (
        ws_server() as server,
        server.client(token("a")) as a,
        server.client(token("b")) as b,
    ):
        await register(a)
        await register(b)
        await apply(a, move("root", 5))
        assert (await b.until("saveStatus"))["hasUnsavedChanges"] is True
        saved = await a.ask("forceSave", _id=3)
        assert (saved["_response"]["status"], saved["hasUnsavedChanges"]) == (True, False)
        assert (await b.until("saveStatus"))["hasUnsavedChanges"] is False
        off = await a.ask("toggleAutoSave", _id=4, enabled=False)
        assert off["autoSaveEnabled"] is False
        assert (await b.until("saveStatus"))["autoSaveEnabled"] is False


async def test_fresh_keys_are_as_many_as_asked_for_and_differ() -> None:
    async with ws_server() as server, server.client(token()) as client:
        await register(client)
        ids = (await client.ask("generateUniqueId", _id=2, ids=[None, "x", 3]))["ids"]
        assert len(set(ids)) == 3


async def test_editing_needs_registration_and_leaving_ends_it() -> None:
    async with ws_server() as server, server.client(token()) as client:
        assert (
            "registerUserOnGraph" in (await apply(client, move("root", 1)))["_response"]["message"]
        )
        await register(client)
        assert (await client.ask("disconnedUserOnGraph", _id=3, graphKey=GRAPH))["_response"][
            "status"
        ]
        assert not (await apply(client, move("root", 1)))["_response"]["status"]


async def test_a_viewer_sees_edits_and_makes_none() -> None:
    async with ws_server() as server, server.client(token("v", "viewer")) as viewer:
        await register(viewer)
        before = await stored_x(server, "root")
        for type_, fields in (
            ("applyInstructionToGraph", {"instructions": [move("root", 1)]}),
            ("createSheet", {"name": "x"}),
            ("forceSave", {}),
        ):
            refused = await viewer.ask(type_, _id=9, **fields)
            assert not refused["_response"]["status"]
            assert "editor" in refused["_response"]["message"]
        assert await stored_x(server, "root") == before
        async with server.client(token("a")) as editor:
            await register(editor)
            await apply(editor, move("root", 3))
        assert (await viewer.until("applyInstructionToGraph"))["userId"] == "a"


async def test_the_assistant_sees_an_unsaved_edit_and_editors_see_what_it_applies() -> None:
    look = Says(calls=[call("read_node_detail", {"key": "root"})])
    async with answered_ws(look, propose(), "Done.") as (client, server, _):
        await register(client)
        named = {
            "i": {"o": 1, "p": ["data", "name"], "v": "Just renamed"},
            "sheetId": "0",
            "nodeId": "root",
        }
        await apply(client, named)
        turn = await client.talk("ai:chat", _id=5, graphKey=GRAPH, message="what is the root?")
        assert "Just renamed" in next(m["result"] for m in turn if m["type"] == "ai:tool_result")
        thread = turn[-1]["threadId"]
        await client.send("ai:resume", _id=6, threadId=thread, approved=True)
        shown = await client.until("applyInstructionToGraph")
        assert shown["instructions"][0]["nodeId"] == "root"
        assert (await client.until("ai:complete", 6))["fullText"].endswith("Done.")
        services = await server.state.services("default")
        (found,) = await services.source.get_nodes_by_key(GRAPH, ["root"])
        assert (found.process, (found.data or {})["name"]) == ("return 1;", "Just renamed")


async def test_every_client_sees_all_edits_in_the_order_of_their_times() -> None:
    """Answers take their place among the others' messages."""
    editors, edits = 4, 15
    async with ws_server() as server, AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(server.client(token(f"u{i}"))) for i in range(editors)
        ]
        for client in clients:
            await register(client)

        async def edit(number: int) -> None:
            for i in range(edits):
                await clients[number].send(
                    "applyInstructionToGraph",
                    _id=100 + i,
                    instructions=[move("root", number * 1000 + i)],
                )

        async def read(client: Client) -> list[tuple[int, float]]:
            seen: list[tuple[int, float]] = []
            while len(seen) < editors * edits:
                message = await client.until("applyInstructionToGraph")
                seen.append((message["timestamp"], message["instructions"][0]["i"]["v"]))
            return seen

        found = await asyncio.gather(
            *(read(c) for c in clients), *(edit(n) for n in range(editors))
        )
        views = found[:editors]
    assert all(view == sorted(view) for view in views if view is not None)
    assert len({json.dumps(view) for view in views}) == 1


async def test_own_edits_are_undone_and_redone_by_who_comes_back() -> None:
    async with ws_server() as server, server.client(token("b")) as b:
        await register(b)
        before = await stored_x(server, "root")
        async with server.client(token("a")) as a:
            await register(a)
            await apply(a, move("root", 42))
        async with server.client(token("a")) as a:
            await register(a)
            undone = await a.ask("undoEdit", _id=5)
            assert undone["edit"]["steps"] == [
                {"type": "nodeUpdate", "keys": ["root"], "field": "posX"}
            ]
            assert [m["type"] for m in a.seen].count(
                "applyInstructionToGraph"
            ) == 1  # before the answer
            assert await stored_x(server, "root") == before
            assert (await b.until("applyInstructionToGraph"))["instructions"][0]["i"]["v"] == 42
            assert (await b.until("applyInstructionToGraph"))["instructions"][0]["i"]["v"] == before
            assert (await b.ask("undoEdit", _id=6))["edit"] is None
            assert (await a.ask("redoEdit", _id=7))["edit"]["takesBack"] == undone["edit"]["id"]
            assert await stored_x(server, "root") == 42
            assert (await a.ask("redoEdit", _id=8))["edit"] is None


async def test_who_sends_more_bytes_than_allowed_is_read_more_slowly_and_loses_nothing() -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ws_server())
        replace_part(server.app, "limits", edit_bytes=RateLimiter(3_000_000, burst=1_000))
        client = await stack.enter_async_context(server.client(token()))
        await register(client)
        for number in range(10):
            await client.send(
                "applyInstructionToGraph", _id=10 + number, instructions=[move("root", number)]
            )
        answers = [
            await client.until("applyInstructionToGraph", 10 + number) for number in range(10)
        ]
        assert all(answer["_response"]["status"] for answer in answers)
        assert await stored_x(server, "root") == 9


async def test_who_would_have_to_wait_for_long_gets_the_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("server.ws_sync.EDIT_PATIENCE_S", 1.0)
    async with ws_server() as server, server.client(token()) as client:
        await register(client)
        await apply(client, move("root", 1))
        server.state.limits.edit_bytes.owe("ed", 10 * EDIT_BYTES_A_MINUTE)
        refused = await apply(client, move("root", 2))
        assert refused["_response"]["status"] is False
        assert refused["_response"]["code"] == "rate_limit"
        assert await stored_x(server, "root") == 1


async def test_who_joins_with_an_old_time_gets_a_bounded_answer() -> None:
    async with ws_server() as server, server.client(token()) as client:
        await register(client)
        for number in range(12):
            text = {
                "i": {"o": 1, "p": ["data"], "v": {"text": f"{number}" * 500_000}},
                "sheetId": "0",
            }
            answer = await apply(client, {**text, "nodeId": "root"})
            assert answer["_response"]["status"], answer["_response"]
        async with server.client(token("late"), max_size=None) as late:
            answer = await register(late, since=1)
            assert answer["missingComplete"] is False
            assert len(json.dumps(answer["missingMessages"])) < 4_100_000


NODE_TYPE_MESSAGES = [
    ("registerUserOnNodeConfig", {"name": "Ed", "nodeConfigKey": "log-node", "fromTimestamp": 0}),
    (
        "applyInstructionToNodeConfig",
        {"instructions": [{"i": {"o": 1, "p": ["description"], "v": "x"}}]},
    ),
    ("disconnedUserOnNodeConfig", {"nodeConfigKey": "log-node"}),
]


@pytest.mark.parametrize(("type_", "fields"), [*NODE_TYPE_MESSAGES])
async def test_live_edits_of_node_types_are_refused_by_name_and_change_nothing(
    ws: Running, type_: str, fields: dict[str, Any]
) -> None:
    async with ws.client(token()) as client:
        services = await ws.state.services("default")
        before = [config.to_document() for config in await services.source.get_node_configs()]
        refused = await client.ask(type_, _id=3, **fields)
        assert (refused["type"], refused["_response"]["status"]) == (type_, False)
        assert refused["_response"]["code"] == "invalid"
        assert "node types are not edited live" in refused["_response"]["message"]
        assert [
            config.to_document() for config in await services.source.get_node_configs()
        ] == before
        await register(client)  # the connection goes on


async def test_a_connection_whose_graph_is_no_longer_live_is_closed_with_the_reason() -> None:
    async with ws_server() as server, server.client(token()) as client:
        await register(client)
        services = await server.state.services("default")
        await services.source.delete_graph(GRAPH)
        assert await client.closed() == 1013
        assert client.connection.close_reason == "it was deleted"


async def test_others_on_the_sheet_see_who_points_where_and_nothing_of_it_is_kept() -> None:
    selected = [f"node{i}" for i in range(20)]
    async with ws_server() as server, server.client(token()) as ben, server.client(token()) as eve:
        async with server.client(token("ann")) as ann:
            await register(ann)
            await register(ben)
            await eve.send("presence", x=0, y=0)  # registered nowhere: nobody is sent it
            await ann.send("presence", x=10.5, y=-3, selection=selected)
            seen = await ben.until("presence")
            moving = asyncio.create_task(ben.until("presence"))
            for x in itertools.count():  # far more than anybody may see
                await ann.send("presence", x=x, y=0, selection=selected, dx=x, dy=-20.5)
                if x >= 500 and moving.done():
                    break
            await apply(ann, move("fetch-api", 77))
            refused = await ann.ask("presence", _id=9, x=1, y=1, selection=[*selected, "more"])
            late = await register(eve, since=0)
        while not (gone := await ben.until("presence")).get("gone"):
            pass
    assert (seen["x"], seen["y"], seen["selection"], seen["sheetId"]) == (10.5, -3, selected, "0")
    dragged = [one for one in ben.seen if one["type"] == "presence" and "dx" in one]
    assert dragged
    assert all((one["dx"], one["dy"]) == (one["x"], -20.5) for one in dragged)
    assert not {"dx", "dy"} & seen.keys()
    assert (seen["userId"], gone["member"]) == ("ann", seen["member"])
    assert [one["type"] for one in ben.seen].count("presence") < 100
    assert refused["_response"]["status"] is False
    assert {one["type"] for one in late["missingMessages"]} <= {"applyInstructionToGraph"}
