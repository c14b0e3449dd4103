"""The commands that show what a model would be sent: `context` and `prompt`."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from cli import render
from cli.common import (
    EXIT_NOTHING,
    Common,
    GraphArgument,
    QuestionArgument,
    RoleOption,
    check_question,
    command,
    graph_or_fail,
    option,
    role_of,
    run,
)
from graphrag.app.wiring import Services
from graphrag.config import Settings
from graphrag.importers.report import counted
from graphrag.llm.tokens import count_tokens, tokenizer_name
from graphrag.retrieval.prepared_prompt import PreparedPrompt, prepare_prompt
from graphrag.retrieval.retriever import GRAPH_ORDER
from tools.base import ToolBox
from tools.read_tools import READ_TOOLS
from tools.session_tools import SESSION_TOOLS
from tools.write_tools import WRITE_TOOLS

ModeOption = Annotated[str | None, option("--mode", "hybrid|vector|text", "How to retrieve.")]
BudgetOption = Annotated[int | None, option("--budget", "TOKENS", "Most tokens of the context.")]
TOOLS = ToolBox((*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS))


@command()
def context(
    common: Common,
    graph: GraphArgument,
    question: QuestionArgument,
    role: RoleOption = "editor",
    mode: ModeOption = None,
    budget: BudgetOption = None,
) -> None:
    """Show the context that a model is given for a question, and why each node is in it."""
    settings = common.settings(mode=mode, budget_tokens=budget)
    prepared = _prepared(settings, graph, question, role)
    if common.as_json:
        render.json(context_as_dict(prepared))
    else:
        render.passage(prepared.context.text)
        render.note(summary(prepared))
    if not prepared.retrieval.nodes:
        raise typer.Exit(EXIT_NOTHING)


def _prepared(settings: Settings, graph: str, question: str, role: str) -> PreparedPrompt:
    check_question(question)
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
        f"{counted('node', len(built.nodes), 'en')}, {counted('edge', len(built.edges), 'en')}, "
        f"{built.tokens:,} tokens ({tokenizer_name()})",
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


@command()
def prompt(
    common: Common,
    graph: GraphArgument,
    question: QuestionArgument,
    role: RoleOption = "editor",
    mode: ModeOption = None,
    budget: BudgetOption = None,
) -> None:
    """Show every message a model would be sent for a first question, with its tokens."""
    settings = common.settings(mode=mode, budget_tokens=budget)
    prepared = _prepared(settings, graph, question, role)
    schemas = orjson.dumps(TOOLS.schemas(role_of(role))).decode()
    tool_tokens = count_tokens(schemas)
    if common.as_json:
        render.json({**prepared.as_dict(), "tool_schema_tokens": tool_tokens})
        return
    for who, text, tokens in prepared.messages:
        render.heading(f"── {who} ({tokens:,} tokens)")
        render.passage(text)
    render.note(
        f"{sum(size for _, _, size in prepared.messages):,} tokens and {tool_tokens:,} of tool schemas, "
        f"counted by {tokenizer_name()}"
    )
