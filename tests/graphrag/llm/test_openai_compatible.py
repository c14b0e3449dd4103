"""OpenAI's chat format: what is sent, and what is made of the answers that servers send."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from graphrag.llm.errors import ModelContentFiltered, ModelError, ModelRequestRefused
from graphrag.llm.model_text import complete
from graphrag.llm.openai_chat import ChatReader, to_messages
from graphrag.llm.receiver import HistoryRules, fitted_to
from tests.graphrag.llm.wire import (
    ASK,
    KEY,
    TOOL,
    answered,
    call_delta,
    chunks_of,
    delta,
    openai_provider,
    openai_text,
    sse,
    streamed,
    usage_chunk,
)
from tests.support.scripted_http import Answer, Request, ScriptedServer


async def read(*pieces: Any, messages: Sequence[Message] = ASK, **settings: Any) -> list[Chunk]:
    """Return what a stream of these pieces becomes; its failure fails the test."""
    chunks, error = await answered(
        openai_provider, streamed(sse(*pieces)), **settings, messages=messages
    )
    assert error is None, error
    return chunks


def calls(chunks: Sequence[Chunk]) -> list[tuple[str, str, str]]:
    return [
        (chunk.call.id, chunk.call.name, chunk.call.arguments)
        for chunk in chunks
        if isinstance(chunk, ToolCallReady)
    ]


async def sent(messages: Sequence[Message], *answers: Any, **settings: Any) -> list[Request]:
    options = settings.pop("options", ModelOptions())
    with ScriptedServer() as server:
        server.play(*(answers or [streamed(openai_text("ok"))]))
        provider = openai_provider(server, **settings)
        _, error = await chunks_of(provider, messages, [TOOL], options)
        await provider.aclose()
    assert error is None, error
    return server.requests


async def test_a_request_has_model_messages_tools_and_asks_for_usage() -> None:
    options = ModelOptions(max_tokens=50, temperature=0.2, tool_choice="none")
    [request] = await sent(ASK, options=options)
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "some-model",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 50,
        "temperature": 0.2,
        "tools": [TOOL],
        "tool_choice": "none",
    }


def test_a_history_becomes_messages_of_the_format() -> None:
    call = ToolCall(id="c1", name="look", arguments='{"a": 1}')
    broken = ToolCall(id="c2", name="look", arguments='{"a": ')
    history: list[Message] = [
        SystemMessage(content="Rules."),
        SystemMessage(content="Graph."),
        UserMessage(content="first \ud800"),
        AssistantMessage(
            content="",
            tool_calls=(call, broken),
            origin="own",
            extra={"reasoning_content": "earlier"},
        ),
        ToolMessage(call_id="c1", name="look", content="found"),
        ToolMessage(call_id="c2", name="look", content="ERROR", is_error=True),
        AssistantMessage(content="There."),
        UserMessage(content="second"),
        SystemMessage(content="Context.", stable=False),
        AssistantMessage(
            content="",
            tool_calls=(
                ToolCall(id="c3", name="look", arguments="", extra={"extra_content": "s"}),
            ),
            origin="other",
            extra={"reasoning_content": "of another"},
        ),
        ToolMessage(call_id="c3", name="look", content=""),
    ]
    made = to_messages(fitted_to(history, HistoryRules(late_system="user"), "own"))
    json.dumps(made, ensure_ascii=False).encode()
    assert [m["role"] for m in made] == (
        ["system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant", "tool"]
    )
    assert made[0]["content"] == "Rules.\n\nGraph."
    assert made[1]["content"] == "first \ufffd"
    assert made[2]["content"] == ""  # some servers refuse null
    written = [json.loads(c["function"]["arguments"]) for c in made[2]["tool_calls"]]
    assert written == [{"a": 1}, {"INVALID_JSON": '{"a": '}]
    assert made[3] == {"role": "tool", "tool_call_id": "c1", "content": "found"}
    assert made[2]["reasoning_content"] == "earlier"
    assert made[6]["content"] == "second\n\nContext."  # some templates want turns to alternate
    assert "reasoning_content" not in made[7]
    assert "extra_content" not in made[7]["tool_calls"][0]
    assert made[7]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert to_messages(history)[7]["role"] == "system"


async def test_text_reasoning_and_usage_are_kept_apart() -> None:
    chunks = await read(
        delta(reasoning_content="Hm"),
        delta(content="Hel", reasoning_content=None),
        delta(content="lo"),
        delta("stop"),
        usage_chunk(
            100, 20, prompt_cache_hit_tokens=64, completion_tokens_details={"reasoning_tokens": 5}
        ),
    )
    assert chunks == [
        ReasoningDelta(text="Hm"),
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
        UsageReport(prompt=100, completion=20, cached=64, reasoning=5),
        MessageExtra(origin="openai", fields={"reasoning_content": "Hm"}),
        Finished(reason="stop"),
    ]


async def test_what_goes_back_is_joined_over_pieces_and_can_be_sent() -> None:
    details = [{"type": "reasoning.text", "index": 0, "text": "I \ud83d"}]
    more = [{"type": "reasoning.text", "index": 0, "text": "\ude00 look", "signature": "s"}]
    chunks = await read(
        delta(reasoning_content="half \ud83d", reasoning_details=details, annotations=[{"a": 1}]),
        delta(reasoning_content="\ude00", reasoning_details=more),
        call_delta(0, "a", "look", "{}"),
        delta("tool_calls"),
    )
    [extra] = [chunk.fields for chunk in chunks if isinstance(chunk, MessageExtra)]
    whole = {"type": "reasoning.text", "index": 0, "text": "I \U0001f600 look", "signature": "s"}
    assert extra == {"reasoning_content": "half \U0001f600", "reasoning_details": [whole]}


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        (
            [call_delta(0, arguments="{}"), call_delta(0, "a"), call_delta(0, name="look")],
            [("a", "look", "{}")],
        ),
        ([call_delta(0, "a", "look", ""), call_delta(0, "a", "look", "{}")], [("a", "look", "{}")]),
        (
            [call_delta(0, "a", "look", "{}"), call_delta(0, "b", "look", "{}")],
            [("a", "look", "{}"), ("b", "look", "{}")],
        ),
        (
            [call_delta(None, "a", "look", "{}"), call_delta(None, "b", "find", "{}")],
            [("a", "look", "{}"), ("b", "find", "{}")],
        ),
        (
            [call_delta(None, "a", "look", '{"x"'), call_delta(None, arguments=": 1}")],
            [("a", "look", '{"x": 1}')],
        ),
        (
            [call_delta(0, "a", "look"), call_delta(0, name="", arguments="{}")],
            [("a", "look", "{}")],
        ),
        ([call_delta(0, "a", "look")], [("a", "look", "")]),
    ],
)
async def test_calls_are_gathered_however_a_server_sends_them(
    fragments: list[dict[str, Any]], expected: list[tuple[str, str, str]]
) -> None:
    chunks = await read(*fragments, delta("stop"))
    assert calls(chunks) == expected
    assert chunks[-1] == Finished(reason="tool_calls")


CASES = Path(__file__).parents[2] / "data/cases/09-fragments"
PLAYERS = ("search_nodes", '{"query":"players"}')


@pytest.mark.parametrize(
    ("file", "whole", "cut"),
    [
        ("agno", [PLAYERS, ("read_node_detail", '{"nodeKey":"fetch-api"}')], []),
        ("idchange", [PLAYERS], []),
        ("idchange_name", [PLAYERS], []),
        ("noname_tail", [], [("", '{"query":"players"}')]),
    ],
)
async def test_pieces_without_a_place_of_their_own_continue_the_call_that_is_not_whole(
    file: str, whole: list[tuple[str, str]], cut: list[tuple[str, str]]
) -> None:
    chunks, error = await answered(openai_provider, streamed((CASES / f"{file}.sse").read_bytes()))
    assert error is None
    assert [(name, arguments) for _, name, arguments in calls(chunks)] == whole
    assert [(c.call.name, c.call.arguments) for c in chunks if isinstance(c, ToolCallCut)] == cut


@pytest.mark.parametrize(
    ("fragments", "whole"),
    [
        # the second call's tail comes with a new index, after a call that is whole
        (
            [
                call_delta(0, "a", "look", "{}"),
                call_delta(1, "b", "find", '{"n'),
                call_delta(2, None, None, '":1}'),
            ],
            2,
        ),
        # calls side by side keep their own pieces
        (
            [
                call_delta(0, "a", "look", ""),
                call_delta(1, "b", "look", ""),
                call_delta(0, None, None, '{"x"'),
                call_delta(1, None, None, "{}"),
                call_delta(0, None, None, ":1}"),
            ],
            2,
        ),
        # a bracket in a text closes nothing, also where a backslash ends a piece
        (
            [
                call_delta(0, "a", "look", '{"x":"}\\'),
                call_delta(1, None, None, '""'),
                call_delta(2, "c", None, "}"),
            ],
            1,
        ),
        # a name that differs begins another call: the first one, half written, is not run
        ([call_delta(0, "a", "look", '{"x":'), call_delta(0, "b", "find", "{}")], 1),
        # cut off before its last bracket, in an answer that is whole
        ([call_delta(0, "a", "look", '{"x": {"y": 1}')], 0),
    ],
)
async def test_no_call_is_handed_over_whose_arguments_did_not_arrive_whole(
    fragments: list[dict[str, Any]], whole: int
) -> None:
    chunks = await read(*fragments, delta("tool_calls"))
    assert len(calls(chunks)) == whole
    for _, _, arguments in calls(chunks):
        json.loads(arguments or "{}")


async def test_a_call_whose_every_piece_has_an_index_and_an_id_of_its_own_is_one_call() -> None:
    reader = ChatReader("openai")
    reader.feed(call_delta(0, "a", "look", '{"x": "'))
    for number in range(2_000):
        reader.feed(call_delta(number, f"b{number}", None, "0123456789" * 10))
    reader.feed(call_delta(0, "end", None, '"}'))
    reader.feed(delta("tool_calls"))
    [whole] = [chunk for chunk in reader.end() if isinstance(chunk, ToolCallReady)]
    assert len(json.loads(whole.call.arguments)["x"]) == 200_000


async def test_arguments_sent_as_an_object_and_the_old_form_of_a_call_are_read() -> None:
    whole = delta(
        tool_calls=[{"index": 0, "id": "a", "function": {"name": "look", "arguments": {"x": 1}}}]
    )
    assert calls(await read(whole, delta("tool_calls"))) == [("a", "look", '{"x": 1}')]
    old = [
        delta(function_call={"name": "look", "arguments": ""}),
        delta(function_call={"arguments": "{}"}),
        delta("function_call"),
    ]
    [(call_id, name, arguments)] = calls(await read(*old))
    assert (name, arguments) == ("look", "{}")
    assert call_id.startswith("call_")


async def test_a_call_in_both_forms_is_one() -> None:
    pieces = [{"name": "look", "arguments": ""}, {"arguments": "{}"}]
    both = [
        delta(tool_calls=[{"index": 0, "id": "a", "function": f}], function_call=f) for f in pieces
    ]
    assert calls(await read(*both, delta("tool_calls"))) == [("a", "look", "{}")]


async def test_ids_are_unique_in_a_conversation_whatever_a_server_sends() -> None:
    history = [*ASK, AssistantMessage(tool_calls=(ToolCall(id="0", name="look", arguments="{}"),))]
    chunks = await read(
        call_delta(0, "0", "look", "{}"),
        call_delta(1, "same", "look", '{"n": 1}'),
        call_delta(2, "same", "look", '{"n": 2}'),
        call_delta(3, "", "look", '{"n": 3}'),
        delta("tool_calls"),
        messages=history,
    )
    ids = [call_id for call_id, _, _ in calls(chunks)]
    assert len({*ids, "0"}) == 5
    assert ids[1] == "same"
    started = [chunk.id for chunk in chunks if isinstance(chunk, ToolCallStarted)]
    assert started == ids


async def test_a_call_cut_for_length_is_never_ready() -> None:
    chunks = await read(
        call_delta(0, "a", "look", "{}"), call_delta(1, "b", "look", '{"x": "al'), delta("length")
    )
    assert calls(chunks) == [("a", "look", "{}")]
    assert [c.call.id for c in chunks if isinstance(c, ToolCallCut)] == ["b"]
    assert chunks[-1] == Finished(reason="length")


async def test_a_call_without_a_name_is_an_answer_that_is_not_run() -> None:
    chunks = await read(call_delta(0, "a", None, "{}"), delta("tool_calls"))
    assert [c.call.name for c in chunks if isinstance(c, ToolCallCut)] == [""]
    assert calls(chunks) == []


async def test_a_refusal_in_the_models_words_is_reported_as_such() -> None:
    _, error = await answered(
        openai_provider,
        streamed(sse(delta(refusal="I cannot "), delta(refusal="do that."), delta("stop"))),
    )
    assert isinstance(error, ModelContentFiltered)
    assert error.reason == "I cannot do that."


@pytest.mark.parametrize("usage", [{"prompt_tokens": "many"}, {"prompt_tokens": -1}, [], "x", {}])
async def test_a_count_that_cannot_be_read_costs_no_answer(usage: Any) -> None:
    chunks = await read(
        delta(content="Hello"), delta("stop"), delta() | {"choices": [], "usage": usage}
    )
    assert chunks == [TextDelta(text="Hello"), Finished(reason="stop")]


def unknown(setting: str) -> Answer:
    error = {
        "message": f"Unsupported parameter: '{setting}' is not supported with this model.",
        "param": setting,
    }
    return Answer(status=400, body={"error": error})


async def test_a_setting_that_a_server_does_not_know_is_left_out_from_then_on() -> None:
    with ScriptedServer() as server:
        whole = streamed(openai_text("ok"))
        server.play(unknown("stream_options"), unknown("temperature"), whole, whole)
        provider = openai_provider(server, temperature=0.5)
        for _ in range(2):
            _, error = await chunks_of(provider)
            assert error is None
        await provider.aclose()
    names = [sorted(set(r.json) & {"stream_options", "temperature"}) for r in server.requests]
    assert names == [["stream_options", "temperature"], ["temperature"], [], []]


async def test_a_server_that_knows_the_limit_by_its_other_name_gets_that() -> None:
    requests = await sent(ASK, unknown("max_tokens"), streamed(openai_text("ok")), max_tokens=9)
    assert requests[0].json["max_tokens"] == 9
    assert requests[1].json["max_completion_tokens"] == 9
    assert "max_tokens" not in requests[1].json


async def test_a_setting_that_must_be_is_not_left_out() -> None:
    _, error = await answered(openai_provider, unknown("messages"))
    assert isinstance(error, ModelRequestRefused)


async def test_a_whole_answer_can_be_had_at_once() -> None:
    with ScriptedServer() as server:
        answer = sse(
            delta(content="Let me look."),
            call_delta(0, "a", "look", "{}"),
            delta("tool_calls"),
            usage_chunk(9, 4),
        )
        server.play(streamed(answer))
        provider = openai_provider(server)
        whole = await complete(provider, ASK, [TOOL])
        await provider.aclose()
    assert whole.text == "Let me look."
    assert whole.tool_calls == (ToolCall(id="a", name="look", arguments="{}"),)


fragment_texts = st.lists(st.text(max_size=4), max_size=4)


@given(st.lists(fragment_texts, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_any_interleaving_of_fragments_gives_the_same_calls(
    texts: list[list[str]], chance: Any
) -> None:
    waiting = [
        [
            call_delta(i, f"id{i}", f"tool{i}", ""),
            *(call_delta(i, arguments=text) for text in parts),
        ]
        for i, parts in enumerate(texts)
    ]
    reader = ChatReader("openai")
    found: list[Chunk] = []
    while any(waiting):
        queue = chance.choice([queue for queue in waiting if queue])
        found += reader.feed(queue.pop(0))
    found += reader.feed(delta("tool_calls"))
    found += reader.end()
    assert sorted(calls(found)) == sorted(
        (f"id{i}", f"tool{i}", "".join(t)) for i, t in enumerate(texts)
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "index",
                    "usage",
                    "message",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=4))
def test_whatever_a_server_sends_only_our_errors_come_of_it(pieces: list[Any]) -> None:
    reader = ChatReader("openai")
    found: list[Chunk] = []
    with suppress(ModelError):
        for piece in pieces:
            found += reader.feed(piece)
        found += reader.end()
        assert isinstance(found[-1], Finished)
