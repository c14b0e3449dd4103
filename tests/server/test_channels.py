"""What a turn waits for is the same document on every channel."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from tests.graphrag.agent.test_questions_of_a_turn import asks
from tests.support.scripted_provider import Says, ScriptedProvider, Step, call
from tests.support.served import served
from tests.support.service import CHANGE, GRAPH, token
from tests.support.ws_server import Client

ASKED = {"graphKey": GRAPH, "message": "do it", "features": ["questions"]}


def proposes() -> list[Step]:
    return [Says(text="I propose it.", calls=[call("propose_update_node", CHANGE)])]


def searches() -> list[Step]:
    return [Says(calls=[call("search_nodes", {"query": f"error {i}"})]) for i in range(6)]


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        (proposes, "interrupt"),
        (lambda: [asks()], "question"),
        (searches, "tool_limit"),
    ],
)
async def test_a_turn_waits_for_the_same_on_the_websocket_and_over_rest(
    steps: Callable[[], list[Step]], kind: str
) -> None:
    by = token("ed", "editor")
    async with (
        ScriptedProvider(*steps()) as model,
        served(model) as running,
        connect(running.address.replace("http", "ws") + "/ws", proxy=None) as connection,
        httpx2.AsyncClient(
            base_url=running.address, headers={"Authorization": f"Bearer {by}"}, trust_env=False
        ) as rest,
    ):
        client = Client(connection)
        await client.send("authenticate", token=by)
        await client.read()
        ended = (await client.talk("ai:chat", _id=1, **ASKED))[-1]
        sent: dict[str, Any] = json.loads(ended["fullText"])
        read = await rest.get(
            f"/api/ai/thread/{ended['threadId']}/messages", params={"features": "questions"}
        )
        model.play_instead()
    assert sent["type"] == kind
    assert read.json()["pendingInterrupt"] == sent
