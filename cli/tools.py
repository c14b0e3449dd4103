"""The `tools` command: what a model may call on a graph, tried without storing anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import orjson
import typer

from cli import render
from cli.common import EXIT_FAILED, usage_error
from cli.diff import print_preview
from cli.options import Common, GraphArgument, RoleOption, argument, command, flag, option
from cli.prompt import TOOLS
from graphrag.agent.requested_calls import Answered, CallLimits, Requested
from graphrag.agent.tool_calls import ToolCalls
from graphrag.app.databases import open_database
from graphrag.app.wiring import Services
from graphrag.approvals import Approvals
from graphrag.llm.base import ToolCall
from graphrag.llm.tokens import count_tokens
from tools.base import Role, Tool


@command()
async def tools(
    common: Common,
    services: Services,
    graph: GraphArgument,
    tool: Annotated[str | None, argument("[TOOL]", "Just this tool.")] = None,
    run_it: Annotated[
        bool, flag("--run", "Run it (without TOOL: each that reads, once) on the graph.")
    ] = False,
    arguments: Annotated[
        str | None,
        option("--args", "JSON", "Arguments of TOOL; implies --run. A change is shown only."),
    ] = None,
    role: RoleOption = "editor",
) -> None:
    """List the tools a model may call on a graph, or run them as a model would;
    nothing is stored.
    """
    offered = [found for found in TOOLS.offered(role) if tool is None or found.name == tool]
    if not offered:
        names = ", ".join(found.name for found in TOOLS.offered(role))
        usage_error(f"there is no tool {tool!r}; there are {names}")
    if arguments is not None and tool is None:
        usage_error("--args needs the name of a tool")
    if run_it and arguments is None and tool is not None and offered[0].effect != "read":
        usage_error(f"{tool} proposes a change: give its arguments with --args")
    await services.source.get_graph(graph)
    if not run_it and arguments is None:
        _list_tools(offered, common.as_json, whole=tool is not None)
        return
    called = [found for found in offered if tool is not None or found.effect == "read"]
    if arguments is not None:
        calls = [ToolCall(id=found.name, name=found.name, arguments=arguments) for found in called]
    else:
        calls = _sample_calls(called, await _sample_values(services, graph))
    results = await _run_dry(services, graph, role, calls)
    _show_results(results, common.as_json)
    if any(answered.result.is_error for answered in results):
        raise typer.Exit(EXIT_FAILED)


async def _run_dry(
    services: Services, graph: str, role: Role, calls: list[ToolCall]
) -> list[Answered]:
    """Run calls as those of a model are run; what they propose is kept in memory and forgotten."""
    person = services.local_person(role)
    workspace = services.settings.workspace
    language = services.settings.language
    place = services.call_place(
        graph, person, language, thread_id="dry-run", turn=1, model="person"
    )
    async with open_database("memory:", workspace) as forgotten:
        approvals = Approvals(services.source, forgotten.records(workspace))
        running = ToolCalls(TOOLS, approvals, limits=CallLimits(calls_a_step=len(calls)))
        return [answered async for answered in running.run(Requested(calls=calls), place)]


def _show_results(results: list[Answered], as_json: bool) -> None:
    if as_json:
        render.json(
            [
                {
                    "tool": one.call.name,
                    "arguments": one.call.arguments,
                    "error": one.result.is_error,
                }
                | {"data": one.result.data, "text": one.result.text}
                | {"tokens": count_tokens(one.result.text)}
                | ({"preview": one.approval.preview, "stored": False} if one.approval else {})
                for one in results
            ]
        )
        return
    for one in results:
        text = one.result.text
        render.heading(f"── {one.call.name} {one.call.arguments} ({count_tokens(text):,} tokens)")
        render.passage(text, "red" if one.result.is_error else None)
        if one.approval is not None:
            print_preview(one.approval.preview)
            render.note("Nothing was stored: a person would be asked to decide this.")


def _list_tools(offered: list[Tool[Any]], as_json: bool, *, whole: bool) -> None:
    functions: list[dict[str, Any]] = [
        {**tool.schema()["function"], "writes": tool.effect != "read"} for tool in offered
    ]
    if as_json or whole:
        render.json(functions)
        return
    rows = [
        [
            function["name"],
            _argument_names(function["parameters"]),
            "proposes" if function["writes"] else "reads",
            function["description"].partition(". ")[0].rstrip(".") + ".",
        ]
        for function in functions
    ]
    render.table(["tool", "arguments", "does", "what it is for"], rows, folded=3)


def _argument_names(parameters: dict[str, Any]) -> str:
    """Return the arguments that must be given; `…` stands for those that may be."""
    required = parameters.get("required", [])
    more = ["…"] if len(parameters.get("properties", {})) > len(required) else []
    return ", ".join([*required, *more])


async def _sample_values(services: Services, graph: str) -> dict[str, Any]:
    """Return arguments that mean something in this graph: its best connected node of
    the first ones.
    """
    nodes = await services.source.get_nodes(graph, limit=50)
    if not nodes:
        return {}
    links = await services.source.get_links(graph, [node.key for node in nodes], limit=1_000)
    degree = {node.key: sum(node.key in link for link in links) for node in nodes}
    best = max(nodes, key=lambda node: (degree[node.key], node.key))
    keys = [best.key, *(node.key for node in nodes if node.key != best.key)][:3]
    return {"node_key": best.key, "node_keys": keys, "type_key": best.type, "query": best.type}


def _sample_calls(called: Sequence[Tool[Any]], sample: dict[str, Any]) -> list[ToolCall]:
    """Return a call of each tool with values of the graph."""
    calls: list[ToolCall] = []
    for found in called:
        required = [
            name for name, field in found.arguments.model_fields.items() if field.is_required()
        ]
        arguments = orjson.dumps(
            {name: sample[name] for name in required if name in sample}
        ).decode()
        calls.append(ToolCall(id=found.name, name=found.name, arguments=arguments))
    return calls
