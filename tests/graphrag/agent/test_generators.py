"""A token passes few generators on its way from the provider's stream to the channel."""

import inspect
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from graphrag.llm.anthropic_messages import MessageReader
from graphrag.llm.openai_chat import ChatReader
from tests.graphrag.llm import wire
from tests.support.scripted_http import ScriptedServer
from tests.support.service import service
from tests.support.ws_server import GRAPH, token, ws_server

MOST = 6
ROOT = Path(__file__).parents[3]
ROOMS = [str(ROOT / room) for room in ("graphrag", "server", "tools", "cli")]
MOVE = json.dumps({"node_key": "root", "pos_x": 5, "pos_y": 5, "reason": "r"})
ROUND = wire.sse(
    wire.call_delta(0, "c1", "propose_move_node", MOVE),
    wire.delta("tool_calls"),
    wire.usage_chunk(5, 2),
)


def generators() -> list[str]:
    """Return our async generators that are on the stack, innermost first."""
    found: list[str] = []
    frame: Any = inspect.currentframe()
    while frame is not None:
        ours = frame.f_code.co_filename.startswith(tuple(ROOMS))
        if ours and frame.f_code.co_flags & inspect.CO_ASYNC_GENERATOR:
            found.append(
                frame.f_code.co_qualname
                if hasattr(frame.f_code, "co_qualname")
                else frame.f_code.co_name
            )
        frame = frame.f_back
    return found


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The generators that each piece of an answer has before it, as it comes out of
    the SDK's stream.
    """
    seen: list[list[str]] = []
    for reader in (ChatReader, MessageReader):
        feed = reader.feed

        def noted(self: Any, piece: object, feed: Any = feed) -> Any:
            seen.append(generators())
            return feed(self, piece)

        monkeypatch.setattr(reader, "feed", noted)
    return seen


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (wire.openai_provider, wire.openai_text("hi")),
        (wire.anthropic_provider, wire.anthropic_text("hi")),
    ],
)
async def test_a_token_passes_at_most_six_generators_to_the_websocket(
    make: Any, answer: bytes, passed: list[list[str]]
) -> None:
    with ScriptedServer() as model:
        model.play(wire.streamed(answer))
        async with (
            aclosing(make(model)) as provider,
            ws_server(provider) as running,
            running.client(token()) as client,
        ):
            await client.send("ai:chat", _id=1, graphKey=GRAPH, message="hello")
            assert (await client.until("ai:complete"))["fullText"] == "hi"
    assert passed
    assert all(2 < len(found) <= MOST for found in passed), passed


async def test_a_token_of_a_resumed_turn_passes_no_more(passed: list[list[str]]) -> None:
    with ScriptedServer() as model:
        model.play(wire.streamed(ROUND), wire.streamed(wire.openai_text("moved")))
        async with (
            aclosing(wire.openai_provider(model)) as provider,
            ws_server(provider) as running,
            running.client(token()) as client,
        ):
            await client.send("ai:chat", _id=1, graphKey=GRAPH, message="move it")
            thread = (await client.until("ai:complete"))["threadId"]
            passed.clear()
            await client.send("ai:resume", _id=2, threadId=thread, approved=True)
            assert "moved" in (await client.until("ai:complete"))["fullText"]
    assert passed
    assert all(2 < len(found) <= MOST for found in passed), passed


async def test_a_token_passes_no_more_to_who_collects_the_answer(passed: list[list[str]]) -> None:
    with ScriptedServer() as model:
        model.play(wire.streamed(wire.openai_text("hi")))
        async with (
            aclosing(wire.openai_provider(model)) as provider,
            service(provider) as running,
            running.as_() as client,
        ):
            answer = await client.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "hello"})
    assert answer.json()["message"] == "hi"
    assert passed
    assert all(2 < len(found) <= MOST for found in passed), passed
