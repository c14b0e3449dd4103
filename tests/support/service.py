"""The service without a network: requests go straight to the application, everything behind
it is real.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import jwt
from fastapi import FastAPI

from datasources.base import Record
from datasources.types import ROOT_WORKSPACE, Document
from graphrag.config import Settings
from graphrag.connections.stored_connection import CONNECTION_KIND, ServerConnection
from graphrag.connections.stored_push import PUSH_KIND, Push
from graphrag.llm.base import LLMProvider
from graphrag.roles import Person
from graphrag.voice.call_records import Call
from server.app import create_app, running
from server.server_state import ServerState
from tests.support.chosen_database import sample_address
from tests.support.scripted_provider import ScriptedProvider, Step

SECRET = "a secret of tests, long enough for HS256"
GRAPH = "testgraph001"
CHANGE = {"nodeKey": "error-handler", "changes": {"data.level": "warning"}, "reason": "asked for"}
"""Arguments of a `propose_update_node` that works on the sample graph."""


def token(
    user: str = "ed",
    role: str = "editor",
    workspaces: tuple[str, ...] = ("default",),
    **claims: Any,
) -> str:
    """Return a token as an issuer would make it."""
    made = {
        "sub": user,
        "roles": [role],
        "workspaces": list(workspaces),
        "exp": int(time.time()) + 7_200,
    }
    return jwt.encode({**made, **claims}, SECRET, algorithm="HS256")


@dataclass(frozen=True, slots=True)
class Service:
    """A started service. `as_` gives a client for somebody."""

    app: FastAPI

    @property
    def state(self) -> ServerState:
        return self.app.state.server

    def client(self, bearer: str | None = None, *, peer: str = "127.0.0.1") -> httpx2.AsyncClient:
        headers = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
        transport = httpx2.ASGITransport(app=self.app, client=(peer, 1))
        return httpx2.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8426", headers=headers
        )

    def as_(self, user: str = "ed", role: str = "editor", *workspaces: str) -> httpx2.AsyncClient:
        return self.client(token(user, role, workspaces or ("default",)))


def replace_part(app: FastAPI, group: str, **parts: Any) -> None:
    """Replaces parts of a group of the state, for requests and connections that begin later."""
    state = app.state.server
    app.state.server = replace(state, **{group: replace(getattr(state, group), **parts)})


def settings_of(**given: Any) -> Settings:
    """Return settings for tests: the sample graph in memory, no model, sign-in with SECRET."""
    return Settings(
        **{
            "db": given.get("db") or sample_address(),
            "provider": "offline",
            "embeddings": "none",
            "auth_secret": SECRET,
            **given,
        }
    )


@asynccontextmanager
async def service(provider: LLMProvider | None = None, **given: Any) -> AsyncIterator[Service]:
    app = create_app(settings_of(**given), provider=provider)
    async with running(app):
        yield Service(app)


@asynccontextmanager
async def answered(
    *steps: Step, **given: Any
) -> AsyncIterator[tuple[httpx2.AsyncClient, Service, ScriptedProvider]]:
    """Yield an editor's client, the service, and the model that plays these steps, all of them."""
    async with (
        ScriptedProvider(*steps) as model,
        service(model, **given) as running,
        running.as_() as ed,
    ):
        yield ed, running, model


def error_of(answer: httpx2.Response) -> dict[str, Any]:
    """Return the facts of an error; its body must have the one form that errors have."""
    assert answer.status_code >= 400, answer.text
    body = answer.json()
    assert set(body) == {"error"}
    assert {"code", "message", "retryable", "requestId"} <= set(body["error"])
    assert body["error"]["requestId"] == answer.headers["X-Request-ID"]
    return body["error"]


AUTOMATION = {
    "graphKey": GRAPH,
    "name": "Nightly check",
    "message": "Look for errors.",
    "cron": "0 2 * * *",
}


async def with_a_codemod(editor: httpx2.AsyncClient) -> dict[str, str]:
    """Propose a replacement over the workspace's graphs; return its key."""
    url = "https://api.example.com/nba/v1/players/stats"
    made = await editor.post("/api/codemods", json={"old": url, "new": url.replace("v1", "v2")})
    return {"codemod_id": made.json()["codemodId"]}


async def with_a_run(client: httpx2.AsyncClient) -> dict[str, str]:
    """Make an automation and a run of it; return the keys of both. No run may be
    started by itself.
    """
    made = (await client.post("/api/automations", json=AUTOMATION)).json()["id"]
    run = (await client.post(f"/api/automations/{made}/run")).json()["sessionId"]
    return {"automation_id": made, "session_id": run}


async def with_a_push(state: ServerState) -> dict[str, str]:
    """Store a connection with a server that does not answer, and a push to it; return
    their keys.
    """
    records = (await state.workspace("default")).services.database.records("default")
    connection = ServerConnection(
        key="hidden-shop",
        kind="n8n",
        address="http://127.0.0.1:9",
        user_id="ed",
        role="admin",
        created_time=1,
        workspace="default",
    )
    push = Push(
        key="push_1700000000000_hidden",
        connection=connection.key,
        workflow_id="hidden",
        name="NBA orders",
        graph_key=GRAPH,
        state="waiting",
        changes_digest="",
        asked_by="ed",
        asked_role="editor",
        created_time=1,
        workspace="default",
    )
    stored: list[tuple[str, str, Document]] = [
        (CONNECTION_KIND, connection.key, connection),
        (PUSH_KIND, push.key, push),
    ]
    for kind, key, document in stored:
        record = Record(kind=kind, key=key, data=document.to_document())
        await records.put(record, expected_version=None)
    return {"connection_name": connection.key, "push_id": push.key}


async def with_an_agent(state: ServerState) -> dict[str, str]:
    """Store a declarative agent with a tool, a call and a key; return their keys and that
    of a delivery.
    """
    tool = {"type": "http", "url": "https://api.example.com/hidden"}
    document = {
        "version": "2.0",
        "agent": {"id": "hidden-agent", "name": "NBA help desk"},
        "session": {"mode": "inline", "instructions": "Help about the NBA."},
        "tools": {"hidden_tool": tool},
        "channels": [
            "chat"
        ],  # no model speaks here: a call is refused as such, not for want of places
    }
    agents = (await state.services("default")).agents
    await agents.apply(document, Person("ann", "admin", "default"))
    call = Call(
        call_id="hidden-call",
        agent_id="hidden-agent",
        agent_version=1,
        workspace="default",
        channel="phone",
        status="ended",
        started_time=1_000,
    )
    await (await state.workspace("default")).calls.records.add(call)
    keys = state.authentication.api_keys
    key, _ = await keys.create(user="ann", role="admin", workspaces=["default"], name="hidden")
    named = {"agent_id": "hidden-agent", "name": "hidden_tool", "call_id": call.call_id}
    hook = {"event": "graph_changed", "inWorkspace": "default", "status": "done", "attempts": 1}
    data = {**hook, "createdTime": 1, "nextTime": 2**52, "body": {"graphKey": "hidden"}}
    record = Record(kind="webhook", key="msg_hidden", data=data)
    await state.backend.shared.database.records(ROOT_WORKSPACE).put(record, expected_version=None)
    more = {"key_id": key.id, "webhook_id": record.key}
    return {**named, "delivery_id": "hidden:on_end", **more}
