"""The agent of runs: takes a session up where it stands, and goes on until it ends, waits or pauses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Final

from graphrag.agent.events import Ending, Event
from graphrag.agent.loop import Agent
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.session_turn import SessionOrder, SessionTurn
from graphrag.agent.thread_store import ThreadError
from graphrag.agent.tool_calls import Requested
from graphrag.agent.turn_guard import open_turn, watched
from graphrag.approvals import Approval, Person, ProposingSession
from graphrag.i18n import Language
from graphrag.logs import bind_log_context
from graphrag.sessions.machine import EventName, Phase

UNLIMITED: Final = 1_000_000
"""Rounds of tools of a run: its calls of the model are limited instead."""


class SessionPast(ThreadError):
    """The event that should take a session up came too late, or twice."""

    def __init__(self, *, session_id: str, phase: str, event: str) -> None:
        super().__init__(session_id=session_id, phase=phase, event=event)


class SessionAgent(Agent):
    """Works on the runs of automations; its threads are of the kind of sessions."""

    async def work(
        self, session_id: str, person: Person, order: SessionOrder, *, language: Language | None = None
    ) -> AsyncGenerator[Event]:
        """Take a run up; who calls holds the slot of its graph.

        Raises, before the first event: ThreadNotFound, ThreadBusy, SessionPast.
        """
        async with self._turn(session_id, person, order, language) as turn:
            await self._activate(turn)
            async with aclosing(watched(turn, (), self._loop(turn, partial(self._go_on, turn)))) as watching:
                async for event in watching:
                    yield event

    @asynccontextmanager
    async def _turn(
        self, session_id: str, person: Person, order: SessionOrder, language: Language | None
    ) -> AsyncGenerator[SessionTurn]:
        bind_log_context(threadId=session_id)
        async with self.leases.held(session_id) as hold:
            stored = await self._threads.get(session_id, person)
            run = stored.thread.session
            yield SessionTurn(
                self._threads,
                stored,
                stored.thread.messages,
                person,
                language or self._context_options.language,
                hold,
                order=order,
                clock=self._threads.clock,
                session=ProposingSession(
                    kind="automation",
                    automation_id=run.automation_id if run else None,
                    scheduled_time=run.scheduled_time if run else None,
                    seed_version=run.automation_version if run else None,
                    require_validation=run is None or run.require_validation,
                    ttl_ms=order.proposal_ttl_ms,
                ),
                interactive=False,
            )

    async def _activate(self, turn: SessionTurn) -> None:
        """Apply the event that takes the session up, and store it before anything is done."""
        before = turn.agent_session.phase
        if before is Phase.WAITING_VALIDATION:
            event = EventName.VALIDATION_RECEIVED
            decided, waiting = await self._decided(turn)
            done = any(approval.status not in ("rejected", "expired") for approval in decided)
            turn.happened(event, "open_left" if waiting else "", "approved" if done else "", "slot_free")
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
            source, options = self._source, self._context_options
            said = await self.blocks.worded(
                turn.take_question(), turn.graph_key, turn.language, turn.calendar
            )
            await open_turn(
                turn, said, self.blocks, source, self._retriever, options, self._caller, rounds=UNLIMITED
            )
            turn.happened(EventName.ENRICHMENTS_EXECUTED)
        else:
            turn.messages.insert(0, await self._instructions(turn))
            if turn.agent_session.phase is Phase.EXECUTING_ACTIONS:
                await self._approvals.recover()
                decided, waiting = await self._decided(turn)
                turn.carried_out(decided, open_left=bool(waiting))
            else:
                await self._decided(turn)  # a process may have ended before it applied what was free
                await turn.collect_outcomes(self._approvals, keep_waiting=False)
            turn.repair_history()
        await turn.save("running")
        return None, False

    async def _decided(self, turn: SessionTurn) -> tuple[list[Approval], list[Approval]]:
        """Answer the calls of proposals that were decided; return these proposals, and those that wait."""
        ids = list(turn.state.open.values())
        _, waiting = await turn.collect_outcomes(self._approvals, keep_waiting=True)
        _, waiting = await RunningTurn.decide_by_policy(turn, self._approvals, waiting)
        left = {approval.id for approval in waiting}
        decided = [await self._approvals.get(each, turn.person) for each in ids if each not in left]
        return decided, waiting
