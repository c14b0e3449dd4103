"""The commands `sessions …`: runs of automations, where they stand and what they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

from cli import render
from cli.common import local_time, usage_error
from cli.options import Common, LimitOption, OfGraphOption, argument, command, flag, option
from graphrag.agent.thread_store import Thread
from graphrag.app.automation_services import automation_service
from graphrag.app.wiring import Services
from graphrag.automations.automation_view import run_summary
from graphrag.automations.session_control import decided_documents
from graphrag.llm.base import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from graphrag.sessions.phases import Phase

sessions = typer.Typer(help="See and steer runs of automations.", no_args_is_help=True)

IdArgument = Annotated[str, argument("ID", "A run's id (see `nodius sessions list`).")]


@command(sessions, "list")
async def list_sessions(
    common: Common,
    services: Services,
    graph: OfGraphOption = None,
    phase: Annotated[Phase | None, option("--phase", "PHASE", "In one phase only.")] = None,
    is_open: Annotated[bool, flag("--open", "Only what has not ended.")] = False,
    limit: LimitOption = 100,
) -> None:
    """List runs of automations, newest first."""
    control = automation_service(services).sessions
    person = services.local_person()
    wanted: dict[str, Any] = {"graph_key": graph, "phase": phase, "is_open": is_open or None}
    run_rows(common, await control.list(person, limit=limit, **wanted))


def run_rows(common: Common, found: Sequence[Thread]) -> None:
    """Print runs as a table, or JSON; ends with 3 where there is none."""
    common.show_list(
        [run_summary(thread).to_document() for thread in found],
        ["id", "name", "when", "phase", "ended", "outcome", "calls", "tokens"],
        [_row(thread) for thread in found],
        none="There is no run.",
        numbers=[6, 7],
        folded=1,
    )


def _row(thread: Thread) -> list[Any]:
    session = thread.session
    assert session is not None, "runs have a session"
    return [
        thread.key,
        thread.title,
        local_time(session.scheduled_time),
        session.phase.value,
        session.end_reason.value if session.end_reason else "-",
        session.report.outcome if session.report else "-",
        session.roundtrips,
        session.usage.tokens,
    ]


@command(sessions, "show")
async def show(common: Common, services: Services, session_id: IdArgument) -> None:
    """Show a run: where it stands, its report and messages."""
    thread = await automation_service(services).sessions.get(session_id, services.local_person())
    document = {
        **run_summary(thread).to_document(),
        "conversationHistory": thread.conversation_history,
    }
    common.say(document, partial(_show_messages, thread))


def _show_messages(thread: Thread) -> None:
    show_run(thread)
    for message in thread.messages:
        match message:
            case UserMessage():
                render.said("> ", message.content, "bold")
            case AssistantMessage() if message.content.strip():
                render.said("  ", message.content)
            case ToolMessage():
                first = message.content.splitlines()[0][:200] if message.content else ""
                render.line(f"[{message.name}] {first}", "dim")
            case SystemMessage() if message.summary or message.kind:
                render.line(
                    f"[{message.kind or 'note'}] {message.summary or message.content}", "dim"
                )
            case _:
                pass


def show_run(thread: Thread) -> None:
    """Print where a run stands: its phase, how it ended, what it found, what waits."""
    session = thread.session
    assert session is not None, "runs have a session"
    ended = f", {session.end_reason.value}" if session.end_reason else ""
    render.line(
        f"{thread.key}  {thread.graph_key}  {session.phase.value}{ended}  {thread.title}", "bold"
    )
    if session.report is not None:
        render.said(f"  {session.report.outcome}: ", session.report.text)
    if session.waiting is not None:
        render.line(f"  waits for {session.waiting.get('type')}")
    if session.proposed:
        many = "1 proposal" if session.proposed == 1 else f"{session.proposed} proposals"
        render.line(
            f"  {many}: `nodius review list`, or `nodius sessions answer {thread.key} --approve`"
        )


@command(sessions, "stop")
async def stop(common: Common, services: Services, session_id: IdArgument) -> None:
    """Stop a run. What it proposed stays to be decided."""
    thread = await automation_service(services).sessions.stop(session_id, services.local_person())
    common.say(run_summary(thread).to_document(), partial(show_run, thread))


@command(sessions, "resume")
async def resume(common: Common, services: Services, session_id: IdArgument) -> None:
    """Let a run that waits for the network, or ended for lack of it, go on."""
    thread = await automation_service(services).sessions.resume(session_id, services.local_person())
    common.say(run_summary(thread).to_document(), partial(show_run, thread))


@command(sessions, "answer")
async def answer(
    common: Common,
    services: Services,
    session_id: IdArgument,
    approve: Annotated[
        bool | None, flag("--approve/--reject", "Decide all its open proposals, in order.")
    ] = None,
    feedback: Annotated[str, option("--feedback -f", "TEXT", "Why; kept with each decision.")] = "",
) -> None:
    """Decide everything that a run proposed and that is still open."""
    if approve is None:
        usage_error("say --approve or --reject")
    control = automation_service(services).sessions
    person = services.local_person()
    thread, decided = await control.answer(session_id, person, approved=approve, feedback=feedback)
    if common.as_json:
        render.json({**run_summary(thread).to_document(), "decided": decided_documents(decided)})
    for approval in () if common.as_json else decided:
        render.line(f"{approval.id}  {approval.status}")
