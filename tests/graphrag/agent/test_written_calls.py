"""What a model writes into its text: calls are run in every dialect, links lead to
what there is.
"""

import json
import random
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from datasources.base import GraphDataSource
from datasources.mock import open_nba
from graphrag.agent.events import Completed, ProposalPending, ToolFinished
from graphrag.agent.reply import KINDS, LIMIT, LinkFilter
from graphrag.llm.base import TextDelta
from graphrag.llm.model_text import ModelText
from tests.support.agents import EDITOR, VIEWER, of, only, scripted, shown
from tests.support.model_words import Words, words_of
from tests.support.scripted_provider import Says

TOOLS = ("search_nodes", "read_node_detail", "propose_delete_node")
ARGUMENTS: dict[str, Any] = {"query": "error {x}", "limit": 3}
CALL = json.dumps({"name": "search_nodes", "arguments": ARGUMENTS})
WHOLE = {
    "id": "c1",
    "type": "function",
    "function": {"name": "search_nodes", "arguments": json.dumps(ARGUMENTS)},
}
DIALECTS = {
    "bare JSON": CALL,
    "bare JSON, indented": json.dumps(json.loads(CALL), indent=2),
    "arguments first": json.dumps({"arguments": ARGUMENTS, "name": "search_nodes"}),
    "parameters": json.dumps({"name": "search_nodes", "parameters": ARGUMENTS}),
    "with its type": json.dumps(
        {"type": "function", "name": "search_nodes", "parameters": ARGUMENTS}
    ),
    "OpenAI's form": json.dumps(WHOLE),
    "arguments as text": json.dumps({"name": "search_nodes", "arguments": json.dumps(ARGUMENTS)}),
    "a list": f"[{CALL}]",
    "doubled braces": f"{{{CALL}}}",
    "doubled braces, too many closing": f"{{{CALL}}}}}}}",
    "doubled braces, fenced": f"```json\n{{{CALL}}}\n```",
    "doubled braces in <tool_call>": f"<tool_call>\n{{{CALL}}}\n</tool_call>",
    "single quotes": str(json.loads(CALL)),
    "fenced": f"```json\n{CALL}\n```",
    "fenced without a language": f"```\n{CALL}\n```\n",
    "fenced after a sentence": f"I look that up.\n\n```json\n{CALL}\n```",
    "<tools>": f"<tools>\n{CALL}\n</tools>",
    "<tool_call>": f"<tool_call>\n{CALL}\n</tool_call>",
    "<|python_tag|>": f"<|python_tag|>{CALL}",
    "<|python_tag|> as Python": '<|python_tag|>search_nodes.call(query="error {x}", limit=3)<|eom_id|>',
    "[TOOL_CALLS]": f"[TOOL_CALLS] [{CALL}]",
    "[TOOL_CALLS] with a name": f"[TOOL_CALLS]search_nodes{json.dumps(ARGUMENTS)}",
    "[TOOL_CALLS] with [ARGS]": f"[TOOL_CALLS]search_nodes[ARGS]{json.dumps(ARGUMENTS)}",
    "**Function call:**": f"**Function call:**\n```json\n{CALL}\n```",
    "a heading and a name": f"Function call: search_nodes({json.dumps(ARGUMENTS)})",
    "a name": f"search_nodes({json.dumps(ARGUMENTS)})",
}


def filtered(pieces: Iterable[str]) -> tuple[str, Words]:
    words = words_of(pieces, TOOLS)
    return words.text, words


def cuts(text: str, seed: int) -> list[str]:
    chance = random.Random(seed)
    made = list[str]()
    while text:
        size = chance.randint(1, 9)
        made.append(text[:size])
        text = text[size:]
    return made


@pytest.mark.parametrize("name", [*DIALECTS])
def test_a_call_in_any_dialect_is_a_call_and_not_shown(name: str) -> None:
    text = DIALECTS[name]
    for pieces in ([text], list(text), *(cuts(text, seed) for seed in range(20))):
        seen, write_guard = filtered(pieces)
        assert seen.strip() in ("", "I look that up.")
        [call] = write_guard.calls
        assert call.name == "search_nodes"
        assert json.loads(call.arguments) == ARGUMENTS
        assert not write_guard.leaked


def test_several_calls_are_all_found() -> None:
    other = json.dumps({"name": "read_node_detail", "arguments": {"key": "root"}})
    for text in (f"{CALL}\n{other}", f"<tools>\n{CALL}\n{other}\n</tools>", f"[{CALL}, {other}]"):
        seen, write_guard = filtered(text)
        assert seen == ""
        assert [call.name for call in write_guard.calls] == ["search_nodes", "read_node_detail"]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "lookup", "arguments": {"a": 1}}',
        '```json\n{"name": "lookup", "arguments": {"a": 1}}\n```',
        '{"arguments": {"a": 1}, "name": "lookup"}',
        '{"type": "function", "function": {"name": "lookup", "arguments": "{\\"a\\": 1}"}}',
        '[{"name": "lookup", "parameters": {"a": 1}}]',
    ],
)
def test_a_whole_answer_that_calls_an_unknown_tool_is_a_call_of_it(text: str) -> None:
    for pieces in ([text], list(text), cuts(text, 1)):
        seen, words = filtered(pieces)
        assert (seen.strip(), words.leaked) == ("", False)
        assert [(call.name, json.loads(call.arguments)) for call in words.calls] == [
            ("lookup", {"a": 1})
        ]


