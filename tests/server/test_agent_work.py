"""A server sends again what an agent's API did not take, and ends conversations with an agent it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from graphrag.config import Settings
from server.server_state import ServerState
from tests.support.agent_life import document
from tests.support.agents import EDITOR
from tests.support.scripted_http import Answer, ScriptedServer


@pytest.mark.slow
async def test_a_server_keeps_on_until_an_api_takes_what_it_is_owed(tmp_path: Path) -> None:
    with ScriptedServer() as api:
        raw = document(base_url=api.url)
        raw["lifecycle"]["on_end"]["method"] = "POST"
        settings = Settings(db=f"sqlite:///{tmp_path}/work.db", agent_http_allow=["127.0.0.1"])
        async with ServerState(settings) as state:
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
            await services.life.endings.end_all_of("shop")
            thread = (await services.threads.get_of(stored.thread.key, "default")).thread
            assert thread.agent is not None
            assert (thread.agent.end_reason, thread.agent.ctx["call_id"]) == ("draining", "c-1")
            assert {each.status for each in await services.life.deliveries.list()} == {"done"}
        keys = [request.headers["idempotency-key"].partition(":")[2] for request in api.requests]
        assert keys == ["on_start", "on_start", "on_no_action", "on_end"]
