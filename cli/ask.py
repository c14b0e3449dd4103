"""The `ask` command: one question and its answer."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, get_args

import typer

from cli import render
from cli.chat import SHOWN
from cli.common import EXIT_FAILED, check_question
from cli.options import (
    GraphArgument,
    RoleOption,
    ThreadOption,
    WithModel,
    argument,
    command,
    flag,
    option,
)
from cli.question_card import ask_card
from cli.review import approval_document
from cli.turn_display import TurnView, show_proposal
from graphrag.agent import events
from graphrag.agent.loop import Agent
from graphrag.app.wiring import Services, open_agent
from graphrag.commands import Period, SentBlock, Target
from graphrag.commands.blocks import BlockType, TargetKind
from graphrag.roles import Person
from tools.base import NO_FEATURES

UseOption = Annotated[
    list[str] | None, option("--use", "NODE", "Read this node whole. May be repeated.")
]
PointerOption = Annotated[
    list[str] | None,
    option(
        "--pointer",
        "KEY",
        "Read this: a node, or graph:KEY, sheet:KEY, edge:KEY, nodeType:NAME. May be repeated.",
    ),
]
SinceOption = Annotated[
    str | None, option("--since", "PERIOD", "Read also what changed there since then, as -7_DAY.")
]


def blocks_of(
    use: Sequence[str] | None, pointer: Sequence[str] | None, since: str | None
) -> list[SentBlock]:
    """Return the blocks that options name. Raises: typer.BadParameter."""
    named = [("USE", key) for key in use or ()] + [("POINTER", key) for key in pointer or ()]
    if since is not None and not named:
        raise typer.BadParameter("--since needs --use or --pointer")
    period = None if since is None else Period(start=since, end="NOW")
    return [
        _block(number, "USE" if kind == "USE" else "POINTER", key, period)
        for number, (kind, key) in enumerate(named, start=1)
    ]


def _block(number: int, block_type: BlockType, named: str, period: Period | None) -> SentBlock:
    kind, separator, key = named.partition(":")
    known = next((one for one in get_args(TargetKind) if one == kind and separator), None)
    target = Target(kind="node", key=named) if known is None else Target(kind=known, key=key)
    return SentBlock(id=f"b{number}", type=block_type, target=target, period=period)


@command()
async def ask(
    common: WithModel,
    services: Services,
    graph: GraphArgument,
    question: Annotated[str | None, argument("QUESTION", "What to ask, in quotes.")] = None,
    every: Annotated[bool, flag("--all", "Ask about all graphs: give the question alone.")] = False,
    thread: ThreadOption = None,
    role: RoleOption = "admin",
    use: UseOption = None,
    pointer: PointerOption = None,
    since: SinceOption = None,
) -> None:
    """Ask one question. Changes are only proposed: they are shown and wait for a decision."""
    graph, question = ("", graph) if every else (graph, question or "")
    check_question(question)
    blocks = blocks_of(use, pointer, since)
    shown = SHOWN if sys.stdin.isatty() and not common.as_json else NO_FEATURES
    person = services.local_person(role)
    view = TurnView(services.settings.language, quiet=common.as_json)
    async with open_agent(services) as agent:
        ending = await view.show(
            agent.run(thread, graph, question, person, blocks=blocks, features=shown)
        )
        while (more := _more(agent, ending, person, shown, graph)) is not None:
            ending = await view.show(more)
    if common.as_json:
        render.json(_answer_document(ending, view))
    elif ending is not None:
        _close(ending, view, graph)
    if isinstance(ending, events.Failed):
        raise typer.Exit(EXIT_FAILED)


def _more(
    agent: Agent, ending: events.Ending | None, person: Person, shown: frozenset[str], graph: str
) -> AsyncGenerator[events.Event] | None:
    """Return the rest of an answer that stopped: for a question, which is put here, or
    without more tools.
    """
    if isinstance(ending, events.ToolLimit):  # nobody is asked here: it answers from what it has
        return agent.resume(ending.thread_id, person, grant_rounds=False, features=shown)
    if not isinstance(ending, events.QuestionAsked):
        return None
    if (response := ask_card(ending.asked.question.card)) is not None:
        return agent.resume(ending.thread_id, person, response=response, features=shown)
    render.note(f"To answer it: nodius chat {graph} --thread {ending.thread_id}, then /later")
    return None


def _answer_document(ending: events.Ending | None, view: TurnView) -> dict[str, Any]:
    used = [event for event in view.events if isinstance(event, events.UsageReported)]
    document: dict[str, Any] = {
        "threadId": ending.thread_id if ending else None,
        "type": "interrupt" if isinstance(ending, events.ProposalPending) else "message",
        "message": ending.text
        if isinstance(ending, events.Completed | events.ProposalPending)
        else "",
        "toolCalls": [
            {"name": e.name, "args": e.arguments, "result": e.result_text, "error": e.is_error}
            for e in view.events
            if isinstance(e, events.ToolFinished)
        ],
        "usage": {
            "promptTokens": sum(u.prompt for u in used),
            "completionTokens": sum(u.completion for u in used),
            "cost": None
            if any(u.cost_usd is None for u in used)
            else sum(u.cost_usd or 0 for u in used),
        },
    }
    if isinstance(ending, events.Completed) and ending.not_in_graph is not None:
        document["notInGraph"] = ending.not_in_graph
    if isinstance(ending, events.ProposalPending):
        document["approvals"] = [approval_document(approval) for approval in ending.approvals]
    if isinstance(ending, events.Failed):
        fault = ending.fault
        more = {"details": fault.details} if fault.details else {}
        document |= {
            "type": "error",
            "error": {"code": fault.code, "retryable": fault.retryable} | more,
        }
        document["message"] = fault.message(view.language)
    return document


def _close(ending: events.Ending, view: TurnView, graph: str) -> None:
    if isinstance(ending, events.ProposalPending):
        for approval in ending.approvals:
            show_proposal(approval, view.language)
        render.note(
            "Nothing has changed yet. To decide: nodius review approve|reject ID, or in conversation:"
            f" nodius chat {graph} --thread {ending.thread_id}"
        )
    if view.usage():
        render.note(view.usage())
