"""The tool box: a model's mistake is an answer it can correct, never an exception."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from pydantic import Field

from datasources.base import GraphDataSource
from datasources.errors import GraphNotFound, SourceTimeout, SourceUnavailable
from datasources.mock import MemoryDatabase
from tests.support.each_row import each_row
from tools.base import Tool, ToolArguments, ToolBox, ToolContext, ToolResult
from tools.read_tools import READ_TOOLS


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
    assert (result.text, result.data, result.is_error, result.repaired) == ("2 x", 2, False, False)


async def test_repaired_call_runs_and_says_so(context: ToolContext) -> None:
    result = await BOX.run("pick", "{'count': 2,}", context)
    assert result.repaired
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


@each_row("wrong", ["2", 2.0, True, None, [2], {"a": 1}])
async def test_argument_of_another_type_is_refused_not_converted(context: ToolContext, wrong: object) -> None:
    result = await BOX.run("pick", {"count": wrong}, context)
    assert result.error
    assert result.error.problems[0].where == "count"


async def test_unknown_tool_is_answered_with_near_names(context: ToolContext) -> None:
    result = await BOX.run("Pikc", "{}", context)
    assert result.error
    assert result.error.code == "unknown_tool"
    assert json.loads(result.text)["error"] == "unknown function: Pikc"
    assert json.loads(result.text)["did_you_mean"] == ["pick"]


async def test_tool_of_another_role_is_neither_offered_nor_run(context: ToolContext) -> None:
    assert [tool.name for tool in BOX.offered("viewer")] == ["pick", "fail"]
    result = await BOX.run("propose_it", {"count": 1}, context)
    assert result.error
    assert result.error.code == "not_permitted"
    assert "propose_it" not in (result.error.problems[0].allowed or "")


@each_row("kind, code", [("gone", "not_found"), ("slow", "unavailable"), ("down", "unavailable")])
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
