"""The commands that show what a model would be sent: `context` and `prompt`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import typer

from cli import render
from cli.common import EXIT_NOTHING, check_question
from cli.options import Common, GraphArgument, QuestionArgument, RoleOption, command, option
from graphrag.app.wiring import Services
from graphrag.config import Settings
from graphrag.importers.report import counted
from graphrag.llm.tokens import count_tokens, tokenizer_name
from graphrag.retrieval.prepared_prompt import PreparedPrompt, prepare_prompt
from graphrag.retrieval.retrieval_result import GRAPH_ORDER, Mode
from tools.base import Role, ToolBox
from tools.read_tools import READ_TOOLS
from tools.session_tools import SESSION_TOOLS
from tools.write_tools import WRITE_TOOLS

TOOLS = ToolBox((*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieving(Common):
    """The options of a command that retrieves for a question."""

    role: RoleOption = "editor"
    mode: Annotated[Mode | None, option("--mode", "hybrid|vector|text", "How to retrieve.")] = None
    budget: Annotated[int | None, option("--budget", "TOKENS", "Most tokens of the context.")] = None

    def settings(self, **flags: Any) -> Settings:
        return Common.settings(self, mode=self.mode, budget_tokens=self.budget, **flags)


async def _prepared(services: Services, graph: str, question: str, role: Role) -> PreparedPrompt:
    check_question(question)
    source, retriever, options = services.source, services.retriever, services.context_options
    return await prepare_prompt(source, retriever, graph, question, role=role, options=options)


@command()
async def context(
    common: Retrieving, services: Services, graph: GraphArgument, question: QuestionArgument
) -> None:
    """Show the context that a model is given for a question, and why each node is in it."""
    prepared = await _prepared(services, graph, question, common.role)
    if common.as_json:
        render.json(context_as_dict(prepared))
    else:
        render.passage(prepared.context.text)
        render.note(summary(prepared))
    if not prepared.retrieval.nodes:
        raise typer.Exit(EXIT_NOTHING)


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
async def prompt(
    common: Retrieving, services: Services, graph: GraphArgument, question: QuestionArgument
) -> None:
    """Show every message a model would be sent for a first question, with its tokens."""
    prepared = await _prepared(services, graph, question, common.role)
    tool_tokens = count_tokens(orjson.dumps(TOOLS.schemas(common.role)).decode())
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
