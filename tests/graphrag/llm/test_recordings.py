"""Recorded answers of providers, ours and published, cut at random bytes, through the
real client SDKs.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from graphrag.llm.base import (
    Chunk,
    Finished,
    TextDelta,
    ToolCallCut,
    ToolCallReady,
    ToolCallSetAside,
    ToolCallStarted,
    is_json,
)
from graphrag.llm.errors import (
    ModelAnswerMalformed,
    ModelContentFiltered,
    ModelError,
    ModelStreamBroken,
)
from graphrag.llm.openai_compatible import OpenAICompatibleProvider
from graphrag.llm.registry import RetryPolicy
from tests.graphrag.llm import wire
from tests.support.data_files import OURS, PUBLISHED, ours, published
from tests.support.model_words import words_of
from tests.support.scripted_http import Answer, ScriptedServer

if TYPE_CHECKING:
    from graphrag.llm.anthropic import AnthropicProvider

CUTS = 2
"""How many different cuts of each recording are tried."""

ENDS_WITH: dict[str, type[ModelError]] = {
    "openai/chat_stream_refusal.sse": ModelContentFiltered,
    "openai/chat_content_filter.json": ModelContentFiltered,
    "anthropic/sdk_refusal_response.sse": ModelContentFiltered,
    "anthropic/vercel_anthropic_refusal.chunks.txt": ModelContentFiltered,
    # A second answer begins within the first, after a part of it was shown.
    "anthropic/vercel_spliced_message_start.chunks.txt": ModelStreamBroken,
    # Another interface of the same providers: nothing of it may pass for an answer.
    "openai/responses_stream_tool.sse": ModelAnswerMalformed,
    "openai/responses_stream_function_call.sse": ModelAnswerMalformed,
    "deepseek/responses_stream.sse": ModelAnswerMalformed,
}
THINKS_ALOUD = "anthropic/stream_tool_use_datadog.sse"
"""Its whole text stands between `<thinking>` and `</thinking>`."""
NO_REASON = (
    "openai/compat_stream_tool_variant_a.sse",
    "openai/compat_stream_tool_variant_b.sse",
    "openai/compat_snowflake_stream.sse",
)
"""Whole answers whose server gives no reason to finish."""


@cache
def index() -> dict[str, dict[str, Any]]:
    """Returns what is said of each recording, ours and the published ones, by its name."""
    lists = [*ours("wire", "index.json"), *published("wire", "index.json")]
    return {
        entry["file"]: {**entry, "folder": path.parent}
        for path in lists
        for entry in json.loads(path.read_text())
    }


def error_of(file: str) -> type[ModelError | None]:
    """Returns the error that an answer ends with; `NoneType` of one that is whole."""
    known = {error.__name__: error for error in ENDS_WITH.values()}
    return (
        known[index()[file]["ends"]] if "ends" in index()[file] else ENDS_WITH.get(file, type(None))
    )


def gives_no_reason(file: str) -> bool:
    return file in NO_REASON or "gives_no_reason" in index()[file]


@cache
def body_of(file: str) -> bytes:
    """The bytes on the wire; fixtures of one JSON value a line get their framing back."""
    raw = (index()[file]["folder"] / file).read_bytes()
    if not file.endswith(".chunks.txt"):
        # Some fixtures lost the empty line that ends their last event.
        lost = (
            file.endswith(".sse") and not raw.endswith(b"\n\n") and not index()[file]["byte_exact"]
        )
        return raw + b"\n\n" if lost else raw
    made: list[str] = []
    for line in raw.decode().splitlines():
        if line.strip():
            event = f"event: {json.loads(line)['type']}\n" if file.startswith("anthropic/") else ""
            made.append(f"{event}data: {line}\n\n")
    return "".join(made).encode()


def at_hand(*rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Returns the rows whose recording, their first value, is there."""
    return [row for row in rows if row[0] in index()]


def expected_calls(file: str) -> list[tuple[str, int]]:
    return [
        (call["name"], call["args_len"]) for call in index()[file]["checks"].get("tool_calls", [])
    ]


