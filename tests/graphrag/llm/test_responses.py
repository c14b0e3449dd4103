"""OpenAI's Responses format: recorded answers wherever they are cut, requests, and
what goes wrong.
"""

import json
from typing import Any

import pytest

from graphrag.llm import errors
from graphrag.llm.base import (
    AssistantMessage,
    Chunk,
    Finished,
    Message,
    ReasoningDelta,
    SystemMessage,
    ToolCall,
    ToolCallCut,
    ToolCallReady,
    ToolCallStarted,
    ToolMessage,
    UsageReport,
    UserMessage,
)
from graphrag.llm.registry import RetryPolicy
from tests.graphrag.llm.test_recordings import body_of, index
from tests.graphrag.llm.wire import (
    TOOL,
    chunks_of,
    events,
    openai_provider,
    random_cuts,
    streamed,
    text_of,
)
from tests.support.scripted_http import Answer, ScriptedServer

RECORDED = [file for file, entry in index().items() if entry.get("api") == "responses"]


Played = tuple[list[Chunk], errors.ModelError | None]


async def played(*answers: Answer, **asked: Any) -> tuple[list[Played], list[Any]]:
    """Return what is made of each answer in one attempt, and what was sent for it."""
    with ScriptedServer() as server:
        server.play(*answers)
        provider = openai_provider(server, api="responses", retry=RetryPolicy(attempts=1))
        try:
            found = [await chunks_of(provider, **asked) for _ in answers]
        finally:
            await provider.aclose()
        return found, list(server.requests)


async def one(body: bytes, **asked: Any) -> Played:
    (found,), _ = await played(streamed(body), **asked)
    return found


def final_of(file: str) -> dict[str, Any]:
    """What the last event of a recording says, read without our code."""
    lines = [line for line in body_of(file).decode().splitlines() if line.startswith("data: {")]
    return json.loads(lines[-1].removeprefix("data: "))["response"]


@pytest.mark.parametrize("file", RECORDED)
@pytest.mark.slow
async def test_a_recorded_answer_gives_its_text_and_calls_wherever_it_is_cut(file: str) -> None:
    body = body_of(file)
    final = final_of(file)
    found, _ = await played(*(streamed(body, cuts=random_cuts(body, seed)) for seed in range(3)))
    text = "".join(
        part.get("text", "")
        for item in final["output"]
        if item["type"] == "message"
        for part in item["content"]
    )
    calls = [(i["name"], i["arguments"]) for i in final["output"] if i["type"] == "function_call"]
    assert text or calls
    for chunks, error in found:
        assert error is None
        assert text_of(chunks) == text
        assert [
            (c.call.name, c.call.arguments) for c in chunks if isinstance(c, ToolCallReady)
        ] == calls
        (usage,) = [c for c in chunks if isinstance(c, UsageReport)]
        assert (usage.prompt, usage.completion) == (
            final["usage"]["input_tokens"],
            final["usage"]["output_tokens"],
        )
        assert chunks[-1] == Finished(reason="tool_calls" if calls else "stop")


@pytest.mark.parametrize("file", [*RECORDED])
async def test_a_recorded_answer_that_breaks_off_is_an_error_and_no_answer(file: str) -> None:
    body = body_of(file)
    for at in range(0, body.rindex(b"event: response.completed"), max(1, len(body) // 12)):
        chunks, error = await one(body[:at])
        assert isinstance(error, errors.ModelStreamBroken | errors.ModelAnswerMalformed)
        assert not any(isinstance(chunk, ToolCallReady | Finished) for chunk in chunks)


def ended(status: str = "completed", kind: str = "completed", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 3}}
    return {
        "type": f"response.{kind}",
        "response": {"status": status, "output": [], "usage": usage, **more},
    }


def said(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "delta": text}


def a_call(
    index: int, call_id: str, name: str, *pieces: str, done: str | None = None
) -> list[dict[str, Any]]:
    item = {
        "type": "function_call",
        "id": f"fc{index}",
        "call_id": call_id,
        "name": name,
        "arguments": "",
    }
    made: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        *(
            {
                "type": "response.function_call_arguments.delta",
                "output_index": index,
                "delta": piece,
            }
            for piece in pieces
        ),
    ]
    whole = {**item, "arguments": "".join(pieces) or done}
    return [*made, {"type": "response.output_item.done", "output_index": index, "item": whole}]


