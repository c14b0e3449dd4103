"""The recipe of a new read tool: one file that holds it all, one entry in `READ_TOOLS`."""

from __future__ import annotations

import pytest

import cli.tools
from graphrag.agent.events import ToolFinished
from tests.cli.conftest import invoke, printed
from tests.support.agents import GRAPH, only, setting_of
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tools.base import ToolArguments, ToolBox, ToolContext, ToolResult, read_tool
from tools.read_tools import READ_TOOLS


# The file of the tool:
class CountNodes(ToolArguments):
    type_key: str


@read_tool("How many of a type.", {"typeKey": "filter"})
async def count_nodes(arguments: CountNodes, context: ToolContext) -> ToolResult:
    count = (await context.source.get_stats(context.graph_key)).types.get(arguments.type_key, 0)
    return ToolResult(text=f"{count} nodes", data={"count": count})


# Its entry:
WITH_IT = (*READ_TOOLS, count_nodes)


def test_the_command_lists_and_runs_it(demo_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli.tools, "TOOLS", ToolBox(WITH_IT))
    assert "count_nodes" in {tool["name"] for tool in printed(invoke("tools", GRAPH, "--json"))}
    (result,) = printed(invoke("tools", GRAPH, "count_nodes", "--args", '{"typeKey": "log-node"}', "--json"))
    assert (result["data"], result["error"]) == ({"count": 2}, False)


async def test_a_model_calls_it() -> None:
    asks = Says(calls=[call("count_nodes", {"typeKey": "log-node"})])
    with ScriptedProvider(asks, "There are 2.") as model:
        async with setting_of(model, tools=WITH_IT) as setting:
            finished = only(await setting.ask("How many log nodes?"), ToolFinished)
    assert "2 nodes" in str(finished)
