"""The agent of runs: takes a session up where it stands, and goes on until it ends,
waits or pauses.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from graphrag.agent.events import Ending, Event
from graphrag.agent.loop import Agent
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.session_turn import SessionOrder, SessionTurn
from graphrag.agent.thread_store import ThreadError, session_of
from graphrag.agent.tool_calls import Requested
from graphrag.agent.turn_steps import AgentLimits
from graphrag.approvals import Approval, Person, ProposingSession
from graphrag.i18n import Language
from graphrag.logs import bind_log_context
from graphrag.sessions.phases import EventName, Phase

UNLIMITED: Final = 1_000_000
"""Rounds of tools of a run: its calls of the model are limited instead."""


class SessionPast(ThreadError):
    """The event that should take a session up came too late, or twice."""

    def __init__(self, *, session_id: str, phase: str, event: str) -> None:
        super().__init__(session_id=session_id, phase=phase, event=event)


class SessionAgent(Agent):
    """Works on the runs of automations; its threads are of the kind of sessions."""

    def __init__(self, **of_agent: Any) -> None:
        super().__init__(**of_agent, limits=AgentLimits(rounds=UNLIMITED))

    async def work(
        self,
        session_id: str,
        person: Person,
        order: SessionOrder,
        *,
        language: Language | None = None,
    ) -> AsyncGenerator[Event]:
        """Take a run up; who calls holds the slot of its graph.

        Raises, before the first event: ThreadNotFound, ThreadBusy, SessionPast.
        """
        bind_log_context(threadId=session_id)
        async with self.leases.held(session_id) as hold:
            stored = await self._threads.get(session_id, person)
            run = session_of(stored.thread)
            turn = SessionTurn(
                self._threads,
                stored,
                stored.thread.messages,
                person,
                language or self._context_options.language,
                hold,
                order=order,
                calendar=order.calendar,
                reference=run.scheduled_time,  # it reads what it was meant to, however late it is
                clock=self._threads.clock,
                session=ProposingSession(
                    kind="automation",
                    automation_id=run.automation_id,
                    scheduled_time=run.scheduled_time,
                    seed_version=run.automation_version,
                    require_validation=run.require_validation,
                    ttl_ms=order.proposal_ttl_ms,
                ),
                interactive=False,
            )
            await self._activate(turn)
            steps = self._loop(turn, partial(self._go_on, turn))
            async with aclosing(self._events(turn, steps)) as shown:
                async for event in shown:
                    yield event
        yield await self.finished(turn.ending)

    async def _activate(self, turn: SessionTurn) -> None:
        """Apply the event that takes the session up, and store it before anything is done."""
        before = turn.agent_session.phase
        if before is Phase.WAITING_VALIDATION:
            event = EventName.VALIDATION_RECEIVED
            decided, waiting = await self._decided(turn)
            done = any(approval.status not in ("rejected", "expired") for approval in decided)
            turn.happened(
                event, "open_left" if waiting else "", "approved" if done else "", "slot_free"
            )
            if turn.agent_session.phase is Phase.EXECUTING_ACTIONS:
                turn.carried_out(decided)
            else:
                turn.drop_finish()
            moved = turn.agent_session.phase is not before
        else:
            event = turn.order.event
            moved = turn.happened(event, "slot_free", "unheld") is not None
        if not moved:
            raise SessionPast(session_id=turn.thread_id, phase=before.value, event=event.value)
        await turn.save("running")

    async def _go_on(self, turn: SessionTurn) -> Ending | tuple[Requested | None, bool]:
        """Bring an activated session to where the model can be asked."""
        if turn.is_over:
            return None, False
        if turn.agent_session.phase is Phase.EXECUTING_ENRICHMENTS:
            await self._caller.prepare()
            said = turn.take_question()
            await self._open(
                turn, await self.blocks.worded(said, turn.graph_key, turn.language, turn.calendar)
            )
            turn.happened(EventName.ENRICHMENTS_EXECUTED)
        else:
            turn.messages.insert(0, await self._instructions(turn))
            if turn.agent_session.phase is Phase.EXECUTING_ACTIONS:
                decided, waiting = await self._decided(turn)
                turn.carried_out(decided, open_left=bool(waiting))
            else:
                # a process may have ended before it applied what was free
                await self._decided(turn)
                await turn.collect_outcomes(self._approvals, keep_waiting=False)
            turn.repair_history()
        await turn.save("running")
        return None, False

    async def _decided(self, turn: SessionTurn) -> tuple[list[Approval], list[Approval]]:
        """Answer the calls of proposals that were decided; return these proposals, and
        those that wait.
        """
        ids = list(turn.state.open.values())
        _, waiting = await turn.collect_outcomes(self._approvals, keep_waiting=True)
        _, waiting = await RunningTurn.decide_by_policy(turn, self._approvals, waiting)
        left = {approval.id for approval in waiting}
        decided = [await self._approvals.get(each, turn.person) for each in ids if each not in left]
        return decided, waiting
