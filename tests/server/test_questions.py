"""Questions of a model over REST and WebSocket: only to who shows them, answered once, from anywhere."""

from __future__ import annotations

import json
from typing import Any

from tests.graphrag.agent.test_questions_of_a_turn import CHOICE, SURE, asks
from tests.support.each_row import each_row
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE, GRAPH, Service, service
from tests.support.ws_server import token, ws_server

HERE = {"graphKey": GRAPH, "message": "do it"}
SHOWS = {**HERE, "features": ["questions", "holograms"]}
CARD = {"text": "Which check?", "responses": ["Amount", "Date"], "freeText": 0}


async def test_over_rest_a_question_comes_is_read_again_and_is_answered_once() -> None:
    with ScriptedProvider(asks(), "Good.") as model:
        async with service(model) as running, running.as_() as ed, running.as_("other") as other:
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


@each_row("body", {}, {"response": 1}, {"response": None}, {"response": ["Date"]})
async def test_an_answer_of_another_type_is_refused_by_name(running: Service, body: dict[str, Any]) -> None:
    async with running.as_() as ed:
        refused = await ed.post("/api/ai/thread/t/answer", json=body)
        assert refused.status_code == 422
        assert "response" in refused.text


async def test_an_unmodified_client_never_gets_a_question_on_any_way() -> None:
    propose = Says(calls=[call("propose_update_node", CHANGE)])
    with ScriptedProvider(asks(), "No questions, then.", propose, asks(SURE), "Done.") as model:
        async with ws_server(model) as server, server.client(token()) as client:
            await client.send("ai:chat", _id=1, **HERE)
            first = (await client.turn(1))[-1]
            assert first["fullText"] == "One thing. No questions, then."
            await client.send("ai:chat", _id=2, threadId=first["threadId"], **HERE)
            assert json.loads((await client.turn(2))[-1]["fullText"])["type"] == "interrupt"
            await client.send("ai:resume", _id=3, threadId=first["threadId"], approved=True)
            assert (await client.turn(3))[-1]["fullText"].endswith("Done.")
            assert "question" not in str([m["type"] for m in client.seen])
    assert all("ask_person" not in str(request.tools) for request in model.requests)


async def test_over_the_websocket_another_device_answers_and_the_first_one_is_refused() -> None:
    with ScriptedProvider(asks(SURE), "Good.") as model:
        async with (
            ws_server(model) as server,
            server.client(token()) as client,
            server.client(token()) as phone,
        ):
            await client.send("ai:chat", _id=1, **SHOWS)
            end = (await client.turn(1))[-1]
            shown = json.loads(end["fullText"])
            assert (shown["type"], shown["module"]) == ("question", SURE)
            assert shown["card"] == {"text": "All of them?", "responses": [True, False], "freeText": 0}
            await phone.send("ai:answer", _id=5, threadId=end["threadId"], response="yes")
            assert (await phone.turn(5))[-1]["code"] == "invalid_message"
            await phone.send("ai:answer", _id=6, threadId=end["threadId"], response=True)
            turn = await phone.turn(6)
            assert turn[-1]["fullText"] == "One thing. Good."
            (result,) = [m for m in turn if m["type"] == "ai:tool_result"]
            assert (result["toolCallId"], result["result"]) == (shown["callId"], "The person answered: yes")
            await client.send("ai:answer", _id=7, threadId=end["threadId"], response=False)
            refused = (await client.turn(7))[-1]
            assert (refused["type"], refused["code"]) == ("ai:error", "stale")
            assert "yes" in refused["error"]


async def test_a_turn_that_goes_on_after_a_decision_may_ask_the_client_that_began_it() -> None:
    propose = Says(calls=[call("propose_update_node", CHANGE)])
    with ScriptedProvider(propose, asks(CHOICE), "Good.") as model:
        async with ws_server(model) as server, server.client(token()) as client:
            await client.send("ai:chat", _id=1, **SHOWS)
            end = (await client.turn(1))[-1]
            await client.send(
                "ai:resume", _id=2, threadId=end["threadId"], approved=True, features=["questions"]
            )
            assert json.loads((await client.turn(2))[-1]["fullText"])["card"] == CARD
            await client.send("ai:answer", _id=3, threadId=end["threadId"], response="Date")
            assert (await client.turn(3))[-1]["type"] == "ai:complete"
