"""The commands that show what a model would be given: `context`, `tools`, `prompt`."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from cli import render
from cli.common import (
    EXIT_FAILED,
    EXIT_NOTHING,
    EXIT_USAGE,
    DbOption,
    GraphArgument,
    JsonOption,
    LanguageOption,
    WorkspaceOption,
    fail,
    graph_or_fail,
    run,
    settings_of,
)
from cli.diff import print_preview
from graphrag.agent.tool_calls import Answered, CallLimits, CallPlace, Requested, ToolCalls
from graphrag.app.wiring import Services, open_database
from graphrag.approvals import Approvals
from graphrag.config import Settings
from graphrag.llm.base import ToolCall
from graphrag.llm.tokens import count_tokens, tokenizer_name
from graphrag.retrieval.prepared_prompt import PreparedPrompt, prepare_prompt
from graphrag.retrieval.retriever import GRAPH_ORDER
from tools.base import Role, Tool, ToolBox, ToolContext
from tools.read_tools import READ_TOOLS
from tools.write_tools import WRITE_TOOLS

QuestionArgument = Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask, in quotes.")]
ModeOption = Annotated[
    str | None, typer.Option("--mode", metavar="hybrid|vector|text", help="How to retrieve.")
]
BudgetOption = Annotated[
    int | None, typer.Option("--budget", metavar="TOKENS", help="Most tokens of the context.")
]
RoleOption = Annotated[
    str, typer.Option("--role", metavar="ROLE", help="Who asks: viewer, editor, reviewer or admin.")
]
ROLES: dict[str, Role] = {"viewer": "viewer", "editor": "editor", "reviewer": "reviewer", "admin": "admin"}
_BOX = ToolBox((*READ_TOOLS, *WRITE_TOOLS))


def context(
    graph: GraphArgument,
    question: QuestionArgument,
    role: RoleOption = "editor",
    as_json: JsonOption = False,
    mode: ModeOption = None,
    budget: BudgetOption = None,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Show the context that a model is given for a question, and why each node is in it."""
    settings = settings_of(db, workspace, lang, mode=mode, budget_tokens=budget)
    prepared = _prepared(settings, graph, question, role)
    if as_json:
        render.json(context_as_dict(prepared))
    else:
        render.passage(prepared.context.text)
        render.note(summary(prepared))
    if not prepared.retrieval.nodes:
        raise typer.Exit(EXIT_NOTHING)


def _prepared(settings: Settings, graph: str, question: str, role: str) -> PreparedPrompt:
    if not question.strip():
        fail("the question is empty", code=EXIT_USAGE)
    as_role = role_of(role)

    async def work(services: Services) -> PreparedPrompt:
        await graph_or_fail(services.source, graph)
        return await prepare_prompt(
            services.source,
            services.retriever,
            graph,
            question,
            role=as_role,
            options=services.context_options,
        )

    return run(settings, work)


def context_as_dict(prepared: PreparedPrompt) -> dict[str, Any]:
    """Return a retrieval and its context for a script."""
    found, built = prepared.retrieval, prepared.context
    return {
        "graph": found.graph.key,
        "question": found.question,
        "mode": found.mode,
        "nodes": [
            {
                "key": scored.node.key,
                "type": scored.node.type,
                "sheet": scored.node.sheet,
                "score": round(scored.score, 4),
                "weak": scored.weak,
                "reasons": list(scored.reasons),
                "shown": i < len(built.nodes),
            }
            for i, scored in enumerate(found.nodes)
        ],
        "edges": list(built.edges),
        "types": list(built.types),
        "outline": built.outlined,
        "dropped_nodes": built.dropped_nodes,
        "tokens": built.tokens,
        "tokenizer": tokenizer_name(),
        "notes": list(found.notes),
        "ms": {stage: round(value, 3) for stage, value in found.ms.items()},
        "text": built.text,
    }


def summary(prepared: PreparedPrompt) -> str:
    """Return one line on what a context holds, how it was found and what it cost."""
    found, built = prepared.retrieval, prepared.context
    parts = [
        f"{len(built.nodes)} nodes, {len(built.edges)} edges, {built.tokens:,} tokens ({tokenizer_name()})",
        f"{found.mode} in {sum(found.ms.values()):.1f} ms",
    ]
    if built.outlined:
        parts.insert(0, "the whole graph in outline")
    if built.dropped_nodes:
        parts.append(f"{built.dropped_nodes} nodes left out for the budget")
    if GRAPH_ORDER in found.notes:
        parts.append("nothing matched: these are the graph's first nodes")
    parts.extend(note for note in found.notes if note != GRAPH_ORDER)
    return "; ".join(parts)


