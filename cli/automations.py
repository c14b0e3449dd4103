"""The commands `automations …`: prepare tasks that run at set times, run them, and list their
runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cli import render
from cli.automation_options import AutomationOptions, RunOptions
from cli.automation_rules import rules_output, show_pause
from cli.command import command
from cli.common import EXIT_FAILED, local_time, usage_error
from cli.options import (
    GraphArgument,
    LimitOption,
    OfGraphOption,
    argument,
    flag,
    option,
)
from cli.output import Output, listing, nothing
from cli.sessions import run_output, runs_output, show_trial
from graphrag.app.automation_services import automation_service
from graphrag.app.automation_trial import try_automation
from graphrag.app.model_services import worker_of
from graphrag.app.models import Model, open_model
from graphrag.app.wiring import Services
from graphrag.approvals import title
from graphrag.automations.automation import KIND
from graphrag.automations.automation_store import Automations
from graphrag.automations.automation_view import AutomationAnswer, RunSummary, run_summary
from graphrag.automations.drafts import AutomationChanges, AutomationDraft
from graphrag.automations.scheduler import Scheduler
from graphrag.automations.templates import templates
from graphrag.automations.worker import Worker
from graphrag.automations.workspace_rules import (
    WorkspaceBudget,
    pause_all,
    read_rules,
    resume_all,
    set_budget,
)
from graphrag.i18n import Language, text
from graphrag.leases import now_ms
from graphrag.roles import Person
from graphrag.sessions.phases import EventName
from graphrag.sessions.schedule_words import day_and_time, next_times
from graphrag.sessions.schedules import schedule, zone_of

automations = typer.Typer(
    help="Prepare tasks that run at set times, and run them.", no_args_is_help=True
)

IdArgument = Annotated[str, argument("ID", "An automation's id (see `nodius automations list`).")]
MAX_SKIPPED = 5  # reasons shown of one automation


@command(automations, "pause-all")
async def pause_everything(
    services: Services,
    person: Person,
    reason: Annotated[str, option("--reason", "TEXT", "Why, for those who see it.")] = "",
) -> Output:
    """Pause all automations of the workspace, with the reason."""
    return await rules_output(_store(services), await pause_all(_store(services), person, reason))


@command(automations, "resume-all")
async def resume_everything(services: Services, person: Person) -> Output:
    """End the pause of all automations."""
    return await rules_output(_store(services), await resume_all(_store(services), person))


@command(automations, "budget")
async def workspace_budget(
    services: Services,
    person: Person,
    tokens: Annotated[
        int | None, option("--tokens", "N", "Tokens of a day for all together.", min=1)
    ] = None,
    cost: Annotated[
        float | None, option("--cost", "USD", "Cost of a day for all together.", min=0.0001)
    ] = None,
    clear: Annotated[bool, flag("--clear", "Remove both limits.")] = False,
) -> Output:
    """Show or set what all automations of the workspace together may use in a day."""
    if clear or tokens is not None or cost is not None:
        limits = WorkspaceBudget(day_tokens=tokens, day_cost_usd=cost)
        return await rules_output(
            _store(services), await set_budget(_store(services), person, limits)
        )
    return await rules_output(_store(services), await read_rules(_store(services).records))


def _store(services: Services) -> Automations:
    return automation_service(services).store


@command(automations, "add")
async def add(
    services: Services,
    person: Person,
    language: Language,
    graph: GraphArgument,
    draft: AutomationOptions,
    limits: RunOptions,
    name: Annotated[str | None, argument("[NAME]", "The name of the automation.")] = None,
    template: Annotated[
        str | None, option("--template", "NAME", "A prepared task, such as nightly-check.")
    ] = None,
    from_thread: Annotated[
        str | None, option("--from-thread", "ID", "Use your messages of this conversation.")
    ] = None,
) -> Output:
    """Add an automation of a graph. Without a schedule or event it is started by hand."""
    prepared = templates(language)
    if template is not None and template not in prepared:
        usage_error(f"no template {template!r}; there are {', '.join(prepared)}")
    fields: dict[str, Any] = (
        {"mode": "propose"} if template is None else prepared[template].fields(graph)
    )
    fields |= {"graphKey": graph, **draft.fields(name), **limits.fields()}
    if from_thread is not None:
        fields["fromThreadId"] = from_thread
    if "name" not in fields:
        usage_error("give the automation a name")
    service = automation_service(services)
    added = await service.add(AutomationDraft.read(fields), person, language)
    return _changed(added, language)


def _changed(a: AutomationAnswer, language: Language) -> Output:
    return Output(document=a.to_document(), text=_summary(a, language))


def _summary(a: AutomationAnswer, language: Language) -> str:
    when = f"{a.schedule}, {a.timezone}" if a.cron else a.schedule
    coming = f" Next: {_both_zones(a, language)}." if a.next_times else ""
    paused = "" if a.enabled else f" ({_why_paused(a, language)})"
    return f"{a.name} ({a.id}): {when}.{coming}{paused}"


def _why_paused(a: AutomationAnswer, language: Language) -> str:
    return text(f"auto.paused.{a.paused_reason or 'person'}", language)


def _both_zones(a: AutomationAnswer, language: Language) -> str:
    """Returns the next time in the zone of the automation and in UTC."""
    zone = zone_of(a.timezone)
    at = a.next_times[0]
    local = day_and_time(at, zone, language)
    utc = datetime.fromtimestamp(at / 1000, UTC)
    return local if zone.key == "UTC" else f"{local} ({utc:%H:%M} UTC)"


@command(automations, "list")
async def list_automations(
    services: Services,
    person: Person,
    language: Language,
    graph: OfGraphOption = None,
    limit: LimitOption = 100,
) -> Output:
    """List automations with their next run, the end of the last one, waiting proposals, and the
    usage of today.
    """
    service = automation_service(services)
    stored = await service.list(person, graph_key=graph, limit=limit, language=language)
    rules = await read_rules(service.store.records)
    output = listing(
        [a.to_document() for a in stored],
        ["id", "graph", "name", "next", "last", "waits", "today"],
        [_row(a, language) for a in stored],
        empty="There is no automation yet: `nodius automations add GRAPH NAME --message TEXT`.",
        numbers=[5],
        folded=2,
    )

    def show() -> None:
        show_pause(rules)
        replace(output, notes=()).finish(as_json=False)

    return replace(output, text=show)


def _row(a: AutomationAnswer, language: Language) -> list[Any]:
    if not a.enabled:
        coming = _why_paused(a, language)
    elif a.next_times:
        coming = day_and_time(a.next_times[0], zone_of(a.timezone), language)
    else:
        coming = "-"
    return [a.id, a.graph_key, a.name, coming, _last(a.last), a.waiting, _today(a.spent_today)]


def _last(run: RunSummary | None) -> str:
    if run is None:
        return "-"
    ended = (run.end_reason or run.phase).lower()
    outcome = run.report["outcome"] if run.report and ended == "completed" else ended
    at = run.ended_time or run.last_event_time or run.scheduled_time
    return f"{outcome}, {local_time(at)}"


def _today(spent: Mapping[str, Any]) -> str:
    runs = "1 run" if spent["runs"] == 1 else f"{spent['runs']} runs"
    cost = "cost unknown" if spent["costUsd"] is None else f"${spent['costUsd']:.2f}"
    return f"{runs}, {spent['tokens']:,} tokens, {cost}"


@command(automations, "show")
async def show(
    services: Services, person: Person, language: Language, automation_id: IdArgument
) -> Output:
    """Show an automation: its message, schedule, limits and skipped runs."""
    service = automation_service(services)
    a = await service.get(automation_id, person, language)
    messages = [message.content for message in await service.messages(automation_id, person)]
    document = a.to_document()

    def shown() -> None:
        render.line(_summary(a, language))
        render.facts(
            {
                "graph": a.graph_key,
                "owner": a.user_id,
                "mode": a.mode,
                "last": _last(a.last),
                "waits": str(a.waiting),
                "today": _today(a.spent_today),
                "limits": ", ".join(
                    f"{name} {value}" for name, value in document["budget"].items()
                ),
                "skipped": ", ".join(f"{s.count}× {s.reason}" for s in a.skipped[:MAX_SKIPPED]),
            },
            width=9,
        )
        for message in messages:
            render.quote("  > ", message)

    return Output(document={**document, "messages": messages}, text=shown)


@command(automations, "edit")
async def edit(
    services: Services,
    person: Person,
    language: Language,
    automation_id: IdArgument,
    draft: AutomationOptions,
    limits: RunOptions,
    name: Annotated[str | None, option("--name", "NAME", "The new name.")] = None,
) -> Output:
    """Change an automation. Its next run is computed from now."""
    fields = {**draft.fields(name), **limits.fields()}
    if not fields:
        usage_error("nothing to change: give an option such as --cron or --message")
    service = automation_service(services)
    stored = await service.get(automation_id, person)
    changes = AutomationChanges.read({**fields, "version": stored.version})
    return _changed(await service.edit(automation_id, changes, person, language), language)


@command(automations, "remove")
async def remove(services: Services, person: Person, automation_id: IdArgument) -> Output:
    """Remove an automation. Open runs are stopped; its runs and proposals stay."""
    await automation_service(services).remove(automation_id, person)
    return Output(document={"success": True}, text=f"removed {automation_id}")


@command(automations, "enable")
async def enable(
    services: Services, person: Person, language: Language, automation_id: IdArgument
) -> Output:
    """Enable an automation. Its next run is computed from now."""
    enabled = await automation_service(services).enable(automation_id, person, language)
    return _changed(enabled, language)


@command(automations, "pause")
async def pause(
    services: Services, person: Person, language: Language, automation_id: IdArgument
) -> Output:
    """Pause an automation: no run begins until it is enabled."""
    paused = await automation_service(services).pause(automation_id, person, language)
    return _changed(paused, language)


@command(automations, "run")
async def run(
    services: Services,
    person: Person,
    automation_id: IdArgument,
    wait: Annotated[
        bool, flag("--wait", "Run it in this command, until it ends or waits.")
    ] = False,
    supersede: Annotated[bool, flag("--supersede", "Replace a run that is still open.")] = False,
) -> Output:
    """Start a run now: a server works on it, or this command with --wait."""
    service = automation_service(services)
    thread = await service.run(automation_id, person, supersede=supersede)
    if not wait:
        queued = f"{thread.key} is queued; a server starts it, or `nodius automations run-due`"
        return Output(document=run_summary(thread).to_document(), text=queued)
    async with open_model(services.settings, embedder=services.embedder) as model:
        await worker_of(services, model).runner.run(
            thread.key, EventName.SESSION_ACTIVATION_REQUESTED
        )
    thread = await service.sessions.get(thread.key, person)
    ended = "" if thread.session is None else str(thread.session.end_reason or "")
    code = 0 if ended in ("", "COMPLETED") else EXIT_FAILED
    return replace(run_output(thread), exit_code=code)


@command(automations, "try")
async def try_one(
    services: Services, person: Person, language: Language, automation_id: IdArgument
) -> Output:
    """Run an automation to see what it would report and propose now. Nothing of it is stored."""
    async with open_model(services.settings, embedder=services.embedder) as model:
        service = automation_service(services)
        trial = await try_automation(services, model, service, automation_id, person)
    titles = [title(one, language) for one in trial.proposals]
    document = run_summary(trial.run).to_document()

    def show() -> None:
        show_trial(trial.run, titles)

    return Output(document={"run": document, "proposals": titles}, text=show)


@command(automations, "runs")
async def runs(
    services: Services, person: Person, automation_id: IdArgument, limit: LimitOption = 20
) -> Output:
    """List an automation's runs, newest first."""
    return runs_output(await automation_service(services).runs(automation_id, person, limit=limit))