def whole_answer(file: str) -> tuple[str, list[tuple[str, int]]]:
    """What an answer that was not streamed says, read without our code."""
    body = json.loads(body_of(file))
    if file.startswith("anthropic/"):
        blocks = body["content"]
        text = "".join(b["text"] for b in blocks if b["type"] == "text")
        return text, [
            (b["name"], len(json.dumps(b["input"]))) for b in blocks if b["type"] == "tool_use"
        ]
    message = body["choices"][0].get("message", {})
    calls = [call["function"] for call in message.get("tool_calls") or []]
    return message.get("content") or "", [(f["name"], len(f["arguments"])) for f in calls]


Played = tuple[list[Chunk], ModelError | None]


async def play(file: str, *answers: Answer, finish_required: bool | None = None) -> list[Played]:
    """Return what the adapter of a recording makes of each answer, in one attempt each."""
    with ScriptedServer() as server:
        server.play(*answers)
        provider: AnthropicProvider | OpenAICompatibleProvider
        if file.startswith("anthropic/"):
            provider = wire.anthropic_provider(server, retry=RetryPolicy(attempts=1))
        else:
            tolerant = gives_no_reason(file) if finish_required is None else not finish_required
            provider = wire.openai_provider(
                server, retry=RetryPolicy(attempts=1), finish_required=not tolerant
            )
        try:
            return [await wire.chunks_of(provider) for _ in answers]
        finally:
            await provider.aclose()


def calls_in(chunks: list[Chunk]) -> list[tuple[str, int]]:
    kinds = ToolCallReady | ToolCallCut | ToolCallSetAside
    return [
        (chunk.call.name, len(chunk.call.arguments)) for chunk in chunks if isinstance(chunk, kinds)
    ]


def test_every_recording_is_there_and_none_besides() -> None:
    if PUBLISHED.is_dir():
        assert set(ENDS_WITH) | set(NO_REASON) <= set(index())
        assert len(index()) == 73 + len(json.loads(ours("wire", "index.json")[0].read_text()))
    for file, entry in index().items():
        assert (entry["folder"] / file).is_file()
    written = {path.relative_to(OURS / "wire").as_posix() for path in ours("wire", "*/*")}
    assert written <= set(index())


