"""Arguments are read by their schema at every door, and none nests deeper than the one bound."""

import json
from pathlib import Path
from typing import Any

import pytest

from datasources.mock import open_nba
from tests.support.scripted_provider import Says, call
from tests.support.service import GRAPH, answered
from tools.arguments import ARGUMENT_LIMITS
from tools.base import Tool, ToolArguments, ToolContext, ToolResult
from tools.read_tools import READ_TOOLS
from tools.schema_values import read_by_schema
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

CALLS: list[tuple[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data/cases/15-mcp-stringified-arguments/calls.json").read_text()
)
BOX = ToolBox([*READ_TOOLS, *WRITE_TOOLS])


async def run(name: str, arguments: Any) -> ToolResult:
    async with open_nba("default") as database:
        context = ToolContext(source=database.source("default"), graph_key=GRAPH, role="editor")
        return await BOX.run(name, arguments, context)


def nested(levels: int) -> dict[str, Any]:
    """Return a batch that stands in so many others."""
    action: dict[str, Any] = {"type": "delete_node", "payload": {"nodeKey": "disconnected-note"}}
    for _ in range(levels):
        action = {"type": "batch", "payload": {"actions": [action]}}
    return {"actions": [action], "reason": "asked for"}


@pytest.mark.parametrize("number", [*range(len(CALLS))])
async def test_what_clients_wrap_in_strings_or_fill_with_null_is_read(number: int) -> None:
    name, arguments = CALLS[number]
    given = {key: value for key, value in arguments.items() if key != "graphKey"}
    for raw in (given, json.dumps(given), json.dumps(json.dumps(given))):
        assert not (result := await run(name, raw)).is_error, result.text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_nodes", {"query": "players", "limit": "3"}),
        ("read_graph_overview", {"graphKey": GRAPH}),
        ("read_graph_overview", {"graphKey": None}),
        (
            "propose_batch",
            {
                "actions": ['{"type": "delete_node", "payload": "{\\"nodeKey\\": \\"root\\"}"}'],
                "reason": "x",
            },
        ),
        (
            "propose_move_node",
            {"nodeKey": "root", "posX": "-4.5", "posY": "1e2", "reason": "x", "askFirst": "true"},
        ),
        (
            "propose_update_node",
            {"nodeKey": "root", "changes": "{'data.level': 'low'}", "reason": "x", "patches": None},
        ),
    ],
)
async def test_also_nested_arguments_and_older_names_are_read(
    name: str, arguments: dict[str, Any]
) -> None:
    result = await run(name, arguments)
    assert not result.is_error, result.text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_node_detail", {"nodeKey": None}),
        ("search_nodes", {"query": "players", "maxResults": "three"}),
        ("search_nodes", {"query": "players", "maxResults": "3 4"}),
        ("search_nodes", {"query": "players", "maxResults": "NaN"}),
        ("read_subgraph", {"nodeKeys": "fetch-api"}),
        ("read_subgraph", {"nodeKeys": '["fetch-api"] and "root"'}),
        ("read_graph_overview", {"graphKey": "another"}),
        ("propose_move_node", {"nodeKey": "root", "posX": "true", "posY": "0", "reason": "x"}),
    ],
)
async def test_a_string_that_holds_anything_else_is_refused(
    name: str, arguments: dict[str, Any]
) -> None:
    assert (await run(name, arguments)).is_error


async def test_a_text_stays_a_text_and_a_null_that_means_something_stays() -> None:
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "either": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]
            },
            "nullable": {"type": ["integer", "null"]},
            "part": {"$ref": "#/$defs/part"},
            "free": {},
        },
        "$defs": {"part": {"type": "object", "properties": {"on": {"type": "boolean"}}}},
    }
    given = {
        "text": "[1]",
        "either": "[1]",
        "nullable": None,
        "part": '{"on": "true"}',
        "free": None,
        "more": "1",
    }
    assert read_by_schema(schema, given) == {**given, "part": {"on": True}}


async def test_arguments_of_a_tool_that_a_document_describes_are_read_alike() -> None:
    seen: list[Any] = []

    async def note(arguments: Any, _: ToolContext) -> ToolResult:
        seen.append(arguments.values)
        return ToolResult(text="ok")

    parameters = {
        "type": "object",
        "properties": {
            "days": {"type": "integer"},
            "to": {"type": "array"},
            "note": {"type": "string"},
        },
    }
    tool = Tool(
        name="note", description="", arguments=ToolArguments, run=note, parameters=parameters
    )
    async with open_nba("default") as database:
        context = ToolContext(source=database.source("default"), graph_key=GRAPH)
        await ToolBox([tool]).run("note", {"days": "2", "to": '["a"]', "note": None}, context)
    assert seen == [{"days": 2, "to": ["a"]}]


@pytest.mark.parametrize("levels", [19, 20, 60, 90, 300, 3_000])
async def test_a_batch_that_nests_too_deep_is_refused_by_name(levels: int) -> None:
    result = await run("propose_batch", _text_of(levels))
    assert result.error is not None
    assert result.error.code == "malformed_arguments"
    assert f"more than {ARGUMENT_LIMITS.depth} levels deep" in result.text


def _text_of(levels: int) -> str:
    """Return the arguments as text; deeper ones are put together, as the packages
    cannot write them.
    """
    inner = json.dumps(nested(0)["actions"][0])
    return (
        '{"reason": "x", "actions": ['
        + '{"type": "batch", "payload": {"actions": [' * levels
        + inner
        + "]}}" * levels
        + "]}"
    )


@pytest.mark.parametrize("levels", [2, 18, 19, 40, 90, 300])
async def test_a_call_of_any_depth_gets_an_answer_over_rest(levels: int) -> None:
    calls = [call("propose_batch", _text_of(levels)), call("made_up", _text_of(levels))]
    async with answered(Says(calls=calls), "Said.") as (client, _, _):
        asked = {"graphKey": GRAPH, "message": "delete the note"}
        answer = await client.post("/api/ai/chat", json=asked)
        assert answer.status_code == 200, answer.text
        if levels <= 18:
            decision = {"threadId": answer.json()["threadId"], "approved": True}
            answer = await client.post("/api/ai/resume", json=decision)
            assert len(answer.json()["applied"]) == 1
        assert answer.json()["message"] == "Said."


def test_an_empty_array_of_an_optional_property_is_its_absence_only_where_none_may_be_empty() -> (
    None
):
    at_least_one = {"type": "array", "minItems": 1}
    properties = {"most": at_least_one, "any": {"type": "array"}, "must": at_least_one}
    schema = {"type": "object", "properties": properties, "required": ["must"]}
    given: dict[str, Any] = {"most": [], "any": [], "must": []}
    assert read_by_schema(schema, given) == {"any": [], "must": []}
    either = {"type": "object", "properties": {"most": {"anyOf": [at_least_one, {"type": "null"}]}}}
    assert read_by_schema(either, {"most": []}) == {}
