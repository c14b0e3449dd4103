"""Chats with agents over REST and the WebSocket: they begin, answer, end, and belong
to one workspace.
"""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from graphrag.config import Settings
from server.startup import ServerSetup, open_server
from tests.support.agent_chats import agent_document
from tests.support.agent_life import document
from tests.support.agents import EDITOR
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import GRAPH, Service, error_of, service
from tests.support.ws_server import token, ws_server

BYE = Says(text="Goodbye!", calls=[call("bye")])
DOCUMENT = agent_document(lifecycle={"outcome_rules": [{"flag": None, "outcome": "talked"}]})


async def started(client: httpx2.AsyncClient, document: dict[str, Any] = DOCUMENT) -> None:
    at = f"/api/agents/{document['agent']['id']}"
    assert (await client.put(at, json={"document": document})).status_code == 200
    assert (await client.post(f"{at}/start")).status_code == 200


async def ask(client: httpx2.AsyncClient, message: str = "hello", **more: Any) -> httpx2.Response:
    body = {"graphKey": "", "message": message, "agentId": "desk", **more}
    return await client.post("/api/ai/chat", json={k: v for k, v in body.items() if v is not None})


async def view(client: httpx2.AsyncClient, thread_id: str) -> dict[str, Any]:
    return (await client.get(f"/api/ai/thread/{thread_id}/messages")).json()["agent"]


async def test_a_chat_with_an_agent_begins_goes_on_and_is_ended_by_the_agent_or_the_person() -> (
    None
):
    with ScriptedProvider("Hello.", BYE, "Again.") as model:
        async with (
            service(model) as running,
            running.as_("root", "admin") as root,
            running.as_() as ed,
        ):
            await started(root)
            first = (await ask(ed)).json()
            assert first["message"] == "Hello."
            assert "ended" not in first
            thread = first["threadId"]
            last = (await ask(ed, "bye", threadId=thread, agentId=None)).json()
            assert last["ended"] == {"reason": "agent_hung_up", "outcome": "talked"}
            seen = await view(ed, thread)
            assert (seen["agentId"], seen["version"], seen["outcome"]) == ("desk", 1, "talked")
            assert seen["flags"]["should_hangup"] is True
            assert [(tool["name"], tool["ok"]) for tool in seen["tools"]] == [("bye", True)]
            assert error_of(await ask(ed, threadId=thread, agentId=None))["code"] == "conflict"
            assert error_of(await ed.post(f"/api/ai/thread/{thread}/end"))["code"] == "conflict"
            again = await ed.post("/api/ai/resume", json={"threadId": thread, "approved": True})
            assert error_of(again)["code"] == "conflict"
            second = (await ask(ed, callerPhone="+33612345678")).json()["threadId"]
            ended = (await ed.post(f"/api/ai/thread/{second}/end")).json()
            assert (ended["endReason"], ended["callerPhone"]) == ("ended_by_person", "+33612345678")
            found = (await ed.post("/api/ai/threads", json={})).json()["threads"]
            assert [(each["agentId"], each["ended"]) for each in found] == [("desk", True)] * 2


async def test_a_stopped_agent_takes_no_new_chat_and_goes_on_with_its_own() -> None:
    with ScriptedProvider("Hello.", "Still here.") as model:
        async with (
            service(model) as running,
            running.as_("root", "admin") as root,
            running.as_() as ed,
        ):
            await started(root)
            thread = (await ask(ed)).json()["threadId"]
            assert (await root.post("/api/agents/desk/stop", json={})).status_code == 200
            refused = await ask(ed)
            assert (refused.status_code, error_of(refused)["code"]) == (409, "agent_state")
            late = await ask(ed, threadId=thread, callerPhone="+33612345679")
            assert error_of(late)["code"] == "invalid"
            assert (await ask(ed, threadId=thread)).json()["message"] == "Still here."
            assert "callerPhone" not in await view(ed, thread)


