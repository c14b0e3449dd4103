"""What servers of models really send reaches no person, store or next request but as an answer.

The answers are those of public bug reports (`tests/data/cases`), sent by a server of loopback to
the real packages, in both forms, in pieces of any size.
"""

import json
import random
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from graphrag.llm.base import LLMProvider
from tests.graphrag.llm import wire
from tests.support import agui_runs
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.served import Served, served
from tests.support.service import GRAPH, token
from tests.support.ws_server import Client

CASES = Path(__file__).parents[1] / "data" / "cases"
FILES = sorted(
    path.relative_to(CASES).as_posix()
    for case in ("03-surrogate-split", "04-think-tags", "10-text-dialects")
    for path in (CASES / case).glob("*.sse")
)
FINAL = "FINAL-ANSWER ok"
FORMS: dict[str, Callable[[ScriptedServer], LLMProvider]] = {
    "openai": wire.openai_provider,
    "anthropic": wire.anthropic_provider,
}
HIDDEN = ("secret", "<th", "think>", "<|", "|>", "tool_call>", "functions.", "\ufffd")
QUESTION = "What does fetch-api do?"


def pieces_of(file: str) -> tuple[str, list[tuple[str, str]]]:
    """Return what a recorded answer says, and its calls."""
    text = ""
    calls = list[tuple[str, str]]()
    for line in (CASES / file).read_text().splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls", []):
                name = call["function"].get("name")
                more = call["function"]["arguments"]
                calls = (
                    [*calls, (name, more)]
                    if name
                    else [*calls[:-1], (calls[-1][0], calls[-1][1] + more)]
                )
    return text, calls


def cut_up(text: str, chance: random.Random) -> list[str]:
    """Cut a text into pieces, also between the halves of a character."""
    pieces: list[str] = []
    while text:
        size = chance.randint(1, 9)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def answer_of(file: str, form: str, chance: random.Random) -> Answer:
    """Return a recorded answer in a form, cut anew; in OpenAI's also as it was recorded."""
    text, calls = pieces_of(file)
    if form == "openai" and chance.random() < 0.5:
        body = (CASES / file).read_bytes()
    elif form == "openai":
        deltas: list[Any] = [wire.delta(content=piece) for piece in cut_up(text, chance)]
        for number, (name, arguments) in enumerate(calls):
            deltas.append(wire.call_delta(number, f"call_{number}", name, ""))
            deltas += [
                wire.call_delta(number, arguments=piece) for piece in cut_up(arguments, chance)
            ]
        body = wire.sse(*deltas, wire.delta("tool_calls" if calls else "stop"))
    else:
        blocks = wire.text_block(0, *cut_up(text, chance)) if text else []
        for number, (name, arguments) in enumerate(calls, start=1):
            blocks += wire.tool_block(number, f"toolu_{number}", name, *cut_up(arguments, chance))
        ending = wire.message_end("tool_use" if calls else "end_turn")
        body = wire.events(wire.message_start(), *blocks, *ending)
    return wire.streamed(body, cuts=wire.random_cuts(body, chance.randrange(1_000)))


def plain(form: str, text: str = FINAL) -> Answer:
    return wire.streamed(wire.openai_text(text) if form == "openai" else wire.anthropic_text(text))


async def over_rest(running: Served, http: httpx2.AsyncClient) -> str:
    answer = await http.post("/api/ai/chat", json={"graphKey": GRAPH, "message": QUESTION})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["message"])


async def over_chat_completions(running: Served, http: httpx2.AsyncClient) -> str:
    asked: dict[str, Any] = {
        "model": f"graph:{GRAPH}",
        "messages": [{"role": "user", "content": QUESTION}],
    }
    answer = await http.post("/v1/chat/completions", json=asked)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


async def over_a_stream_of_chat_completions(running: Served, http: httpx2.AsyncClient) -> str:
    asked: dict[str, Any] = {
        "model": f"graph:{GRAPH}",
        "messages": [{"role": "user", "content": QUESTION}],
    }
    answer = await http.post("/v1/chat/completions", json={**asked, "stream": True})
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]", answer.text
    chunks = [json.loads(line) for line in lines[:-1]]
    return "".join(one["delta"].get("content", "") for chunk in chunks for one in chunk["choices"])


