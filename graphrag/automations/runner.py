"""Executes the runs of one workspace: holds the slot of the graph, and stores and reports each end.

Decision: an automation works on a graph alone. The slot is a lease, like that of a turn, on the key
of the graph. A conversation needs no slot: when one begins, the run on its graph is asked to pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Final

from graphrag.agent.session_agent import SessionAgent, SessionPast
from graphrag.agent.session_turn import SessionOrder
from graphrag.agent.thread_store import StoredThread, Thread, ThreadBusy, session_of
from graphrag.agent.turn_lease import TurnLeases
from graphrag.automations.automation import Automation, Budget, RunUsage
from graphrag.automations.automation_store import Automations
from graphrag.automations.errors import AutomationError, SessionRefused
from graphrag.automations.last_seen import DAY_MS, Members
from graphrag.automations.run_listeners import RunListeners
from graphrag.automations.session_events import SessionEvents
from graphrag.i18n import text
from graphrag.llm.base import LLMProvider
from graphrag.llm.registry import Pricing
from graphrag.roles import ClientInfo, Person
from graphrag.sessions.agent_session import AgentSession, RunBudget
from graphrag.sessions.machine import SessionEvent, SessionLimits
from graphrag.sessions.phases import EndReason, EventName, Phase

log = logging.getLogger(__name__)

FAILED_ENDS: Final = frozenset({EndReason.ERROR, EndReason.TIMEOUT, EndReason.LIMIT_REACHED})
# Interval between checks whether a person confirmed the end of a run. Units: seconds.
CONFIRMATION_POLL_S: Final = 0.5
# Minimum time for a run that has used up its time, so that it can be resumed and ended.
MIN_ACTIVE_MS: Final = 1_000
MAX_FAILURES: Final = 3  # Number of consecutive failed runs that pauses an automation.


class Runner:
    """The runs of one workspace that this process executes.

    Keeps the last `keep` ended runs of an automation, each for `keep_days`. `sleep` replaces the
    wait for a notice or the next check. `models` returns the models that automations name; it does
    not raise.
    """

    def __init__(
        self,
        automations: Automations,
        agent: SessionAgent,
        slots: TurnLeases,
        *,
        limits: SessionLimits | None = None,
        keep: int = 100,
        keep_days: int = 90,
        listeners: RunListeners | None = None,
        sleep: Callable[[float], Awaitable[Any]] | None = None,
        models: Callable[[str | None, str | None], tuple[LLMProvider, Pricing]] | None = None,
    ) -> None:
        self.automations = automations
        self.agent = agent
        self.slots = slots
        self.events = SessionEvents(automations, agent.leases, limits=limits)
        self.limits = self.events.limits
        self.members = Members(automations.records, clock=automations.clock)
        self.keep = keep
        self.keep_ms = keep_days * DAY_MS
        self.sleep = sleep
        self.listeners = listeners or RunListeners()
        self.models = models

    async def run(
        self,
        session_id: str,
        event: EventName,
        on_working: Callable[[bool], None] = lambda _: None,
    ) -> AgentSession | None:
        """Executes a run until it ends, waits or pauses. Returns None if another process holds it
        or its graph.

        `on_working`: called with False when only the announced end is awaited, and with True if a
        person lets the run continue. Raises: AutomationError, ThreadError, SourceError.
        """
        stored = await self.automations.session(session_id)
        thread = stored.thread
        facts = {"sessionId": session_id, "graphKey": thread.graph_key}
        try:
            async with self.slots.held(thread.graph_key, facts=facts) as slot:
                with slot.step():
                    return await self._work(thread, event, on_working)
        except (ThreadBusy, SessionPast) as exc:
            log.info("run_not_taken", extra={"session_id": session_id, "error": type(exc).__name__})
            return None

    async def _work(
        self, thread: Thread, event: EventName, on_working: Callable[[bool], None]
    ) -> AgentSession:
        while True:
            automation = await self._automation(thread)
            person = await self._person(thread, automation)
            session = session_of(thread)
            order = SessionOrder(
                event=event,
                budget=self._budget(automation, thread),
                limits=self.limits,
                calendar=automation.calendar if automation else None,
                proposal_ttl_ms=automation.proposal_ttl_s * 1000 if automation else None,
            )
            language = automation.language if automation else None
            try:
                async with asyncio.timeout(
                    max(MIN_ACTIVE_MS, order.budget.active_ms - session.active_ms) / 1000
                ):
                    agent = self._agent_of(automation)
                    running = agent.work(thread.key, person, order, language=language)
                    with self.listeners.following(thread, language or "en") as report:
                        async with aclosing(running) as events:
                            async for agent_event in events:
                                report(agent_event)
            except TimeoutError:
                overdue = SessionEvent(
                    name=EventName.SCHEDULER_HEARTBEAT, facts=frozenset({"overdue"})
                )
                with suppress(SessionRefused):  # it ended at that moment
                    await self.events.apply(thread.key, overdue, language=language or "en")
            thread = (await self.automations.session(thread.key)).thread
            if session_of(thread).phase is Phase.WAITING_COMPLETION_CONFIRMATION:
                await self._count(thread)  # recorded now, in case this process dies
                on_working(False)
                thread = await self._confirmed(thread.key)
            session = session_of(thread)
            await self.account(thread)
            if session.phase is not Phase.CALLING_AI or session.end_reason is not None:
                return session
            event = EventName.SESSION_ACTIVATION_REQUESTED  # a person asked it to continue
            on_working(True)

    def _agent_of(self, automation: Automation | None) -> SessionAgent:
        """Returns the agent with the model that the automation names, if it names one."""
        if automation is None or self.models is None or not automation.has_own_model:
            return self.agent
        return self.agent.with_model(*self.models(automation.provider, automation.model))

    async def _confirmed(self, session_id: str) -> Thread:
        """Waits for the decision of a person about an announced end, or for its time, and returns
        the run.
        """
        # A decision is stored under the lease of the run, which is then given back.
        with self.agent.leases.watched(session_id) as inbox:
            return await self._confirmation(session_id, self.sleep or inbox.wait)

    async def _confirmation(
        self, session_id: str, pause: Callable[[float], Awaitable[Any]]
    ) -> Thread:
        while True:
            thread = (await self.automations.session(session_id)).thread
            session = session_of(thread)
            if session.phase is not Phase.WAITING_COMPLETION_CONFIRMATION:
                if not await self.agent.leases.runs(session_id):
                    return thread
                await pause(CONFIRMATION_POLL_S)  # the decision is just being stored
                continue
            left_s = (int((session.waiting or {}).get("at", 0)) - self.automations.clock()) / 1000
            if left_s > 0:
                await pause(min(left_s, CONFIRMATION_POLL_S))
                continue
            with suppress(SessionRefused, ThreadBusy):
                return await self.events.apply(
                    session_id, SessionEvent(name=EventName.COMPLETION_CONFIRMED)
                )
            await pause(CONFIRMATION_POLL_S)

    async def give_up(
        self,
        stored: StoredThread,
        name: EventName,
        *,
        reason: EndReason | None = None,
        because: str | None = None,
        **facts: Any,
    ) -> None:
        """Ends a run that no process executes: its process died too often, or the network stayed
        away. `because`: the key of the text that begins its report, with the facts of the text.
        """
        automation = await self._automation(stored.thread)
        language = automation.language if automation else "en"
        with suppress(ThreadBusy, SessionRefused):
            event = SessionEvent(name=name, reason=reason)
            words = text(because, language, **facts) if because else ""
            ended = await self.events.apply(
                stored.thread.key, event, language=language, ends_because=words
            )
            await self.account(ended)

    async def update(self, automation_id: str, change: Callable[[Automation], Automation]) -> None:
        """Changes an automation on behalf of the service. Calls the listener if that pauses it.

        Raises: AutomationNotFound, AutomationChanged.
        """
        before, changed = await self.automations.update(automation_id, change)
        if before.enabled and changed.paused_reason is not None:
            self.listeners.paused(changed, changed.paused_reason)

    async def account(self, thread: Thread) -> None:
        """Reports the state of a run, and deletes old runs of its automation."""
        await self.announce(thread)
        session = session_of(thread)
        if session.phase is Phase.COMPLETED:
            before = self.automations.clock() - self.keep_ms
            await self.automations.prune(session.automation_id, keep=self.keep, before=before)

    async def announce(self, thread: Thread) -> None:
        """Records on the automation the usage and the end of a run, and notifies listeners of each
        end once.

        A stored transition is marked as unannounced, so that the next tick of any server finds it.
        """
        await self._count(thread)
        session = session_of(thread)
        if session.unannounced and await self.listeners.left(thread):
            with suppress(ThreadBusy):  # another process continues or announces it
                if await self.events.note_announced(session, thread.key):
                    self.listeners.announced(thread)

    async def _count(self, thread: Thread) -> None:
        session = session_of(thread)

        def with_usage(automation: Automation) -> Automation:
            usage = session.usage
            used = RunUsage(
                session_id=thread.key,
                tokens=usage.tokens,
                cost_usd=usage.cost_usd,
                is_priced=not usage.unpriced_tokens,
            )
            now = self.automations.clock()
            changes = dict[str, Any](last_session_id=thread.key)
            if automation.day_of(session.ended_time or now) == automation.day_of(now):
                changes["spent"] = automation.spent_on(now).counted(used)
            if session.phase is Phase.COMPLETED and automation.last_ended_id != thread.key:
                failures = automation.failures + 1 if session.end_reason in FAILED_ENDS else 0
                changes |= {"failures": failures, "last_ended_id": thread.key}
                if failures >= MAX_FAILURES:
                    changes["failures"] = 0
                    return automation.model_copy(update=changes).paused("failures")
            return automation.model_copy(update=changes)

        with suppress(AutomationError):  # the automation may be deleted; its runs remain
            await self.update(session.automation_id, with_usage)

    async def _automation(self, thread: Thread) -> Automation | None:
        try:
            return await self.automations.get(session_of(thread).automation_id)
        except AutomationError:
            return None

    async def _person(self, thread: Thread, automation: Automation | None) -> Person:
        """Returns the person that a run acts for: the owner, with the lower of the stored role and
        the last one.
        """
        role = (
            await self.members.role_of(thread.user_id, automation.role) if automation else "viewer"
        )
        if automation is None or automation.mode == "report":
            role = "viewer"  # viewers have no write tools
        return Person(thread.user_id, role, thread.workspace, ClientInfo(channel="automation"))

    def _budget(self, automation: Automation | None, thread: Thread) -> RunBudget:
        budget = automation.budget if automation else Budget()
        return RunBudget(
            tokens=budget.tokens,
            cost_usd=automation.cost_left(thread.key, self.automations.clock())
            if automation
            else None,
            active_ms=budget.active_s * 1000,
        )


SLOT: Final = "slot"  # Prefix of the leases that allow one run to work on a graph.
