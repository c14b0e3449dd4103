"""The commands `automations …`: prepared tasks that run at set times, and what became
of their runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer

from cli import render
from cli.common import EXIT_FAILED, EXIT_NOTHING, local_time, usage_error
from cli.options import (
    Common,
    GraphArgument,
    LimitOption,
    OfGraphOption,
    OptionGroup,
    argument,
    command,
    flag,
    option,
)
from cli.sessions import run_rows, show_run
from graphrag.app.automation_services import automation_service
from graphrag.app.models import Model, open_model
from graphrag.app.wiring import Services, worker_of
from graphrag.automations.automation import KIND
from graphrag.automations.automation_view import AutomationAnswer, RunSummary, run_summary
from graphrag.automations.drafts import AutomationChanges, AutomationDraft
from graphrag.automations.scheduler import Scheduler
from graphrag.automations.templates import templates
from graphrag.automations.worker import Worker
from graphrag.i18n import Language
from graphrag.leases import now_ms
from graphrag.sessions.phases import EventName
from graphrag.sessions.schedule_words import day_and_time, next_times
from graphrag.sessions.schedules import schedule, zone_of

automations = typer.Typer(
    help="Prepare tasks that run at set times, and run them.", no_args_is_help=True
)

IdArgument = Annotated[str, argument("ID", "An automation's id (see `nodius automations list`).")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationOptions(OptionGroup):
    """What an automation does, when, and with which limits, as options give it."""

    message: Annotated[str | None, option("--message -m", "TEXT", "What it is to do.")] = None
    cron: Annotated[
        str | None, option("--cron", "CRON", "When: five fields, as in '0 2 * * 1-5'.")
    ] = None
    at: Annotated[
        list[str] | None,
        option("--at", "TIME", "A date to run at instead (ISO 8601); may be repeated."),
    ] = None
    timezone: Annotated[
        str | None, option("--timezone", "ZONE", "Time zone of the schedule, as Europe/Paris.")
    ] = None
    mode: Annotated[
        str | None, option("--mode", "MODE", "report, or propose (may propose changes).")
    ] = None
    use: Annotated[
        list[str] | None, option("--use", "NODE", "A node that it is about; may be repeated.")
    ] = None
    since: Annotated[
        str | None,
        option("--since", "PERIOD", "With the history of these nodes since then, as -1_DAY."),
    ] = None
    max_cost: Annotated[float | None, option("--max-cost", "USD", "Cost of one run at most.")] = (
        None
    )

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
async def add(
    common: Common,
    services: Services,
    graph: GraphArgument,
    draft: AutomationOptions,
    name: Annotated[str | None, argument("[NAME]", "What it is called.")] = None,
    template: Annotated[
        str | None, option("--template", "NAME", "A prepared one, as nightly-check.")
    ] = None,
    from_thread: Annotated[
        str | None, option("--from-thread", "ID", "With what you said in this conversation.")
    ] = None,
    event: Annotated[
        str | None, option("--event", "NAME", "Run when this event comes (see `nodius event`).")
    ] = None,
) -> None:
    """Add an automation of a graph. Without --cron, --at and --event it runs when
    somebody starts it.
    """
    language = services.settings.language
    prepared = templates(language)
    if template is not None and template not in prepared:
        usage_error(f"no template {template!r}; there are {', '.join(prepared)}")
    fields: dict[str, Any] = (
        {"mode": "propose"} if template is None else prepared[template].fields(graph)
    )
    fields |= {
        "graphKey": graph,
        **draft.fields(name),
        **({} if event is None else {"event": event}),
    }
    if from_thread is not None:
        fields["fromThreadId"] = from_thread
    if "name" not in fields:
        usage_error("say what the automation is called")
    made = await automation_service(services).add(
        AutomationDraft.read(fields), services.local_person(), language
    )
    _show_changed(common, made, language)


def _instant(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        usage_error(f"--at {text!r}: write a time as 2026-11-23T02:00+01:00")
    return round((at if at.tzinfo else at.astimezone()).astimezone(UTC).timestamp() * 1000)


def _show_changed(common: Common, a: AutomationAnswer, language: Language) -> None:
    when = f"{a.schedule}, {a.timezone}" if a.cron else a.schedule
    coming = f" Next: {_both_zones(a, language)}." if a.next_times else ""
    paused = "" if a.enabled else f" Paused ({a.paused_reason})."
    common.say(a.to_document(), f"{a.name} ({a.id}): {when}.{coming}{paused}")


def _both_zones(a: AutomationAnswer, language: Language) -> str:
    zone = zone_of(a.timezone)
    at = a.next_times[0]
    shown = day_and_time(at, zone, language)
    utc = datetime.fromtimestamp(at / 1000, UTC)
    return shown if zone.key == "UTC" else f"{shown} ({utc:%H:%M} UTC)"


@command(automations, "list")
async def list_automations(
    common: Common, services: Services, graph: OfGraphOption = None, limit: LimitOption = 100
) -> None:
    """List automations: when each runs next, how it ended last, what waits, and what
    today's runs used.
    """
    language = services.settings.language
    person = services.local_person()
    service = automation_service(services)
    found = await service.list(person, graph_key=graph, limit=limit, language=language)
    common.show_list(
        [one.to_document() for one in found],
        ["id", "graph", "name", "next", "last", "waits", "today"],
        [_row(one, language) for one in found],
        none="There is no automation yet: `nodius automations add GRAPH NAME --message TEXT`.",
        numbers=[5],
        folded=2,
    )


def _row(a: AutomationAnswer, language: Language) -> list[Any]:
    if not a.enabled:
        coming = f"paused ({a.paused_reason})"
    elif a.next_times:
        coming = day_and_time(a.next_times[0], zone_of(a.timezone), language)
    else:
        coming = "-"
    return [a.id, a.graph_key, a.name, coming, _last(a.last), a.waiting, _today(a.spent_today)]


def _last(run: RunSummary | None) -> str:
    if run is None:
        return "-"
    ended = (run.end_reason or run.phase).lower()
    said = run.report["outcome"] if run.report and ended == "completed" else ended
    return f"{said}, {local_time(run.ended_time or run.last_event_time or run.scheduled_time)}"


def _today(spent: Mapping[str, Any]) -> str:
    runs = "1 run" if spent["runs"] == 1 else f"{spent['runs']} runs"
    cost = "cost unknown" if spent["costUsd"] is None else f"${spent['costUsd']:.2f}"
    return f"{runs}, {spent['tokens']:,} tokens, {cost}"


@command(automations, "show")
async def show(common: Common, services: Services, automation_id: IdArgument) -> None:
    """Show an automation: its message, schedule, limits and what it skipped."""
    language = services.settings.language
    person = services.local_person()
    service = automation_service(services)
    a = await service.get(automation_id, person, language)
    said = [message.content for message in await service.messages(automation_id, person)]
    document = a.to_document()
    if common.as_json:
        render.json({**document, "messages": said})
        return
    _show_changed(common, a, language)
    facts = {
        "graph": a.graph_key,
        "owner": a.user_id,
        "mode": a.mode,
        "last": _last(a.last),
        "waits": str(a.waiting),
        "today": _today(a.spent_today),
        "limits": ", ".join(f"{name} {value}" for name, value in document["budget"].items()),
        "skipped": ", ".join(f"{s.count}× {s.reason}" for s in a.skipped[:5]),
    }
    for name, value in facts.items():
        if value:
            render.said(f"  {name + ':':<9} ", value)
    for each in said:
        render.said("  > ", each)


@command(automations, "edit")
async def edit(
    common: Common,
    services: Services,
    automation_id: IdArgument,
    draft: AutomationOptions,
    name: Annotated[str | None, option("--name", "NAME", "What it is called.")] = None,
) -> None:
    """Change an automation. Its next run is counted from now."""
    fields = draft.fields(name)
    if not fields:
        usage_error("say what to change, as --cron or --message")
    service = automation_service(services)
    person = services.local_person()
    seen = await service.get(automation_id, person)
    changes = AutomationChanges.read({**fields, "version": seen.version})
    language = services.settings.language
    _show_changed(common, await service.edit(automation_id, changes, person, language), language)


@command(automations, "remove")
async def remove(common: Common, services: Services, automation_id: IdArgument) -> None:
    """Remove an automation. Open runs are stopped; its runs and proposals stay."""
    await automation_service(services).remove(automation_id, services.local_person())
    common.say({"success": True}, f"removed {automation_id}")


@command(automations, "enable")
async def enable(common: Common, services: Services, automation_id: IdArgument) -> None:
    """Let an automation run at its times, counted from now."""
    person = services.local_person()
    language = services.settings.language
    enabled = await automation_service(services).enable(automation_id, person, language)
    _show_changed(common, enabled, language)


@command(automations, "pause")
async def pause(common: Common, services: Services, automation_id: IdArgument) -> None:
    """Let an automation begin no run until it is enabled."""
    person = services.local_person()
    language = services.settings.language
    paused = await automation_service(services).pause(automation_id, person, language)
    _show_changed(common, paused, language)


@command(automations, "run")
async def run(
    common: Common,
    services: Services,
    automation_id: IdArgument,
    wait: Annotated[bool, flag("--wait", "Work on the run here, until it ends or waits.")] = False,
    supersede: Annotated[bool, flag("--supersede", "Replace a run that is still open.")] = False,
) -> None:
    """Start a run now: a server works on it, or with --wait this command does."""
    service = automation_service(services)
    person = services.local_person()
    thread = await service.run(automation_id, person, supersede=supersede)
    if not wait:
        queued = f"{thread.key} is queued; a server starts it, or `nodius automations run-due`"
        common.say(run_summary(thread).to_document(), queued)
        return
    async with open_model(services.settings, embedder=services.embedder) as model:
        await worker_of(services, model).runner.run(
            thread.key, EventName.SESSION_ACTIVATION_REQUESTED
        )
    thread = await service.sessions.get(thread.key, person)
    common.say(run_summary(thread).to_document(), partial(show_run, thread))
    if thread.session is not None and str(thread.session.end_reason or "") not in ("", "COMPLETED"):
        raise typer.Exit(EXIT_FAILED)


@command(automations, "runs")
async def runs(
    common: Common, services: Services, automation_id: IdArgument, limit: LimitOption = 20
) -> None:
    """List an automation's runs, newest first."""
    person = services.local_person()
    run_rows(common, await automation_service(services).runs(automation_id, person, limit=limit))


