"""The `tools` command: lists the tools that a model may call on a graph, and runs them without
storing anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, usage_error
from cli.diff import print_preview
from cli.options import GraphArgument, RoleOption, argument, flag, option
from cli.output import Output
from graphrag.agent.requested_calls import Answered
from graphrag.app.tool_trial import sample_calls, try_calls
from graphrag.app.wiring import Services
from graphrag.llm.base import ToolCall
from graphrag.llm.tokens import count_tokens
from tools.base import Tool


@command()
async def tools(
    services: Services,
    graph: GraphArgument,
    tool: Annotated[str | None, argument("[TOOL]", "Only this tool.")] = None,
    run_it: Annotated[
        bool, flag("--run", "Run it (without TOOL: each that reads, once) on the graph.")
    ] = False,
    arguments: Annotated[
        str | None,
        option("--args", "JSON", "Arguments of TOOL; implies --run. A change is only shown."),
    ] = None,
    role: RoleOption = "editor",
) -> Output:
    """List the tools a model may call on a graph, or run them as a model would;
    nothing is stored.
    """
    offered = services.box.offered(role)
    chosen = [one for one in offered if tool is None or one.name == tool]
    if not chosen:
        names = ", ".join(one.name for one in offered)
        usage_error(f"there is no tool {tool!r}; there are {names}")
    if arguments is not None and tool is None:
        usage_error("--args needs the name of a tool")
    if run_it and arguments is None and tool is not None and chosen[0].effect != "read":
        usage_error(f"{tool} proposes a change: give its arguments with --args")
    await services.source.get_graph(graph)
    if not run_it and arguments is None:
        return _listed(chosen, whole=tool is not None)
    if arguments is not None:
        calls = [ToolCall(id=one.name, name=one.name, arguments=arguments) for one in chosen]
    else:
        readers = [one for one in chosen if one.effect == "read"]
        calls = await sample_calls(services, graph, readers)
    results = await try_calls(services, graph, services.local_person(role), calls)
    failed = any(answered.result.is_error for answered in results)
    return Output(
        document=[_result_document(answered) for answered in results],
        text=partial(_show_results, results),
        exit_code=EXIT_FAILED if failed else 0,
    )


def _result_document(answered: Answered) -> dict[str, Any]:
    document: dict[str, Any] = {
        "tool": answered.call.name,
        "arguments": answered.call.arguments,
        "error": answered.result.is_error,
        "data": answered.result.data,
        "text": answered.result.text,
        "tokens": count_tokens(answered.result.text),
    }
    if answered.approval:
        document |= {"preview": answered.approval.preview, "stored": False}
    return document


def _show_results(results: Sequence[Answered]) -> None:
    for answered in results:
        call = answered.call
        text = answered.result.text
        render.heading(f"── {call.name} {call.arguments} ({count_tokens(text):,} tokens)")
        render.passage(text, "red" if answered.result.is_error else None)
        if answered.approval is not None:
            print_preview(answered.approval.preview)
            render.note("Nothing was stored: a person would be asked to decide this.")


def _listed(chosen: Sequence[Tool[Any]], *, whole: bool) -> Output:
    """Returns the schemas of tools; as text a table of them unless `whole`."""
    functions: list[dict[str, Any]] = [
        {**tool.schema()["function"], "writes": tool.effect != "read"} for tool in chosen
    ]
    if whole:
        return Output(document=functions, text=partial(render.json, functions))
    columns = ["tool", "arguments", "effect", "purpose"]
    rows = [_row(function) for function in functions]
    return Output(document=functions, text=partial(render.table, columns, rows, folded=3))


def _row(function: dict[str, Any]) -> list[str]:
    return [
        function["name"],
        _argument_names(function["parameters"]),
        "proposes" if function["writes"] else "reads",
        function["description"].partition(". ")[0].rstrip(".") + ".",
    ]


def _argument_names(parameters: dict[str, Any]) -> str:
    """Returns the required arguments; `…` stands for optional ones."""
    required = parameters.get("required", [])
    more = ["…"] if len(parameters.get("properties", {})) > len(required) else []
    return ", ".join([*required, *more])
