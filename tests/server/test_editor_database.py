"""A database that the Nodius editor wrote is served as it is: its graph, types,
vectors and conversations.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from datasources.arango import ArangoDatabase, parse_address
from tests.support.arango import ArangoServer
from tests.support.editor_database import (
    GRAPH,
    PLAIN,
    READING,
    USER,
    WAITING,
    WORKSPACE,
    editor_thread,
    store_editor_database,
    thread_at_limit,
)
from tests.support.scripted_provider import ScriptedProvider
from tests.support.service import service, token


@pytest.fixture
async def address(arango: ArangoServer) -> AsyncIterator[str]:
    """The address of a database that the editor had written to before it was set up."""
    name = arango.fresh()
    arango.call("POST", "/_api/database", {"name": name})
    store_editor_database(arango, name, [(READING, thread_at_limit())])
    async with ArangoDatabase(parse_address(arango.address(name)), prepared=False) as database:
        await database.set_up()
    yield arango.address(name)
    arango.drop(name)


async def waits_with(client: httpx2.AsyncClient, thread: str) -> dict[str, object]:
    return (
        (await client.get(f"/api/ai/thread/{thread}/messages")).json().get("pendingInterrupt", {})
    )


async def test_the_editors_conversations_go_on_where_they_wait(address: str) -> None:
    answers = ("It is gone.", "The fetch node reads one season.", "It is logged.")
    async with (
        ScriptedProvider(*answers) as model,
        service(model, db=address, workspace=WORKSPACE) as running,
        running.client(token(USER, "editor", (WORKSPACE,))) as client,
    ):
        listed = (await client.post("/api/ai/threads", json={"graphKey": GRAPH})).json()["threads"]
        assert {thread["threadId"] for thread in listed} == {PLAIN, WAITING, READING}

        pending = editor_thread(WAITING)["pendingInterrupt"]
        shown = await waits_with(client, WAITING)
        assert shown == await waits_with(client, WAITING)  # it is proposed once
        assert not model.requests
        assert shown["type"] == "interrupt"
        assert shown["toolCall"] == {
            "id": pending["toolCallId"], "name": "propose_delete_node", "args": pending["args"],
        }  # fmt: skip
        done = (
            await client.post("/api/ai/resume", json={"threadId": WAITING, "approved": True})
        ).json()
        assert done["message"].endswith("It is gone.")
        nodes = (await client.get(f"/api/graphs/{GRAPH}/nodes")).json()["nodes"]
        assert "error-handler" not in {node["_key"] for node in nodes}

        assert (await waits_with(client, READING))["type"] == "tool_limit"
        more = (
            await client.post("/api/ai/resume", json={"threadId": READING, "approved": True})
        ).json()
        assert more["message"].endswith("one season.")

        plain = {"graphKey": GRAPH, "threadId": PLAIN, "message": "And then?"}
        assert (await client.post("/api/ai/chat", json=plain)).json()["message"] == "It is logged."
