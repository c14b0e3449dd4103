"""Resumes a waiting thread: a yes or no is a decision, a grant of more rounds of tools, or a retry."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol

from graphrag.agent.events import Event, PendingQuestion, ProposalPending, QuestionAsked, ToolLimit
from graphrag.agent.thread_store import Thread
from graphrag.approvals import Approve, ApproveEdited, Decision, Reject
from graphrag.i18n import Language
from server.workspaces import WorkspaceContext
from tools.base import NO_FEATURES


class DecisionAsked(Protocol):
    """The fields of a decision, on whichever channel it came."""

    @property
    def approved(self) -> bool: ...
    @property
    def feedback(self) -> str | None: ...
    @property
    def edited_action(self) -> dict[str, Any] | None: ...


class ResumeAsked(DecisionAsked, Protocol):
    """The fields of a request to resume."""

    @property
    def thread_id(self) -> str: ...
    @property
    def approval_id(self) -> str | None: ...


async def resumed(
    place: WorkspaceContext,
    asked: ResumeAsked,
    *,
    language: Language | None = None,
    interactive: bool = True,
    features: frozenset[str] = NO_FEATURES,
) -> AsyncGenerator[Event]:
    """Yield the events of a thread that a person resumes. Raises: as `Agent.resume`."""

    async def answer(thread: Thread) -> tuple[Decision | None, bool | None]:
        if thread.turn.status == "limit":
            return None, asked.approved
        if _is_retry(thread, asked) or await is_decided(place, thread, asked, asked.approval_id):
            return None, None
        return decision_of(asked.approved, asked.feedback, asked.edited_action), None

    events = place.agent.resume(
        asked.thread_id,
        place.person,
        approval_id=asked.approval_id,
        answer=answer,
        language=language,
        interactive=interactive,
        features=features,
    )
    async with aclosing(events) as stream:
        async for event in stream:
            yield event


def _is_retry(thread: Thread, asked: ResumeAsked) -> bool:
    """Return whether a turn that broke off, with nothing to decide, is retried."""
    broken = thread.turn.status in ("failed", "running")
    return broken and asked.approved and asked.approval_id is None and not thread.turn.open


async def is_decided(
    place: WorkspaceContext, thread: Thread, asked: DecisionAsked, named: str | None
) -> bool:
    """Return whether the same decision was made elsewhere already: the thread then only goes on."""
    if named is None or named not in thread.turn.open.values() or asked.edited_action is not None:
        return False
    approval = await place.services.approvals.get(named, place.person)
    contradicts = approval.status == ("rejected" if asked.approved else "applied")
    return not approval.is_open and not contradicts


async def standing(
    place: WorkspaceContext, thread: Thread
) -> ProposalPending | QuestionAsked | ToolLimit | None:
    """Return the event with which a conversation waits, as it was first sent; None: for nothing."""
    turn = thread.turn
    if (asked := PendingQuestion.of(thread)) is not None:
        return QuestionAsked(thread_id=thread.key, text=turn.text, asked=asked)
    if turn.status == "limit":
        rounds = {"rounds_used": turn.rounds_used, "max_extended": place.agent.limits.max_rounds}
        return ToolLimit(thread_id=thread.key, text=turn.text, **rounds)
    if turn.status != "waiting":
        return None
    known = set(turn.open.values())
    found = await place.services.approvals.list(thread_id=thread.key, by=place.person)
    waiting = [approval for approval in found if approval.id in known and approval.is_open]
    waiting.sort(key=lambda approval: (approval.created, approval.id))
    if not waiting:
        return None
    return ProposalPending(thread_id=thread.key, text=turn.text, approvals=tuple(waiting))


def decision_of(approved: bool, feedback: str | None, edited_action: dict[str, Any] | None) -> Decision:
    """Return the decision that a request asks for."""
    if not approved:
        return Reject(feedback or "")
    return Approve(feedback or "") if edited_action is None else ApproveEdited(edited_action, feedback or "")