async def test_an_unknown_tool_is_answered_with_near_names_and_never_shown() -> None:
    asked = '{"name": "search_node", "arguments": {"query": "error"}}'
    async with scripted(asked, "It is logged.") as (setting, model):
        events = await setting.ask("What fails?")
    assert shown(events) == "It is logged."
    result = only(events, ToolFinished)
    assert result.is_error
    assert "search_nodes" in result.result_text.split("allowed")[0], "the near names"
    assert "unknown function: search_node" in str(model.requests[-1].messages)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "lookup", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}',
        '{"name": "lookup", "arguments": {"a": 1}, "description": "Looks up."}',
        '{"name": "lookup", "arguments": {"a": 1}}\nThis is such a call.',
        'So:\n{"name": "lookup", "arguments": {"a": 1}}',
        '{"name": "look up", "arguments": {"a": 1}}',
        '{"name": "lookup", "input": "orders"}',
        '{"name": "Fetch players", "type": "api-call"}',
        'Its data:\n```json\n{"name": "Fetch players", "arguments": {"a": 1}}\n```\nThat is all.',
        '```json\n{"_key": "root", "type": "starter"}\n```',
        "```js\nreturn search_nodes(1)\n```",
        '{"type": "api-call", "posX": 3}',
        "[1, 2, 3]",
        "{{node:root}} begins it.",
        "search_nodes finds nodes by words.",
        "read_node_detail: reads one.",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        f"A call looks like this:\n```json\n{CALL}\n```\nand finds nodes.",
        "Function calls are made by the model.",
        "<table>\n<tr>",
        "`code` and *words*",
        "{",
        "",
    ],
)
def test_json_and_code_that_call_no_tool_are_shown_as_they_are(text: str) -> None:
    for pieces in ([text], list(text), cuts(text, 1)):
        seen, write_guard = filtered(pieces)
        assert (seen, write_guard.calls, write_guard.leaked) == (text, [], False)


def test_an_ordinary_answer_is_not_held_back() -> None:
    words = ModelText(TOOLS)
    for piece in ("Errors are", " logged.\n", '```json\n{"a": 1'):
        assert words.feed(TextDelta(text=piece)) == [TextDelta(text=piece)]


def test_a_call_that_cannot_be_read_is_not_shown_either() -> None:
    for text in ('{"name": "search_nodes", "arguments": {"query": ', CALL[:-1] + ', "why": 1}'):
        seen, write_guard = filtered(cuts(text, 3))
        assert (seen, write_guard.calls, write_guard.leaked) == ("", [], True)


@pytest.mark.slow
def test_a_long_call_is_held_in_bounds_and_in_time_that_grows_with_it() -> None:
    piece = '{"name": "search_nodes", "arguments": {"query": "' + "x" * 3
    for marker in ("", "<tool_call>", "[TOOL_CALLS]"):
        words = ModelText(TOOLS)
        assert all(
            not words.feed(TextDelta(text=text)) for text in (marker, piece, *["xxxx"] * 500_000)
        )
        assert words.end() == []
        assert words.leaked


@pytest.mark.parametrize("name", [*DIALECTS])
async def test_a_written_call_is_run_and_its_result_answered(name: str) -> None:
    async with scripted(Says(pieces=cuts(DIALECTS[name], 5)), "There.") as (setting, _):
        events = await setting.ask("Where are errors logged?", by=VIEWER)
    assert only(events, ToolFinished).name == "search_nodes"
    assert not only(events, ToolFinished).is_error
    assert "search_nodes" not in shown(events)
    assert isinstance(events[-1], Completed)


async def test_a_written_change_becomes_a_proposal_as_any_other() -> None:
    text = json.dumps(
        {
            "name": "propose_delete_node",
            "arguments": {"nodeKey": "disconnected-note", "reason": "unused"},
        }
    )
    async with scripted(text) as (setting, _):
        events = await setting.ask("delete the note", by=EDITOR)
        assert await setting.node("disconnected-note") is not None
    assert len(only(events, ProposalPending).approvals) == 1
    assert shown(events) == ""


