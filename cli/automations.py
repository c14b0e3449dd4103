"""The commands `automations …`: prepared tasks that run at set times, and what became of their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer

from cli import render
from cli.automation_display import last_of, row_of, show_changed, today_of
from cli.common import (
    EXIT_FAILED,
    EXIT_NOTHING,
    EXIT_USAGE,
    Common,
    GraphArgument,
    LimitOption,
    OptionGroup,
    command,
    fail,
)
from cli.sessions import run_rows, show_run
from graphrag.agent.thread_store import Thread
from graphrag.app.automation_services import automation_service
from graphrag.app.models import Model, open_model
from graphrag.app.wiring import Services, worker_of, workspaces_with_automations
from graphrag.automations.automation_view import AutomationView, run_summary
from graphrag.automations.drafts import changes_of, draft_of
from graphrag.automations.scheduler import Scheduler
from graphrag.automations.service import AutomationService
from graphrag.automations.templates import templates
from graphrag.automations.worker import Worker
from graphrag.leases import now_ms
from graphrag.roles import Person
from graphrag.sessions.machine import EventName
from graphrag.sessions.schedule_words import day_and_time, next_times

T = TypeVar("T")
automations = typer.Typer(help="Prepare tasks that run at set times, and run them.", no_args_is_help=True)

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="An automation's id (see `nodius automations list`).")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationOptions(OptionGroup):
    """What an automation does, when, and with which limits, as options give it."""

    message: Annotated[
        str | None, typer.Option("--message", "-m", metavar="TEXT", help="What it is to do.")
    ] = None
    cron: Annotated[
        str | None, typer.Option("--cron", metavar="CRON", help="When: five fields, as in '0 2 * * 1-5'.")
    ] = None
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="TIME", help="A date to run at instead (ISO 8601); may be repeated."),
    ] = None
    timezone: Annotated[
        str | None,
        typer.Option("--timezone", metavar="ZONE", help="Time zone of the schedule, as Europe/Paris."),
    ] = None
    mode: Annotated[
        str | None, typer.Option("--mode", metavar="MODE", help="report, or propose (may propose changes).")
    ] = None
    use: Annotated[
        list[str] | None,
        typer.Option("--use", metavar="NODE", help="A node that it is about; may be repeated."),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="PERIOD", help="With the history of these nodes since then, as -1_DAY."
        ),
    ] = None
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", metavar="USD", help="Cost of one run at most.")
    ] = None

    def fields(self, name: str | None) -> dict[str, Any]:
        """Return the fields of an automation that options give."""
        period = {} if self.since is None else {"period": {"from": self.since, "to": "NOW"}}
        blocks = [
            {"id": f"b{i}", "type": "USE", "target": {"kind": "node", "key": key}, **period}
            for i, key in enumerate(self.use or (), 1)
        ]
        given = {
            "name": name,
            "message": self.message,
            "cron": self.cron,
            "dates": [_instant(each) for each in self.at] if self.at else None,
            "timezone": self.timezone,
            "mode": self.mode,
            "blocks": blocks or None,
            "budget": None if self.max_cost is None else {"costUsd": self.max_cost},
        }
        return {field: value for field, value in given.items() if value is not None}


@command(automations, "add")
def add(
    common: Common,
    graph: GraphArgument,
    draft: AutomationOptions,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="What it is called.")] = None,
    template: Annotated[
        str | None, typer.Option("--template", metavar="NAME", help="A prepared one, as nightly-check.")
    ] = None,
    from_thread: Annotated[
        str | None,
        typer.Option("--from-thread", metavar="ID", help="With what you said in this conversation."),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option("--event", metavar="NAME", help="Run when this event comes (see `nodius event`)."),
    ] = None,
) -> None:
    """Add an automation of a graph. Without --cron, --at and --event it runs when somebody starts it."""
    language = common.settings().language
    prepared = templates(language)
    if template is not None and template not in prepared:
        fail(f"no template {template!r}; there are {', '.join(prepared)}", code=EXIT_USAGE)
    fields: dict[str, Any] = {"mode": "propose"} if template is None else prepared[template].fields(graph)
    fields |= {"graphKey": graph, **draft.fields(name), **({} if event is None else {"event": event})}
    if from_thread is not None:
        fields["fromThreadId"] = from_thread
    if "name" not in fields:
        fail("say what the automation is called", code=EXIT_USAGE)
    made = _asked(common, lambda service, person: service.add(draft_of(fields), person, language))
    show_changed(common, made, language)


def _asked(common: Common, ask: Callable[[AutomationService, Person], Coroutine[Any, Any, T]]) -> T:
    """Return what is asked of the automations, as the person of the command line."""
    return common.run(lambda services: ask(automation_service(services), services.local_person()))


def _instant(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        fail(f"--at {text!r}: write a time as 2026-11-23T02:00+01:00", code=EXIT_USAGE)
    return round((at if at.tzinfo else at.astimezone()).astimezone(UTC).timestamp() * 1000)


@command(automations, "list")
def list_automations(
    common: Common,
    graph: Annotated[str | None, typer.Option("--graph", metavar="GRAPH", help="Of one graph only.")] = None,
    limit: LimitOption = 100,
) -> None:
    """List automations: when each runs next, how it ended last, what waits, and what today's runs used."""
    language = common.settings().language
    wanted: dict[str, Any] = {"graph_key": graph, "limit": limit, "language": language}
    found = _asked(common, lambda service, person: service.list(person, **wanted))
    common.show_list(
        [view.to_document(now_ms()) for view in found],
        ["id", "graph", "name", "next", "last", "waits", "today"],
        [row_of(view, language) for view in found],
        none="There is no automation yet: `nodius automations add GRAPH NAME --message TEXT`.",
        numbers=[5],
        folded=2,
    )


