"""A server that still loads its model is waited for, and each channel tells its client in
its own form.

The scripted server answers as llama.cpp's does while it loads, to the real package of OpenAI.
"""

import json
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2
from websockets.asyncio.client import connect

from graphrag.llm.registry import AnswerTimeouts, RetryPolicy
from graphrag.llm.sdk import SDK_TIMEOUTS
from tests.graphrag.llm.wire import Pauses, openai_provider, openai_text, streamed
from tests.server.test_model_words import QUESTION, asking, over_rest
from tests.support import agui_runs
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.served import Served
from tests.support.service import GRAPH, token
from tests.support.ws_server import Client

LOADING = Answer(
    status=503,
    body={"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
)
LOOKS = RetryPolicy().attempts + 2  # more than a server that fails is asked


@asynccontextmanager
async def loading() -> AsyncGenerator[tuple[Served, httpx2.AsyncClient]]:
    """Yields a service whose model is loaded after some requests."""
    pauses = Pauses()
    with ScriptedServer() as server:
        server.play(*[LOADING] * LOOKS, streamed(openai_text("Hello")))
        provider = openai_provider(server, sleep=pauses)
        async with aclosing(provider), asking(provider) as (running, http):
            yield running, http
    assert pauses.seconds == [SDK_TIMEOUTS.loading_pause_s] * LOOKS


async def test_an_answer_over_rest_comes_once_the_model_is_loaded() -> None:
    async with loading() as (running, http):
        assert await over_rest(running, http) == "Hello"


async def test_a_web_socket_says_once_that_the_model_is_loading_before_the_answer() -> None:
    async with (
        loading() as (running, _),
        connect(f"ws://127.0.0.1:{running.port}/ws", proxy=None) as connection,
    ):
        client = Client(connection)
        asked: dict[str, Any] = {"token": token(), "graphKey": GRAPH, "message": QUESTION}
        messages = await client.talk("ai:chat", _id=1, **asked)
    told = [message for message in messages if message["type"] == "ai:progress"]
    assert [message["loading"] for message in told] == [True]
    first = next(message for message in messages if message["type"] == "ai:token")
    assert messages.index(told[0]) < messages.index(first)
    assert messages[-1]["fullText"] == "Hello"


async def test_ag_ui_shows_a_step_with_the_notice_that_ends_when_the_answer_begins() -> None:
    async with loading() as (_, http):
        events = await agui_runs.run(http, agui_runs.said(QUESTION), thread=uuid.uuid4().hex)
    kinds = [event["type"] for event in events]
    notices = [event for event in events if event.get("name") == "nodius.prompt_read"]
    assert [event["value"]["loading"] for event in notices] == [True]
    order = ("STEP_STARTED", "STEP_FINISHED", "TEXT_MESSAGE_START", "RUN_FINISHED")
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    assert kinds.index("STEP_STARTED") < events.index(notices[0]) < kinds.index("STEP_FINISHED")
    assert agui_runs.text_of(events) == "Hello"


async def test_chat_completions_wait_and_add_nothing_that_the_format_does_not_have() -> None:
    asked = {"model": f"graph:{GRAPH}", "messages": [{"role": "user", "content": QUESTION}]}
    async with loading() as (_, http):
        whole = (await http.post("/v1/chat/completions", json=asked)).json()
    assert whole["choices"][0]["message"]["content"] == "Hello"
    async with loading() as (_, http):
        answer = await http.post("/v1/chat/completions", json={**asked, "stream": True})
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    said = (one["delta"].get("content") or "" for chunk in chunks for one in chunk["choices"])
    assert "".join(said) == "Hello"


async def test_a_model_that_is_never_loaded_ends_every_stream_with_its_own_error() -> None:
    short = AnswerTimeouts(total_s=2 * SDK_TIMEOUTS.loading_pause_s)
    with ScriptedServer(answers_all=lambda _: LOADING) as server:
        provider = openai_provider(server, sleep=Pauses(), timeouts=short)
        async with aclosing(provider), asking(provider) as (running, http):
            asked: dict[str, Any] = {"graphKey": GRAPH, "message": QUESTION}
            over_http = await http.post("/api/ai/chat", json=asked)
            events = await agui_runs.run(http, agui_runs.said(QUESTION), thread=uuid.uuid4().hex)
            async with connect(f"ws://127.0.0.1:{running.port}/ws", proxy=None) as connection:
                talk = Client(connection).talk
                messages = await talk("ai:chat", _id=1, token=token(), **asked)
    assert over_http.status_code == 502
    assert events[-1]["type"] == "RUN_ERROR"
    assert messages[-1]["type"] == "ai:error"
    assert len({messages[-1]["error"], events[-1]["message"]}) == 1
    assert messages[-1]["error"] in over_http.text