async def test_a_written_call_that_cannot_be_read_is_corrected() -> None:
    async with scripted('{"name": "search_nodes", "arguments": {"query": ', "There.") as (
        setting,
        model,
    ):
        events = await setting.ask("Where are errors logged?")
    assert shown(events) == "There."
    assert "tool call as text" in model.requests[1].messages[-1].content
    assert not of(events, ToolFinished)


GRAPH = "testgraph001"


@pytest_asyncio.fixture
async def source() -> AsyncGenerator[GraphDataSource]:
    async with open_nba("default") as database:
        yield database.source("default")


async def write_guard(source: GraphDataSource, pieces: Iterable[str]) -> str:
    links = LinkFilter(source, GRAPH)
    shown = [await links.feed(piece) for piece in pieces]
    return "".join(shown) + await links.feed("", final=True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("See {{node:fetch-api}}.", "See {{node:fetch-api}}."),
        ("See {{ node : fetch-api }}.", "See {{node:fetch-api}}."),
        ("See {{node:nowhere}}.", "See nowhere."),
        ("{{select:fetch-api,nowhere,root}}", "{{select:fetch-api,root}}"),
        ("{{highlight:no,never}}", "no, never"),
        ("{{fitArea:0,-10,400.5,300}}", "{{fitArea:0,-10,400.5,300}}"),
        ("{{fitArea:0,0,nan,1e999}}", "0,0,nan,1e999"),
        ("{{sheet:0}} {{sheet:77}}", "{{sheet:0}} 77"),
        ("{{graph:testgraph001}} {{graph:secret}}", "{{graph:testgraph001}} secret"),
        ("{{html:page}}", "page"),
        ("{{link:https://example.org/a?b=1|docs}}", "{{link:https://example.org/a?b=1|docs}}"),
        ("{{link:javascript:alert(1)|docs}}", "docs"),
        ("{{link:data:text/html,x}}", "data:text/html,x"),
        ("{{node:}}", "?"),
        ("{{ $json.id }} and {{x}} {{unknown:y}}", "{{ $json.id }} and {{x}} {{unknown:y}}"),
        ("{{node:fetch-api", "node:fetch-api"),
        ("{{node:fetch-api\n}}", "node:fetch-api\n}}"),
        ("{{{node:fetch-api}}}", "{{{node:fetch-api}}}"),
        ("a { b } {", "a { b } {"),
        ("{{", "{{"),
    ],
)
async def test_a_link_goes_out_only_with_a_target(
    source: GraphDataSource, text: str, shown: str
) -> None:
    assert await write_guard(source, [text]) == shown
    assert await write_guard(source, text) == shown


async def test_a_type_is_linked_by_its_key_whichever_name_was_written(
    source: GraphDataSource,
) -> None:
    config = (await source.get_node_configs())[0]
    assert (
        await write_guard(source, [f"{{{{nodeConfig:{config.type}}}}}"])
        == f"{{{{nodeConfig:{config.key}}}}}"
    )
    assert await write_guard(source, ["{{nodeConfig:no-such-type}}"]) == "no-such-type"


async def test_text_is_not_held_back_longer_than_a_link_may_be(source: GraphDataSource) -> None:
    links = LinkFilter(source, GRAPH)
    assert await links.feed("Hello { there {{ $x }} {{no") == "Hello { there {{ $x }} "
    assert await links.feed("de:fetch-api}} ok") == "{{node:fetch-api}} ok"
    assert await links.feed("{{node:" + "x" * 100) == ""
    assert len(await links.feed("x" * LIMIT)) > LIMIT


@pytest.mark.parametrize(
    "text",
    [
        "{{node:{{node:evil}}}}",
        "{{{{link:javascript:x|node:evil}}}}",
        "{{{node:}}{node:evil}}",
        "{{node:{node:evil}}",
        "{{no{{node:evil}}de:evil}}",
        "{{select:{{,node:evil}}",
        "{{link:https://a.example|{{node:evil}}",
    ],
)
async def test_links_nested_in_links_make_no_link_to_nowhere(
    source: GraphDataSource, text: str
) -> None:
    shown = await write_guard(source, [text])
    assert "{{node:evil}}" not in shown
    assert shown == await write_guard(source, text)


pieces = st.lists(
    st.one_of(
        st.sampled_from(
            ["{{", "}}", "{", "}", ":", ",", "|", "\n", " ", "fetch-api", "evil", "https://a.b"]
        ),
        st.sampled_from([f"{{{{{kind}:" for kind in KINDS]),
        st.text(max_size=4),
    ),
    max_size=12,
)


@given(pieces)
async def test_however_it_is_cut_the_same_is_shown_and_every_node_link_exists(
    written: list[str],
) -> None:
    async with open_nba("default") as database:
        source = database.source("default")
        shown = await write_guard(source, written)
        assert shown == await write_guard(source, "".join(written))
        assert shown == await write_guard(source, ["".join(written)])
        for after in shown.split("{{node:")[1:]:
            assert after.startswith("fetch-api}}")