@command(automations, "show")
def show(common: Common, automation_id: IdArgument) -> None:
    """Show an automation: its message, schedule, limits and what it skipped."""
    language = common.settings().language

    async def read(service: AutomationService, person: Person) -> tuple[AutomationView, list[str]]:
        view = await service.get(automation_id, person, language)
        return view, [message.content for message in await service.messages(automation_id, person)]

    view, said = _asked(common, read)
    document = view.to_document(now_ms())
    if common.as_json:
        render.json({**document, "messages": said})
        return
    show_changed(common, view, language)
    facts = {
        "graph": view.automation.graph_key,
        "owner": view.automation.user_id,
        "mode": view.automation.mode,
        "last": last_of(view.last),
        "waits": str(view.waiting),
        "today": today_of(view),
        "limits": ", ".join(f"{name} {value}" for name, value in document["budget"].items()),
        "skipped": ", ".join(f"{s.count}× {s.reason}" for s in view.automation.skipped[:5]),
    }
    for name, value in facts.items():
        if value:
            render.said(f"  {name + ':':<9} ", value)
    for each in said:
        render.said("  > ", each)


@command(automations, "edit")
def edit(
    common: Common,
    automation_id: IdArgument,
    draft: AutomationOptions,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="What it is called.")] = None,
) -> None:
    """Change an automation. Its next run is counted from now."""
    language = common.settings().language
    fields = draft.fields(name)
    if not fields:
        fail("say what to change, as --cron or --message", code=EXIT_USAGE)

    async def change(service: AutomationService, person: Person) -> AutomationView:
        seen = await service.get(automation_id, person, language)
        changes = changes_of({**fields, "version": seen.automation.version})
        return await service.edit(automation_id, changes, person, language)

    show_changed(common, _asked(common, change), language)


@command(automations, "remove")
def remove(common: Common, automation_id: IdArgument) -> None:
    """Remove an automation. Open runs are stopped; its runs and proposals stay."""
    _asked(common, lambda service, person: service.remove(automation_id, person))
    common.say({"success": True}, f"removed {automation_id}")


