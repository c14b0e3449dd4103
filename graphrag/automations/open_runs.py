"""The runs of one workspace that have begun: ends those that are over, and says which go on now."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from datasources.errors import BadDocument, GraphNotFound, SourceBusy
from datasources.record_kinds import Where
from graphrag.agent.thread_store import StoredThread, Thread, ThreadError, session_of
from graphrag.agent.turn_lease import TurnLeases
from graphrag.approvals import Approval, ApprovalError, Approvals
from graphrag.approvals.approval import SYSTEM
from graphrag.automations.automation_store import Automations
from graphrag.automations.errors import AutomationError, AutomationNotFound
from graphrag.automations.last_seen import DAY_MS
from graphrag.automations.runner import Runner
from graphrag.roles import Person
from graphrag.sessions.agent_session import AgentSession
from graphrag.sessions.machine import SessionEvent
from graphrag.sessions.phases import ACTIVE, EndReason, EventName, Phase
from graphrag.sessions.schedules import ScheduleError

log = logging.getLogger(__name__)

# Maximum number of runs, and of due automations, per tick; those that wait longest come first.
MAX_PER_TICK: Final = 1_000
HOUR_MS: Final = 3_600_000
# A paused run resumes after this time without a conversation about its graph.
QUIET_MS: Final = 30_000
MAX_ATTEMPTS: Final = 3
# Errors that concern one run or automation; the others continue.
# SourceBusy: a record is locked for up to a minute if a server was killed during a transaction.
SINGLE_ERRORS: Final = (
    AutomationError,
    ScheduleError,
    ThreadError,
    ApprovalError,
    BadDocument,
    GraphNotFound,
    SourceBusy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A run that can be started or resumed now, and the event for it."""

    session_id: str
    graph_key: str
    event: EventName


