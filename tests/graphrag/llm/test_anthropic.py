"""Anthropic's messages format: what is sent, and what is made of the events that come."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.llm.anthropic_messages import CACHED, MessageReader, to_request
from graphrag.llm.base import (
    AssistantMessage,
    Chunk,
    Finished,
    Message,
    MessageExtra,
    ModelOptions,
    ReasoningDelta,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallCut,
    ToolCallReady,
    ToolCallStarted,
    ToolMessage,
    UsageReport,
    UserMessage,
)
from graphrag.llm.errors import ModelError, ModelStreamBroken
from graphrag.llm.receiver import HistoryRules, fitted_to
from tests.graphrag.llm.wire import (
    KEY,
    TOOL,
    anthropic_provider,
    anthropic_text,
    block,
    chunks_of,
    events,
    message_end,
    message_start,
    streamed,
    text_block,
    tool_block,
)
from tests.support.scripted_http import ScriptedServer

USER = UserMessage(content="do it")


def call(call_id: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=call_id, name="look", arguments=arguments)


def request(
    *messages: Message, tools: Sequence[dict[str, Any]] = (TOOL,), **options: Any
) -> dict[str, Any]:
    fitted = fitted_to(messages, HistoryRules(), "anthropic")
    return to_request(fitted, tools, ModelOptions(**options))


def content(made: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The content of each turn, without cache marks."""
    return [
        [{k: v for k, v in b.items() if k != "cache_control"} for b in t["content"]]
        for t in made["messages"]
    ]


async def read(*items: dict[str, Any]) -> tuple[list[Chunk], ModelError | None]:
    with ScriptedServer() as server:
        server.play(streamed(events(*items)))
        provider = anthropic_provider(server)
        found = await chunks_of(provider)
        await provider.aclose()
    return found


async def test_a_request_has_a_limit_a_version_and_nothing_empty() -> None:
    with ScriptedServer() as server:
        server.play(streamed(anthropic_text("ok")), streamed(anthropic_text("ok")))
        provider = anthropic_provider(server, max_tokens=77)
        await chunks_of(provider)
        await chunks_of(provider, options=ModelOptions(max_tokens=5, temperature=1.5))
        await provider.aclose()
    first, second = server.requests
    assert first.path == "/v1/messages"
    assert KEY in first.headers.get("x-api-key", "") + first.headers.get("authorization", "")
    assert "anthropic-version" in first.headers
    said = [{"type": "text", "text": "hello", "cache_control": CACHED}]
    assert first.json == {
        "model": "some-model",
        "max_tokens": 77,
        "stream": True,
        "messages": [{"role": "user", "content": said}],
    }
    assert (second.json["max_tokens"], second.json["temperature"]) == (5, 1.0)


def test_the_stable_prefix_and_the_end_are_marked_for_the_cache() -> None:
    made = request(
        SystemMessage(content="Rules."), SystemMessage(content="Now.", stable=False), USER
    )
    assert [b.get("cache_control") for b in made["system"]] == [CACHED]
    assert (
        next(b["text"] for b in made["messages"][0]["content"]) == "Now."
    )  # what changes stands after it
    assert made["tools"][-1].get("cache_control") is None  # the mark on the system covers them
    assert made["messages"][-1]["content"][-1]["cache_control"] == CACHED
    bare = request(SystemMessage(content="  "), USER)
    assert "system" not in bare
    assert bare["tools"][-1]["cache_control"] == CACHED
    assert "cache_control" not in TOOL


def test_tools_are_given_in_the_formats_own_form() -> None:
    [tool] = request(USER)["tools"]
    assert (tool["name"], tool["description"]) == ("look", "Look.")
    assert tool["input_schema"] == {"type": "object", "properties": {}}
    assert "tool_choice" not in request(USER)
    assert request(USER, tool_choice="required")["tool_choice"] == {"type": "any"}
    assert request(USER, tool_choice="none")["tool_choice"] == {"type": "none"}
    assert {"tools", "tool_choice"} & request(USER, tools=()).keys() == set()