@command(automations, "next")
async def coming(
    services: Services,
    person: Person,
    language: Language,
    automation_id: IdArgument,
    count: Annotated[int, option("-n", "N", "Number of times.", min=1, max=100)] = 5,
) -> Output:
    """Print the next times at which an automation runs."""
    a = await automation_service(services).get(automation_id, person, language)
    when = schedule(cron=a.cron, dates=a.dates, timezone=a.timezone)
    times = next_times(when, now_ms(), count) if a.enabled else []
    if not times:
        return nothing(times, "It is started by hand." if a.enabled else "It is paused.")

    def show() -> None:
        for at in times:
            render.line(f"{day_and_time(at, when.zone, language)}  {when.zone.key}")

    return Output(document=times, text=show)


@command(automations, "run-due")
async def run_due(
    services: Services,
    all_workspaces: Annotated[
        bool, flag("--all-workspaces", "Of every workspace of the database.")
    ] = False,
) -> Output:
    """Start the runs that are due and wait for them: for a system timer, without a server."""
    async with open_model(services.settings, embedder=services.embedder) as model:
        started = await _run_due(services, model, all_workspaces=all_workspaces)
    counted = "1 run was started" if started == 1 else f"{started} runs were started"
    return Output(document={"started": started}, text=counted)


async def _run_due(services: Services, model: Model, *, all_workspaces: bool) -> int:
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
