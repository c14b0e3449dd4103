"""A client that asks for it sees where runs of automations stand, and each change of them."""

from __future__ import annotations

import asyncio
from typing import Any

from graphrag.automations.drafts import draft_of
from graphrag.roles import Person
from tests.support.scripted_provider import ScriptedProvider
from tests.support.ws_server import GRAPH, Client, token, ws_server

OWNER = Person("ed", "editor", "default")
DRAFT = {"graphKey": GRAPH, "name": "Nightly", "message": "Look.", "cron": "0 2 * * *"}


async def subscribed(client: Client, **fields: Any) -> None:
    await client.send("ai:sessions", _id=80, **fields)
    await client.until("ai:sessions", 80)


async def test_a_run_is_seen_by_who_may_see_it_until_it_ends() -> None:
    with ScriptedProvider() as model:
        async with (
            ws_server(model, automations_at_once=0) as server,
            server.client(token()) as owner,
            server.client(token("rev", "reviewer")) as reviewer,
            server.client(token("olga")) as other,
            server.client(token("ed", "admin", "elsewhere")) as stranger,
        ):
            workspace = await server.app.state.server.workspace("default")
            service = workspace.automations
            await subscribed(owner)
            await subscribed(reviewer, graphKey=GRAPH)
            await subscribed(other)
            await subscribed(stranger)
            view = await service.add(draft_of(DRAFT), OWNER)
            run = await service.run(view.automation.key, OWNER)
            for client in (owner, reviewer):
                state = await client.until("ai:session_state", 80)
                assert (state["sessionId"], state["phase"]) == (run.key, "idle")
                assert state["automationId"] == view.automation.key
            await service.sessions.stop(run.key, OWNER)
            async with asyncio.timeout(4):
                state = await owner.until("ai:session_state", 80)
            assert (state["phase"], state["endReason"]) == ("completed", "CANCELLED")
            for client in (other, stranger):
                await client.send("__ping__", _id=81)
                assert (await client.read())["type"] == "__pong__", "nothing of others' runs came before it"
