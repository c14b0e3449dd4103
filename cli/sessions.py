"""The commands `sessions …`: list runs of automations, show, stop, resume, answer and confirm
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

from cli import render
from cli.command import command
from cli.common import local_time, usage_error
from cli.messages import show_messages
from cli.options import LimitOption, OfGraphOption, argument, flag, option
from cli.output import Output, listing
from graphrag.agent.thread_store import Thread, session_of
from graphrag.app.automation_services import automation_service
from graphrag.app.wiring import Services
from graphrag.automations.automation_view import run_summary
from graphrag.automations.session_control import decided_documents
from graphrag.roles import Person
from graphrag.sessions.agent_session import AgentSession
from graphrag.sessions.phases import Phase

sessions = typer.Typer(help="See and control runs of automations.", no_args_is_help=True)

IdArgument = Annotated[str, argument("ID", "A run's id (see `nodius sessions list`).")]


@command(sessions, "list")
async def list_sessions(
    services: Services,
    person: Person,
    graph: OfGraphOption = None,
    phase: Annotated[Phase | None, option("--phase", "PHASE", "Only in this phase.")] = None,
    is_open: Annotated[bool, flag("--open", "Only runs that have not ended.")] = False,
    limit: LimitOption = 100,
) -> Output:
    """List runs of automations, newest first."""
    control = automation_service(services).sessions
    wanted: dict[str, Any] = {"graph_key": graph, "phase": phase, "is_open": is_open or None}
    return runs_output(await control.list(person, limit=limit, **wanted))


@command(sessions, "retry")
async def retry_session(services: Services, person: Person, session: IdArgument) -> Output:
    """Run an automation again for the time of a run that has ended; a server starts it."""
    return run_output(await automation_service(services).retry(session, person))


def runs_output(threads: Sequence[Thread]) -> Output:
    """Returns the list of runs."""
    return listing(
        [run_summary(thread).to_document() for thread in threads],
        ["id", "name", "when", "phase", "ended", "outcome", "calls", "tokens"],
        [_row(thread) for thread in threads],
        empty="There is no run.",
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


def run_output(thread: Thread) -> Output:
    """Returns the state of a run: its phase, end, report and open proposals."""
    return Output(document=run_summary(thread).to_document(), text=partial(_show_run, thread))


def show_trial(thread: Thread, proposals: Sequence[str]) -> None:
    """Prints how a tried run ended and what it would propose."""
    session = session_of(thread)
    _show_end(thread, session)
    for proposal in proposals:
        render.line(f"  would propose: {proposal}")
    if not proposals:
        render.line("  would propose nothing")


def _show_end(thread: Thread, session: AgentSession) -> None:
    ended = f", {session.end_reason.value}" if session.end_reason else ""
    render.line(
        f"{thread.key}  {thread.graph_key}  {session.phase.value}{ended}  {thread.title}", "bold"
    )
    if session.report is not None:
        render.quote(f"  {session.report.outcome}: ", session.report.text)


def _show_run(thread: Thread) -> None:
    session = session_of(thread)
    _show_end(thread, session)
    if session.waiting is not None:
        render.line(f"  waits for {session.waiting.get('type')}")
    if session.proposed:
        many = "1 proposal" if session.proposed == 1 else f"{session.proposed} proposals"
        render.line(
            f"  {many}: `nodius review list`, or `nodius sessions answer {thread.key} --approve`"
        )


@command(sessions, "show")
async def show(
    services: Services,
    person: Person,
    session_id: IdArgument,
    full: Annotated[bool, flag("--full", "Do not cut the results of tools.")] = False,
) -> Output:
    """Show a run: its state, report and messages."""
    thread = await automation_service(services).sessions.get(session_id, person)

    def shown() -> None:
        _show_run(thread)
        show_messages(thread.messages, full=full)

    history = {"conversationHistory": thread.conversation_history}
    return Output(document={**run_summary(thread).to_document(), **history}, text=shown)


@command(sessions, "stop")
async def stop(services: Services, person: Person, session_id: IdArgument) -> Output:
    """Stop a run. Its proposals can still be decided."""
    return run_output(await automation_service(services).sessions.stop(session_id, person))


@command(sessions, "resume")
async def resume(services: Services, person: Person, session_id: IdArgument) -> Output:
    """Resume a run that waits for the network, or ended because of it."""
    return run_output(await automation_service(services).sessions.resume(session_id, person))


@command(sessions, "answer")
async def answer(
    services: Services,
    person: Person,
    session_id: IdArgument,
    approve: Annotated[
        bool | None, flag("--approve/--reject", "Decide all open proposals, in order.")
    ] = None,
    feedback: Annotated[
        str, option("--feedback -f", "TEXT", "The reason; kept with each decision.")
    ] = "",
) -> Output:
    """Decide all open proposals of a run."""
    if approve is None:
        usage_error("give --approve or --reject")
    control = automation_service(services).sessions
    thread, decided = await control.answer(session_id, person, approved=approve, feedback=feedback)

    def show() -> None:
        for approval in decided:
            render.line(f"{approval.id}  {approval.status}")

    decisions = {"decided": decided_documents(decided)}
    return Output(document={**run_summary(thread).to_document(), **decisions}, text=show)


@command(sessions, "confirm")
async def confirm(
    services: Services,
    person: Person,
    session_id: IdArgument,
    end: Annotated[
        bool | None, flag("--end/--go-on", "End the run, or let it make more calls of the model.")
    ] = None,
) -> Output:
    """End a run that has reached a limit, or let it go on."""
    if end is None:
        usage_error("give --end or --go-on")
    control = automation_service(services).sessions
    return run_output(await control.confirm(session_id, person, end=end))
