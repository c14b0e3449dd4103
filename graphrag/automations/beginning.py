"""Begins a run, at its time or for a person, in one write with the new state of its automation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from datasources.base import RecordStore
from graphrag.agent.thread_store import StoredThread, Thread, ThreadBusy, session_of
from graphrag.approvals import Approvals, title
from graphrag.automations.automation import Automation, LastSeen
from graphrag.automations.errors import AutomationRefused, AutomationsSpent, SessionRefused
from graphrag.automations.session_events import SessionEvents, refused
from graphrag.i18n import text
from graphrag.llm.base import SystemMessage
from graphrag.roles import Person
from graphrag.sessions.agent_session import Trigger
from graphrag.sessions.machine import SessionEvent
from graphrag.sessions.phases import EndReason, EventName, Phase, SessionKind
from graphrag.sessions.schedules import zone_of

# Maximum number of proposals of a replaced run; more than its model calls can make.
MAX_REPLACED = 500


def check_may_run(automation: Automation, now: int) -> None:
    """Checks whether a run may begin now.

    Raises: AutomationRefused if the automation is paused, AutomationsSpent if a daily limit is
    reached.
    """
    if not automation.enabled:
        raise AutomationRefused("automation_paused", why=automation.paused_reason or "person")
    day = datetime.fromtimestamp(now / 1000, zone_of(automation.timezone)).date()
    facts = {
        "day": day.isoformat(),
        "free": f"{day + timedelta(days=1)} 00:00 {automation.timezone}",
    }
    match automation.used_up(now):
        case "runs":
            raise AutomationsSpent(
                "automation_runs_spent", most=automation.budget.day_runs, **facts
            )
        case "cost":
            raise AutomationsSpent(
                "automation_cost_spent", most=automation.budget.day_cost_usd, **facts
            )
        case None:
            return


def reference_of(thread: Thread) -> int:
    """Returns the time of a run that has ended, from which its periods were counted.

    Raises: AutomationRefused for a template, SessionRefused for an open run.
    """
    session = session_of(thread)
    if session.kind is not SessionKind.AUTOMATION:
        raise AutomationRefused("template_not_run")
    if session.phase is not Phase.COMPLETED:
        raise refused(thread)
    return session.reference


async def begin_run(
    approvals: Approvals,
    events: SessionEvents,
    automation: Automation,
    at: int,
    replaced: Sequence[StoredThread] = (),
    *,
    trigger: Trigger,
    notes: Sequence[SystemMessage] = (),
    reference: int | None = None,
) -> Thread | None:
    """Claims a run for an instant and ends the runs that it replaces. Returns None if another
    process claimed it.

    `automation`: its new state, stored over the version that was read. `notes`: additional
    messages for the run. `reference`: the time from which its periods are counted, by default
    `at`. Units: milliseconds since 1970. Raises: GraphNotFound, SessionNotFound, ThreadVersion,
    BadDocument.
    """
    store = events.store
    spent = automation.spent_on(store.clock())
    updated = automation.model_copy(
        update={
            "spent": spent.model_copy(update={"runs": spent.runs + 1}),
            "last_seen": await seen_now(approvals, store.records, automation.graph_key),
            "failures": 0 if replaced else automation.failures,  # waiting runs have not failed
        }
    )
    notes = [*await _undecided(approvals, automation, replaced), *notes]
    claimed = await store.claim(updated, at, trigger=trigger, notes=notes, reference=reference)
    if claimed is None:
        return None
    ended = SessionEvent(name=EventName.SESSION_COMPLETED, reason=EndReason.CANCELLED)
    for run in replaced:
        await approvals.withdraw(graph_key=automation.graph_key, thread_id=run.thread.key)
        with suppress(ThreadBusy, SessionRefused):  # it ended, or another process is ending it
            await events.apply(
                run.thread.key,
                ended,
                language=automation.language,
                ends_because=text("run_replaced", automation.language),
            )
    return claimed.thread


async def seen_now(approvals: Approvals, records: RecordStore, graph_key: str) -> LastSeen:
    """Returns the graph's revision and the time of its last edit. Raises: GraphNotFound."""
    graph = await approvals.source.get_graph(graph_key)
    latest = await records.query(
        "history", {"graphKey": graph_key}, order_by="timestamp", descending=True, limit=1
    )
    at = latest[0].data.get("timestamp", 0) if latest else 0
    return LastSeen(revision=graph.revision, history_time=at if isinstance(at, int) else 0)


async def _undecided(
    approvals: Approvals, automation: Automation, runs: Sequence[StoredThread]
) -> list[SystemMessage]:
    """Returns a message for the new run about the pending proposals of the runs that it
    replaces.
    """
    titles: list[str] = []
    for run in runs:
        by = Person(automation.user_id, "viewer", automation.workspace)
        waiting = await approvals.list(
            thread_id=run.thread.key, status="pending", limit=MAX_REPLACED, by=by
        )
        titles += [title(approval, automation.language) for approval in waiting]
    if not titles:
        return []
    listed = "\n".join(f"- {each}" for each in titles)
    note = text("replaced_proposals", automation.language, proposals=listed)
    return [SystemMessage(content=note, stable=False)]
