"""The tool box: a model's mistake is an answer it can correct, never an exception."""

import json
import random
from dataclasses import replace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from datasources.base import GraphDataSource
from datasources.errors import GraphNotFound, SourceTimeout, SourceUnavailable
from datasources.mock import MemoryDatabase
from tests.tools.proposing import actions
from tools.base import Tool, ToolArguments, ToolContext, ToolResult
from tools.proposals import (
    MalformedProposal,
    canonical_hash,
    canonical_json,
    describe,
    parse_action,
    single_actions,
    to_document,
)
from tools.read_tools import READ_TOOLS
from tools.tool_box import ToolBox


class Pick(ToolArguments):
    count: Annotated[int, Field(ge=1, le=3, description="how many")]
    label: str = "x"


async def pick(arguments: Pick, context: ToolContext) -> ToolResult:
    return ToolResult(text=f"{arguments.count} {arguments.label}", data=arguments.count)


async def fail_with(arguments: Pick, context: ToolContext) -> ToolResult:
    raise {
        "gone": GraphNotFound(graph_key="g"),
        "slow": SourceTimeout(source="db", seconds=3),
        "down": SourceUnavailable(source="/var/secret.db", reason="SELECT broke"),
    }[arguments.label]


PICK = Tool(name="pick", description="Pick.", arguments=Pick, run=pick, example={"count": 2})
FAIL = Tool(name="fail", description="Fail.", arguments=Pick, run=fail_with)
WRITE = Tool(
    name="propose_it",
    description="W.",
    arguments=Pick,
    run=pick,
    roles=frozenset({"editor"}),
    effect="proposes",
)
BOX = ToolBox([PICK, FAIL, WRITE])


@pytest.fixture
def context() -> ToolContext:
    source: GraphDataSource = MemoryDatabase().source("w")
    return ToolContext(source=source, graph_key="g")


async def test_right_call_runs(context: ToolContext) -> None:
    result = await BOX.run("pick", '{"count": 2}', context)
    assert (result.text, result.data, result.is_error) == ("2 x", 2, False)


async def test_repaired_call_runs_and_says_so(context: ToolContext) -> None:
    result = await BOX.run("pick", "{'count': 2,}", context)
    assert result.text.endswith("2 x")
    assert '{"count":2}' in result.text


async def test_wrong_arguments_say_what_where_allowed_and_an_example(context: ToolContext) -> None:
    result = await BOX.run("pick", {"count": 9, "lable": "y"}, context)
    assert result.error
    assert result.error.code == "invalid_arguments"
    by_place = {problem.where: problem for problem in result.error.problems}
    assert "less than or equal to 3" in by_place["count"].what
    assert "did you mean label" in by_place["lable"].what
    assert by_place["lable"].allowed == "count, label"
    assert result.error.example == {"count": 2}
    assert '"count":2' in result.text


@pytest.mark.parametrize("wrong", ["two", "2.5", 2.0, True, None, [2], {"a": 1}])
async def test_argument_of_another_type_is_refused_not_converted(
    context: ToolContext, wrong: object
) -> None:
    result = await BOX.run("pick", {"count": wrong}, context)
    assert result.error
    assert result.error.problems[0].where == "count"


async def test_unknown_tool_is_answered_with_near_names(context: ToolContext) -> None:
    result = await BOX.run("Pikc", "{}", context)
    assert result.error
    assert result.error.code == "unknown_tool"
    assert json.loads(result.text)["error"] == "unknown function: Pikc"
    assert json.loads(result.text)["did_you_mean"] == ["pick"]


async def test_an_unknown_tool_is_said_as_the_box_was_told_to(context: ToolContext) -> None:
    box = ToolBox(BOX.offered("viewer"), unknown=lambda name, language: f"{language}: {name}?")
    result = await box.run("Pikc", "{}", replace(context, language="fr"))
    assert json.loads(result.text)["error"] == "fr: Pikc?"
    assert result.error
    assert result.error.problems[0].what == "fr: Pikc?"


async def test_tool_of_another_role_is_neither_offered_nor_run(context: ToolContext) -> None:
    assert [tool.name for tool in BOX.offered("viewer")] == ["pick", "fail"]
    result = await BOX.run("propose_it", {"count": 1}, context)
    assert result.error
    assert result.error.code == "not_permitted"
    assert "propose_it" not in (result.error.problems[0].allowed or "")


@pytest.mark.parametrize(
    ("kind", "code"), [("gone", "not_found"), ("slow", "unavailable"), ("down", "unavailable")]
)
async def test_failing_store_is_an_error_result_without_its_insides(
    context: ToolContext, kind: str, code: str
) -> None:
    result = await BOX.run("fail", {"count": 1, "label": kind}, context)
    assert result.error
    assert result.error.code == code
    assert "secret" not in result.text
    assert "SELECT" not in result.text