@command(automations, "enable")
def enable(common: Common, automation_id: IdArgument) -> None:
    """Let an automation run at its times, counted from now."""
    language = common.settings().language
    enabled = _asked(common, lambda service, person: service.enable(automation_id, person, language))
    show_changed(common, enabled, language)


@command(automations, "pause")
def pause(common: Common, automation_id: IdArgument) -> None:
    """Let an automation begin no run until it is enabled."""
    language = common.settings().language
    paused = _asked(common, lambda service, person: service.pause(automation_id, person, language))
    show_changed(common, paused, language)


@command(automations, "run")
def run(
    common: Common,
    automation_id: IdArgument,
    wait: Annotated[
        bool, typer.Option("--wait", help="Work on the run here, until it ends or waits.")
    ] = False,
    supersede: Annotated[bool, typer.Option("--supersede", help="Replace a run that is still open.")] = False,
) -> None:
    """Start a run now: a server works on it, or with --wait this command does."""

    async def work(services: Services) -> Thread:
        service, person = automation_service(services), services.local_person()
        thread = await service.run(automation_id, person, supersede=supersede)
        if wait:
            async with open_model(services.settings, embedder=services.embedder) as model:
                runner = worker_of(services, model).runner
                await runner.run(thread.key, EventName.SESSION_ACTIVATION_REQUESTED)
            thread = await service.sessions.get(thread.key, person)
        return thread

    thread = common.run(work)
    if common.as_json:
        render.json(run_summary(thread))
    elif wait:
        show_run(thread)
    else:
        render.line(f"{thread.key} is queued; a server starts it, or `nodius automations run-due`")
    if wait and thread.session is not None and str(thread.session.end_reason or "") not in ("", "COMPLETED"):
        raise typer.Exit(EXIT_FAILED)


@command(automations, "runs")
def runs(common: Common, automation_id: IdArgument, limit: LimitOption = 20) -> None:
    """List an automation's runs, newest first."""
    run_rows(common, _asked(common, lambda service, person: service.runs(automation_id, person, limit=limit)))


@command(automations, "next")
def coming(
    common: Common,
    automation_id: IdArgument,
    count: Annotated[int, typer.Option("-n", metavar="N", min=1, max=100, help="So many times.")] = 5,
) -> None:
    """Print when an automation runs next."""
    language = common.settings().language
    view = _asked(common, lambda service, person: service.get(automation_id, person, language))
    when = view.automation.schedule
    times = next_times(when, now_ms(), count) if view.automation.enabled else []
    if common.as_json:
        render.json(times)
    for at in () if common.as_json else times:
        render.line(f"{day_and_time(at, when.zone, language)}  {when.zone.key}")
    if not times:
        render.note("It runs when somebody starts it." if view.automation.enabled else "It is paused.")
        raise typer.Exit(EXIT_NOTHING)


@command(automations, "run-due")
def run_due(
    common: Common,
    all_workspaces: Annotated[
        bool, typer.Option("--all-workspaces", help="Of every workspace of the database.")
    ] = False,
) -> None:
    """Start what is due and wait for it: for a timer of the system, where no server runs."""

    async def work(services: Services) -> int:
        async with open_model(services.settings, embedder=services.embedder) as model:
            return await _ticked(services, model, all_workspaces=all_workspaces)

    started = common.run(work)
    common.say({"started": started}, "1 run was started" if started == 1 else f"{started} runs were started")


async def _ticked(services: Services, model: Model, *, all_workspaces: bool) -> int:
    workers: dict[str, Worker] = {}

    async def workspaces() -> Sequence[str]:
        if all_workspaces:
            return await workspaces_with_automations(services.database)
        return [services.settings.workspace]

    async def worker(name: str) -> Worker:
        if name not in workers:
            own = services if name == services.settings.workspace else services.of(name)
            workers[name] = worker_of(own, model)
        return workers[name]

    at_once = max(1, services.settings.automations_at_once)
    scheduler = Scheduler(workspaces, worker, at_once=at_once)
    try:
        return await scheduler.run_due()
    finally:
        await asyncio.shield(scheduler.close())
