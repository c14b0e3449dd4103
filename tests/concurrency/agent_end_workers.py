"""Whole services and commands that are killed while a chat with an agent goes on and ends."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx2

from graphrag.leases import now_ms
from tests.graphrag.llm.wire import call_delta, delta, openai_text, sse, streamed
from tests.support.agent_chats import agent_document
from tests.support.chosen_database import address_in
from tests.support.commands import run_command
from tests.support.scripted_http import ScriptedServer
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import Served, served
from tests.support.service import service, token
from tests.support.ws_server import Running

HOUR_MS = 3_600_000
ALLOWED = {"agent_http_allow": ["127.0.0.1"]}
LINES = {"ended_by_person": ["hello"], "agent_hung_up": ["hello", "bye"], "idle": ["hello"]}


def document_of(api: str) -> dict[str, Any]:
    """Return an agent whose API is notified of the beginning and the end."""
    lifecycle = {
        "on_start": {"url": "{{base_url}}/start", "body": {"call": "{{call_id}}"}},
        "on_end": {
            "url": "{{base_url}}/end",
            "body": {"call": "{{call_id}}", "why": "{{end_reason}}"},
        },
        "outcome_rules": [{"flag": None, "outcome": "talked"}],
    }
    return agent_document(base_url=api, lifecycle=lifecycle)


def model() -> ScriptedProvider:
    return ScriptedProvider("Hello.", Says(text="Goodbye!", calls=[call("bye")]))


async def over_rest(path: Path, reason: str) -> None:
    async with service(model(), db=address_in(path), **ALLOWED) as running, running.as_() as person:
        more: dict[str, Any] = {"agentId": "desk"}
        for line in LINES[reason]:
            body = {"graphKey": "", "message": line, **more}
            more = {"threadId": (await person.post("/api/ai/chat", json=body)).json()["threadId"]}
        if reason == "ended_by_person":
            assert (await person.post(f"/api/ai/thread/{more['threadId']}/end")).status_code == 200


async def over_websocket(path: Path, reason: str) -> None:
    """As the page does it: it talks over the WebSocket, and ends over REST."""
    async with (
        served(model(), db=address_in(path), **ALLOWED) as site,
        service_client(site) as person,
    ):
        running = Running(port=site.port, state=site.state, app=site.app)
        async with running.client(token()) as client:
            more: dict[str, Any] = {"agentId": "desk"}
            for number, line in enumerate(LINES[reason], 1):
                last = (
                    await client.talk("ai:chat", _id=number, graphKey="", message=line, **more)
                )[-1]
                assert last["type"] == "ai:complete", last
                more = {"threadId": last["threadId"]}
            if reason == "ended_by_person":
                assert (
                    await person.post(f"/api/ai/thread/{more['threadId']}/end")
                ).status_code == 200


def service_client(site: Served) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {token()}"}
    return httpx2.AsyncClient(base_url=site.address, headers=headers, trust_env=False)


def at_a_terminal(path: Path, reason: str) -> None:
    os.environ |= {"NODIUS_DB": address_in(path), "NODIUS_AGENT_HTTP_ALLOW": "127.0.0.1"}
    with ScriptedServer() as served_model:
        os.environ |= {"NODIUS_PROVIDER": "compatible", "NODIUS_MODEL": "some-model"}
        os.environ["NODIUS_LLM_BASE_URL"] = f"{served_model.url}/v1"
        bye = streamed(sse(call_delta(0, "c1", "bye", "{}"), delta("tool_calls")))
        served_model.play(streamed(openai_text("Hello.")), bye, streamed(openai_text("Goodbye!")))
        lines = LINES[reason] + (["/end"] if reason == "ended_by_person" else [])
        run_command("chat", "--agent", "desk", typed="".join(f"{line}\n" for line in lines))


async def wait_long(path: Path) -> None:
    """Let a server end what nobody wrote in for an hour."""
    async with service(db=address_in(path), **ALLOWED) as running:
        services = await running.state.services("default")
        await services.life.endings.end_idle(now_ms() + HOUR_MS)
        await services.life.deliveries.send_due()


def end_a_chat(path: Path, channel: str, reason: str) -> Any:
    """Live a chat of a channel that ends for a reason; a terminal's command has an event loop
    of its own.
    """
    if channel == "terminal":
        at_a_terminal(path, reason)
        return wait_long(path) if reason == "idle" else asyncio.sleep(0)

    async def work() -> None:
        await (over_rest if channel == "rest" else over_websocket)(path, reason)
        if reason == "idle":
            await wait_long(path)

    return work()
