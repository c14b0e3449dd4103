"""The agent of runs: works on a run from its current phase on, until it ends, waits or pauses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, final

from graphrag.agent.assistant import GraphAssistant
from graphrag.agent.events import Event
from graphrag.agent.session_turn import RunKind, SessionOrder
from graphrag.agent.thread_store import StoredThread, ThreadError, Threads, session_of
from graphrag.agent.turn import Turn
from graphrag.agent.turn_events import turn_events
from graphrag.agent.turn_lease import TurnLease, TurnLeases
from graphrag.agent.turn_outcomes import collect_outcomes, decide_by_policy
from graphrag.agent.turn_steps import AgentLimits, Start
from graphrag.agent.turn_trace import Traces, TurnTrace
from graphrag.approvals import Approval, Person, ProposingSession
from graphrag.i18n import Language
from graphrag.llm.base import LLMProvider, UserMessage
from graphrag.llm.registry import Pricing
from graphrag.logs import bind_log_context
from graphrag.sessions.phases import EventName, Phase

RUN_LIMITS: Final = AgentLimits(rounds=1_000_000)
"""A run has no limit of rounds: the number of its model calls is limited instead."""


@final
class SessionPast(ThreadError):
    """The event that should take a session up came too late, or twice."""

    def __init__(self, *, session_id: str, phase: str, event: str) -> None:
        super().__init__(session_id=session_id, phase=phase, event=event)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAgent:
    """Works on the runs of automations. `threads` are of the kind of sessions. Without `traces`
    nothing is kept of how a run came about.
    """

    assistant: GraphAssistant
    threads: Threads
    leases: TurnLeases
    traces: Traces | None = None

    def with_model(self, provider: LLMProvider, pricing: Pricing) -> SessionAgent:
        """Returns the agent with another model."""
        steps = self.assistant.steps
        steps = replace(steps, caller=steps.caller.with_model(provider, pricing))
        return replace(self, assistant=replace(self.assistant, steps=steps))

    async def work(
        self,
        session_id: str,
        person: Person,
        order: SessionOrder,
        *,
        language: Language | None = None,
    ) -> AsyncGenerator[Event]:
        """Takes a run up. The caller holds the slot of its graph.

        Raises, before the first event: ThreadNotFound, ThreadBusy, SessionPast.
        """
        bind_log_context(threadId=session_id)
        async with self.leases.held(session_id) as hold:
            stored = await self.threads.get(session_id, person)
            kind = RunKind(order, self.threads.clock)
            language = language or self.assistant.options.language
            turn = self._turn(stored, kind, person, language, hold)
            await self._activate(turn, kind)
            steps = self.assistant.steps.run(turn, partial(self._take_up, turn, kind))
            async with aclosing(turn_events(turn, steps)) as shown:
                async for event in shown:
                    yield event
        yield turn.ending

    def _turn(
        self,
        stored: StoredThread,
        kind: RunKind,
        person: Person,
        language: Language,
        hold: TurnLease,
    ) -> Turn:
        run = session_of(stored.thread)
        session = ProposingSession(
            kind="automation",
            automation_id=run.automation_id,
            scheduled_time=run.scheduled_time,
            seed_version=run.automation_version,
            require_validation=run.require_validation,
            ttl_ms=kind.order.proposal_ttl_ms,
        )
        return Turn(
            self.threads,
            stored,
            person,
            language,
            hold,
            kind,
            person.role,
            interactive=False,
            session=session,
            stores_instructions=False,  # they are rendered again for each turn
            calendar=kind.order.calendar,
            reference=run.reference,
            run=kind.order.facts_of(run),
            trace=TurnTrace(self.traces),
        )

    async def _activate(self, turn: Turn, kind: RunKind) -> None:
        """Applies the event that takes the session up, and stores it before anything else."""
        before = session_of(turn.stored.thread).phase
        if before is Phase.WAITING_VALIDATION:
            event = EventName.VALIDATION_RECEIVED
            decided, waiting = await self._decided(turn)
            done = any(approval.status not in ("rejected", "expired") for approval in decided)
            left = "open_left" if waiting else ""
            kind.apply(turn, event, left, "approved" if done else "", "slot_free")
            if session_of(turn.stored.thread).phase is Phase.EXECUTING_ACTIONS:
                kind.end_actions(turn, decided)
            else:
                kind.drop_finish(turn)
            moved = session_of(turn.stored.thread).phase is not before
        else:
            event = kind.order.event
            moved = kind.apply(turn, event, "slot_free", "unheld") is not None
        if not moved:
            raise SessionPast(session_id=turn.thread_id, phase=before.value, event=event.value)
        await turn.save("running")

    async def _take_up(self, turn: Turn, kind: RunKind) -> Start:
        """Prepares an activated session for the next call of the model.

        Returns the calls of the last answer if the process ended before their answers were stored.
        """
        steps = self.assistant.steps
        if kind.is_over(turn):
            return None, False
        phase = session_of(turn.stored.thread).phase
        if phase is Phase.EXECUTING_ENRICHMENTS:
            await steps.caller.prepare()
            task = _take_task(turn)
            task = await steps.blocks.worded(task, turn.graph_key, turn.language, turn.calendar)
            await self.assistant.open(turn, task)
            kind.apply(turn, EventName.ENRICHMENTS_EXECUTED)
        elif phase in (Phase.PARSING_AI_RESPONSE, Phase.EXECUTING_DATA_QUERIES):
            turn.conversation.insert_instructions(await self.assistant.write_instructions(turn))
            return kind.resume_step(turn), False
        else:
            turn.conversation.insert_instructions(await self.assistant.write_instructions(turn))
            decided, waiting = await self._decided(turn)
            if phase is Phase.EXECUTING_ACTIONS:
                kind.end_actions(turn, decided, open_left=bool(waiting))
            else:  # the process ended before it applied what policy allows
                await collect_outcomes(turn, steps.approvals, keep_waiting=False)
            turn.conversation.repair()
        await turn.save("running")
        return None, False

    async def _decided(self, turn: Turn) -> tuple[list[Approval], list[Approval]]:
        """Answers the calls of decided proposals. Returns the decided and the waiting proposals."""
        approvals = self.assistant.steps.approvals
        ids = list(turn.state.open.values())
        _, waiting = await collect_outcomes(turn, approvals, keep_waiting=True)
        _, waiting = await decide_by_policy(turn, approvals, waiting)
        left = {approval.id for approval in waiting}
        decided = [await approvals.get(each, turn.person) for each in ids if each not in left]
        return decided, waiting


def _take_task(turn: Turn) -> UserMessage:
    """Takes the task of a run out of the conversation, to be added again behind its context."""
    messages = turn.conversation.take_person_messages()
    words = "\n\n".join(message.content for message in messages)
    segments = tuple(segment for message in messages for segment in message.segments)
    first = messages[0] if messages else UserMessage(content="")
    return replace(first, content=words, segments=segments)
