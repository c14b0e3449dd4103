"""The command `today`: what happened in the graphs of a workspace since somebody last looked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from cli import render
from cli.command import command
from cli.common import local_time
from cli.options import LimitOption, flag, option, span_ms
from cli.output import Output
from graphrag.app.automation_services import automation_service
from graphrag.app.today import FindingsToday, Today, TodayPlace, TodayRow, today
from graphrag.app.wiring import Services
from graphrag.automations.last_seen import DAY_MS, Members
from graphrag.i18n import Language
from graphrag.leases import now_ms
from graphrag.roles import Person


@command(name="today")
async def today_command(
    services: Services,
    person: Person,
    language: Language,
    since: Annotated[
        str | None, option("--since", "SPAN", "Since then: 12h, 7d (default: your last look).")
    ] = None,
    limit: LimitOption = 50,
    keep: Annotated[bool, flag("--keep", "Do not count this as your last look.")] = False,
) -> Output:
    """Tell what happened: findings, proposals that wait, failed runs, decisions, costs."""
    now = now_ms()
    members = Members(services.database.records(services.settings.workspace))
    looked = await members.looked(person.user_id)
    begin = now - span_ms(since) if since else (now - DAY_MS if looked is None else looked)
    store = automation_service(services).store
    place = TodayPlace(services=services, automations=store, person=person)
    seen = await today([place], since=begin, now=now, language=language, limit=limit)
    if not keep:
        await members.note_look(person, now)
    return Output(document=seen.to_document(), text=partial(_show, seen))


def _show(seen: Today) -> None:
    render.line(f"Since {local_time(seen.since)}", "bold")
    _part(
        seen,
        "findings",
        "Findings of automations",
        seen.findings,
        [line for row in seen.findings for line in _finding_lines(row)],
    )
    _part(
        seen,
        "proposals",
        "Proposals that you may decide",
        seen.proposals,
        [f"{row.title} ({row.graph_key}; {row.approval_id})" for row in seen.proposals],
    )
    _part(
        seen,
        "runs",
        "Runs that failed, wait or are late",
        seen.runs,
        [
            f"{row.name}: {row.state}, {row.reason}, {local_time(row.time)}"
            + (f" ({row.session_id})" if row.session_id else "")
            for row in seen.runs
        ],
    )
    _part(
        seen,
        "decisions",
        "Decisions of others",
        seen.decisions,
        [f"{row.title}: {row.status} by {row.by}" for row in seen.decisions],
    )
    _part(
        seen,
        "costs",
        "Costs of automations today",
        seen.costs,
        [
            f"{row.name}: {row.runs} of {row.max_runs} runs, {row.tokens} tokens, "
            + ("cost unknown" if row.cost_usd is None else f"{row.cost_usd:.4f} US dollars")
            + (f" of {row.max_cost_usd:g}" if row.max_cost_usd is not None else "")
            for row in seen.costs
        ],
    )


def _finding_lines(row: FindingsToday) -> list[str]:
    counts = f"{row.counts['new']} new, {row.counts['same']} the same, {row.counts['gone']} gone"
    changed = [*(f"  + {one}" for one in row.new), *(f"  - {one}" for one in row.gone)]
    return [f"{row.name}: {counts}", *changed]


def _part(
    seen: Today, name: str, heading: str, rows: Sequence[TodayRow], lines: Sequence[str]
) -> None:
    render.line(heading if rows else f"{heading}: none", "bold" if rows else "")
    for line in lines:
        render.line(f"  {line}")
    if more := {str(part): count for part, count in seen.more.items()}.get(name):
        render.line(f"  and {more} more")
