"""The commands that talk: `ask` for one answer, `chat` for a conversation with decisions in it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli import render
from cli.chat import Chat
from cli.common import (
    EXIT_FAILED,
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
from cli.prompt import QuestionArgument, RoleOption, role_of
from cli.review import approval_document
from cli.turn_display import Ending, TurnView, show_proposal
from graphrag.agent.events import Completed, Failed, ProposalPending, ToolFinished, ToolLimit, UsageReported
from graphrag.app.wiring import Services, open_agent
from graphrag.config import Settings

ThreadOption = Annotated[
    str | None,
    typer.Option(
        "--thread", "-t", metavar="ID", help="Go on in this conversation (see `nodius threads list`)."
    ),
]
ProviderOption = Annotated[
    str | None,
    typer.Option("--provider", metavar="NAME", help="Whose model answers (default: see settings)."),
]
ModelOption = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Which model answers.")]


def ask(
    graph: GraphArgument,
    question: QuestionArgument,
    thread: ThreadOption = None,
    role: RoleOption = "admin",
    provider: ProviderOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Ask one question. Changes are only proposed: they are shown and wait for a decision."""
    if not question.strip():
        fail("the question is empty", code=EXIT_USAGE)
    settings = settings_of(db, workspace, lang, provider=provider, model=model)
    as_role = role_of(role)

    async def work(services: Services) -> tuple[Ending | None, TurnView]:
        await graph_or_fail(services.source, graph)
        person, view = services.local_person(as_role), TurnView(settings.language, quiet=as_json)
        async with open_agent(services) as agent:
            ending = await view.show(agent.run(thread, graph, question, person))
            if isinstance(ending, ToolLimit):  # nobody is asked here: it answers from what it has
                ending = await view.show(agent.resume(ending.thread_id, person, grant_rounds=False))
        return ending, view

    ending, view = run(settings, work)
    if as_json:
        render.json(_answer_document(ending, view))
    elif ending is not None:
        _close(ending, view, graph, settings)
    if isinstance(ending, Failed):
        raise typer.Exit(EXIT_FAILED)


def _answer_document(ending: Ending | None, view: TurnView) -> dict[str, Any]:
    used = [event for event in view.events if isinstance(event, UsageReported)]
    document: dict[str, Any] = {
        "threadId": ending.thread_id if ending else None,
        "type": "interrupt" if isinstance(ending, ProposalPending) else "message",
        "message": ending.text if isinstance(ending, Completed | ProposalPending) else "",
        "toolCalls": [
            {"name": e.name, "args": e.arguments, "result": e.result_text, "error": e.is_error}
            for e in view.events
            if isinstance(e, ToolFinished)
        ],
        "usage": {
            "promptTokens": sum(u.prompt for u in used),
            "completionTokens": sum(u.completion for u in used),
            "cost": None if any(u.cost_usd is None for u in used) else sum(u.cost_usd or 0 for u in used),
        },
    }
    if isinstance(ending, ProposalPending):
        document["approvals"] = [approval_document(approval) for approval in ending.approvals]
    if isinstance(ending, Failed):
        fault = ending.fault
        more = {"details": fault.details} if fault.details else {}
        document |= {"type": "error", "error": {"code": fault.code, "retryable": fault.retryable} | more}
        document["message"] = fault.message(view.language)
    return document


def _close(ending: Ending, view: TurnView, graph: str, settings: Settings) -> None:
    if isinstance(ending, ProposalPending):
        for approval in ending.approvals:
            show_proposal(approval, settings.language)
        render.note(
            "Nothing has changed yet. To decide: nodius review approve|reject ID, or in conversation:"
            f" nodius chat {graph} --thread {ending.thread_id}"
        )
    if view.usage():
        render.note(view.usage())


def chat(
    graph: GraphArgument,
    thread: ThreadOption = None,
    role: RoleOption = "admin",
    provider: ProviderOption = None,
    model: ModelOption = None,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Talk about a graph, and decide what is proposed. Ctrl-C stops a turn, Ctrl-D ends."""
    settings = settings_of(db, workspace, lang, provider=provider, model=model)
    as_role = role_of(role)

    async def work(services: Services) -> None:
        await graph_or_fail(services.source, graph)
        async with open_agent(services) as agent:
            view = TurnView(settings.language)
            await Chat(agent, services.local_person(as_role), graph, view, thread).run()

    run(settings, work)