@command(automations, "next")
async def coming(
    common: Common,
    services: Services,
    automation_id: IdArgument,
    count: Annotated[int, option("-n", "N", "So many times.", min=1, max=100)] = 5,
) -> None:
    """Print when an automation runs next."""
    language = services.settings.language
    a = await automation_service(services).get(automation_id, services.local_person(), language)
    when = schedule(cron=a.cron, dates=a.dates, timezone=a.timezone)
    times = next_times(when, now_ms(), count) if a.enabled else []
    if common.as_json:
        render.json(times)
    for at in () if common.as_json else times:
        render.line(f"{day_and_time(at, when.zone, language)}  {when.zone.key}")
    if not times:
        render.note("It runs when somebody starts it." if a.enabled else "It is paused.")
        raise typer.Exit(EXIT_NOTHING)


@command(automations, "run-due")
async def run_due(
    common: Common,
    services: Services,
    all_workspaces: Annotated[
        bool, flag("--all-workspaces", "Of every workspace of the database.")
    ] = False,
) -> None:
    """Start what is due and wait for it: for a timer of the system, where no server runs."""
    async with open_model(services.settings, embedder=services.embedder) as model:
        started = await _ticked(services, model, all_workspaces=all_workspaces)
    common.say(
        {"started": started},
        "1 run was started" if started == 1 else f"{started} runs were started",
    )


async def _ticked(services: Services, model: Model, *, all_workspaces: bool) -> int:
    workers: dict[str, Worker] = {}

    async def workspaces() -> Sequence[str]:
        if all_workspaces:
            return await services.database.workspaces(KIND)
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
