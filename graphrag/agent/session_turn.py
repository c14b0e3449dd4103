"""Turns of an automation's run: each step is an event of the session's state table, and is stored.

Decision: runs and conversations share one loop; the differences are here. A run ends only with
`finish_automation`, waits only for reviewers and the network, and counts each model call before it
is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, final

from graphrag.agent.events import Event, TurnFault
from graphrag.agent.history import unanswered
from graphrag.agent.reply import Reply
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.thread_store import TurnStatus, session_of
from graphrag.agent.turn import Turn
from graphrag.agent.turn_outcomes import decide_by_policy
from graphrag.approvals import Approval, Approvals
from graphrag.i18n import Language, text
from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemKind,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from graphrag.prompts import RunFacts
from graphrag.sessions.agent_session import (
    REPORT_CHARS,
    STATUS_OF,
    AgentSession,
    RunBudget,
    RunLimit,
    SessionReport,
)
from graphrag.sessions.machine import SessionEvent, SessionLimits, Transition
from graphrag.sessions.periods import Calendar
from graphrag.sessions.phases import RETRYING, EndReason, EventName, Phase
from graphrag.sessions.schedules import zone_of
from tools.session_tools import FINISH_AUTOMATION, FinishAutomation

log = logging.getLogger(__name__)

NETWORK_CODES: Final = frozenset({"network", "timeout", "server_error", "busy", "rate_limit"})
"""Codes of faults after which a run asks the model again, if they are retryable."""
MAX_PARSE_ERRORS: Final = 3
ACTION_WAIT_S: Final = 2.0  # for the action under way when a run is stopped
_APPLIED: Final = frozenset({"applied", "edited", "policy"})
_OPEN: Final = frozenset({"pending", "waits"})
_FOR_PEOPLE: Final = frozenset({"NETWORK_ERROR", "SESSION_TIMEOUT"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOrder:
    """The event that takes a session up, and the bounds of the run. `calendar` counts its periods.

    `proposal_ttl_ms`: time after which its proposals expire; None: as those of conversations.
    """

    event: EventName
    budget: RunBudget = field(default_factory=RunBudget)
    limits: SessionLimits = field(default_factory=SessionLimits)
    calendar: Calendar | None = None
    proposal_ttl_ms: int | None = None

    def facts_of(self, session: AgentSession) -> RunFacts:
        """Returns what the run is told of itself."""
        timezone = (self.calendar or Calendar()).timezone
        return RunFacts(
            occurrence=datetime.fromtimestamp(session.reference / 1000, zone_of(timezone)),
            timezone=timezone,
            trigger=session.trigger,
            calls=session.roundtrip_limit,
            tokens=self.budget.tokens,
            cost_usd=self.budget.cost_usd,
            minutes=max(1, self.budget.active_ms // 60_000),
        )


@final
class RunKind:
    """A `TurnKind` for one turn of a run. Units: `clock` in milliseconds since 1970."""

    def __init__(self, order: SessionOrder, clock: Callable[[], int]) -> None:
        self.order = order
        self._clock = clock
        # The call that finishes the run, while other calls of its step are under way.
        self._finish_call: str | None = None
        self._any_call_ran = False  # in this step

    # The state of the session

    def is_over(self, turn: Turn) -> bool:
        ends = (Phase.WAITING_COMPLETION_CONFIRMATION, Phase.COMPLETED)
        return session_of(turn.stored.thread).phase in ends

    def apply(
        self,
        turn: Turn,
        name: EventName,
        *facts: str,
        reason: EndReason | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Transition[AgentSession] | None:
        """Applies an event to the session. Returns None if it was refused.

        The session is stored with the turn's next `save`.
        """
        session = session_of(turn.stored.thread)
        given = {fact for fact in facts if fact}
        spent = self.order.budget.reached_by(session)
        if spent is not None:
            given.add("budget_spent")
        event = SessionEvent(name=name, facts=frozenset(given), reason=reason, data=data or {})
        transition = session.after(event, self.order.limits, self._clock())
        if transition is None:
            refused = {"event": name.value, "phase": session.phase.value}
            log.info("event_refused", extra=refused | {"sessionId": turn.thread_id})
            return None
        turn.change_thread(session=transition.state)
        turn.conversation.add(*notes_of(transition, turn.language, spent=spent))
        return transition

    def end_actions(
        self, turn: Turn, decided: Sequence[Approval], *, open_left: bool = False
    ) -> None:
        """Applies the event for the outcome of proposals that policy or people decided."""
        failed = any(approval.status in ("stale", "failed") for approval in decided)
        finish = "finish" if session_of(turn.stored.thread).finish is not None else ""
        left = "open_left" if open_left else ""
        if failed:
            self.apply(turn, EventName.ACTION_FAILURE_OCCURRED, left)
        else:
            self.apply(turn, EventName.ACTIONS_EXECUTED, finish, left)
        if self.is_over(turn):
            self._answer_finish(turn)
        else:
            self.drop_finish(turn)

    def drop_finish(self, turn: Turn) -> None:
        """Removes the report of a run that goes on after all."""
        if session_of(turn.stored.thread).finish is not None:
            _edit(turn, finish=None)
        self._finish_call = None

    # The steps of the turn

    async def save(self, turn: Turn, _status: TurnStatus, _waits_for: Any) -> None:
        """Stores the run with the status of its phase.

        A run that retries is stored as such first, then as calling the model.
        """
        await self._store_phase(turn)
        if session_of(turn.stored.thread).phase in RETRYING:
            self.apply(turn, EventName.RETRY_SCHEDULED)
            await self._store_phase(turn)

    async def _store_phase(self, turn: Turn) -> None:
        session = session_of(turn.stored.thread)
        waiting = session.waiting if session.phase is Phase.WAITING_VALIDATION else None
        await turn.store(STATUS_OF[session.phase], waiting)

    def correct(self, turn: Turn, reply: Reply) -> bool | None:
        """Asks for another answer, as a run has to call a tool. The text of the third such answer
        in a row becomes the report.
        """
        self.apply(turn, EventName.AI_RESPONSE_RECEIVED)
        form = "leaked" if reply.leaked else "empty" if reply.is_empty else "no_call"
        self._add_format_error(turn, form, reply.text)
        return True

    def _add_format_error(self, turn: Turn, form: str, answer: str) -> None:
        errors = session_of(turn.stored.thread).parse_errors + 1
        problem = text(f"format_{form}", turn.language)
        third = errors >= MAX_PARSE_ERRORS
        if third:
            words = (
                answer if answer.strip() else text("run_wrong_form", turn.language, what=problem)
            )
            outcome = "findings" if form == "no_call" else "failed"
            _edit(turn, finish=SessionReport(outcome=outcome, text=words))
        _edit(turn, parse_errors=errors)
        self.apply(turn, EventName.PARSE_ERROR_OCCURRED, "third_in_a_row" if third else "")
        if not third:
            turn.conversation.mark_invalid()
            turn.conversation.add(_note("FORMAT_ERROR", turn.language, what=problem))

    def accept(self, turn: Turn, requested: Requested, writes: Callable[[str], bool]) -> Requested:
        self.apply(turn, EventName.AI_RESPONSE_RECEIVED)
        self._any_call_ran = False
        finishes = [call.id for call in requested.calls if call.name == FINISH_AUTOMATION.name]
        self._finish_call = finishes[0] if finishes else None
        if turn.calls_left == 0:
            kept = [call for call in requested.calls if call.id == self._finish_call]
            others = [call for call in requested.calls if call.id != self._finish_call]
            turn.conversation.refuse("limit_reached", others)
            requested = replace(requested, calls=kept)
        if any(not writes(call.name) and call.id not in finishes for call in requested.calls):
            self.apply(turn, EventName.AI_RESPONSE_PARSED, "calls", "reads")
        return requested

    def resume_step(self, turn: Turn) -> Requested:
        """Returns the calls of the step in which a process ended, as far as they have no answer."""
        calls = unanswered(turn.messages)
        self._any_call_ran = any(not answer.is_error for answer in turn.conversation.last_step)
        finishes = (call.id for call in calls if call.name == FINISH_AUTOMATION.name)
        self._finish_call = next(finishes, None)
        return Requested(calls=calls, may_be_stored=True)

    def record_call(self, turn: Turn, call: ToolCall, answered: Answered | None) -> bool:
        """Records the report of a run; its call is answered when the run ends."""
        if answered is None:
            return False
        self._any_call_ran = self._any_call_ran or not answered.result.is_error
        if call.id != self._finish_call:
            return False
        finish = answered.result.data
        if not isinstance(finish, FinishAutomation):
            self._finish_call = None  # its arguments were wrong
            return False
        replies = [m for m in turn.messages if isinstance(m, AssistantMessage)]
        report = SessionReport(outcome=finish.outcome, text=finish.report[:REPORT_CHARS])
        _edit(turn, finish=report.model_copy(update={"message_id": replies[-1].id}))
        return True

    async def end_step(
        self, turn: Turn, approvals: Approvals, proposals: list[Approval]
    ) -> tuple[list[Event], list[Approval]]:
        """Applies the events of a step, and the proposals that policy allows.

        Applying them goes on for up to ACTION_WAIT_S if the turn is cancelled meanwhile.
        """
        self._parse_step(turn, proposals)
        if self.is_over(turn):
            self._answer_finish(turn)
        if not proposals or session_of(turn.stored.thread).phase is not Phase.EXECUTING_ACTIONS:
            return await decide_by_policy(turn, approvals, proposals)
        await turn.save("running")
        acting = asyncio.create_task(self._act(turn, approvals, proposals))
        try:
            return await asyncio.shield(acting)
        except asyncio.CancelledError:
            await asyncio.wait({acting}, timeout=ACTION_WAIT_S)
            raise

    def _parse_step(self, turn: Turn, proposals: Sequence[Approval]) -> None:
        """Applies the events for the calls of a step and the proposals that they made."""
        session = session_of(turn.stored.thread)
        is_last_call = turn.calls_left == 0
        finish = "finish" if session.finish is not None and self._finish_call else ""
        needs = any(approval.needs_person for approval in proposals)
        proposed = "proposals" if proposals else ""
        facts = ("calls", finish, proposed, "needs_validation" if needs else "")
        ids = [approval.id for approval in proposals]
        reasons = {approval.id: approval.to_document()["reasons"] for approval in proposals}
        data = {"approvalIds": ids, "reasons": reasons} if needs else {}
        if self._any_call_ran or proposals or finish or is_last_call:
            _edit(turn, parse_errors=0, proposed=session.proposed + len(proposals))
        if session.phase is Phase.PARSING_AI_RESPONSE:
            if proposals or finish:
                self.apply(turn, EventName.AI_RESPONSE_PARSED, *facts, data=data)
                return
            if not self._any_call_ran and not is_last_call:
                self._add_format_error(turn, "refused", "")
                return
            self.apply(turn, EventName.AI_RESPONSE_PARSED, "calls", "reads")
        self.apply(turn, EventName.DATA_QUERIES_EXECUTED, *facts, data=data)

    async def _act(
        self, turn: Turn, approvals: Approvals, proposals: list[Approval]
    ) -> tuple[list[Event], list[Approval]]:
        events, left = await decide_by_policy(turn, approvals, proposals)
        decided = [await approvals.get(one.id, turn.person) for one in proposals]
        self.end_actions(turn, decided, open_left=bool(left))
        return events, left

    def _answer_finish(self, turn: Turn) -> None:
        """Answers the call that finished the run."""
        if self._finish_call is not None:
            call = ToolCall(id=self._finish_call, name=FINISH_AUTOMATION.name, arguments="")
            turn.conversation.answer(call, "finished")
            self._finish_call = None

    # The end of the turn

    def final_text(self, turn: Turn) -> str | None:
        """Returns the text of the report, which is stored with the end of the run."""
        return self._add_report(turn) if self.is_over(turn) else None

    def _add_report(self, turn: Turn) -> str:
        session = session_of(turn.stored.thread)
        report = report_of(session, turn.text, turn.messages, turn.language)
        _edit(turn, report=report)
        return report.text

    async def stop(self, turn: Turn, reason: str | None) -> None:
        """Stores that the run ends, or that it pauses for a conversation; an unfinished answer is
        dropped. Stores nothing if this process ends: another one takes the run up.
        """
        if reason is None:
            return
        turn.drop_reply()
        end_reason = EndReason(reason)
        if end_reason is not EndReason.SUSPENDED:
            turn.answer_rest("stopped")
        self.apply(turn, EventName.SESSION_COMPLETED, reason=end_reason)
        if session_of(turn.stored.thread).phase is Phase.COMPLETED:
            self._add_report(turn)
        await turn.save("running")

    async def fail(self, turn: Turn, fault: TurnFault) -> None:
        """Stores that the model is asked again later, or that the run ends with an error."""
        turn.drop_reply()
        phase = session_of(turn.stored.thread).phase
        if fault.code in NETWORK_CODES and fault.retryable and phase is Phase.CALLING_AI:
            data = {"code": fault.code, "retryAfterS": fault.retry_after_s}
            self.apply(turn, EventName.NETWORK_ERROR_OCCURRED, data=data)
            await turn.save("waiting")
            return
        turn.answer_rest("interrupted")
        spent = fault.code if fault.code == "usage_limit" else ""
        self.apply(turn, EventName.SYSTEM_ERROR_OCCURRED, spent)
        words = fault.message(turn.language)[:REPORT_CHARS]
        _edit(turn, report=SessionReport(outcome="failed", text=words))
        await turn.save("running")


def _edit(turn: Turn, **changes: Any) -> None:
    """Changes fields of the session; stored with the turn's next `save`."""
    session = session_of(turn.stored.thread)
    turn.change_thread(session=session.model_copy(update=changes))


