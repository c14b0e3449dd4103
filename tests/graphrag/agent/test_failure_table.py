"""The table of faults of models: what a person sees of each, and that the thread stays valid for
both wire formats. The real client packages talk to a scripted server; all faults of the transport
stand in tests/graphrag/llm/test_faults_on_the_wire.py.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from datasources.mock import open_nba
from graphrag.agent.events import Completed, Event, Failed, Token, ToolFinished, TurnStarted
from graphrag.llm.base import LLMProvider, ToolMessage
from graphrag.llm.registry import AnswerTimeouts, RetryPolicy
from tests.graphrag.llm.wire import (
    BEGUN,
    KEY,
    anthropic_provider,
    anthropic_text,
    body,
    call_delta,
    delta,
    events,
    message_end,
    message_start,
    openai_provider,
    openai_text,
    refused,
    sse,
    text_block,
    tool_block,
)
from tests.support.agents import EDITOR, GRAPH, of, only, setting_on, shown
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.valid_history import check_anthropic, check_openai, check_valid

Call = tuple[str, str, str]
"""Id, name and arguments as a model wrote them."""

SEARCH = ("search_nodes", '{"query": "error"}')
ONCE = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`answers` are what the server does in the first turn; `reported` what the model
    gets of each call.

    `text` is what the person has read at the end of the turn, `fault` and `says` what failed.
    """

    answers: Sequence[Callable[[str], Answer]]
    fault: str | None = None
    retryable: bool = False
    says: str = ""
    text: str = ""
    reported: Sequence[str] = ()
    settings: dict[str, Any] = field(default_factory=dict[str, Any])


def says(text: str) -> Callable[[str], Answer]:
    return body(openai_text(text), anthropic_text(text))


def calls(*made: Call, cut: bool = False) -> Any:
    fragments = [call_delta(i, call_id, name, raw) for i, (call_id, name, raw) in enumerate(made)]
    blocks = [
        piece
        for i, (call_id, name, raw) in enumerate(made)
        for piece in tool_block(i, call_id, name, raw, stop=not cut)
    ]
    return body(
        sse(*fragments, delta("length" if cut else "tool_calls")),
        events(message_start(), *blocks, *message_end("max_tokens" if cut else "tool_use")),
    )


NODE = "read_node_detail"

ROWS = {
    "429": Row(
        answers=[refused(429)], fault="rate_limit", retryable=True, says="Too many requests"
    ),
    "timeout": Row(
        answers=[body(*BEGUN, fault="hang")],
        fault="timeout",
        retryable=True,
        says="No answer in time",
        text="Hel",
        settings={"timeouts": AnswerTimeouts(first_s=60, silence_s=0.2)},
    ),
    "reset mid-stream": Row(
        answers=[body(*BEGUN, fault="reset")],
        fault="network",
        retryable=True,
        says="interrupted",
        text="Hel",
    ),
    "content filter": Row(
        answers=[
            body(
                sse(delta(content="Hel"), delta("content_filter")),
                events(message_start(), *text_block(0, "Hel"), *message_end("refusal")),
            )
        ],
        fault="content_filter",
        says="refused to answer",
        text="Hel",
    ),
    "context length": Row(
        answers=[refused(400, "prompt is too long: 210000 tokens > 200000 maximum")] * 2,
        fault="context_length",
        says="too long for the model",
    ),
    "context length, once": Row(
        answers=[refused(400, "prompt is too long: 210000 tokens > 200000 maximum"), says("Fits.")],
        text="Fits.",
    ),
    "malformed arguments": Row(
        answers=[calls(("a", "search_nodes", '{"query": ]error[')), says("Sorry.")],
        text="Sorry.",
        reported=["ERROR malformed_arguments"],
    ),
    "truncated arguments": Row(
        answers=[calls(("a", "search_nodes", '{"query": "err'), cut=True), says("Shorter.")],
        text="Shorter.",
        reported=["cut off"],
    ),
    "unknown tool": Row(
        answers=[calls(("a", "serch_nodes", "{}")), says("My mistake.")],
        text="My mistake.",
        reported=["unknown function: serch_nodes"],
    ),
    "unknown key": Row(
        answers=[calls(("a", NODE, '{"key": "fetch-apy"}')), says("My mistake.")],
        text="My mistake.",
        reported=["fetch-api"],
    ),
    "duplicate ids": Row(
        answers=[calls(("a", *SEARCH), ("a", NODE, '{"key": "root"}')), says("Both read.")],
        text="Both read.",
        reported=["found", "root"],
    ),
    "an id again in the next step": Row(
        answers=[calls(("a", *SEARCH)), calls(("a", NODE, '{"key": "root"}')), says("Both read.")],
        text="Both read.",
        reported=["found", "root"],
    ),
    "a call in the text": Row(
        answers=[says("Wait. <tool_call>{}</tool_call>"), says("Here.")], text="Wait. Here."
    ),
}


def provider_of(api: str, url: str, **settings: Any) -> LLMProvider:
    made = openai_provider if api == "openai" else anthropic_provider
    return made(url, retry=ONCE, **settings)  # type: ignore[arg-type]


APIS = ("openai", "anthropic")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "api"), [*[(name, APIS[i % 2]) for i, name in enumerate(ROWS)]])
async def test_of_each_fault_a_person_sees_what_helps_and_the_thread_goes_on(
    name: str, api: str
) -> None:
    await check_row(name, api)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "api"), [*[(name, APIS[i % 2 - 1]) for i, name in enumerate(ROWS)]]
)
async def test_it_is_so_with_the_other_wire_format(name: str, api: str) -> None:
    await check_row(name, api)


async def check_row(name: str, api: str) -> None:
    row = ROWS[name]
    with ScriptedServer() as server:
        # a reset may overtake what was sent before it: it waits until that is read
        read = threading.Event()
        server.play(
            *(replace(answer(api), fault_when=read) for answer in row.answers), says("Next.")(api)
        )
        async with open_nba("default") as database:
            faulty = provider_of(api, server.url, **row.settings)
            happened: list[Event] = []
            turn = setting_on(database, faulty).agent.run(
                None, GRAPH, "Where are errors logged?", EDITOR
            )
            async for event in turn:
                happened.append(event)
                if isinstance(event, Token | Failed):
                    read.set()
            await faulty.aclose()
            assert shown(happened) == row.text
            if row.fault is None:
                assert isinstance(happened[-1], Completed), happened[-1]
            else:
                check_fault(row, happened[-1])
            whole = provider_of(api, server.url)
            setting = setting_on(database, whole)
            thread_id = only(happened, TurnStarted).thread_id
            messages = await setting.messages(thread_id)
            check_valid(messages)
            reported = [message.content for message in messages if isinstance(message, ToolMessage)]
            assert len(reported) == len(row.reported) == len(of(happened, ToolFinished))
            for text, part in zip(reported, row.reported, strict=True):
                assert part in text
            assert shown(await setting.ask("And now?", thread_id)) == "Next."
            check_valid(await setting.messages(thread_id))
            assert (await setting.threads.get(thread_id, EDITOR)).thread.turn.number == 2
            await whole.aclose()
    for request in server.requests:
        sent = request.json["messages"]
        check_openai(sent) if api == "openai" else check_anthropic(sent)


def check_fault(row: Row, last: object) -> None:
    assert isinstance(last, Failed), last
    fault = last.fault
    assert (fault.code, fault.retryable) == (row.fault, row.retryable)
    assert row.says in fault.message("en")
    assert fault.message("fr") != fault.message("en")
    for text in fault.messages.values():
        assert KEY not in text
        assert "Traceback" not in text