def test_results_of_one_step_are_one_message_and_come_first() -> None:
    made = request(
        USER,
        AssistantMessage(content="Looking. ", tool_calls=(call("a"), call("b", '{"x": 1}'))),
        ToolMessage(call_id="a", name="look", content="found"),
        ToolMessage(call_id="b", name="look", content="", is_error=True),
        SystemMessage(content="Context.", stable=False),
        UserMessage(content="go on"),
    )
    assert [turn["role"] for turn in made["messages"]] == ["user", "assistant", "user"]
    _, said, answered = content(made)
    assert said == [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "a", "name": "look", "input": {}},
        {"type": "tool_use", "id": "b", "name": "look", "input": {"x": 1}},
    ]
    assert answered == [
        {"type": "tool_result", "tool_use_id": "a", "content": "found"},
        {"type": "tool_result", "tool_use_id": "b", "content": "(empty)", "is_error": True},
        {"type": "text", "text": "Context."},
        {"type": "text", "text": "go on"},
    ]


def test_malformed_arguments_go_back_as_what_they_were() -> None:
    made = request(USER, AssistantMessage(tool_calls=(call("a", '{"x": '),)))
    assert content(made)[1][0]["input"] == {"INVALID_JSON": '{"x": '}


def test_a_history_with_calls_declares_their_tools_even_when_none_are_offered() -> None:
    history = (
        USER,
        AssistantMessage(tool_calls=(call("a"),)),
        ToolMessage(call_id="a", name="look", content="x"),
    )
    made = request(*history, tools=())
    assert [tool["name"] for tool in made["tools"]] == ["look"]
    assert made["tool_choice"] == {"type": "none"}


texts = st.sampled_from(["", " ", "hi", "hi \n", "\ud800", "é"])
ids = st.sampled_from(["0", "call:0", "call_0", "call.0", "é", "x" * 80])
history = st.lists(
    st.one_of(
        texts.map(lambda t: SystemMessage(content=t)),
        texts.map(lambda t: UserMessage(content=t)),
        st.tuples(texts, st.lists(ids, max_size=3, unique=True)).map(
            lambda pair: AssistantMessage(
                content=pair[0], tool_calls=tuple(call(i) for i in pair[1])
            )
        ),
    ),
    max_size=8,
)


@given(history)
def test_every_history_is_sent_in_a_form_that_is_accepted(messages: list[Message]) -> None:
    """The rules of the format: turns alternate from the user's to the user's, no text is empty, ids
    are unique and plain, every result has its call in the turn before.
    """
    answered: list[Message] = []
    for message in messages:
        answered.append(message)
        if isinstance(message, AssistantMessage):
            answered += [
                ToolMessage(call_id=c.id, name=c.name, content="") for c in message.tool_calls
            ]
    made = request(*answered)
    turns = made["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * (len(turns) // 2) + ["user"]
    blocks = [b for turn in turns for b in turn["content"]] + made.get("system", [])
    assert all(b["text"].strip() for b in blocks if b["type"] == "text")
    uses = [b["id"] for b in blocks if b["type"] == "tool_use"]
    assert len(set(uses)) == len(uses)
    assert all(1 <= len(i) <= 64 and i.replace("_", "").replace("-", "").isascii() for i in uses)
    for before, turn in zip([None, *turns], turns, strict=False):
        results = [b["tool_use_id"] for b in turn["content"] if b["type"] == "tool_result"]
        asked = [b["id"] for b in before["content"] if b["type"] == "tool_use"] if before else []
        assert results == asked
        assert [b["type"] for b in turn["content"]][: len(results)] == ["tool_result"] * len(
            results
        )
    assert sum("cache_control" in b for b in [*blocks, *made["tools"]]) <= 4


async def test_text_thinking_calls_and_usage_are_kept_apart() -> None:
    chunks, error = await read(
        message_start(cache_read_input_tokens=30, cache_creation_input_tokens=5),
        *block(
            0,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "Hm"},
            {"type": "signature_delta", "signature": "s"},
        ),
        *text_block(1, "Let me ", "look."),
        {"type": "ping"},
        {"type": "something_new", "index": 9},
        *tool_block(2, "t1", "look", "", '{"a": ', "1}"),
        *tool_block(3, "t2", "find"),
        *message_end("tool_use"),
    )
    assert error is None
    assert chunks == [
        ReasoningDelta(text="Hm"),
        TextDelta(text="Let me "),
        TextDelta(text="look."),
        ToolCallStarted(index=0, id="t1", name="look"),
        ToolCallStarted(index=1, id="t2", name="find"),
        UsageReport(prompt=45, completion=7, cached=30, cache_written=5),
        ToolCallReady(index=0, call=ToolCall(id="t1", name="look", arguments='{"a": 1}')),
        ToolCallReady(index=1, call=ToolCall(id="t2", name="find", arguments="")),
        MessageExtra(
            origin="anthropic",
            fields={
                "blocks": [
                    {"at": 0, "block": {"type": "thinking", "thinking": "Hm", "signature": "s"}}
                ]
            },
        ),
        Finished(reason="tool_calls"),
    ]