def notes_of(
    transition: Transition[AgentSession], language: Language, *, spent: RunLimit | None = None
) -> list[SystemMessage]:
    """Returns the system messages of a transition, except FORMAT_ERROR, which says what was
    wrong and is added by the turn.

    Args:
        spent: the limit of the run's budget that is reached; None: it is the number of calls.
    """
    used = transition.state.usage
    facts = {
        "limit": text(f"run_limit_{spent or 'calls'}", language),
        "calls": str(transition.state.roundtrips),
        "tokens": str(used.tokens),
        "cost": f"{used.cost_usd:.4f}",
    }
    return [_note(kind, language, **facts) for kind in transition.notes if kind != "FORMAT_ERROR"]


def _note(kind: SystemKind, language: Language, **facts: str) -> SystemMessage:
    words = text(f"note_{kind.lower()}", language, **facts)
    hidden = kind in _FOR_PEOPLE
    return SystemMessage(
        content=words, stable=False, kind=kind, summary=words, exclude_from_prompt=hidden
    )


def report_of(
    session: AgentSession, words: str, messages: Sequence[Message], language: Language
) -> SessionReport:
    """Returns the report of a run that ends: that of the model, or `words` as a failed run.

    The number of its proposals, by outcome, is added to it.
    """
    reason = (session.waiting or {}).get("reason") or session.end_reason
    report = session.finish if reason == EndReason.COMPLETED else None
    if report is None:
        words = words.strip() or text("run_said_nothing", language)
        report = SessionReport(outcome="failed", text=words[:REPORT_CHARS])
    if not session.proposed:
        return report
    states = [m.outcome.get("status") for m in messages if isinstance(m, ToolMessage) and m.outcome]
    applied = sum(status in _APPLIED for status in states)
    waiting = max(0, session.proposed - sum(status not in _OPEN for status in states))
    counted = text(
        "report_proposals", language, made=session.proposed, waiting=waiting, applied=applied
    )
    return report.model_copy(update={"text": f"{report.text}\n\n{counted}"})
