"""The `ask` command: one question and its answer."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Annotated, Any, get_args

import typer

from cli import render
from cli.chat import FEATURES
from cli.command import command
from cli.common import EXIT_FAILED
from cli.inputs import check_question
from cli.options import (
    GraphArgument,
    OptionGroup,
    RoleOption,
    ThreadOption,
    WithModel,
    argument,
    flag,
    option,
)
from cli.output import Output
from cli.question_card import ask_card
from cli.review import approval_document
from cli.turn_display import TurnView, show_proposal
from graphrag.agent import events
from graphrag.agent.loop import Agent
from graphrag.app.model_services import open_agent
from graphrag.app.wiring import Services
from graphrag.commands import Period, SentBlock, Target
from graphrag.commands.blocks import BlockType, TargetKind
from graphrag.roles import Person
from tools.base import NO_FEATURES


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks(OptionGroup):
    """Parts of graphs that the question is about."""

    use: Annotated[
        list[str] | None, option("--use", "NODE", "Read this whole node. May be repeated.")
    ] = None
    pointer: Annotated[
        list[str] | None,
        option(
            "--pointer",
            "KEY",
            "Refer to this: a node, or graph:KEY, sheet:KEY, edge:KEY, nodeType:NAME. May be repeated.",
        ),
    ] = None
    since: Annotated[
        str | None,
        option("--since", "PERIOD", "Also read the changes since then, such as -7_DAY."),
    ] = None

    def sent(self) -> list[SentBlock]:
        """Returns the blocks as a client sends them. Raises: typer.BadParameter."""
        if self.since is not None and not (self.use or self.pointer):
            raise typer.BadParameter("--since needs --use or --pointer")
        period = None if self.since is None else Period(start=self.since, end="NOW")
        by_type: dict[BlockType, Sequence[str]] = {
            "USE": self.use or (),
            "POINTER": self.pointer or (),
        }
        numbers = count(1)
        return [
            SentBlock(id=f"b{next(numbers)}", type=kind, target=_target(key), period=period)
            for kind, keys in by_type.items()
            for key in keys
        ]


def _target(named: str) -> Target:
    """Returns the target of KIND:KEY; a key alone is a node."""
    prefix, separator, key = named.partition(":")
    kind = next((one for one in get_args(TargetKind) if one == prefix and separator), None)
    return Target(kind="node", key=named) if kind is None else Target(kind=kind, key=key)


@command()
async def ask(
    common: WithModel,
    services: Services,
    graph: GraphArgument,
    asked: Blocks,
    question: Annotated[str | None, argument("QUESTION", "The question, in quotes.")] = None,
    every: Annotated[bool, flag("--all", "Ask about all graphs; give only the question.")] = False,
    thread: ThreadOption = None,
    role: RoleOption = "admin",
) -> Output:
    """Ask one question. Changes are only proposed: they are shown and wait for a decision."""
    graph, question = ("", graph) if every else (graph, question or "")
    check_question(question)
    blocks = asked.sent()
    features = FEATURES if sys.stdin.isatty() and not common.as_json else NO_FEATURES
    person = services.local_person(role)
    view = TurnView(services.settings.language, quiet=common.as_json)
    async with open_agent(services) as agent:
        turn = agent.run(thread, graph, question, person, blocks=blocks, features=features)
        ending = await view.show(turn)
        while (continuation := _continuation(agent, ending, person, features, graph)) is not None:
            ending = await view.show(continuation)
    return Output(
        document=_answer_document(ending, view),
        text=partial(_show_ending, ending, view, graph),
        exit_code=EXIT_FAILED if isinstance(ending, events.Failed) else 0,
    )


def _continuation(
    agent: Agent, ending: events.Ending | None, person: Person, features: frozenset[str], graph: str
) -> AsyncGenerator[events.Event] | None:
    """Returns the continuation of an answer that stopped, or None if it is complete.

    At the limit of tool calls it continues without them. A question of the model is asked here.
    """
    if isinstance(ending, events.ToolLimit):
        return agent.resume(ending.thread_id, person, grant_rounds=False, features=features)
    if not isinstance(ending, events.QuestionAsked):
        return None
    if (response := ask_card(ending.asked.question.card)) is not None:
        return agent.resume(ending.thread_id, person, response=response, features=features)
    render.note(f"To answer it: nodius chat {graph} --thread {ending.thread_id}, then /later")
    return None


def _answer_document(ending: events.Ending | None, view: TurnView) -> dict[str, Any]:
    is_pending = isinstance(ending, events.ProposalPending)
    document: dict[str, Any] = {
        "threadId": ending.thread_id if ending else None,
        "type": "interrupt" if is_pending else "message",
        "message": ending.text if isinstance(ending, events.Completed) or is_pending else "",
        "toolCalls": [
            {"name": e.name, "args": e.arguments, "result": e.result_text, "error": e.is_error}
            for e in view.events
            if isinstance(e, events.ToolFinished)
        ],
        "usage": _usage_document(
            [event for event in view.events if isinstance(event, events.UsageReported)]
        ),
    }
    if isinstance(ending, events.Completed) and ending.not_in_graph is not None:
        document["notInGraph"] = ending.not_in_graph
    if isinstance(ending, events.ProposalPending):
        document["approvals"] = [approval_document(approval) for approval in ending.approvals]
    if isinstance(ending, events.Failed):
        fault = ending.fault
        error: dict[str, Any] = {"code": fault.code, "retryable": fault.retryable}
        if fault.details:
            error["details"] = fault.details
        document |= {"type": "error", "error": error, "message": fault.message(view.language)}
    return document


def _usage_document(used: Sequence[events.UsageReported]) -> dict[str, Any]:
    costs = [report.cost_usd for report in used]
    return {
        "promptTokens": sum(report.prompt for report in used),
        "completionTokens": sum(report.completion for report in used),
        "cost": None if None in costs else sum(cost or 0 for cost in costs),
    }


def _show_ending(ending: events.Ending | None, view: TurnView, graph: str) -> None:
    if ending is None:
        return
    if isinstance(ending, events.ProposalPending):
        for approval in ending.approvals:
            show_proposal(approval, view.language)
        render.note(
            "Nothing has changed yet. To decide: nodius review approve|reject ID, or in conversation:"
            f" nodius chat {graph} --thread {ending.thread_id}"
        )
    if view.usage():
        render.note(view.usage())