async def test_calls_side_by_side_thinking_and_text_are_kept_apart() -> None:
    first = a_call(1, "c1", "look", '{"a"', ":1}")
    second = a_call(2, "c2", "find", done='{"b":2}')
    thinking = {"type": "response.reasoning_summary_text.delta", "delta": "Hm."}
    body = events(
        thinking, said("I lo"), said("ok."), first[0], second[0], *first[1:], *second[1:], ended()
    )
    chunks, error = await one(body)
    assert error is None
    assert text_of(chunks) == "I look."
    assert [c.text for c in chunks if isinstance(c, ReasoningDelta)] == ["Hm."]
    assert [(c.id, c.name) for c in chunks if isinstance(c, ToolCallStarted)] == [
        ("c1", "look"),
        ("c2", "find"),
    ]
    assert [c.call for c in chunks if isinstance(c, ToolCallReady)] == [
        ToolCall(id="c1", name="look", arguments='{"a":1}'),
        ToolCall(id="c2", name="find", arguments='{"b":2}'),
    ]
    assert UsageReport(prompt=9, completion=4, cached=3) in chunks


async def test_an_answer_that_is_not_streamed_is_read_too() -> None:
    body = {
        "object": "response",
        "status": "completed",
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "Here."}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        ],
    }
    answer = Answer(
        pieces=[json.dumps(body).encode()], headers={"content-type": "application/json"}
    )
    ((chunks, error),), _ = await played(answer)
    assert error is None
    assert text_of(chunks) == "Here."
    assert [c.call.name for c in chunks if isinstance(c, ToolCallReady)] == ["look"]


async def test_an_answer_cut_for_length_keeps_its_half_call_from_being_run() -> None:
    cut = ended("incomplete", "incomplete", incomplete_details={"reason": "max_output_tokens"})
    chunks, error = await one(events(*a_call(0, "c1", "look", '{"a": "lon')[:2], cut))
    assert error is None
    assert [c.call.arguments for c in chunks if isinstance(c, ToolCallCut)] == ['{"a": "lon']
    assert chunks[-1] == Finished(reason="length")


async def test_an_empty_answer_is_an_answer_and_a_nameless_call_is_not_run() -> None:
    chunks, error = await one(events(ended()))
    assert (chunks[-1], error) == (Finished(reason="stop"), None)
    chunks, error = await one(events(*a_call(0, "c1", "", "{}"), ended()))
    assert (chunks[-1], error) == (Finished(reason="tool_calls"), None)
    assert [type(chunk) for chunk in chunks if isinstance(chunk, ToolCallReady | ToolCallCut)] == [
        ToolCallCut
    ]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (events(said("a")), errors.ModelStreamBroken),
        (
            events(ended("failed", "failed", error={"code": "server_error", "message": "no"})),
            errors.ModelFailed,
        ),
        (
            events(
                ended("failed", "failed", error={"code": "rate_limit_exceeded", "message": "no"})
            ),
            errors.ModelRateLimited,
        ),
        (
            events(
                ended("incomplete", "incomplete", incomplete_details={"reason": "content_filter"})
            ),
            errors.ModelContentFiltered,
        ),
        (
            events({"type": "response.refusal.delta", "delta": "I may not."}, ended()),
            errors.ModelContentFiltered,
        ),
        (events({"type": "message_start"}), errors.ModelAnswerMalformed),
        (
            events({"type": "response.completed", "response": {"status": 7}}),
            errors.ModelAnswerMalformed,
        ),
        (
            events({"type": "response.function_call_arguments.delta", "delta": "{}"}),
            errors.ModelAnswerMalformed,
        ),
        (events(said("a"), ended("cancelled")), errors.ModelStreamBroken),
    ],
)
async def test_what_is_no_whole_answer_is_an_error(
    body: bytes, kind: type[errors.ModelError]
) -> None:
    chunks, error = await one(body)
    assert type(error) is kind, error
    assert not any(isinstance(chunk, ToolCallReady | Finished) for chunk in chunks)


async def test_a_conversation_is_sent_as_items_and_nothing_is_kept_by_the_service() -> None:
    call = ToolCall(id="c1", name="look", arguments='{"a":1}')
    messages: list[Message] = [
        SystemMessage(content="Be brief."),
        UserMessage(content="Look \ud800"),
        AssistantMessage(content="I look.", tool_calls=(call,)),
        ToolMessage(call_id="c1", name="look", content="a tree"),
        SystemMessage(content="Context.", stable=False),
        UserMessage(content="And?"),
    ]
    _, (request,) = await played(
        streamed(events(said("Yes."), ended())), messages=messages, tools=[TOOL]
    )
    sent = json.loads(request.body)
    assert request.path.endswith("/responses")
    assert sent["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look \ufffd"},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a tree"},
        {"role": "system", "content": "Context."},
        {"role": "user", "content": "And?"},
    ]
    assert sent["tools"] == [{"type": "function", **TOOL["function"], "strict": False}]  # type: ignore[dict-item]
    assert (sent["store"], sent["stream"]) == (False, True)
    assert "messages" not in sent
