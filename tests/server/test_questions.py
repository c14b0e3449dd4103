"""Questions of a model and blocks of a message, by every channel."""

import json
from typing import Any

import pytest

from tests.graphrag.agent.test_questions_of_a_turn import CHOICE, SURE, asks
from tests.support.commands import run_command
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE, GRAPH, Service, answered, service
from tests.support.ws_server import answered_ws, token

HERE = {"graphKey": GRAPH, "message": "do it"}
SHOWS = {**HERE, "features": ["questions", "holograms"]}
CARD = {"text": "Which check?", "responses": ["Amount", "Date"], "freeText": 0}


async def test_over_rest_a_question_comes_is_read_again_and_is_answered_once() -> None:
    async with answered(asks(), "Good.") as (ed, running, _), running.as_("other") as other:
        asked = (await ed.post("/api/ai/chat", json=SHOWS)).json()
        assert (asked["type"], asked["card"], asked["module"]["type"]) == (
            "question",
            CARD,
            "MultipleChoice",
        )
        thread = asked["threadId"]
        path = f"/api/ai/thread/{thread}"
        again = (await ed.get(f"{path}/messages", params={"features": "questions"})).json()
        assert again["pendingInterrupt"] == {
            "type": "question",
            "message": "One thing. ",
            **{name: asked[name] for name in ("module", "callId", "card")},
        }
        assert "pendingInterrupt" not in (await ed.get(f"{path}/messages")).json()
        assert (await other.post(f"{path}/answer", json={"response": "Date"})).status_code == 404
        wrong = await ed.post(f"{path}/answer", json={"response": "Colour"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "invalid")
        assert "'Amount', 'Date'" in wrong.json()["error"]["message"]
        done = (await ed.post(f"{path}/answer", json={"response": "Date"})).json()
        assert (done["type"], done["message"]) == ("message", "One thing. Good.")
        assert done["toolCalls"][0]["result"] == "The person answered: Date"
        twice = await ed.post(f"{path}/answer", json={"response": "Amount"})
        assert (twice.status_code, twice.json()["error"]["code"]) == (409, "conflict")
        assert "Date" in twice.json()["error"]["message"]
        french = await ed.post(
            f"{path}/answer", json={"response": "Amount"}, headers={"Accept-Language": "fr"}
        )
        assert "a déjà sa réponse" in french.json()["error"]["message"]


@pytest.mark.parametrize("body", [{}, {"response": 1}, {"response": None}, {"response": ["Date"]}])
async def test_an_answer_of_another_type_is_refused_by_name(
    running: Service, body: dict[str, Any]
) -> None:
    async with running.as_() as ed:
        refused = await ed.post("/api/ai/thread/t/answer", json=body)
        assert refused.status_code == 422
        assert "response" in refused.text


async def test_an_unmodified_client_never_gets_a_question_on_any_way() -> None:
    propose = Says(calls=[call("propose_update_node", CHANGE)])
    async with answered_ws(asks(), "No questions, then.", propose, asks(SURE), "Done.") as (
        client,
        _,
        model,
    ):
        first = (await client.talk("ai:chat", _id=1, **HERE))[-1]
        assert first["fullText"] == "One thing. No questions, then."
        await client.send("ai:chat", _id=2, threadId=first["threadId"], **HERE)
        assert json.loads((await client.turn(2))[-1]["fullText"])["type"] == "interrupt"
        await client.send("ai:resume", _id=3, threadId=first["threadId"], approved=True)
        assert (await client.turn(3))[-1]["fullText"].endswith("Done.")
        assert "question" not in str([m["type"] for m in client.seen])
    assert all("ask_person" not in str(request.tools) for request in model.requests)


async def test_over_the_websocket_another_device_answers_and_the_first_one_is_refused() -> None:
    async with (
        answered_ws(asks(SURE), "Good.") as (client, server, _),
        server.client(token()) as phone,
    ):
        end = (await client.talk("ai:chat", _id=1, **SHOWS))[-1]
        shown = json.loads(end["fullText"])
        assert (shown["type"], shown["module"]) == ("question", SURE)
        assert shown["card"] == {"text": "All of them?", "responses": [True, False], "freeText": 0}
        await phone.send("ai:answer", _id=5, threadId=end["threadId"], response="yes")
        assert (await phone.turn(5))[-1]["code"] == "invalid_message"
        turn = await phone.talk("ai:answer", _id=6, threadId=end["threadId"], response=True)
        assert turn[-1]["fullText"] == "One thing. Good."
        (result,) = [m for m in turn if m["type"] == "ai:tool_result"]
        assert (result["toolCallId"], result["result"]) == (
            shown["callId"],
            "The person answered: yes",
        )
        refused = (await client.talk("ai:answer", _id=7, threadId=end["threadId"], response=False))[
            -1
        ]
        assert (refused["type"], refused["code"]) == ("ai:error", "stale")
        assert "yes" in refused["error"]


async def test_a_turn_that_goes_on_after_a_decision_may_ask_the_client_that_began_it() -> None:
    propose = Says(calls=[call("propose_update_node", CHANGE)])
    async with answered_ws(propose, asks(CHOICE), "Good.") as (client, _, _):
        end = (await client.talk("ai:chat", _id=1, **SHOWS))[-1]
        await client.send(
            "ai:resume", _id=2, threadId=end["threadId"], approved=True, features=["questions"]
        )
        assert json.loads((await client.turn(2))[-1]["fullText"])["card"] == CARD
        await client.send("ai:answer", _id=3, threadId=end["threadId"], response="Date")
        assert (await client.turn(3))[-1]["type"] == "ai:complete"


USE: dict[str, Any] = {"id": "b1", "type": "USE", "target": {"kind": "node", "key": "fetch-api"}}
POINTER: dict[str, Any] = {"id": "b2", "type": "POINTER", "target": {"kind": "graph", "key": GRAPH}}
ASKED: dict[str, Any] = {"graphKey": GRAPH, "message": "What of it?"}


def changed(**fields: Any) -> dict[str, Any]:
    return {**USE, **fields}


async def test_what_blocks_find_is_listed_apart_from_the_messages() -> None:
    async with answered("Fine.") as (ed, _, _):
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


@pytest.mark.parametrize(
    ("blocks", "status", "says"),
    [
        (
            [USE, changed(id="b2", target={"kind": "node", "key": "fetch-apo"})],
            422,
            ("2", "fetch-api"),
        ),
        ([changed(target={"kind": "graph", "key": GRAPH})], 422, ("blocks.0", "USE")),
        ([{"id": "b1", "type": "USE"}], 422, ("blocks.0.target",)),
        ([changed(period={"from": "soon", "to": "NOW"})], 422, ("1", "soon", "-1_WEEK")),
        ([changed(period={"from": "1_DAY", "to": "NOW"})], 422, ("1", "1_DAY")),
        ([changed(period={"from": "NOW", "to": "-1_WEEK"})], 422, ("1", "-1_WEEK")),
        ([changed(id=f"b{n}") for n in range(11)], 413, ("10", "11")),
    ],
)
async def test_wrong_blocks_are_refused_by_number_before_anything_is_stored(
    blocks: list[Any], status: int, says: tuple[str, ...]
) -> None:
    async with answered() as (ed, _, _):
        for path, body in (
            ("/api/ai/chat", {**ASKED, "blocks": blocks}),
            ("/api/enrichments/preview", {"graphKey": GRAPH, "blocks": blocks}),
        ):
            answer = await ed.post(path, json=body)
            assert answer.status_code == status, answer.text
            assert all(word in answer.text for word in says), answer.text
        assert (await ed.post("/api/ai/threads", json={})).json() == {"threads": []}


async def test_a_preview_says_each_block_in_the_readers_language() -> None:
    async with (
        ScriptedProvider() as model,
        service(model) as running,
        running.as_("vi", "viewer") as viewer,
    ):
        body = {"graphKey": GRAPH, "blocks": [USE, POINTER]}
        french = await viewer.post(
            "/api/enrichments/preview", json=body, headers={"Accept-Language": "fr"}
        )
    found = french.json()
    assert found["budget"] == 8_000
    assert [one["id"] for one in found["blocks"]] == ["b1", "b2"]
    assert found["blocks"][0]["summary"].startswith("utilise ")
    assert all(one["tokens"] > 20 for one in found["blocks"])


async def test_blocks_come_by_websocket_and_a_wrong_one_ends_the_turn_by_name() -> None:
    async with answered_ws("Fine.") as (client, _, model):
        assert (await client.talk("ai:chat", _id=1, **ASKED, blocks=[USE]))[-1][
            "type"
        ] == "ai:complete"
        gone = changed(target={"kind": "node", "key": "fetch-apo"})
        refused = (await client.talk("ai:chat", _id=2, **ASKED, blocks=[gone]))[-1]
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
