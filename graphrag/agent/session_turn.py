"""A turn of an automation's run: each of its steps goes through the table of
sessions and is stored.

Decision: the loop of the agent is one. What a run does otherwise than a conversation stands here:
it ends with `finish_automation` and in no other way, waits for nobody but reviewers and the
network, and each call of the model is counted before it is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from graphrag.agent.events import Completed, Event, ProposalPending, TurnFault, UsageReported
from graphrag.agent.reply import Reply
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_store import TurnStatus, session_of
from graphrag.agent.tool_calls import Answered, Requested
from graphrag.approvals import Approval, Approvals
from graphrag.i18n import Language, text
from graphrag.llm.base import (
    TOKENS,
    AssistantMessage,
    Message,
    SystemKind,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from graphrag.sessions.agent_session import (
    REPORT_CHARS,
    STATUS_OF,
    AgentSession,
    RunBudget,
    SessionReport,
    SessionUsage,
)
from graphrag.sessions.machine import SessionEvent, SessionLimits, Transition
from graphrag.sessions.periods import Calendar
from graphrag.sessions.phases import RETRYING, EndReason, EventName, Phase
from tools.session_tools import FINISH_AUTOMATION, FinishAutomation

log = logging.getLogger(__name__)

NETWORK_CODES: Final = frozenset({"network", "timeout", "server_error", "busy", "rate_limit"})
"""Faults after which a run asks again by itself, if they are retryable: the service
was not reached.
"""
MAX_PARSE_ERRORS: Final = 3
ACTED_IN_S: Final = 2.0
"""So long a run that is stopped waits for the action under way; `Approvals.recover` finishes
a longer one.
"""
CALLS_LEFT_SAID: Final = 5
"""From so few calls of the model on, the prompt says how many are left."""
_APPLIED: Final = frozenset({"applied", "edited", "policy"})
_OPEN: Final = frozenset({"pending", "waits"})
_FOR_PEOPLE: Final = frozenset({"NETWORK_ERROR", "SESSION_TIMEOUT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOrder:
    """How a session is taken up: the event that does it, how far the run may go, how its
    days are counted.
    """

    event: EventName
    budget: RunBudget = field(default_factory=RunBudget)
    limits: SessionLimits = field(default_factory=SessionLimits)
    calendar: Calendar | None = None
    proposal_ttl_ms: int | None = None
    """For how long a proposal of the run waits for people; None: as long as any other."""


@dataclass(slots=True, kw_only=True)
class SessionTurn(RunningTurn):
    """Units: `clock` in milliseconds since 1970."""

    order: SessionOrder
    clock: Callable[[], int]
    finish_call: str | None = None
    """Id of the call that finishes, while other calls of its step are under way."""
    is_last_call: bool = False
    ran: bool = False
    """Whether a call of the step could be run."""

    @property
    def agent_session(self) -> AgentSession:
        return session_of(self.stored.thread)

    @property
    def calls_allowed(self) -> int | None:
        return self.agent_session.roundtrip_limit

    @property
    def is_over(self) -> bool:
        return self.agent_session.phase in (Phase.WAITING_COMPLETION_CONFIRMATION, Phase.COMPLETED)

    def edit(self, **changes: Any) -> None:
        """Change fields of the session; stored with the next `save`."""
        self._update(session=self.agent_session.model_copy(update=changes))

    def happened(
        self,
        name: EventName,
        *facts: str,
        reason: EndReason | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Transition[AgentSession] | None:
        """Apply an event to the session; None: it was refused. Stored with the next `save`."""
        known = {fact for fact in facts if fact}
        if self.order.budget.is_spent_by(self.agent_session):
            known.add("budget_spent")
        event = SessionEvent(name=name, facts=frozenset(known), reason=reason, data=data or {})
        made = self.agent_session.after(event, self.order.limits, self.clock())
        if made is None:
            facts_said = {
                "event": name.value,
                "phase": self.agent_session.phase.value,
                "sessionId": self.thread_id,
            }
            log.info("event_refused", extra=facts_said)
            return None
        session = made.state
        self._update(session=session)
        self.messages += notes_of(made, self.language)
        self.is_last_call = (
            session.roundtrip_limit is not None and session.roundtrips >= session.roundtrip_limit
        )
        return made

    async def save(self, status: TurnStatus, waits_for: Any = None) -> None:  # noqa: ARG002 - the phase says it
        """Stores the run as it is now, without its instructions, which are made for each call.

        A run that retries is stored as such first, then as calling the model.
        """
        await self._save_phase()
        if self.agent_session.phase in RETRYING:
            self.happened(EventName.RETRY_SCHEDULED)
            await self._save_phase()

    async def _save_phase(self) -> None:
        session = self.agent_session
        waiting = session.waiting if session.phase is Phase.WAITING_VALIDATION else None
        instructions = [m for m in self.messages if isinstance(m, SystemMessage) and m.stable]
        self.messages = [
            m for m in self.messages if not (isinstance(m, SystemMessage) and m.stable)
        ]
        try:
            await RunningTurn.save(self, STATUS_OF[session.phase], waiting)
        finally:
            self.messages = [*instructions, *self.messages]

    # -- the steps of the loop

    def is_wrong_form(self, reply: Reply) -> bool:  # noqa: ARG002 - a run always has to call something
        return True

    async def correct(self, reply: Reply) -> bool:
        """Note that an answer had a wrong form, and ask again; the third in a row stands
        as the report.
        """
        self.happened(EventName.AI_RESPONSE_RECEIVED)
        self._wrong_form(
            "leaked" if reply.leaked else "empty" if reply.is_empty else "no_call", reply.text
        )
        await self.save("running")
        return True

    def _wrong_form(self, what: str, said: str) -> None:
        errors = self.agent_session.parse_errors + 1
        third = errors >= MAX_PARSE_ERRORS
        if third:
            reason = text(
                "run_wrong_form", self.language, what=text(f"format_{what}", self.language)
            )
            report = SessionReport(outcome="findings" if what == "no_call" else "failed", text=said)
            self.edit(finish=report if said.strip() else report.model_copy(update={"text": reason}))
        self.edit(parse_errors=errors)
        self.happened(EventName.PARSE_ERROR_OCCURRED, "third_in_a_row" if third else "")
        if not third:
            last = self.messages[-1] if self.messages else None
            if isinstance(last, AssistantMessage):
                self.messages[-1] = replace(last, invalid=True)
            self.messages.append(
                _note("FORMAT_ERROR", self.language, what=text(f"format_{what}", self.language))
            )

    def accept(self, reply: Reply, writes: Callable[[str], bool]) -> Requested:
        """Return the calls of an answer that are to be run; the others are answered."""
        requested = reply.requested
        self.happened(EventName.AI_RESPONSE_RECEIVED)
        self.ran = False
        finishes = [call.id for call in requested.calls if call.name == FINISH_AUTOMATION.name]
        self.finish_call = finishes[0] if finishes else None
        if self.is_last_call:
            self.refuse(
                "limit_reached", [call for call in requested.calls if call.id != self.finish_call]
            )
            kept = [call for call in requested.calls if call.id == self.finish_call]
            requested = replace(requested, calls=kept)
        if any(not writes(call.name) and call.id not in finishes for call in requested.calls):
            self.happened(EventName.AI_RESPONSE_PARSED, "calls", "reads")
        return requested

    def answered(self, answered: Answered) -> bool:
        """Take in what a call gave; return whether its answer waits until the step is over."""
        self.ran = self.ran or not answered.result.is_error
        if answered.call.id != self.finish_call:
            return False
        if not isinstance(answered.result.data, FinishAutomation):
            self.finish_call = None  # its arguments were wrong
            return False
        said = answered.result.data
        replies = [m for m in self.messages if isinstance(m, AssistantMessage)]
        report = SessionReport(outcome=said.outcome, text=said.report[:REPORT_CHARS])
        self.edit(finish=report.model_copy(update={"message_id": replies[-1].id}))
        return True

    def stepped(self, made: Sequence[Approval]) -> None:
        """Say what became of the calls of a step, with the proposals that were made in it."""
        ran = self.ran
        finish = "finish" if self.agent_session.finish is not None and self.finish_call else ""
        needs = any(approval.needs_person for approval in made)
        facts = ("calls", finish, "proposals" if made else "", "needs_validation" if needs else "")
        ids = [approval.id for approval in made]
        data = (
            {"approvalIds": ids, "reasons": {a.id: a.to_document()["reasons"] for a in made}}
            if needs
            else {}
        )
        if ran or made or finish or self.is_last_call:
            self.edit(parse_errors=0, proposed=self.agent_session.proposed + len(made))
        if self.agent_session.phase is Phase.PARSING_AI_RESPONSE:
            if made or finish:
                self.happened(EventName.AI_RESPONSE_PARSED, *facts, data=data)
                return
            if not ran and not self.is_last_call:
                self._wrong_form("refused", "")
                return
            self.happened(EventName.AI_RESPONSE_PARSED, "calls", "reads")
        self.happened(EventName.DATA_QUERIES_EXECUTED, *facts, data=data)

    async def decide_by_policy(
        self, approvals: Approvals, waiting: list[Approval]
    ) -> tuple[list[Event], list[Approval]]:
        """Apply what no level demands a person for, and say what became of it;
        cancelled meanwhile, too.
        """
        if not waiting or self.agent_session.phase is not Phase.EXECUTING_ACTIONS:
            return await RunningTurn.decide_by_policy(self, approvals, waiting)
        await self.save("running")
        acting = asyncio.create_task(self._act(approvals, waiting))
        try:
            return await asyncio.shield(acting)
        except asyncio.CancelledError:
            await asyncio.wait({acting}, timeout=ACTED_IN_S)
            raise

    async def _act(
        self, approvals: Approvals, waiting: list[Approval]
    ) -> tuple[list[Event], list[Approval]]:
        events, left = await RunningTurn.decide_by_policy(self, approvals, waiting)
        now = [await approvals.get(one.id, self.person) for one in waiting]
        self.carried_out(now, open_left=bool(left))
        return events, left

    def carried_out(self, decided: Sequence[Approval], *, open_left: bool = False) -> None:
        """Say what became of actions: those that policy allowed, or that people approved."""
        failed = any(approval.status in ("stale", "failed") for approval in decided)
        finish = "finish" if self.agent_session.finish is not None else ""
        left = "open_left" if open_left else ""
        if failed:
            self.happened(EventName.ACTION_FAILURE_OCCURRED, left)
        else:
            self.happened(EventName.ACTIONS_EXECUTED, finish, left)
        if not self.is_over:
            self.drop_finish()

    def repair_history(self) -> None:
        """Put every answer in its place; the call that ends the run has one."""
        if self.is_over and self.finish_call is not None:
            done = ToolMessage(
                call_id=self.finish_call, name=FINISH_AUTOMATION.name, content="finished"
            )
            self.messages.append(done)
            self.finish_call = None
        RunningTurn.repair_history(self)

    def drop_finish(self) -> None:
        """Forget a report whose run goes on after all."""
        if self.agent_session.finish is not None:
            self.edit(finish=None)
        self.finish_call = None

    def call_notes(self) -> list[str]:
        """Return what is added for the model before it is asked: how many calls are left."""
        limit = self.agent_session.roundtrip_limit
        if limit is None or limit - self.agent_session.roundtrips >= CALLS_LEFT_SAID:
            return []
        if self.is_last_call:
            return [self.phrase("last_call")]
        return [self.phrase("calls_left", calls=str(limit - self.agent_session.roundtrips + 1))]

    def used(self, usage: UsageReported, *, provider: str, model: str) -> None:
        """Add a model call to the sums of the thread and of the session."""
        RunningTurn.used(self, usage, provider=provider, model=model)
        before = self.agent_session.usage
        sums = {name: getattr(before, name) + getattr(usage, name) for name in TOKENS}
        cost = before.cost_usd + (usage.cost_usd or 0.0)
        unpriced = before.unpriced_tokens + usage.unpriced
        self.edit(usage=SessionUsage(**sums, cost_usd=cost, unpriced_tokens=unpriced))

    # -- how a turn is left

    async def complete(self) -> Completed:
        """Store that the run is about to end, with its report."""
        self.repair_history()
        self.edit(report=report_of(self.agent_session, self.text, self.messages, self.language))
        await self.save("running")
        return Completed(
            thread_id=self.thread_id,
            text=self.agent_session.report.text if self.agent_session.report else "",
        )

    async def wait(self, waiting: Sequence[Approval]) -> ProposalPending:
        """Store that the run waits for people; its slot is free meanwhile."""
        await self.save("waiting")
        return ProposalPending(thread_id=self.thread_id, text=self.text, approvals=tuple(waiting))

    async def stop(self, reason: str = EndReason.CANCELLED) -> None:
        """Store that the run ends, or that it pauses for a conversation; what was being
        said is dropped.
        """
        self.reply = None
        ends = EndReason(reason)
        if ends is not EndReason.SUSPENDED:
            self.answer_rest("stopped")
        self.happened(EventName.SESSION_COMPLETED, reason=ends)
        if self.agent_session.phase is Phase.COMPLETED:
            self.edit(report=report_of(self.agent_session, self.text, self.messages, self.language))
        await self.save("running")

    async def abandon(self) -> None:
        """Leave the run as it is stored: its process ends, and another takes it up."""

    async def fail(self, fault: TurnFault) -> None:
        """Store that the model's service is not there, or that the run ends with an error."""
        self.reply = None
        if (
            fault.code in NETWORK_CODES
            and fault.retryable
            and self.agent_session.phase is Phase.CALLING_AI
        ):
            data = {"code": fault.code, "retryAfterS": fault.retry_after_s}
            self.happened(EventName.NETWORK_ERROR_OCCURRED, data=data)
            await self.save("waiting")
            return
        self.answer_rest("interrupted")
        self.happened(
            EventName.SYSTEM_ERROR_OCCURRED, fault.code if fault.code == "usage_limit" else ""
        )
        self.edit(
            report=SessionReport(outcome="failed", text=fault.message(self.language)[:REPORT_CHARS])
        )
        await self.save("running")

    def take_question(self) -> UserMessage:
        """Take the task out of the conversation: it is put at its end again, behind its context."""
        asked = [m for m in self.messages if isinstance(m, UserMessage)]
        self.messages = [m for m in self.messages if not isinstance(m, UserMessage)]
        words = "\n\n".join(message.content for message in asked)
        segments = tuple(s for message in asked for s in message.segments)
        first = asked[0] if asked else UserMessage(content="")
        return replace(first, content=words, segments=segments)


