"""Prints automations as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cli import render
from cli.common import Common, local_time
from graphrag.agent.thread_store import Thread
from graphrag.automations.automation_view import AutomationView
from graphrag.i18n import Language
from graphrag.leases import now_ms
from graphrag.sessions.schedule_words import day_and_time
from graphrag.sessions.schedules import zone_of


def show_changed(common: Common, view: AutomationView, language: Language) -> None:
    a = view.automation
    if common.as_json:
        render.json(view.to_document(now_ms()))
        return
    when = f"{view.words}, {a.timezone}" if a.cron else view.words
    coming = f" Next: {_both_zones(view, language)}." if view.next_times else ""
    paused = "" if a.enabled else f" Paused ({a.paused_reason})."
    render.line(f"{a.name} ({a.key}): {when}.{coming}{paused}")


def _both_zones(view: AutomationView, language: Language) -> str:
    zone = zone_of(view.automation.timezone)
    at = view.next_times[0]
    shown = day_and_time(at, zone, language)
    utc = datetime.fromtimestamp(at / 1000, UTC)
    return shown if zone.key == "UTC" else f"{shown} ({utc:%H:%M} UTC)"


def row_of(view: AutomationView, language: Language) -> list[Any]:
    a = view.automation
    if not a.enabled:
        coming = f"paused ({a.paused_reason})"
    elif view.next_times:
        coming = day_and_time(view.next_times[0], zone_of(a.timezone), language)
    else:
        coming = "-"
    return [a.key, a.graph_key, a.name, coming, last_of(view.last), view.waiting, today_of(view)]


def last_of(thread: Thread | None) -> str:
    if thread is None or thread.session is None:
        return "-"
    session = thread.session
    outcome = session.report.outcome if session.report else None
    ended = (session.end_reason.value if session.end_reason else session.phase.value).lower()
    said = outcome if outcome and ended == "completed" else ended
    at = session.ended_time or session.last_event_time or session.scheduled_time
    return f"{said}, {local_time(at)}"


def today_of(view: AutomationView) -> str:
    spent = view.automation.spent_on(now_ms()).sums()
    runs = "1 run" if spent["runs"] == 1 else f"{spent['runs']} runs"
    return f"{runs}, {spent['tokens']:,} tokens, ${spent['costUsd']:.2f}"
