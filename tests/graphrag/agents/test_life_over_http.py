"""The life of a conversation over real sockets: what is sent, and what an answer may be."""

from __future__ import annotations

from typing import Any

import pytest

from datasources.mock import MemoryDatabase
from graphrag.agents.errors import AgentSessionFailed
from tests.support.agent_life import Api, compiled, document, server_on
from tests.support.automations import Clock
from tests.support.each_row import each_row
from tests.support.planted import PLANTED_SECRET
from tests.support.scripted_http import Answer, ScriptedServer
from tools.http.addresses import AddressRules
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpClient
from tools.http.secret_values import Secrets

SECRET = PLANTED_SECRET
SESSION = {
    "mode": "config_url",
    "url": "{{base_url}}/session",
    "headers": {"Authorization": "Bearer {{secret.KEY}}"},
    "response_mapping": {"instructions": "$.prompt", "ctx_init": {"echo": "$.echo"}},
}


async def test_a_life_over_sockets_sends_keys_and_stores_no_secret() -> None:
    with ScriptedServer() as api:
        raw = document(base_url=api.url, session=SESSION, secrets=[{"name": "KEY", "hosts": ["127.0.0.1"]}])
        raw["lifecycle"]["on_end"]["method"] = "POST"
        rules = AddressRules(allow=("127.0.0.1",))
        async with MemoryDatabase() as database:
            server = server_on(database, Api(), agent=compiled(raw))
            client = HttpClient(rules)
            clock = Clock()
            server.shop.executor_ = HttpExecutor(
                client, Secrets({"KEY": SECRET}), clock, lambda code, language, fact: code
            )
            session: dict[str, Any] = {"prompt": f"Sell; {SECRET}", "echo": SECRET}
            api.play(
                Answer(body=session), Answer(status=201, body={"id": "c-7"}), Answer(), Answer(status=204)
            )
            stored = await server.begin()
            await server.quiet()
            await server.life.endings.end(stored.thread.key, "ended_by_person")
            await server.quiet()
            got, made, note, end = api.requests
            assert got.headers["authorization"] == f"Bearer {SECRET}"
            assert (made.path, note.path, end.path) == ("/calls", "/messages", "/calls")
            for request, event in ((made, "on_start"), (note, "on_no_action"), (end, "on_end")):
                assert request.headers["idempotency-key"] == f"{stored.thread.key}:{event}"
            assert b"null" not in made.body
            assert end.json["id"] == "c-7"
            kept = await database.records("default").query("thread")
            kept += await database.records("default").query("delivery")
            assert SECRET not in repr([record.data for record in kept])
            await client.aclose()


@each_row(
    "answer",
    [
        Answer(body={"prompt": "Sell.", "more": "x" * 300_000}),
        Answer(body=b'{"prompt": "Sell."'),
        Answer(body=b"[" * 5_000 + b"]" * 5_000),
        Answer(status=302, headers={"Location": "http://169.254.169.254/latest"}),
        Answer(fault="drop"),
    ],
)
async def test_a_hostile_answer_is_no_session(answer: Answer) -> None:
    with ScriptedServer() as api:
        raw = document(base_url=api.url, session=SESSION | {"headers": {}})
        async with MemoryDatabase() as database:
            server = server_on(database, Api(), agent=compiled(raw))
            client = HttpClient(AddressRules(allow=("127.0.0.1",)))
            server.shop.executor_ = HttpExecutor(
                client, Secrets({}), Clock(), lambda code, language, fact: code
            )
            api.play(answer, answer)
            with pytest.raises(AgentSessionFailed):
                await server.begin()
            assert len(api.requests) == 2
            assert await database.records("default").query("thread") == []
            await client.aclose()