async def over_ag_ui(running: Served, http: httpx2.AsyncClient) -> str:
    events = await agui_runs.run(http, agui_runs.said(QUESTION), thread=uuid.uuid4().hex)
    assert events[-1]["type"] == "RUN_FINISHED", events[-1]
    return agui_runs.text_of(events)


async def over_web_socket(running: Served, http: httpx2.AsyncClient) -> str:
    async with connect(f"ws://127.0.0.1:{running.port}/ws", proxy=None) as connection:
        client = Client(connection)
        messages = await client.talk(
            "ai:chat", _id=1, token=token(), graphKey=GRAPH, message=QUESTION
        )
    assert messages[-1]["type"] == "ai:complete", messages[-1]
    assert (
        "".join(m["token"] for m in messages if m["type"] == "ai:token").strip()
        == messages[-1]["fullText"].strip()
    )
    return str(messages[-1]["fullText"])


CHANNELS = (
    *(
        over_rest,
        over_chat_completions,
        over_a_stream_of_chat_completions,
        over_ag_ui,
        over_web_socket,
    ),
)


@asynccontextmanager
async def asking(provider: LLMProvider) -> AsyncGenerator[tuple[Served, httpx2.AsyncClient]]:
    signed = {"Authorization": f"Bearer {token()}"}
    async with (
        served(provider, rate_limit=0) as running,
        httpx2.AsyncClient(base_url=running.address, headers=signed, timeout=30) as http,
    ):
        yield running, http


@pytest.mark.parametrize("form", [*FORMS])
async def test_a_recorded_answer_is_shown_stored_and_resent_as_an_answer_on_every_channel(
    form: str,
) -> None:
    chance = random.Random(form)
    with ScriptedServer() as server:
        provider = FORMS[form](server)
        async with asking(provider) as (running, http):
            for file in FILES:
                # Of a model that was not known to begin in thinking, a stream has sent
                # some by then.
                whole = "noopen" in file
                channel = chance.choice((over_rest, over_chat_completions) if whole else CHANNELS)
                ends = FINAL in pieces_of(file)[0]
                server.play(answer_of(file, form, chance), *(() if ends else (plain(form),)))
                shown = await channel(running, http)
                assert shown.removeprefix("Hi 🚀 ").strip() == FINAL, (
                    file,
                    channel.__name__,
                    shown,
                )
                assert not any(hidden in resent(server) for hidden in HIDDEN), (
                    file,
                    resent(server),
                )
                if "surrogate_args" in file:
                    assert "🚀 players" in resent(server)
            stored = await everything_said(http)
        await provider.aclose()
    assert FINAL in stored
    assert not any(hidden in stored for hidden in HIDDEN), stored


def resent(server: ScriptedServer) -> str:
    """Return what the last request repeats of the model's own words."""
    messages = server.requests[-1].json["messages"]
    return json.dumps([one for one in messages if one["role"] == "assistant"], ensure_ascii=False)


async def everything_said(http: httpx2.AsyncClient) -> str:
    """Return what the model said in all conversations, as it is stored."""
    listed = (await http.post("/api/ai/threads", json={"graphKey": GRAPH})).json()
    keys = [one["threadId"] for one in listed["threads"]]
    said: list[str] = []
    for key in keys:
        stored = (await http.get(f"/api/ai/thread/{key}/messages")).json()["conversationHistory"]
        said += [one["content"] for one in stored if one["role"] == "assistant"]
    return "\n".join(said)


@pytest.mark.parametrize("channel", [*CHANNELS])
async def test_the_first_answers_of_a_server_show_no_thinking_whose_opening_tag_is_missing(
    channel: Callable[..., Any],
) -> None:
    chance = random.Random(7)
    with ScriptedServer() as server:
        server.play(
            *(answer_of("04-think-tags/think_noopen.sse", "anthropic", chance) for _ in range(2))
        )
        provider = wire.anthropic_provider(server)
        async with asking(provider) as (running, http):
            assert [(await channel(running, http)).strip() for _ in range(2)] == [FINAL, FINAL]
        await provider.aclose()
