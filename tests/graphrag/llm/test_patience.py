"""How long an answer is waited for, and that leaving ends the request."""

import asyncio
import threading
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from graphrag.agent.events import classify
from graphrag.llm import errors, sdk
from graphrag.llm.base import Finished, LLMProvider, PromptRead, TextDelta
from graphrag.llm.registry import AnswerTimeouts, RetryPolicy
from tests.graphrag.llm.wire import (
    ASK,
    BEGUN,
    EVENT_STREAM,
    answered,
    anthropic_provider,
    anthropic_text,
    body,
    chunks_of,
    delta,
    openai_provider,
    openai_text,
    sse,
    streamed,
    text_of,
)
from tests.support.scripted_http import Answer, Request, ScriptedServer
from tests.support.waiting import cancelled


def provider_of(api: str, server: ScriptedServer, **settings: Any) -> LLMProvider:
    made = openai_provider if api == "openai" else anthropic_provider
    return made(server, **settings)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_server_that_falls_silent_times_out_and_is_left(api: str) -> None:
    with ScriptedServer() as server:
        gone = threading.Event()
        server.play(body(*BEGUN, fault="hang", gone=gone)(api))
        provider = provider_of(api, server, timeouts=AnswerTimeouts(silence_s=0.2))
        chunks, error = await chunks_of(provider)
        await provider.aclose()
        assert gone.wait(10)
    assert isinstance(error, errors.ModelTimedOut)
    assert error.seconds == 0.2
    assert text_of(chunks) == "Hel"
    assert classify(error).code == "timeout"


async def test_lines_without_content_do_not_keep_an_answer_alive() -> None:
    waiting = Answer(pieces=[b": PROCESSING\n\n" * 50], headers=EVENT_STREAM, fault="hang")
    once = RetryPolicy(attempts=1)
    timeouts = AnswerTimeouts(silence_s=0.2)
    _, error = await answered(openai_provider, waiting, retry=once, timeouts=timeouts)
    assert isinstance(error, errors.ModelTimedOut)


async def test_an_answer_may_take_only_so_long_in_all() -> None:
    timeouts = AnswerTimeouts(silence_s=30, total_s=0.2)
    _, error = await answered(openai_provider, streamed(BEGUN[0], fault="hang"), timeouts=timeouts)
    assert isinstance(error, errors.ModelTimedOut)
    assert "not whole after 0.2 s" in error.reason


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_connection_left_open_after_the_end_does_not_hold_the_answer(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "SDK_TIMEOUTS", replace(sdk.SDK_TIMEOUTS, tail_s=0.1))
    whole = (
        sse(delta(content="Hello"), delta("stop"), done=False)
        if api == "openai"
        else anthropic_text("Hello")
    )
    made = openai_provider if api == "openai" else anthropic_provider
    chunks, error = await answered(made, streamed(whole, fault="hang"))
    assert error is None
    assert isinstance(chunks[0], TextDelta)
    assert chunks[-1] == Finished(reason="stop")


@pytest.mark.parametrize("fault", ["reset", "truncate"])
async def test_what_breaks_after_the_reason_to_finish_leaves_a_whole_answer(fault: str) -> None:
    whole = sse(delta(content="Hello"), delta("stop"), done=False)
    read = threading.Event()
    answer = streamed(whole, cuts=[len(whole)], fault=fault, fault_when=read)
    chunks, error = await answered(openai_provider, answer, first=read)
    assert error is None
    assert chunks[-1] == Finished(reason="stop")


async def test_cancelling_before_the_first_byte_ends_the_request() -> None:
    with ScriptedServer() as server:
        held = threading.Event()
        asked = threading.Event()

        def answer(request: Request) -> Answer:
            asked.set()
            return Answer(held=held, fault="drop")

        server.play(answer)
        provider = openai_provider(server)
        task = asyncio.create_task(chunks_of(provider))
        assert await asyncio.to_thread(asked.wait, 10)
        await cancelled(task)
        held.set()
        await provider.aclose()
    assert len(server.requests) == 1


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_cancelling_and_closing_both_end_the_request(api: str) -> None:
    with ScriptedServer() as server:
        left = threading.Event()
        closed = threading.Event()
        server.play(
            body(*BEGUN, fault="hang", gone=left)(api), body(*BEGUN, fault="hang", gone=closed)(api)
        )
        provider = provider_of(api, server)
        seen = asyncio.Event()

        async def listen() -> None:
            async with aclosing(provider.stream(ASK)) as chunks:
                async for _ in chunks:
                    seen.set()

        task = asyncio.create_task(listen())
        await seen.wait()
        await cancelled(task)
        assert await asyncio.to_thread(left.wait, 10)

        async with aclosing(provider.stream(ASK)) as chunks:
            assert await anext(chunks) == TextDelta(text="Hel")
        assert await asyncio.to_thread(closed.wait, 10)
        await provider.aclose()


# local servers


def progress(done: int, total: int) -> dict[str, Any]:
    """A piece as llama.cpp sends it while it reads the prompt."""
    facts = {"total": total, "cache": 0, "processed": done, "time_ms": 5}
    return delta(role="assistant", content=None) | {"prompt_progress": facts}


async def test_a_server_may_read_for_long_and_its_keep_alives_do_not_end_the_attempt() -> None:
    held = threading.Event()
    with ScriptedServer() as server:
        server.play(streamed(b": keep-alive\n\n" * 20 + openai_text("Hello."), held=held))
        provider = openai_provider(server, timeouts=AnswerTimeouts(silence_s=0.5, first_s=60.0))
        asking = asyncio.create_task(chunks_of(provider))
        await asyncio.sleep(0.7)  # longer than a silence may last once an answer has begun
        assert not asking.done()
        held.set()
        chunks, _ = await asking
        await provider.aclose()
    assert text_of(chunks) == "Hello."


async def test_a_local_server_that_timed_out_is_not_asked_to_read_it_all_again() -> None:
    with ScriptedServer() as server:
        server.play(Answer(pieces=[b": keep-alive\n\n"], headers=EVENT_STREAM, fault="hang"))
        provider = openai_provider(
            server, timeouts=AnswerTimeouts(first_s=0.2, repeats_timeouts=False)
        )
        _, error = await chunks_of(provider)
        await provider.aclose()
    assert isinstance(error, errors.ModelTimedOut)
    assert error.seconds == 0.2
    assert len(server.requests) == 1


async def test_how_much_of_the_prompt_is_read_is_reported_and_asked_for() -> None:
    pieces = sse(progress(1_114, 5_276), progress(5_276, 5_276), done=False) + openai_text("Hello.")
    with ScriptedServer() as server:
        server.play(streamed(pieces))
        provider = openai_provider(server, local=True)
        chunks, error = await chunks_of(provider)
        await provider.aclose()
        assert server.requests[0].json["return_progress"] is True
    assert error is None
    assert chunks[:2] == [PromptRead(done=1_114, total=5_276), PromptRead(done=5_276, total=5_276)]
    assert text_of(chunks) == "Hello."


async def test_a_server_that_knows_no_progress_is_asked_without() -> None:
    with ScriptedServer() as server:
        unknown = {"error": {"message": "Unrecognized request argument: return_progress"}}
        server.play(Answer(status=400, body=unknown), streamed(openai_text("Hello.")))
        provider = openai_provider(server, local=True)
        chunks, _ = await chunks_of(provider)
        await provider.aclose()
        assert "return_progress" not in server.requests[1].json
    assert text_of(chunks) == "Hello."