@dataclass(slots=True)
class OpenRuns:
    """The open runs of one workspace, for the ticks of one process."""

    automations: Automations
    runner: Runner
    approvals: Approvals
    conversations: TurnLeases
    """Leases of conversations. A paused run waits until there is none about its graph."""
    _last_conversation: dict[str, int] = field(default_factory=dict[str, int])

    async def to_go_on(self, now: int, running: frozenset[str]) -> tuple[list[Start], list[Start]]:
        """Returns the interrupted runs that can go on, and those that wait to begin. Ends runs
        that are over, and announces states that are not announced yet.

        `running`: graphs that this process works on.
        """

        def since(stored: StoredThread) -> int:
            session = session_of(stored.thread)
            return (
                session.queued_time or 0 if session.phase is Phase.IDLE else session.last_event_time
            )

        interrupted: list[Start] = []
        queued: list[Start] = []
        tended = await self._oldest({"tended": True})
        for stored in sorted(tended, key=since):
            session = session_of(stored.thread)
            if stored.thread.graph_key in running:
                continue
            try:
                if session.unannounced and not await self._is_held(stored.thread):
                    await self.runner.announce(stored.thread)
                event = await self._event_of(stored, session, now)
                if event is None or await self._is_over(stored):
                    continue
            except SINGLE_ERRORS as exc:
                _log_failure(stored, exc)
                continue
            start = Start(
                session_id=stored.thread.key, graph_key=stored.thread.graph_key, event=event
            )
            (queued if session.phase is Phase.IDLE else interrupted).append(start)
        return interrupted, queued

    async def _event_of(
        self, stored: StoredThread, session: AgentSession, now: int
    ) -> EventName | None:
        """Returns the event that resumes a run now, or None. Ends the run if it is over."""
        waiting = session.waiting or {}
        limits = self.runner.limits
        if session.phase is Phase.IDLE:
            return EventName.SESSION_ACTIVATION_REQUESTED
        if session.phase is Phase.WAITING_COMPLETION_CONFIRMATION:
            if int(waiting.get("at", 0)) <= now and not await self._is_held(stored.thread):
                await self.runner.give_up(stored, EventName.COMPLETION_CONFIRMED)
            return None
        if session.phase is Phase.WAITING_NETWORK_RETRY:
            if int(waiting.get("retryAt", 0)) > now:
                return None
            if waiting.get("attempts") == 0:  # a person asked for it
                return EventName.SESSION_ACTIVATION_REQUESTED
            if now - (session.network_since or now) > limits.network_total_ms:
                await self.runner.give_up(
                    stored,
                    EventName.SESSION_COMPLETED,
                    reason=EndReason.NETWORK_ERROR,
                    because="run_unreachable",
                    hours=round(limits.network_total_ms / HOUR_MS),
                )
                return None
            return EventName.NETWORK_AVAILABLE
        if session.phase not in ACTIVE or await self._is_held(stored.thread):
            return None
        if session.attempts >= MAX_ATTEMPTS:
            await self.runner.give_up(
                stored, EventName.SYSTEM_ERROR_OCCURRED, because="run_crashed", n=session.attempts
            )
            return None
        if session.end_reason is EndReason.SUSPENDED and not await self._is_quiet(
            stored.thread, session, now
        ):
            return None
        return EventName.SESSION_ACTIVATION_REQUESTED

    async def _is_held(self, thread: Thread) -> bool:
        return await self.runner.agent.leases.runs(thread.key)

    async def _is_quiet(self, thread: Thread, session: AgentSession, now: int) -> bool:
        """Returns whether there was no conversation about the graph recently."""
        if await self.conversations.held_on(thread.graph_key):
            self._last_conversation[thread.graph_key] = now
        return (
            now - max(self._last_conversation.get(thread.graph_key, 0), session.last_event_time)
            >= QUIET_MS
        )

    async def decided(self) -> list[Start]:
        """Returns the runs whose proposals are all decided."""
        starts: list[Start] = []
        waiting = {"open": True, "phase": Phase.WAITING_VALIDATION.value}
        for stored in await self._oldest(waiting):
            thread = stored.thread
            by = Person(thread.user_id, "viewer", thread.workspace)
            try:
                approvals = [
                    await self.approvals.get(each, by) for each in thread.turn.open.values()
                ]
                pending = [approval for approval in approvals if approval.is_open]
                if await self._is_over(stored):
                    continue
                if pending or await self.runner.slots.runs(thread.graph_key):
                    await self._note_decisions(thread, approvals)
                    await self._notify_expiry(thread, pending)
                    continue
            except SINGLE_ERRORS as exc:
                _log_failure(stored, exc)
                continue
            event = EventName.VALIDATION_RECEIVED
            starts.append(Start(session_id=thread.key, graph_key=thread.graph_key, event=event))
        return starts

    async def _oldest(self, where: Where) -> Sequence[StoredThread]:
        """Returns the runs with these indexed fields, the oldest first."""
        return await self.automations.sessions(
            where, order_by="queuedTime", descending=False, limit=MAX_PER_TICK
        )

    async def _note_decisions(self, thread: Thread, proposals: Sequence[Approval]) -> None:
        """Stores that people decided about a run that cannot continue yet."""
        decided = [each.decision for each in proposals if each.decision is not None]
        by_people = [each.at for each in decided if each.role != SYSTEM]
        if max(by_people, default=0) <= session_of(thread).last_person_time:
            return
        left = {"open_left"} if any(each.is_open for each in proposals) else set[str]()
        event = SessionEvent(name=EventName.VALIDATION_RECEIVED, facts=frozenset(left))
        await self.runner.events.apply(thread.key, event)

    async def _notify_expiry(self, thread: Thread, waiting: Sequence[Approval]) -> None:
        """Calls the listener once for proposals that waited longer than a day and have
        a day left.
        """
        soon = self.automations.clock() + DAY_MS
        ends = [
            approval
            for approval in waiting
            if approval.expires <= soon and approval.expires - approval.created > DAY_MS
        ]
        if not ends or session_of(thread).expiry_notified or self.runner.listeners.expiring is None:
            return
        if await self.runner.events.note_expiry_notified(thread.key):
            self.runner.listeners.expiring(thread, len(ends))

    async def _is_over(self, stored: StoredThread) -> bool:
        """Returns whether the automation or graph of a run was deleted; then ends the run."""
        automation_id = session_of(stored.thread).automation_id
        try:
            await self.automations.get(automation_id)
            await self.approvals.source.get_graph(stored.thread.graph_key)
        except (AutomationNotFound, GraphNotFound):
            with suppress(AutomationError):
                await self.runner.update(automation_id, lambda one: one.paused("graph_gone"))
            await self.runner.give_up(
                stored,
                EventName.SESSION_COMPLETED,
                reason=EndReason.CANCELLED,
                because="run_graph_gone",
            )
            return True
        return False


def _log_failure(stored: StoredThread, exc: Exception) -> None:
    facts = {"session_id": stored.thread.key, "error": type(exc).__name__}
    log.warning("session_not_tended", extra=facts)
