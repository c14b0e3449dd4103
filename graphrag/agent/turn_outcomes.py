"""Outcomes of the proposals of a turn: reads them, gives them to the model, applies the policy."""

from __future__ import annotations

from contextlib import suppress

from graphrag.agent import history
from graphrag.agent.events import ActionApplied, Event
from graphrag.agent.turn import Turn
from graphrag.approvals import (
    Approval,
    ApprovalNotFound,
    Approvals,
    outcome_facts,
    outcome_text,
)


async def collect_outcomes(
    turn: Turn, approvals: Approvals, *, keep_waiting: bool
) -> tuple[list[Event], list[Approval]]:
    """Answers the calls of decided proposals. Returns their events, and the undecided proposals.

    Without `keep_waiting` the call of an undecided proposal is answered with that fact; its outcome
    is added later, as a note.
    """
    events: list[Event] = []
    waiting: list[Approval] = []
    late: list[str] = []
    await _adopt_proposals(turn, approvals)
    unanswered = {call.id: call for call in history.unanswered(turn.messages)}
    still_open: dict[str, str] = {}
    for call_id, approval_id in turn.state.open.items():
        approval = None
        with suppress(ApprovalNotFound):
            approval = await approvals.get(approval_id, turn.person)
        if approval is not None and approval.is_open:
            waiting.append(approval)
            still_open[call_id] = approval_id
            if keep_waiting or call_id not in unanswered:
                continue
        text = _outcome(turn, approval)
        if approval is not None and approval.status == "applied":
            events.append(ActionApplied(approval=approval))
        call = unanswered.get(call_id)
        if call is None:
            late.append(f"- {text}")
            continue
        facts = outcome_facts(approval, turn.language) if approval else None
        data = approval.to_document()["action"] if approval else None
        failed = approval is None or approval.status in ("stale", "failed")
        events.append(turn.conversation.answer(call, text, failed=failed, outcome=facts, data=data))
    turn.change(open=still_open)
    turn.add_late_outcomes(late, answered=bool(events))
    # Proposals of the same millisecond stay in the order in which the model asked for them.
    return events, sorted(waiting, key=lambda approval: approval.created)


async def decide_by_policy(
    turn: Turn, approvals: Approvals, waiting: list[Approval]
) -> tuple[list[Event], list[Approval]]:
    """Applies the waiting proposals if none of them needs a person.

    Returns the events, and the proposals that still wait.
    """
    if not waiting or any(approval.needs_person for approval in waiting):
        return [], waiting
    await approvals.decide_by_policy([approval.id for approval in waiting], fence=turn.hold)
    return await collect_outcomes(turn, approvals, keep_waiting=True)


def _outcome(turn: Turn, approval: Approval | None) -> str:
    if approval is None:
        return turn.phrase("interrupted")
    outcome = outcome_text(approval, turn.language)
    if not approval.is_open:
        return outcome
    # Nobody writes messages to a run.
    name = "still_waits" if turn.session.kind == "automation" else "still_open"
    return turn.phrase(name, outcome=outcome)


async def _adopt_proposals(turn: Turn, approvals: Approvals) -> None:
    """Finds proposals that were stored although the thread does not name them: the process ended
    just then, or storing them took too long.
    """
    named = set(turn.state.open.values())
    calls = {call.id for call in history.unanswered(turn.messages)} | set(turn.state.unsure)
    if not calls - turn.state.open.keys():
        return
    stored = await approvals.list(thread_id=turn.thread_id, by=turn.person)
    turn.open_proposals([a for a in stored if a.id not in named and a.tool_call_id in calls])
    turn.change(unsure=[])  # the turn that stored them is over: no other follows
