"""Conversations over REST, with a scripted model and everything else real."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from graphrag.llm.errors import ModelRateLimited
from server.channels.rest_answers import ChatAnswer
from server.rest_threads import ThreadMessages
from tests.server.test_rest_review import proposed, proposing
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, call
from tests.support.served import served
from tests.support.service import CHANGE, GRAPH, Service, answered, error_of, service, token
from tests.support.waiting import cancelled, until

SEARCH = {"query": "error"}


async def level(running: Service) -> Any:
    source = (await running.state.services("default")).source
    return (await source.get_nodes_by_key(GRAPH, ["error-handler"]))[0].data["level"]


async def test_an_answer_tells_what_was_called_and_used() -> None:
    provider = ScriptedProvider(Says(calls=[call("search_nodes", SEARCH)]), "It is logged.")
    with provider:
        async with service(provider) as running, running.as_() as ed:
            answer = await ed.post(
                "/api/ai/chat", json={"graphKey": GRAPH, "message": "what fails?"}
            )
    body = answer.json()
    assert answer.status_code == 200
    assert (body["type"], body["message"]) == ("message", "It is logged.")
    assert [(c["name"], c["args"], c["error"]) for c in body["toolCalls"]] == [
        ("search_nodes", SEARCH, False)
    ]
    assert body["usage"]["totalTokens"] == 220
    assert ChatAnswer.model_validate(body).thread_id == body["threadId"]


async def test_claims_that_the_graph_does_not_hold_stand_beside_the_answer_and_in_the_stored_message() -> (
    None
):
    async with answered("Return → Start", "Start → Fetch NBA players") as (ed, _, _):
        body = (
            await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "What follows?"})
        ).json()
        marked = {
            "nodes": [],
            "edges": [["Return", "Start"]],
            "note": "Not in the graph: Return → Start.",
        }
        assert (body["message"], body["notInGraph"]) == ("Return → Start", marked)
        read = (await ed.get(f"/api/ai/thread/{body['threadId']}/messages")).json()
        assert read["conversationHistory"][-1]["notInGraph"] == marked
        right = (
            await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "What follows?"})
        ).json()
        assert "notInGraph" not in right


async def test_a_conversation_goes_on_is_listed_read_and_deleted() -> None:
    async with answered("One.", "Two.") as (ed, _, _):
        asked = {"graphKey": GRAPH, "message": "first"}
        thread = (await ed.post("/api/ai/chat", json=asked)).json()["threadId"]
        again = await ed.post(
            "/api/ai/chat", json={**asked, "message": "second", "threadId": thread}
        )
        assert again.json()["threadId"] == thread
        listed = (await ed.post("/api/ai/threads", json={"graphKey": GRAPH})).json()["threads"]
        assert [(t["threadId"], t["title"], t["messageCount"]) for t in listed] == [
            (thread, "first", 4)
        ]
        assert (await ed.post("/api/ai/threads", json={"graphKey": "other"})).json() == {
            "threads": []
        }
        read = (await ed.get(f"/api/ai/thread/{thread}/messages")).json()
        said = [
            m["content"] for m in read["conversationHistory"] if m["role"] in ("user", "assistant")
        ]
        assert said == ["first", "One.", "second", "Two."]
        assert (await ed.delete(f"/api/ai/thread/{thread}")).json() == {"success": True}
        assert (await ed.get(f"/api/ai/thread/{thread}/messages")).status_code == 404


async def test_a_proposal_waits_and_is_carried_out_when_it_is_approved() -> None:
    async with answered(Says(calls=[call("propose_update_node", CHANGE)]), "Done.") as (
        ed,
        running,
        _,
    ):
        waits = (await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "warn"})).json()
        assert waits["type"] == "interrupt"
        assert waits["proposedAction"]["payload"]["nodeKey"] == "error-handler"
        assert waits["toolCall"]["name"] == "propose_update_node"
        assert await level(running) == "error"
        read = await ed.get(f"/api/ai/thread/{waits['threadId']}/messages")
        pending = ThreadMessages.model_validate(read.json()).pending_interrupt
        assert pending["approvals"] == waits["approvals"]
        done = await ed.post(
            "/api/ai/resume", json={"threadId": waits["threadId"], "approved": True}
        )
        assert done.json()["message"] == "Done."
        assert done.json()["applied"][0]["approvalId"] == waits["approvals"][0]["id"]
        assert await level(running) == "warning"


async def test_a_rejection_reaches_the_model_with_its_reason_and_changes_nothing() -> None:
    with ScriptedProvider(Says(calls=[call("propose_update_node", CHANGE)]), "I see.") as provider:
        async with service(provider) as running, running.as_() as ed:
            waits = (
                await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "warn"})
            ).json()
            no = {"threadId": waits["threadId"], "approved": False, "feedback": "keep it loud"}
            assert (await ed.post("/api/ai/resume", json=no)).json()["message"] == "I see."
            assert await level(running) == "error"
    assert "keep it loud" in str(provider.requests[-1].messages)


async def test_more_rounds_of_tools_are_granted_or_an_answer_is_asked_for() -> None:
    rounds = [Says(calls=[call("search_nodes", {"query": f"error {i}"})]) for i in range(6)]
    async with answered(*rounds, "That is all.") as (ed, _, model):
        asked = {"graphKey": GRAPH, "message": "dig", "interactive": True}
        limit = (await ed.post("/api/ai/chat", json=asked)).json()
        assert (limit["type"], limit["roundsUsed"], limit["maxExtended"]) == ("tool_limit", 5, 10)
        read = (await ed.get(f"/api/ai/thread/{limit['threadId']}/messages")).json()
        assert read["pendingInterrupt"]["type"] == "tool_limit"
        done = await ed.post(
            "/api/ai/resume", json={"threadId": limit["threadId"], "approved": False}
        )
        assert done.json()["message"] == "That is all."
        assert model.requests[-1].options.tool_choice == "none"


async def test_who_is_not_interactive_gets_an_answer_without_tools_when_the_rounds_are_used_up() -> (
    None
):
    rounds = [Says(calls=[call("search_nodes", {"query": f"error {i}"})]) for i in range(6)]
    propose = Says(calls=[call("propose_update_node", CHANGE)])
    async with answered(*rounds, "That is all.", propose, *rounds[:5], "And that.") as (
        ed,
        _,
        provider,
    ):
        asked = {"graphKey": GRAPH, "message": "dig"}
        answer = (await ed.post("/api/ai/chat", json=asked)).json()
        assert (answer["type"], answer["message"]) == ("message", "That is all.")
        assert provider.requests[-1].options.tool_choice == "none"
        again = {**asked, "threadId": answer["threadId"]}
        assert (await ed.post("/api/ai/chat", json=again)).json()["type"] == "interrupt"
        yes = {"threadId": answer["threadId"], "approved": True}
        done = (await ed.post("/api/ai/resume", json=yes)).json()
        assert (done["type"], done["message"]) == ("message", "And that.")


async def test_an_answer_says_which_nodes_the_model_was_shown_and_why() -> None:
    async with answered("It is logged.") as (ed, _, _):
        asked = {"graphKey": GRAPH, "message": "Which node handles the error?"}
        answer = (await ed.post("/api/ai/chat", json=asked)).json()
    shown = {node["nodeKey"]: node["reasons"] for node in answer["context"]}
    assert "error-handler" in shown
    assert "text" in shown["error-handler"]


async def test_an_answer_says_that_words_alone_were_searched_when_the_embedding_service_fails() -> (
    None
):
    asked = {"graphKey": GRAPH, "message": "Which node handles the error?"}
    with (
        ScriptedServer() as embeddings,
        ScriptedProvider("It is logged.", "It is logged.") as provider,
    ):
        # one attempt
        embeddings.play(Answer(status=503, body={"error": {"message": "overloaded"}}))
        given = {
            "embeddings": "openai",
            "embeddings_base_url": embeddings.url,
            "embeddings_api_key": "k",
        }
        async with service(provider, **given) as running, running.as_() as ed:
            answer = (await ed.post("/api/ai/chat", json=asked)).json()
        async with service(provider) as running, running.as_() as ed:
            without = (await ed.post("/api/ai/chat", json=asked)).json()
    assert answer["wordsOnly"] is True
    assert "error-handler" in {node["nodeKey"] for node in answer["context"]}
    assert "wordsOnly" not in without


async def test_a_model_that_fails_is_an_error_with_its_thread_and_can_be_tried_again() -> None:
    refused = ModelRateLimited(provider="scripted", status=429, reason="slow down", retry_after_s=7)
    async with answered(refused, "Now.") as (ed, _, _):
        answer = await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "hello"})
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["retryable"]) == (503, "rate_limit", True)
        thread = error["details"]["threadId"]
        again = await ed.post("/api/ai/resume", json={"threadId": thread, "approved": True})
        assert again.json()["message"] == "Now."


async def test_a_thread_is_its_owners_alone() -> None:
    async with answered("Mine.") as (ed, running, _), running.as_("al", "admin") as al:
        asked = {"graphKey": GRAPH, "message": "hello"}
        thread = (await ed.post("/api/ai/chat", json=asked)).json()["threadId"]
        for answer in (
            await al.get(f"/api/ai/thread/{thread}/messages"),
            await al.delete(f"/api/ai/thread/{thread}"),
            await al.post("/api/ai/chat", json={**asked, "threadId": thread}),
            await al.post("/api/ai/resume", json={"threadId": thread, "approved": True}),
        ):
            assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")


async def test_a_body_with_a_key_or_type_that_is_not_asked_for_is_refused_with_its_place() -> None:
    async with service(ScriptedProvider()) as running, running.as_() as ed:
        for body, where in (
            ({"graphKey": GRAPH, "message": "x", "role": "admin"}, "body.role"),
            ({"graphKey": GRAPH, "message": 5}, "body.message"),
            ({"graphKey": GRAPH, "message": "  "}, "body.message"),
            ({"graphKey": "a\nb", "message": "x"}, "body.graphKey"),
            ({"graphKey": GRAPH, "message": "\ud800"}, "body.message"),
            ({"graph_key": GRAPH, "message": "x"}, "body.graphKey"),
        ):
            raw = json.dumps(body)
            answer = await ed.post(
                "/api/ai/chat", content=raw, headers={"Content-Type": "application/json"}
            )
            error = error_of(answer)
            assert (answer.status_code, error["code"]) == (422, "invalid_message")
            assert where in [detail["where"] for detail in error["details"]], body


async def test_messages_to_models_are_limited_for_each_person() -> None:
    async with answered("a", "b", "c", rate_limit=2) as (ed, running, _), running.as_("al") as al:
        asked = {"graphKey": GRAPH, "message": "hello"}
        assert (await ed.post("/api/ai/chat", json=asked)).status_code == 200
        assert (await ed.post("/api/ai/chat", json=asked)).status_code == 200
        answer = await ed.post("/api/ai/chat", json=asked)
        assert (answer.status_code, error_of(answer)["retryable"]) == (429, True)
        assert 1 <= int(answer.headers["Retry-After"]) <= 30
        assert (await al.post("/api/ai/chat", json=asked)).status_code == 200


async def test_a_client_that_goes_away_stops_its_turn_which_is_stored() -> None:
    asked = asyncio.Event()

    def answers(_: Asked) -> Says:
        asked.set()
        return Says(text="Hal", held=asyncio.Event())

    async with ScriptedProvider(answers) as model, served(model) as site:
        bearer = {"Authorization": f"Bearer {token()}"}
        async with httpx2.AsyncClient(base_url=site.address, headers=bearer, trust_env=False) as ed:
            body = {"graphKey": GRAPH, "message": "hello"}
            asking = asyncio.create_task(ed.post("/api/ai/chat", json=body))
            await asked.wait()
            await cancelled(asking)
            await until(lambda: model.closed_early == 1)
            [thread] = (await ed.post("/api/ai/threads", json={})).json()["threads"]
            read = (await ed.get(f"/api/ai/thread/{thread['threadId']}/messages")).json()
            assert read["status"] == "stopped"


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_a_decision_said_again_lets_a_thread_go_on_that_has_not_heard_of_it(
    verdict: str,
) -> None:
    step = Says(calls=[call("propose_update_node", CHANGE)])
    async with (
        answered(step, "I heard.") as (ed, running, _),
        running.as_("rev", "reviewer") as rev,
    ):
        asked = (
            await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "change it"})
        ).json()
        approval = asked["approvals"][0]["id"]
        await rev.post(f"/api/approvals/{approval}/decision", json={"verdict": verdict})
        again = {
            "threadId": asked["threadId"],
            "approved": verdict == "approve",
            "approvalId": approval,
        }
        contrary = {**again, "approved": verdict != "approve"}
        assert error_of(await ed.post("/api/ai/resume", json=contrary))["code"] == "conflict"
        assert (await ed.post("/api/ai/resume", json=again)).json()["message"].endswith("I heard.")
        received = await ed.post("/api/ai/resume", json=again)
        assert error_of(received)["code"] == "conflict"  # by now it has heard


async def test_a_decision_reads_its_conversation_once(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Says(calls=[call("propose_update_node", CHANGE)])
    async with answered(step, "Done.") as (ed, running, _):
        asked = (
            await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "change it"})
        ).json()
        store = type(running.state.backend.shared.database.records("default"))
        get = store.get
        reads = list[str]()

        async def counted(self: Any, kind: str, key: str) -> Any:
            reads.append(kind)
            return await get(self, kind, key)

        monkeypatch.setattr(store, "get", counted)
        done = await ed.post(
            "/api/ai/resume", json={"threadId": asked["threadId"], "approved": True}
        )
        assert done.json()["message"] == "Done."
        assert reads.count("thread") == 1


async def test_an_edit_of_the_wrong_shape_names_the_field() -> None:
    async with proposing() as provider, service(provider) as running, running.as_() as ed:
        approval = await proposed(ed)
        action = {"type": "move_node", "payload": {"nodeKey": "root", "posX": "left", "posY": 1}}
        refused = await ed.post(
            f"/api/approvals/{approval}/decision",
            json={"verdict": "approve", "editedAction": action},
        )
        assert error_of(refused)["details"][0]["where"].startswith("payload.posX")
