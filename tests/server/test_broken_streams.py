"""A fault of this program in the middle of an answer: every channel ends with its
own last event.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from graphrag.llm.base import Chunk, Message, TextDelta
from tests.support import agui_runs
from tests.support.scripted_provider import FixedModel
from tests.support.served import Served, served
from tests.support.service import GRAPH, token
from tests.support.ws_server import Client


class Breaking(FixedModel):
    """Says a word, and then fails as no provider may."""

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Chunk]:
        yield TextDelta(text="Half of it ")
        raise RuntimeError("a secret of the inside at 10.0.0.7")


ASKED: dict[str, Any] = {
    "model": f"graph:{GRAPH}",
    "messages": [{"role": "user", "content": "What fails?"}],
}


async def chat_completions(_: Served, http: httpx2.AsyncClient) -> tuple[str, bool]:
    said = (await http.post("/v1/chat/completions", json={**ASKED, "stream": True})).text
    last = json.loads(said.strip().splitlines()[-1].removeprefix("data: "))
    return said, last["error"]["code"] == "internal"


async def responses(_: Served, http: httpx2.AsyncClient) -> tuple[str, bool]:
    asked = {"model": ASKED["model"], "input": "What fails?", "stream": True}
    said = (await http.post("/v1/responses", json=asked)).text
    events = [json.loads(line[6:]) for line in said.splitlines() if line.startswith("data: ")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return said, events[-1]["type"] == "error"


async def rest(_: Served, http: httpx2.AsyncClient) -> tuple[str, bool]:
    answer = await http.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "What fails?"})
    return answer.text, answer.json()["error"]["code"] == "internal"


async def ag_ui(_: Served, http: httpx2.AsyncClient) -> tuple[str, bool]:
    events = await agui_runs.run(http, agui_runs.said("What fails?"))
    return json.dumps(events), events[-1]["type"] == "RUN_ERROR"


async def web_socket(running: Served, http: httpx2.AsyncClient) -> tuple[str, bool]:
    async with connect(f"ws://127.0.0.1:{running.port}/ws", proxy=None) as connection:
        asked: dict[str, Any] = {
            "_id": 1,
            "token": token(),
            "graphKey": GRAPH,
            "message": "What fails?",
        }
        messages = await Client(connection).talk("ai:chat", **asked)
    return json.dumps(messages), messages[-1]["type"] == "ai:error"


@pytest.mark.parametrize("channel", [chat_completions, responses, rest, ag_ui, web_socket])
async def test_a_fault_of_this_program_ends_each_channel_with_its_own_last_event(
    channel: Any,
) -> None:
    signed = {"Authorization": f"Bearer {token()}"}
    async with (
        served(Breaking(), rate_limit=0) as running,
        httpx2.AsyncClient(base_url=running.address, headers=signed, timeout=30) as http,
    ):
        said, has_ended = await channel(running, http)
    assert has_ended, said
    assert "10.0.0.7" not in said
