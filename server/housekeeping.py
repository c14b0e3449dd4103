"""Repeats work in the background: expiry of proposals, removal of old records, a check of the
event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time

from datasources.types import ROOT_WORKSPACE
from graphrag.agent.thread_store import SESSION_KIND
from graphrag.app.deleted_graphs import KIND, purge
from graphrag.app.history_term import compact_history
from graphrag.app.wiring import Shared
from graphrag.approvals.stored_parts import UNDO
from graphrag.automations.automation_store import Automations
from graphrag.automations.last_seen import DAY_MS, forget_unseen, mark_tick
from graphrag.automations.last_seen import KIND as MEMBER
from graphrag.leases import new_owner, now_ms
from server.metrics import Metrics
from server.open_workspaces import OpenWorkspaces, Workspace

log = logging.getLogger(__name__)

BEAT_S = 0.1  # between two checks of the event loop
LATE_S = 0.25  # a later check is counted: sound stops for everybody on the telephone
EXPIRY_S = 60.0  # between two rounds in which overdue proposals are closed
EXPIRED_AT_ONCE = 20  # proposals of one workspace that are closed before another's turn
PURGE_S = 3600.0


async def expire_proposals(shared: Shared, workspaces: OpenWorkspaces) -> None:
    """Closes proposals of the open workspaces that nobody decided in time, again and again.

    Each round also records that this server runs automations.
    """
    server = new_owner()
    while True:
        if shared.settings.automations_at_once:
            await mark_tick(shared.database.records(ROOT_WORKSPACE), server, now_ms())
        await asyncio.sleep(EXPIRY_S)
        await _expire_once(workspaces.all_open())


async def _expire_once(due: dict[str, Workspace]) -> None:
    while due:  # in turns: a workspace with many overdue proposals does not delay the others
        for name, workspace in list(due.items()):
            closed = 0
            try:
                approvals = workspace.services.approvals
                closed = len(await approvals.expire_due(limit=EXPIRED_AT_ONCE))
            except Exception:
                log.exception("expiry_failed", extra={"workspace": name})
            if closed < EXPIRED_AT_ONCE:
                del due[name]
            await asyncio.sleep(0)


async def purge_old_records(shared: Shared, workspaces: OpenWorkspaces) -> None:
    """Removes deleted graphs whose term is over, and ends deletions that a kill interrupted.

    Also removes runs of automations, and undo information, beyond their terms, and the records of
    people who were not seen for as long as undo is kept: their names are shown beside changes.
    """
    database = shared.database
    for name in await database.workspaces(KIND):
        await purge((await workspaces.get(name)).services.approvals)
    kept_from = now_ms() - shared.settings.automation_keep_days * DAY_MS
    for name in await database.workspaces(SESSION_KIND):
        automations = Automations(database.records(name), workspace=name)
        await automations.prune_ended(before=kept_from)
    days = shared.settings.undo.days
    for name in await database.workspaces(UNDO):
        await compact_history(
            database.records(name), now=now_ms(), days=days, max_mb=shared.settings.undo.mb
        )
    for name in await database.workspaces(MEMBER):
        await forget_unseen(database.records(name), now=now_ms(), days=days)


async def watch_event_loop(metrics: Metrics) -> None:
    """Counts how often the event loop is late."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(BEAT_S)
        late = time.monotonic() - began - BEAT_S
        if late > LATE_S:
            metrics.count("event_loop_late")
            log.warning("event_loop_late", extra={"late_s": round(late, 3)})
