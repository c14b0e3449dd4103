"""The commands `sessions …`: runs of automations, where they stand and what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, TypeVar

import typer

from cli import render
from cli.common import EXIT_USAGE, Common, LimitOption, command, fail, local_time
from graphrag.agent.thread_store import Thread
from graphrag.app.automation_services import automation_service
from graphrag.automations.automation_view import run_summary
from graphrag.automations.session_control import SessionControl, decided_documents
from graphrag.llm.base import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from graphrag.roles import Person
from graphrag.sessions.machine import Phase

T = TypeVar("T")
sessions = typer.Typer(help="See and steer runs of automations.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A run's id (see `nodius sessions list`).")]


@command(sessions, "list")
def list_sessions(
    common: Common,
    graph: Annotated[str | None, typer.Option("--graph", metavar="GRAPH", help="Of one graph only.")] = None,
    phase: Annotated[str | None, typer.Option("--phase", metavar="PHASE", help="In one phase only.")] = None,
    is_open: Annotated[bool, typer.Option("--open", help="Only what has not ended.")] = False,
    limit: LimitOption = 100,
) -> None:
    """List runs of automations, newest first."""
    known = [each.value for each in Phase]
    if phase is not None and phase not in known:
        fail(f"no phase {phase!r}; there are {', '.join(known)}", code=EXIT_USAGE)
    wanted: dict[str, Any] = {
        "graph_key": graph,
        "phase": Phase(phase) if phase else None,
        "is_open": is_open or None,
    }
    run_rows(common, _asked(common, lambda control, person: control.list(person, limit=limit, **wanted)))


def _asked(common: Common, ask: Callable[[SessionControl, Person], Coroutine[Any, Any, T]]) -> T:
    """Return what is asked of the runs, as the person of the command line."""
    return common.run(lambda services: ask(automation_service(services).sessions, services.local_person()))


def run_rows(common: Common, found: Sequence[Thread]) -> None:
    """Print runs as a table, or JSON; ends with 3 where there is none."""
    common.show_list(
        [run_summary(thread) for thread in found],
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
def show(common: Common, session_id: IdArgument) -> None:
    """Show a run: where it stands, its report and messages."""
    thread = _asked(common, lambda control, person: control.get(session_id, person))
    if common.as_json:
        render.json({**run_summary(thread), "conversationHistory": thread.conversation_history})
        return
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
                render.line(f"[{message.kind or 'note'}] {message.summary or message.content}", "dim")
            case _:
                pass


def show_run(thread: Thread) -> None:
    """Print where a run stands: its phase, how it ended, what it found, what waits."""
    session = thread.session
    assert session is not None, "runs have a session"
    ended = f", {session.end_reason.value}" if session.end_reason else ""
    render.line(f"{thread.key}  {thread.graph_key}  {session.phase.value}{ended}  {thread.title}", "bold")
    if session.report is not None:
        render.said(f"  {session.report.outcome}: ", session.report.text)
    if session.waiting is not None:
        render.line(f"  waits for {session.waiting.get('type')}")
    if session.proposed:
        many = "1 proposal" if session.proposed == 1 else f"{session.proposed} proposals"
        render.line(f"  {many}: `nodius review list`, or `nodius sessions answer {thread.key} --approve`")


@command(sessions, "stop")
def stop(common: Common, session_id: IdArgument) -> None:
    """Stop a run. What it proposed stays to be decided."""
    _show(common, _asked(common, lambda control, person: control.stop(session_id, person)))


@command(sessions, "resume")
def resume(common: Common, session_id: IdArgument) -> None:
    """Let a run that waits for the network, or ended for lack of it, go on."""
    _show(common, _asked(common, lambda control, person: control.resume(session_id, person)))


def _show(common: Common, thread: Thread) -> None:
    if common.as_json:
        render.json(run_summary(thread))
    else:
        show_run(thread)


@command(sessions, "answer")
def answer(
    common: Common,
    session_id: IdArgument,
    approve: Annotated[
        bool | None, typer.Option("--approve/--reject", help="Decide all its open proposals, in order.")
    ] = None,
    feedback: Annotated[
        str, typer.Option("--feedback", "-f", metavar="TEXT", help="Why; kept with each decision.")
    ] = "",
) -> None:
    """Decide everything that a run proposed and that is still open."""
    if approve is None:
        fail("say --approve or --reject", code=EXIT_USAGE)
    said: dict[str, Any] = {"approved": approve, "feedback": feedback}
    thread, decided = _asked(common, lambda control, person: control.answer(session_id, person, **said))
    if common.as_json:
        render.json({**run_summary(thread), "decided": decided_documents(decided)})
        return
    for approval in decided:
        render.line(f"{approval.id}  {approval.status}")