def prompt(
    graph: GraphArgument,
    question: QuestionArgument,
    role: RoleOption = "editor",
    as_json: JsonOption = False,
    mode: ModeOption = None,
    budget: BudgetOption = None,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Show every message a model would be sent for a first question, with its tokens."""
    settings = settings_of(db, workspace, lang, mode=mode, budget_tokens=budget)
    prepared = _prepared(settings, graph, question, role)
    schemas = orjson.dumps(_BOX.schemas(role_of(role))).decode()
    tool_tokens = count_tokens(schemas)
    if as_json:
        render.json({**prepared.as_dict(), "tool_schema_tokens": tool_tokens})
        return
    for who, text, tokens in prepared.messages:
        render.heading(f"── {who} ({tokens:,} tokens)")
        render.passage(text)
    render.note(
        f"{sum(size for _, _, size in prepared.messages):,} tokens and {tool_tokens:,} of tool schemas, "
        f"counted by {tokenizer_name()}"
    )


def tools(
    graph: GraphArgument,
    tool: Annotated[str | None, typer.Argument(metavar="[TOOL]", help="Just this tool.")] = None,
    run_it: Annotated[
        bool, typer.Option("--run", help="Run it (without TOOL: each that reads, once) on the graph.")
    ] = False,
    arguments: Annotated[
        str | None,
        typer.Option(
            "--args", metavar="JSON", help="Arguments of TOOL; implies --run. A change is shown only."
        ),
    ] = None,
    role: RoleOption = "editor",
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """List the tools a model may call on a graph, or run them as a model would; nothing is stored."""
    settings = settings_of(db, workspace, lang)
    as_role = role_of(role)
    offered = [found for found in _BOX.offered(as_role) if tool is None or found.name == tool]
    if not offered:
        names = ", ".join(found.name for found in _BOX.offered(as_role))
        fail(f"there is no tool {tool!r}; there are {names}", code=EXIT_USAGE)
    if arguments is not None and tool is None:
        fail("--args needs the name of a tool", code=EXIT_USAGE)
    if run_it and arguments is None and tool is not None and offered[0].writes:
        fail(f"{tool} proposes a change: give its arguments with --args", code=EXIT_USAGE)

    async def work(services: Services) -> list[Answered]:
        await graph_or_fail(services.source, graph)
        if not run_it and arguments is None:
            return []
        sample = await _sample_values(services, graph)
        calls = [
            ToolCall(
                id=found.name,
                name=found.name,
                arguments=orjson.dumps(_sample_call(found.arguments, sample)).decode()
                if arguments is None
                else arguments,
            )
            for found in offered
            if tool is not None or not found.writes
        ]
        return await _run_dry(services, graph, as_role, calls)

    results = run(settings, work)
    if not results:
        _list_tools(offered, as_json, whole=tool is not None)
        return
    _show_results(results, as_json)
    if any(answered.result.is_error for answered in results):
        raise typer.Exit(EXIT_FAILED)


async def _run_dry(services: Services, graph: str, role: Role, calls: list[ToolCall]) -> list[Answered]:
    """Run calls as those of a model are run; what they propose is kept in memory and forgotten."""
    place = CallPlace(
        context=ToolContext(
            source=services.source,
            graph_key=graph,
            role=role,
            language=services.settings.language,
            search=services.retriever.search,
        ),
        person=services.local_person(role),
        thread_id="dry-run",
        turn=1,
        model="person",
    )
    workspace = services.settings.workspace
    async with open_database("memory:", workspace) as forgotten:
        approvals = Approvals(services.source, forgotten.records(workspace))
        running = ToolCalls(_BOX, approvals, limits=CallLimits(calls_a_step=len(calls)))
        return [answered async for answered in running.run(Requested(calls=calls), place)]


def _show_results(results: list[Answered], as_json: bool) -> None:
    if as_json:
        render.json(
            [
                {"tool": one.call.name, "arguments": one.call.arguments, "error": one.result.is_error}
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
        {**tool.schema()["function"], "writes": tool.writes} for tool in offered
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
    """Return arguments that mean something in this graph: its best connected node of the first ones."""
    nodes = await services.source.get_nodes(graph, limit=50)
    if not nodes:
        return {}
    links = await services.source.get_links(graph, [node.key for node in nodes], limit=1_000)
    degree = {node.key: sum(node.key in link for link in links) for node in nodes}
    best = max(nodes, key=lambda node: (degree[node.key], node.key))
    keys = [best.key, *(node.key for node in nodes if node.key != best.key)][:3]
    return {"node_key": best.key, "node_keys": keys, "type_key": best.type}


def _sample_call(arguments: Any, sample: dict[str, Any]) -> dict[str, Any]:
    required = [name for name, field in arguments.model_fields.items() if field.is_required()]
    return {name: sample[name] for name in required if name in sample}


def role_of(name: str) -> Role:
    """Return a role by its name; ends the program when there is none of it."""
    if name not in ROLES:
        fail(f"--role {name!r}: use one of {', '.join(ROLES)}", code=EXIT_USAGE)
    return ROLES[name]
