"""The commands that show what a model would be sent: `context` and `prompt`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import typer

from cli import render
from cli.common import EXIT_NOTHING, check_question
from cli.options import Common, GraphArgument, QuestionArgument, RoleOption, command, option
from graphrag.agent import prompt_budget
from graphrag.agent.change_words import asks_for_change
from graphrag.app.models import open_model
from graphrag.app.wiring import Services
from graphrag.config import Settings
from graphrag.importers.report import counted
from graphrag.llm.base import LearnsWindow
from graphrag.llm.tokens import count_tokens, tokenizer_name
from graphrag.retrieval.prepared_prompt import PreparedPrompt, prepare_prompt
from graphrag.retrieval.retrieval_result import GRAPH_ORDER, Mode
from tools.base import Role, Tool, ToolBox
from tools.read_tools import READ_TOOLS
from tools.session_tools import SESSION_TOOLS
from tools.write_tools import WRITE_TOOLS

TOOLS = ToolBox((*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieving(Common):
    """The options of a command that retrieves for a question."""

    role: RoleOption = "editor"
    mode: Annotated[Mode | None, option("--mode", "hybrid|vector|text", "How to retrieve.")] = None
    budget: Annotated[int | None, option("--budget", "TOKENS", "Most tokens of the context.")] = (
        None
    )

    def settings(self, **flags: Any) -> Settings:
        return Common.settings(self, mode=self.mode, budget_tokens=self.budget, **flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentPrompt:
    """What the settings' model would be sent for a first question, and of which window."""

    prepared: PreparedPrompt
    tools: Sequence[Tool[Any]]
    window: int


async def _request(services: Services, graph: str, question: str, role: Role) -> _SentPrompt:
    check_question(question)
    async with open_model(services.settings, embedder=services.embedder) as model:
        if isinstance(model.provider, LearnsWindow):
            await model.provider.learn_window()
        window = model.provider.context_window
    offered = TOOLS.offered(role)
    sizes = [prompt_budget.size_of(tool) for tool in offered]
    changing = asks_for_change(question)

    def context_room(taken: int, wanted: int) -> int:
        taken += count_tokens(question)
        return prompt_budget.share_out(
            window, sizes, taken=taken, wanted=wanted, changing=changing
        ).context

    prepared = await prepare_prompt(
        services.source,
        services.retriever,
        graph,
        question,
        role=role,
        options=services.context_options,
        compact=prompt_budget.is_small(window),
        context_room=context_room,
    )
    taken = sum(size for _, _, size in prepared.messages)
    shares = prompt_budget.share_out(window, sizes, taken=taken, wanted=0, changing=changing)
    return _SentPrompt(prepared=prepared, tools=[offered[i] for i in shares.tools], window=window)


@command()
async def context(
    common: Retrieving, services: Services, graph: GraphArgument, question: QuestionArgument
) -> None:
    """Show the context that a model is given for a question, and why each node is in it."""
    prepared = (await _request(services, graph, question, common.role)).prepared
    if common.as_json:
        render.json(context_as_dict(prepared))
    else:
        render.passage(prepared.context.text)
        render.note(summary(prepared))
    if not prepared.retrieval.nodes:
        raise typer.Exit(EXIT_NOTHING)


def context_as_dict(prepared: PreparedPrompt) -> dict[str, Any]:
    """Return a retrieval and its context for a script."""
    found = prepared.retrieval
    built = prepared.context
    shown = {*built.nodes, *built.brief}
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
                "shown": scored.node.key in shown,
            }
            for scored in found.nodes
        ],
        "edges": list(built.edges),
        "types": list(built.types),
        "outline": built.outlined,
        "whole": built.whole,
        "dropped_nodes": built.dropped_nodes,
        "tokens": built.tokens,
        "tokenizer": tokenizer_name(),
        "notes": list(found.notes),
        "ms": {stage: round(value, 3) for stage, value in found.ms.items()},
        "text": built.text,
    }


def summary(prepared: PreparedPrompt) -> str:
    """Return one line on what a context holds, how it was found and what it cost."""
    found = prepared.retrieval
    built = prepared.context
    parts = [
        f"{counted('node', len(built.nodes), 'en')}, {counted('edge', len(built.edges), 'en')}, "
        f"{built.tokens:,} tokens ({tokenizer_name()})",
        f"{found.mode} in {sum(found.ms.values()):.1f} ms",
    ]
    if built.whole:
        parts.insert(0, "the whole graph")
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
    request = await _request(services, graph, question, common.role)
    prepared = request.prepared
    tool_tokens = count_tokens(orjson.dumps([tool.schema() for tool in request.tools]).decode())
    if common.as_json:
        render.json(
            {
                **prepared.as_dict(),
                "tool_schema_tokens": tool_tokens,
                "tools": [tool.name for tool in request.tools],
                "window": request.window,
            }
        )
        return
    for who, text, tokens in prepared.messages:
        render.heading(f"── {who} ({tokens:,} tokens)")
        render.passage(text)
    render.note(
        f"{sum(size for _, _, size in prepared.messages):,} tokens and {tool_tokens:,} of tool schemas, "
        f"counted by {tokenizer_name()}"
    )