def notes_of(transition: Transition[AgentSession], language: Language) -> list[SystemMessage]:
    """Returns the system messages of a transition, except FORMAT_ERROR, which says what was
    wrong and is added by the turn.
    """
    calls = str(transition.state.roundtrips)
    tokens = str(transition.state.usage.tokens)
    return [
        _note(kind, language, calls=calls, tokens=tokens)
        for kind in transition.notes
        if kind != "FORMAT_ERROR"
    ]


def _note(kind: SystemKind, language: Language, **facts: str) -> SystemMessage:
    said = text(f"note_{kind.lower()}", language, **facts)
    hidden = kind in _FOR_PEOPLE
    return SystemMessage(
        content=said, stable=False, kind=kind, summary=said, exclude_from_prompt=hidden
    )


def report_of(
    session: AgentSession, said: str, messages: Sequence[Message], language: Language
) -> SessionReport:
    """Return the report of a run that ends: the model's own, else what it had said by
    then, as failed.

    What became of its proposals is added from their outcomes, whatever the model says.
    """
    reason = (session.waiting or {}).get("reason") or session.end_reason
    made = session.finish if session.finish is not None and reason == EndReason.COMPLETED else None
    if made is None:
        words = said.strip() or text("run_said_nothing", language)
        made = SessionReport(outcome="failed", text=words[:REPORT_CHARS])
    if not session.proposed:
        return made
    found = [m.outcome.get("status") for m in messages if isinstance(m, ToolMessage) and m.outcome]
    applied = sum(status in _APPLIED for status in found)
    waiting = max(0, session.proposed - sum(status not in _OPEN for status in found))
    counted = text(
        "report_proposals", language, made=session.proposed, waiting=waiting, applied=applied
    )
    return made.model_copy(update={"text": f"{made.text}\n\n{counted}"})