@pytest.mark.parametrize("seeds", [(0,), pytest.param((1, 2), marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", [*[f for f in index() if not f.endswith(".json")]])
async def test_a_recording_gives_its_text_and_calls_wherever_cut(
    file: str, seeds: tuple[int, ...]
) -> None:
    checks = index()[file]["checks"]
    body = body_of(file)
    answers = [wire.streamed(body, cuts=wire.random_cuts(body, seed)) for seed in seeds]
    for chunks, error in await play(file, *answers):
        assert type(error) is error_of(file), error
        pieces = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
        words = words_of(pieces, ("search_nodes", "read_node_detail"))
        said = "" if file == THINKS_ALOUD else "".join(pieces)
        assert (words.text, words.calls, words.leaked) == (said, [], False)
        assert len(wire.text_of(chunks)) == checks["text_chars"]
        assert sorted(calls_in(chunks)) == sorted(expected_calls(file))
        if error is not None:
            assert not any(isinstance(chunk, ToolCallReady | Finished) for chunk in chunks)
            continue
        assert isinstance(chunks[-1], Finished)
        started = {chunk.index: chunk for chunk in chunks if isinstance(chunk, ToolCallStarted)}
        for chunk in chunks:
            if isinstance(chunk, ToolCallReady):
                assert (started[chunk.index].id, started[chunk.index].name) == (
                    chunk.call.id,
                    chunk.call.name,
                )
                assert is_json(chunk.call.arguments or "{}")


@pytest.mark.parametrize("file", [*[f for f in index() if f.endswith(".json")]])
async def test_a_recorded_answer_that_was_not_streamed_is_read_too(file: str) -> None:
    [(chunks, error)] = await play(file, Answer(body=body_of(file)))
    assert type(error) is error_of(file), error
    text, calls = whole_answer(file)
    assert wire.text_of(chunks) == text
    assert calls_in(chunks) == calls


@pytest.mark.parametrize("file", [*filter(gives_no_reason, index())])
async def test_a_recording_without_a_finish_is_no_answer_unless_that_is_tolerated(
    file: str,
) -> None:
    [(chunks, error)] = await play(file, wire.streamed(body_of(file)), finish_required=True)
    assert isinstance(error, ModelStreamBroken)
    assert not any(isinstance(chunk, ToolCallReady | Finished) for chunk in chunks)


@pytest.mark.parametrize(
    ("file", "length"),
    [
        ("anthropic/cut_call.sse", 48),
        *at_hand(("anthropic/sdk_incomplete_partial_json_response.sse", 149)),
    ],
)
async def test_a_call_cut_off_with_its_answer_is_said_to_be_cut_and_never_ready(
    file: str, length: int
) -> None:
    [(chunks, error)] = await play(file, wire.streamed(body_of(file)))
    assert error is None
    assert [len(chunk.call.arguments) for chunk in chunks if isinstance(chunk, ToolCallCut)] == [
        length
    ]
    assert not any(isinstance(chunk, ToolCallReady) for chunk in chunks)
    assert chunks[-1] == Finished(reason="length")


@pytest.mark.parametrize(
    ("file", "first", "other"),
    [
        ("openai/chat_two_choices.sse", 21, 23),
        *at_hand(("openai/chat_stream_tool_n2.sse", 32, 49)),
    ],
)
async def test_only_the_first_of_several_choices_can_be_run(
    file: str, first: int, other: int
) -> None:
    [(chunks, error)] = await play(file, wire.streamed(body_of(file)))
    assert error is None
    assert [len(c.call.arguments) for c in chunks if isinstance(c, ToolCallReady)] == [first]
    assert [len(c.call.arguments) for c in chunks if isinstance(c, ToolCallSetAside)] == [other]
    assert len([c for c in chunks if isinstance(c, ToolCallStarted)]) == 1


@pytest.mark.parametrize(
    ("file", "call_id", "name", "arguments"),
    [
        (
            "anthropic/second_answer_within.sse",
            "toolu_own4",
            "look",
            '{"value":"fir' + '{"value":"second"}',
        ),
        *at_hand(
            (
                "anthropic/vercel_spliced_message_start.chunks.txt",
                "toolu_first",
                "test-tool",
                '{"value":"Spark' + '{"value":"Sparkle Day"}',
            )
        ),
    ],
)
async def test_a_call_of_two_answers_in_one_stream_is_set_aside_whole_and_cannot_be_run(
    file: str, call_id: str, name: str, arguments: str
) -> None:
    [(chunks, error)] = await play(file, wire.streamed(body_of(file)))
    assert isinstance(error, ModelStreamBroken)
    [aside] = [chunk.call for chunk in chunks if isinstance(chunk, ToolCallSetAside)]
    assert (aside.id, aside.name) == (call_id, name)
    assert aside.arguments == arguments
    assert not any(isinstance(chunk, ToolCallReady | ToolCallCut | Finished) for chunk in chunks)


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", [*[f for f in index() if not f.endswith(".json") and not gives_no_reason(f)]]
)
async def test_a_recording_that_breaks_off_is_an_error_and_never_an_answer(file: str) -> None:
    body = body_of(file)
    # What breaks off before the reason to finish is incomplete.
    ends = [
        body.find(word) for word in (b'"finish_reason":"', b'"finish_reason": "', b"message_delta")
    ]
    last = min((place for place in ends if place > 0), default=len(body) // 2)
    places = [wire.random_cuts(body[:last], seed, 1)[0] for seed in range(CUTS)]
    answers = [wire.streamed(body[:place], fault="truncate") for place in places]
    for place, (chunks, error) in zip(places, await play(file, *answers), strict=True):
        assert isinstance(error, ModelError), place
        assert not any(
            isinstance(chunk, ToolCallReady | ToolCallCut | Finished) for chunk in chunks
        )
