"""One tick in one workspace: ends runs that are over, resumes interrupted ones, begins due ones.

Each server ticks. Work is claimed by compare-and-set or done under a lease, so several servers can
tick at the same time.
"""

from __future__ import annotations

import logging
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from datasources.base import Record
from datasources.errors import GraphNotFound
from graphrag.agent.thread_store import StoredThread, session_of
from graphrag.approvals import Approvals
from graphrag.automations.automation import Automation, PauseReason, SkipReason
from graphrag.automations.automation_store import Automations, read_all
from graphrag.automations.beginning import begin_run, seen_now
from graphrag.automations.lateness import report_late
from graphrag.automations.open_runs import MAX_PER_TICK, SINGLE_ERRORS, OpenRuns, Start
from graphrag.automations.run_listeners import RunListeners
from graphrag.automations.runner import Runner
from graphrag.automations.workspace_rules import reason_to_skip
from graphrag.sessions.phases import EventName, Phase
from graphrag.sessions.schedules import Due, due

log = logging.getLogger(__name__)

GRACE_S: Final = 60  # An occurrence that is noticed within this time is not late.
# Interval for checking runs that wait for people: another server may have received the decisions.
DECISIONS_INTERVAL_MS: Final = 60_000


@dataclass(slots=True)
class Worker:
    """The automations of one workspace, for the ticks of one process."""

    automations: Automations
    runner: Runner
    approvals: Approvals
    open_runs: OpenRuns
    spread_s: int = 0
    """Time over which the starts of automations that are due at one time are spread."""
    _first_seen: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    _next_decisions_check: int = 0
    late: int = 0
    """Number of automations that were due at the last tick but not begun."""

    @property
    def _listeners(self) -> RunListeners:
        return self.runner.listeners

    def spread_ms(self, automation_id: str) -> int:
        """Returns how long an automation waits after its time, always as long."""
        return zlib.crc32(automation_id.encode()) % (self.spread_s * 1000 + 1)

    async def tick(
        self, places: int, running: frozenset[str], *, decided: bool = False
    ) -> list[Start]:
        """Does what is due and returns the runs to start, in order, at most `places`.

        `running`: graphs that this process works on. `decided`: a proposal was just decided here.
        """
        now = self.automations.clock()
        interrupted, queued = await self.open_runs.to_go_on(now, running)
        if decided or now >= self._next_decisions_check:
            self._next_decisions_check = now + DECISIONS_INTERVAL_MS
            interrupted += await self.open_runs.decided()
        waiting = {start.graph_key for start in queued}
        starts = await self._free([*interrupted, *queued], running, places)
        busy = running | waiting | {start.graph_key for start in starts}
        starts += await self._due(now, busy, places - len(starts))
        return starts

    async def _free(
        self, starts: Sequence[Start], running: frozenset[str], places: int
    ) -> list[Start]:
        """Returns the first starts whose graph has a free slot, one per graph."""
        free: list[Start] = []
        occupied = set(running)
        for start in starts:
            if len(free) >= places:
                break
            if start.graph_key in occupied:
                continue
            occupied.add(start.graph_key)
            if not await self.runner.slots.runs(start.graph_key):
                free.append(start)
        return free

    async def _due_records(self, now: int) -> list[Record]:
        return [
            record
            for record in await self.automations.due(now, limit=MAX_PER_TICK)
            if (record.data.get("nextTime") or 0) + self.spread_ms(record.key) <= now
        ]

    async def _due(self, now: int, busy: frozenset[str], places: int) -> list[Start]:
        records = await self._due_records(now)
        held = await reason_to_skip(self.automations) if records else None
        if held is None and await report_late(
            self.automations, self._listeners, records, now, self.spread_ms
        ):
            records = await self._due_records(now)  # the reported ones changed
        # In random order within the same time, so that servers seldom try to claim the same.
        records.sort(key=lambda record: (record.data.get("nextTime") or 0, random.random()))
        starts: list[Start] = []
        for automation in chain.from_iterable(read_all([record]) for record in records):
            if len(starts) >= places:
                break
            try:
                if (start := await self._begin(automation, now, busy, held)) is not None:
                    starts.append(start)
                    busy |= {start.graph_key}
            except SINGLE_ERRORS as exc:
                facts = {"automation_id": automation.key, "error": type(exc).__name__}
                log.warning("automation_not_begun", extra=facts)
        self.late = len(records) - len(starts)
        seen = {(record.key, record.data.get("nextTime") or 0) for record in records}
        self._first_seen = {key: at for key, at in self._first_seen.items() if key in seen}
        return starts

    async def _begin(
        self, automation: Automation, now: int, busy: frozenset[str], held: SkipReason | None
    ) -> Start | None:
        """Claims the occurrence of a due automation, or records why it starts no run. `held`: why
        no automation of the workspace may start one.
        """
        automation = await self._with_last_run(automation)
        paused = await self._pause_reason(automation)
        if paused is not None:
            if await self.automations.put(automation.paused(paused)):
                self._listeners.paused(automation, paused)
            self._listeners.occurred(automation, paused)
            return None
        occurrences = self._occurrences(automation, now)
        moved = self._moved(automation, occurrences)
        if not occurrences.run:
            await self.automations.put(moved)
            self._listeners.occurred(automation, "missed")
            return None
        at = occurrences.run[0]
        open_runs = await self.automations.sessions({"automationId": automation.key, "open": True})
        if any(
            session_of(run.thread).is_tended and at <= run.thread.created_time for run in open_runs
        ):
            return None  # missed occurrences run one after the other
        skipped = held or self._overlapping(automation, open_runs)
        skipped = skipped or await self._skip_reason(automation, now)
        if skipped is not None:
            await self.automations.put(moved.with_skipped(at, skipped))
            self._listeners.occurred(automation, skipped)
            return None
        if automation.graph_key in busy or await self.runner.slots.runs(automation.graph_key):
            return None
        moved = moved.model_copy(update={"last_scheduled_time": at})
        begun = await begin_run(
            self.approvals, self.runner.events, moved, at, open_runs, trigger="scheduled"
        )
        if begun is None:  # another process claimed it
            return None
        self._listeners.occurred(moved, "run")
        event = EventName.SESSION_ACTIVATION_REQUESTED
        return Start(session_id=begun.key, graph_key=moved.graph_key, event=event)

    def _occurrences(self, automation: Automation, now: int) -> Due:
        """Returns the due occurrences of an automation. One that was noticed in time but not begun
        is not missed.
        """
        next_time = automation.next_time or now
        first = self._first_seen.setdefault((automation.key, next_time), now)
        return due(
            automation.schedule,
            next_time,
            now,
            missed=automation.missed,
            catch_up_s=automation.catch_up_s,
            grace_s=GRACE_S + self.spread_s + (now - first) // 1000,
        )

    async def _with_last_run(self, automation: Automation) -> Automation:
        """Returns the automation after recording the end of its last run, if its process died
        before doing so.
        """
        key = automation.key
        for last in await self.automations.sessions({"automationId": key, "open": False}, limit=1):
            ended = session_of(last.thread).phase is Phase.COMPLETED
            if ended and last.thread.key != automation.last_ended_id:
                await self.runner.account(last.thread)
                return await self.automations.get(key)
        return automation

    @staticmethod
    def _moved(automation: Automation, occurrences: Due) -> Automation:
        """Returns the automation with the time of its next occurrence, and the dropped ones
        recorded.
        """
        later = occurrences.run[1] if len(occurrences.run) > 1 else occurrences.next
        moved = automation.model_copy(update={"next_time": later})
        if occurrences.dropped:
            return moved.with_skipped(automation.next_time or 0, "missed", occurrences.dropped)
        return moved

    @staticmethod
    def _overlapping(
        automation: Automation, open_runs: Sequence[StoredThread]
    ) -> SkipReason | None:
        for run in open_runs:
            if session_of(run.thread).is_tended:
                return "running"
            if automation.overlap == "skip":
                return "waiting"
        return None

    async def _skip_reason(self, automation: Automation, now: int) -> SkipReason | None:
        if automation.used_up(now) is not None:
            return "budget"
        if automation.only_if_changed:
            seen = await seen_now(self.approvals, self.automations.records, automation.graph_key)
            if seen == automation.last_seen:
                return "unchanged"
        return None

    async def _pause_reason(self, automation: Automation) -> PauseReason | None:
        try:
            await self.approvals.source.get_graph(automation.graph_key)
        except GraphNotFound:
            return "graph_gone"
        return "owner_unseen" if await self.runner.members.is_gone(automation.user_id) else None
