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
from graphrag.config import Settings
from graphrag.prepared_prompt import PreparedPrompt, prepare_prompt
from graphrag.retriever import GRAPH_ORDER
from graphrag.tokens import count_tokens, tokenizer_name
from graphrag.wiring import Services
from tools.base import Role, ToolBox, ToolContext, ToolResult
from tools.read_tools import READ_TOOLS, read_toolbox
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
    schemas = orjson.dumps(ToolBox((*READ_TOOLS, *WRITE_TOOLS)).schemas(role_of(role))).decode()
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
        bool, typer.Option("--run", help="Run it (without TOOL: each once) on the graph.")
    ] = False,
    arguments: Annotated[
        str | None, typer.Option("--args", metavar="JSON", help="Arguments of TOOL; implies --run.")
    ] = None,
    role: RoleOption = "editor",
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """List the tools a model may call on a graph, or run them as a model would."""
    settings = settings_of(db, workspace, lang)
    as_role, box = role_of(role), read_toolbox()
    offered = [found for found in box.offered(as_role) if tool is None or found.name == tool]
    if not offered:
        names = ", ".join(found.name for found in box.offered(as_role))
        fail(f"there is no tool {tool!r}; there are {names}", code=EXIT_USAGE)
    if arguments is not None and tool is None:
        fail("--args needs the name of a tool", code=EXIT_USAGE)

    async def work(services: Services) -> list[tuple[str, Any, ToolResult]]:
        await graph_or_fail(services.source, graph)
        if not run_it and arguments is None:
            return []
        where = ToolContext(
            source=services.source,
            graph_key=graph,
            role=as_role,
            language=settings.language,
            search=services.retriever.search,
        )
        sample = await _sample_values(services, graph)
        calls: list[tuple[str, Any]] = [
            (found.name, arguments if arguments is not None else _sample_call(found.arguments, sample))
            for found in offered
        ]
        return [(name, given, await box.run(name, given, where)) for name, given in calls]

    results = run(settings, work)
    if not results:
        _list_tools([found.schema()["function"] for found in offered], as_json, whole=tool is not None)
        return
    _show_results(results, as_json)
    if any(result.is_error for _, _, result in results):
        raise typer.Exit(EXIT_FAILED)


def _show_results(results: list[tuple[str, Any, ToolResult]], as_json: bool) -> None:
    if as_json:
        render.json(
            [
                {"tool": name, "arguments": given, "error": result.is_error, "data": result.data}
                | {"text": result.text, "tokens": count_tokens(result.text)}
                for name, given, result in results
            ]
        )
    else:
        for name, given, result in results:
            shown = given if isinstance(given, str) else orjson.dumps(given).decode()
            render.heading(f"── {name} {shown} ({count_tokens(result.text):,} tokens)")
            render.passage(result.text, "red" if result.is_error else None)


def _list_tools(functions: list[dict[str, Any]], as_json: bool, *, whole: bool) -> None:
    if as_json or whole:
        render.json(functions)
        return
    rows = [
        [
            function["name"],
            ", ".join(function["parameters"].get("properties", {})),
            function["description"].partition(". ")[0].rstrip(".") + ".",
        ]
        for function in functions
    ]
    render.table(["tool", "arguments", "what it is for"], rows, folded=2)


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