async def test_arguments_given_with_the_start_of_a_block_are_read() -> None:
    start = {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}}
    chunks, _ = await read(message_start(), *block(0, start), *message_end("tool_use"))
    assert [c.call.arguments for c in chunks if isinstance(c, ToolCallReady)] == ['{"x": 1}']


async def test_of_an_answer_cut_for_length_only_the_call_that_ended_is_ready() -> None:
    chunks, error = await read(
        message_start(),
        *tool_block(0, "a", "look"),
        *tool_block(1, "b", "look", '{"x": "al', stop=False),
        *message_end("max_tokens"),
    )
    assert error is None
    assert [c.call.id for c in chunks if isinstance(c, ToolCallReady)] == ["a"]
    assert [c.call.id for c in chunks if isinstance(c, ToolCallCut)] == ["b"]
    assert chunks[-1] == Finished(reason="length")


@pytest.mark.parametrize(
    "items",
    [
        [message_start(), *text_block(0, "Hel"), message_end("end_turn")[0]],
        [message_start(), *text_block(0, "Hel"), *message_end(None)],
        [
            message_start(),
            *text_block(0, "Hel"),
            *tool_block(1, "a", "look", "{", stop=False),
            *message_end("tool_use"),
        ],
        [
            message_start(),
            *text_block(0, "Hel"),
            message_start(),
            *text_block(0, "Hello"),
            *message_end("end_turn"),
        ],
        [
            message_start(),
            *text_block(0, "Hel"),
            {"type": "content_block_stop", "index": 0},
            *message_end("end_turn"),
        ],
        [message_start(), *text_block(0, "Hel"), *text_block(0, "lo"), *message_end("end_turn")],
    ],
)
async def test_a_stream_that_is_not_whole_is_no_answer(items: list[dict[str, Any]]) -> None:
    chunks, error = await read(*items)
    assert isinstance(error, ModelStreamBroken)
    assert not any(isinstance(chunk, ToolCallReady | Finished) for chunk in chunks)


some_events = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                [
                    *{e["type"] for e in [message_start(), *text_block(0, ""), *message_end("x")]},
                    "?",
                ]
            )
        },
        optional={
            "index": st.integers(0, 2) | st.none() | st.text(max_size=1),
            "delta": st.one_of(
                st.none(),
                st.integers(),
                st.fixed_dictionaries(
                    {"type": st.sampled_from(["text_delta", "input_json_delta", "thinking_delta"])},
                    optional={
                        "text": st.text(max_size=3),
                        "partial_json": st.text(max_size=3),
                        "stop_reason": st.sampled_from(
                            ["end_turn", "tool_use", "max_tokens", "?", 3]
                        ),
                    },
                ),
            ),
            "content_block": st.none()
            | st.fixed_dictionaries(
                {"type": st.sampled_from(["text", "tool_use", "server_tool_use", "?"])},
                optional={
                    "id": st.text(max_size=2),
                    "name": st.text(max_size=2),
                    "input": st.integers() | st.none(),
                },
            ),
            "message": st.none() | st.integers() | st.just({"usage": {"input_tokens": "x"}}),
            "usage": st.none() | st.just({"output_tokens": -5}) | st.integers(),
        },
    ),
    max_size=8,
)


@given(some_events)
def test_whatever_comes_only_our_errors_come_of_it(items: list[dict[str, Any]]) -> None:
    reader = MessageReader("anthropic")
    found: list[Chunk] = []
    with suppress(ModelError):
        for item in items:
            found += reader.feed(item)
        found += reader.end()
        assert isinstance(found[-1], Finished)


def test_what_is_sent_once_is_no_part_of_what_the_provider_remembers() -> None:
    asked = AssistantMessage(tool_calls=(ToolCall(id="a", name="look", arguments="{}"),))
    said: list[Message] = [
        UserMessage(content="Q"),
        asked,
        ToolMessage(call_id="a", name="look", content="R"),
    ]
    once = SystemMessage(content="Answer shortly.", stable=False, once=True)
    blocks = to_request([*said, once], [], ModelOptions())["messages"][-1]["content"]
    assert [("cache_control" in block, block["type"]) for block in blocks] == [
        (True, "tool_result"),
        (False, "text"),
    ]
