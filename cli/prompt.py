"""The commands `context` and `prompt`: show what a model would be sent for a question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from cli import render
from cli.command import command
from cli.common import EXIT_NOTHING
from cli.inputs import check_question
from cli.options import Common, GraphArgument, QuestionArgument, RoleOption, option
from cli.output import Output
from graphrag.app.first_prompt import FirstPrompt, first_prompt
from graphrag.app.wiring import Services
from graphrag.importers.report import counted
from graphrag.llm.tokens import tokenizer_name
from graphrag.retrieval.prepared_prompt import PreparedPrompt
from graphrag.retrieval.retrieval_result import GRAPH_ORDER, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieving(Common):
    """The options of a command that shows the retrieval for a question."""

    role: RoleOption = "editor"
    mode: Annotated[Mode | None, option("--mode", "hybrid|vector|text", "How to retrieve.")] = None
    budget: Annotated[
        int | None, option("--budget", "TOKENS", "Maximum tokens of the context.")
    ] = None


@command()
async def context(
    common: Retrieving, services: Services, graph: GraphArgument, question: QuestionArgument
) -> Output:
    """Show the context that a model is given for a question, and why each node is in it."""
    check_question(question)
    prepared = (await first_prompt(services, graph, question, common.role)).prepared

    def show() -> None:
        render.passage(prepared.context.text)
        render.note(summary(prepared))

    return Output(
        document=prepared.context_as_dict(),
        text=show,
        exit_code=0 if prepared.retrieval.nodes else EXIT_NOTHING,
    )


def summary(prepared: PreparedPrompt) -> str:
    """Returns one line with the size of a context and how it was retrieved."""
    retrieval = prepared.retrieval
    context = prepared.context
    parts = [
        f"{counted('node', len(context.nodes), 'en')}, {counted('edge', len(context.edges), 'en')}, "
        f"{context.tokens:,} tokens ({tokenizer_name()})",
        f"{retrieval.mode} in {sum(retrieval.ms.values()):.1f} ms",
    ]
    if context.whole:
        parts.insert(0, "the whole graph")
    if context.outlined:
        parts.insert(0, "the whole graph in outline")
    if context.dropped_nodes:
        parts.append(f"{context.dropped_nodes} nodes left out for the budget")
    if GRAPH_ORDER in retrieval.notes:
        parts.append("nothing matched: these are the graph's first nodes")
    parts.extend(note for note in retrieval.notes if note != GRAPH_ORDER)
    return "; ".join(parts)


@command()
async def prompt(
    common: Retrieving, services: Services, graph: GraphArgument, question: QuestionArgument
) -> Output:
    """Show all messages that a model would be sent for a first question, with their tokens."""
    check_question(question)
    sent = await first_prompt(services, graph, question, common.role)
    return Output(document=sent.as_dict(), text=partial(_show_prompt, sent))


def _show_prompt(sent: FirstPrompt) -> None:
    messages = sent.prepared.messages
    for role, text, tokens in messages:
        render.heading(f"── {role} ({tokens:,} tokens)")
        render.passage(text)
    render.note(
        f"{sum(tokens for _, _, tokens in messages):,} tokens and {sent.tool_tokens:,} of tool schemas, "
        f"counted by {tokenizer_name()}"
    )