async def test_what_a_client_may_not_ask_is_refused() -> None:
    with ScriptedProvider("Plain.") as model:
        async with (
            service(model) as running,
            running.as_("root", "admin") as root,
            running.as_("vi", "viewer") as viewer,
        ):
            await started(root)
            assert (await ask(viewer, callerPhone="+33612345678")).status_code == 403
            assert (await ask(viewer, callerPhone="0612345678")).status_code == 422
            assert (await ask(viewer, graphKey=GRAPH)).status_code == 422
            plain = (await ask(viewer, agentId=None, graphKey=GRAPH)).json()["threadId"]
            assert (await viewer.post(f"/api/ai/thread/{plain}/end")).status_code == 409


async def test_agents_and_chats_of_another_workspace_do_not_exist() -> None:
    with ScriptedProvider("Hello.") as model:
        async with (
            service(model) as running,
            running.as_("root", "admin") as root,
            running.as_() as ed,
            running.as_("eve", "admin", "other") as eve,
        ):
            await started(root)
            thread = (await ask(ed)).json()["threadId"]
            for answer in (
                await ask(eve),
                await ask(eve, threadId=thread),
                await ask(eve, graphKey=GRAPH),
                await eve.post(f"/api/ai/thread/{thread}/end"),
                await eve.get(f"/api/ai/thread/{thread}/messages"),
                await running_as_other(running, thread),
            ):
                assert (answer.status_code, error_of(answer)["retryable"]) == (404, False)


async def running_as_other(running: Service, thread: str) -> httpx2.Response:
    """Somebody else of the same workspace asks for the chat."""
    async with running.as_("ann", "editor") as ann:
        return await ask(ann, threadId=thread)


@pytest.mark.parametrize("ends", ["agent", "person"])
async def test_a_chat_over_the_websocket(ends: str) -> None:
    with ScriptedProvider("Hello.", *([BYE] if ends == "agent" else [])) as model:
        async with ws_server(model) as server:
            services = await server.state.services("default")
            root = services.local_person()
            await services.agents.apply(DOCUMENT, root)
            await services.agents.start("desk")
            async with server.client(token()) as client:
                await client.send("ai:chat", _id=1, graphKey="", agentId="desk", message="hello")
                thread = (await client.turn(1))[-1]["threadId"]
                if ends == "agent":
                    await client.send("ai:chat", _id=2, graphKey="", threadId=thread, message="bye")
                    last = (await client.turn(2))[-1]
                    assert last["ended"] == {"reason": "agent_hung_up", "outcome": "talked"}
                else:
                    await client.send("ai:end", _id=2, threadId=thread)
                    ended = await client.until("ai:ended")
                    assert (ended["reason"], ended["outcome"]) == ("ended_by_person", "talked")
                await client.send("ai:chat", _id=3, graphKey="", threadId=thread, message="more")
                assert (await client.turn(3))[-1]["type"] == "ai:error"
                await client.send("ai:chat", _id=4, graphKey="", agentId="nobody", message="hello")
                assert (await client.turn(4))[-1]["code"] == "not_found"


@pytest.mark.slow
async def test_a_server_keeps_on_until_an_api_takes_what_it_is_owed(tmp_path: Path) -> None:
    with ScriptedServer() as api:
        raw = document(base_url=api.url)
        raw["lifecycle"]["on_end"]["method"] = "POST"
        settings = Settings(db=f"sqlite:///{tmp_path}/work.db", agent_http_allow=["127.0.0.1"])
        async with open_server(ServerSetup.of(settings)) as state:
            services = (await state.workspace("default")).services
            await services.agents.apply(raw, EDITOR)
            await services.agents.start("shop")
            agent, version = await services.agents.running_version("shop")
            api.play(Answer(status=503), Answer(status=201, body={"id": "c-1"}))
            new = services.threads.begin("", EDITOR, title="hello")
            stored = await services.life.beginnings.begin(agent, version, new)
            async with asyncio.timeout(30):
                while [each.status for each in await services.life.deliveries.list()] != ["done"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
            api.play(Answer(), Answer())
            await services.agents.stop("shop")
            await services.life.endings.end_all(agent_id="shop")
            thread = (await services.threads.get_of(stored.thread.key, "default")).thread
            assert (thread.agent.end_reason, thread.agent.ctx["call_id"]) == ("draining", "c-1")
            assert {each.status for each in await services.life.deliveries.list()} == {"done"}
        keys = [request.headers["idempotency-key"].partition(":")[2] for request in api.requests]
        assert keys == ["on_start", "on_start", "on_no_action", "on_end"]