def test_schemas_are_openai_functions_of_names_types_and_what_is_required() -> None:
    schemas = ToolBox(READ_TOOLS).schemas("viewer")
    assert len(schemas) == 11
    for schema in schemas:
        function = schema["function"]
        assert schema["type"] == "function"
        assert set(function) == {"name", "description", "parameters"}
        assert function["parameters"].keys() <= {"type", "properties", "required"}
        assert '"title"' not in str(function["parameters"]).replace("'", '"')


def test_every_example_is_a_valid_call() -> None:
    for tool in ToolBox(READ_TOOLS).offered("viewer"):
        assert tool.arguments.model_validate(dict(tool.example))


DELETE: dict[str, Any] = {"type": "delete_node", "payload": {"nodeKey": "a"}}


def nested(depth: int) -> dict[str, Any]:
    action = DELETE
    for _ in range(depth):
        action = {"type": "batch", "payload": {"actions": [action]}}
    return action


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (None, ""),
        ({"type": "drop_database", "payload": {}}, ""),
        ({"type": "delete_node"}, "payload"),
        ({**DELETE, "extra": 1}, "extra"),
        ({"type": "delete_node", "payload": {"nodeKey": ""}}, "payload.nodeKey"),
        ({"type": "delete_node", "payload": {"nodeKey": 7}}, "payload.nodeKey"),
        ({"type": "delete_node", "payload": {"nodeKey": "\ud800"}}, "payload.nodeKey"),
        ({"type": "delete_node", "payload": {"nodeKey": "a", "force": True}}, "payload.force"),
        (
            {"type": "move_node", "payload": {"nodeKey": "a", "posX": "1 m", "posY": 1}},
            "payload.posX",
        ),
        (
            {"type": "move_node", "payload": {"nodeKey": "a", "posX": 1e308, "posY": 1}},
            "payload.posX",
        ),
        (
            {"type": "move_node", "payload": {"nodeKey": "a", "posX": float("nan"), "posY": 1}},
            "payload.posX",
        ),
        ({"type": "update_node", "payload": {"nodeKey": "a"}}, "payload"),
        (
            {
                "type": "update_node",
                "payload": {"nodeKey": "a", "changes": {"data": {"__proto__": 1}}},
            },
            "payload.changes.data",
        ),
        (
            {"type": "create_node_with_edges", "payload": {"typeKey": "t", "edges": []}},
            "payload.edges",
        ),
        ({"type": "batch", "payload": {"actions": []}}, "payload.actions"),
        ({"type": "batch", "payload": {"actions": [DELETE] * 201}}, "payload.actions"),
        (nested(2_000), ""),
    ],
)
def test_what_is_no_action_is_refused_with_its_place(raw: Any, where: str) -> None:
    with pytest.raises(MalformedProposal) as caught:
        parse_action(raw)
    assert caught.value.where.startswith(where)
    assert caught.value.reason


@given(actions, st.randoms(use_true_random=False))
def test_an_action_survives_storage_and_its_hash_does_not_depend_on_order(
    raw: dict[str, Any], chance: random.Random
) -> None:
    action = parse_action(raw)
    document = to_document(action)
    again = parse_action(json.loads(json.dumps(document)))
    assert again == action
    assert (
        canonical_hash(again)
        == canonical_hash(action)
        == canonical_hash(parse_action(shuffled(raw, chance)))
    )


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        pairs = [(key, shuffled(item, chance)) for key, item in value.items()]
        chance.shuffle(pairs)
        return dict(pairs)
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


def test_another_value_has_another_hash_and_a_whole_float_is_the_whole_number() -> None:
    def moved(x: float) -> str:
        return canonical_hash(
            parse_action({"type": "move_node", "payload": {"nodeKey": "a", "posX": x, "posY": 0}})
        )

    assert moved(1) == moved(1.0)
    assert moved(1) != moved(1.5)
    assert canonical_json({"b": [1.0, True, None], "a": "é"}) == '{"a":"é","b":[1,true,null]}'
    assert canonical_json(True) != canonical_json(1)


@given(actions)
def test_every_action_is_described(raw: dict[str, Any]) -> None:
    assert describe(parse_action(raw)).strip()


def test_batches_are_opened_with_the_place_of_each_part() -> None:
    raw = {"type": "batch", "payload": {"actions": [DELETE, nested(1)]}}
    assert [where for where, _ in single_actions(parse_action(raw))] == [
        "actions.0",
        "actions.1.actions.0",
    ]
    assert describe(parse_action(raw)) == "2 changes: delete node a; delete node a"
    assert [where for where, _ in single_actions(parse_action(DELETE))] == [""]
