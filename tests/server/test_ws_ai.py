"""Conversations over the WebSocket: each turn under its `_id`, stopped,
resumed, decided elsewhere.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from graphrag.approvals import Approve, Person, Reject
from server.ws import WsOptions
from server.ws_ai import AiLimits
from tests.support.chosen_database import address_in
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.waiting import until
from tests.support.ws_server import GRAPH, Client, answered_ws, token, ws_server

REVIEWER = Person("rev", "reviewer", "default")
RENAME = {"node_key": "root", "changes": {"process": "return 1;"}, "reason": "it was asked for"}
EDITED = {
    "type": "update_node",
    "payload": {"nodeKey": "root", "changes": {"process": "return 2;"}},
}
QUICK = WsOptions(ai=AiLimits(poll_s=0.02))


def propose(**more: Any) -> Says:
    return Says(text="I propose it.", calls=[call("propose_update_node", {**RENAME, **more})])


async def chat(
    client: Client, id_: int, message: str = "hello", **more: Any
) -> list[dict[str, Any]]:
    return await client.talk("ai:chat", _id=id_, graphKey=GRAPH, message=message, **more)


def types(messages: list[dict[str, Any]]) -> list[str]:
    return [message["type"] for message in messages]


async def test_a_turn_streams_tokens_usage_and_one_end() -> None:
    async with answered_ws(Says(pieces=["Hel", "lo."])) as (client, _, _):
        turn = await chat(client, 7)
    assert "".join(m["token"] for m in turn if m["type"] == "ai:token") == "Hello."
    usage = next(m["usage"] for m in turn if m["type"] == "ai:usage")
    assert usage["totalTokens"] == usage["promptTokens"] + usage["completionTokens"] == 110
    assert turn[-1] == {
        "type": "ai:complete",
        "_id": 7,
        "threadId": turn[-1]["threadId"],
        "fullText": "Hello.",
        "contextNodes": turn[-1]["contextNodes"],
    }
    assert types(turn).count("ai:complete") == 1


async def test_the_end_says_what_the_answer_claims_and_the_graph_does_not_have() -> None:
    async with answered_ws("Return → Start") as (client, _, _):
        end = (await chat(client, 1, "What follows Return?"))[-1]
    assert end["fullText"] == "Return → Start"
    assert end["notInGraph"]["edges"] == [["Return", "Start"]]


async def test_the_end_names_the_nodes_retrieved_and_the_thread_keeps_them_by_question() -> None:
    async with answered_ws("One.", "Two.") as (client, server, _):
        first = (await chat(client, 1, "Which node fetches the players?"))[-1]
        second = (await chat(client, 2, "And which one returns?", threadId=first["threadId"]))[-1]
        services = await server.state.services("default")
        kept = await services.threads.get(first["threadId"], Person("ed", "editor", "default"))
    assert "fetch-api" in first["contextNodes"]
    assert "return" in second["contextNodes"]
    asked = [raw for raw in kept.thread.conversation_history if raw["role"] == "user"]
    assert [raw["contextNodes"] for raw in asked] == [first["contextNodes"], second["contextNodes"]]


async def test_tools_are_sent_with_their_results_once_each() -> None:
    lookup = call("search_nodes", {"query": "fetch"}, call_id="c1")
    async with answered_ws(Says(calls=[lookup]), "Found.") as (client, _, _):
        turn = await chat(client, 1)
    assert [m["toolName"] for m in turn if m["type"] == "ai:tool_start"] == ["search_nodes"]
    (result,) = [m for m in turn if m["type"] == "ai:tool_result"]
    assert result["toolCallId"] == "c1"
    assert "fetch-api" in result["result"]


async def test_a_thread_goes_on_over_another_connection() -> None:
    async with ScriptedProvider("One.", "Two.") as model, ws_server(model) as server:
        async with server.client(token()) as client:
            thread = (await chat(client, 1))[-1]["threadId"]
        async with server.client(token()) as client:
            assert (await chat(client, 1, threadId=thread))[-1]["threadId"] == thread
    assert "hello" in str(model.requests[1].messages)
    assert "One." in str(model.requests[1].messages)


async def test_an_id_that_is_under_way_is_refused_and_the_turn_goes_on() -> None:
    held = asyncio.Event()
    async with answered_ws(Says(text="A", held=held)) as (client, _, _):
        await client.send("ai:chat", _id=1, graphKey=GRAPH, message="one")
        await client.until("ai:token", 1)
        await client.send("ai:chat", _id=1, graphKey=GRAPH, message="two")
        assert (await client.until("ai:error", 1))["code"] == "busy"
        held.set()
        assert (await client.until("ai:complete", 1))["fullText"] == "A"


async def test_interrupt_stops_that_threads_turn_only() -> None:
    first = asyncio.Event()
    second = asyncio.Event()
    script = ["Hi.", Says(text="half", held=first), Says(text="B", held=second)]
    async with answered_ws(*script) as (client, server, model):
        thread = (await chat(client, 1))[-1]["threadId"]
        await client.send("ai:chat", _id=2, graphKey=GRAPH, message="go on", threadId=thread)
        await client.until("ai:token", 2)
        await client.send("ai:chat", _id=3, graphKey=GRAPH, message="other")
        await client.until("ai:token", 3)
        await client.send("ai:interrupt", _id=4, threadId=thread)
        end = await client.until("ai:complete")
        assert (end["_id"], end["threadId"], end["fullText"], end["stopped"]) == (
            2,
            thread,
            "half",
            True,
        )
        second.set()
        assert (await client.until("ai:complete"))["_id"] == 3
        stored = await server.state.services("default")
        kept = await stored.threads.get(thread, Person("ed", "editor", "default"))
        assert kept.thread.turn.status == "stopped"
        assert kept.thread.conversation_history[-1]["content"] == "half"
    assert model.closed_early == 1


@pytest.mark.parametrize(("text", "named"), [("A", {"threadId": ""}), ("", {})])
async def test_interrupt_without_a_thread_means_the_turn_of_its_id(
    text: str, named: dict[str, str]
) -> None:
    async with (
        ws_server(ScriptedProvider(Says(text=text, held=asyncio.Event()))) as server,
        server.client(token()) as client,
    ):
        await client.send("ai:chat", _id=1, graphKey=GRAPH, message="one")
        if text:
            await client.until("ai:token", 1)
        await client.send("ai:interrupt", _id=1, **named)
        assert (await client.until("ai:complete", 1))["stopped"]


@pytest.mark.slow
async def test_the_next_message_right_after_an_answer_is_never_refused(file: Path) -> None:
    with ScriptedProvider(*("Yes." for _ in range(31))) as model:
        settings = {"db": address_in(file), "rate_limit": 0}
        async with ws_server(model, **settings) as server, server.client(token()) as client:
            end = (await chat(client, 1))[-1]
            for number in range(30):
                end = (await chat(client, 2 + number % 2, threadId=end["threadId"]))[-1]
                assert (end["type"], end.get("fullText")) == ("ai:complete", "Yes."), end


@pytest.mark.slow
async def test_the_next_message_right_after_an_interrupt_is_never_refused(file: Path) -> None:
    halves = [step for _ in range(8) for step in (Says(text="half", held=asyncio.Event()), "Yes.")]
    with ScriptedProvider("Hi.", *halves) as model:
        settings = {"db": address_in(file), "rate_limit": 0}
        async with ws_server(model, **settings) as server, server.client(token()) as client:
            thread = (await chat(client, 1))[-1]["threadId"]
            for _ in range(8):
                await client.send(
                    "ai:chat", _id=2, graphKey=GRAPH, message="go on", threadId=thread
                )
                await client.until("ai:token", 2)
                await client.send("ai:interrupt", _id=3, threadId=thread)
                end = (await chat(client, 4, threadId=thread))[-1]
                assert (end["type"], end.get("fullText")) == ("ai:complete", "Yes."), end


async def test_nobody_stops_another_persons_turn() -> None:
    held = asyncio.Event()
    async with answered_ws("Hi.", Says(text="A", held=held)) as (mine, server, _):
        thread = (await chat(mine, 1))[-1]["threadId"]
        await mine.send("ai:chat", _id=2, graphKey=GRAPH, message="more", threadId=thread)
        await mine.until("ai:token", 2)
        async with server.client(token("eve", "admin")) as other:
            refused = await other.ask("ai:interrupt", _id=9, threadId=thread)
            assert (refused["type"], refused["code"]) == ("ai:error", "not_found")
        held.set()
        assert (await mine.until("ai:complete", 2))["fullText"] == "A"


async def test_the_stream_of_a_client_that_goes_is_closed_and_the_thread_stored() -> None:
    async with (
        ScriptedProvider(Says(text="half", held=asyncio.Event())) as model,
        ws_server(model) as server,
    ):
        async with server.client(token()) as client:
            await client.send("ai:chat", _id=1, graphKey=GRAPH, message="one")
            await client.until("ai:token", 1)
        await until(lambda: not len(server.app.state.server.activity.turns))
        services = await server.state.services("default")
        (thread,) = await services.threads.list(Person("ed", "editor", "default"))
    assert model.closed_early == 1
    assert thread.turn.status == "stopped"


async def test_a_proposal_waits_and_an_approval_applies_it() -> None:
    async with answered_ws(propose(), "Done.") as (client, server, _):
        pending = (await chat(client, 1))[-1]
        shown = json.loads(pending["fullText"])
        assert shown["type"] == "interrupt"
        assert shown["proposedAction"]["type"] == "update_node"
        assert shown["toolCall"]["name"] == "propose_update_node"
        assert shown["codeDiffs"][0]["modified"] == "return 1;"
        assert shown["approvals"][0]["preview"]["nodesChanged"]
        turn = await client.talk("ai:resume", _id=2, threadId=pending["threadId"], approved=True)
        (applied,) = [m for m in turn if m["type"] == "ai:apply_action"]
        assert applied["applied"] is True
        assert applied["action"]["instructions"][0]["nodeId"] == "root"
        assert turn[-1]["fullText"] == "I propose it.\n\nDone."
        services = await server.state.services("default")
        (node,) = await services.source.get_nodes_by_key(GRAPH, ["root"])
        assert node.process == "return 1;"


@pytest.mark.parametrize(
    ("decision", "code"),
    [
        ({"approved": False, "feedback": "not today"}, None),
        ({"approved": True, "feedback": "well seen"}, "return 1;"),
        ({"approved": True, "editedAction": EDITED}, "return 2;"),
    ],
)
async def test_feedback_is_kept_and_the_model_reads_it_and_an_edited_action_is_what_is_applied(
    decision: dict[str, Any], code: str | None
) -> None:
    async with answered_ws(propose(), "Thanks.") as (client, server, model):
        services = await server.state.services("default")
        before = await services.source.get_nodes_by_key(GRAPH, ["root"])
        thread = (await chat(client, 1))[-1]["threadId"]
        turn = await client.talk("ai:resume", _id=2, threadId=thread, **decision)
        after = await services.source.get_nodes_by_key(GRAPH, ["root"])
        [entry] = await services.approvals.audit.entries()
    assert ("ai:apply_action" in types(turn)) == decision["approved"]
    assert after == before if code is None else after[0].process == code
    assert entry.facts.get("feedback", "") == decision.get("feedback", "")
    assert decision.get("feedback", "") in str(model.requests[1].messages)


async def test_a_decision_made_elsewhere_goes_on_under_the_same_id() -> None:
    async with answered_ws(propose(), "Somebody approved it.", options=QUICK) as (
        client,
        server,
        _,
    ):
        pending = (await chat(client, 5))[-1]
        approval = json.loads(pending["fullText"])["approvals"][0]["id"]
        services = await server.state.services("default")
        await services.approvals.decide(approval, Approve(), REVIEWER)
        turn = await client.turn(5)
    assert "ai:apply_action" in types(turn)
    assert turn[-1]["fullText"].endswith("Somebody approved it.")


async def test_a_rejection_made_elsewhere_reaches_the_client_once_of_two() -> None:
    two = Says(
        text="Two.",
        calls=[
            call("propose_move_node", {"node_key": "root", "pos_x": 5, "pos_y": 5, "reason": "r"}),
            call(
                "propose_move_node", {"node_key": "return", "pos_x": 9, "pos_y": 9, "reason": "r"}
            ),
        ],
    )
    async with answered_ws(two, "Both decided.", options=QUICK) as (client, server, _):
        pending = (await chat(client, 5))[-1]
        first, second = (a["id"] for a in json.loads(pending["fullText"])["approvals"])
        services = await server.state.services("default")
        await services.approvals.decide(first, Reject("no"), REVIEWER)
        still = json.loads((await client.turn(5))[-1]["fullText"])
        assert [a["id"] for a in still["approvals"]] == [second]
        await services.approvals.decide(second, Approve(), REVIEWER)
        turn = await client.turn(5)
    assert turn[-1]["fullText"].endswith("Both decided.")


async def test_rounds_are_granted_or_refused_by_resume() -> None:
    steps = [Says(calls=[call("search_nodes", {"query": f"q{i}"})]) for i in range(6)]
    async with answered_ws(*steps, "From what I have.") as (client, _, _):
        turn = await chat(client, 1)
        (limit,) = [m for m in turn if m["type"] == "ai:tool_limit"]
        assert (limit["roundsUsed"], limit["maxExtended"]) == (5, 10)
        assert json.loads(turn[-1]["fullText"])["type"] == "tool_limit"
        await client.send("ai:resume", _id=2, threadId=turn[-1]["threadId"], approved=False)
        assert (await client.turn(2))[-1]["fullText"] == "From what I have."


async def test_refusals_have_the_codes_that_clients_know() -> None:
    async with ws_server(ScriptedProvider()) as server, server.client(token()) as client:
        unknown = await client.ask("ai:chat", _id=1, graphKey="nowhere", message="x")
        assert (unknown["code"], unknown["retryable"]) == ("not_found", False)
        lost = await client.ask("ai:resume", _id=2, threadId="nowhere", approved=True)
        assert lost["code"] == "not_found"
        extra = await client.ask("ai:chat", _id=3, graphKey=GRAPH, message="x", sneaky=1)
        assert extra["code"] == "invalid_message"
        assert "sneaky" in extra["error"]


async def test_a_failure_of_the_model_is_sent_without_its_text() -> None:
    async with answered_ws(RuntimeError("secret statement")) as (client, _, model):
        failed = (await chat(client, 1))[-1]
        assert (failed["type"], failed["code"]) == ("ai:error", "internal")
        assert "secret" not in failed["error"]
        model.play("Again.")
        await client.send("ai:resume", _id=2, threadId=failed["details"]["threadId"], approved=True)
        assert (await client.turn(2))[-1]["fullText"] == "Again."


async def test_messages_to_models_are_limited_for_each_person() -> None:
    async with ScriptedProvider("One.", "Two.") as model, ws_server(model, rate_limit=1) as server:
        async with server.client(token()) as client:
            await chat(client, 1)
            refused = (await chat(client, 2))[-1]
            assert (refused["code"], refused["retryable"]) == ("rate_limit", True)
            assert refused["details"]["retryAfterS"] >= 1
        async with server.client(token("somebody")) as other:
            assert (await chat(other, 1))[-1]["type"] == "ai:complete"
