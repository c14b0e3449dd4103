"""Carries out the answers to the interrupts of a turn: several decisions, or more rounds of tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphrag.agent.thread_store import Thread
from graphrag.approvals import ApprovalError, ApprovalNotFound, Decision
from graphrag.i18n import Language
from server.agui_interrupts import DecisionPayload, ResumeAnswer, decision_payload, limit_id
from server.error_responses import error_response
from server.resuming import decision_of, is_decided
from server.workspaces import WorkspaceContext
from tools.proposals import MalformedProposal


class Resumption:
    """The answers of one run. What cannot be carried out beside others is kept, to be sent."""

    def __init__(self, place: WorkspaceContext, given: Sequence[ResumeAnswer]) -> None:
        self._place = place
        self._given = {one.interrupt_id: one for one in given}
        self._refused: dict[str, Exception] = {}

    def refused(self, language: Language) -> Iterator[dict[str, Any]]:
        """Yield which answers were refused although others were carried out, and why."""
        for interrupt_id, exc in self._refused.items():
            answer = error_response(exc, language)
            yield {"interruptId": interrupt_id, "code": answer.code, "message": answer.message}

    def check_alone(self, answered: ResumeAnswer) -> None:
        """Raises: ApprovalNotFound where something else is answered, too: nothing else waits."""
        for key in self._given.keys() - {answered.interrupt_id}:
            raise ApprovalNotFound(approval_id=key)

    async def answer(self, thread: Thread) -> tuple[Decision | None, bool | None]:
        """Decide what is answered; called while the thread is held, and answers as `Agent.resume` wants it.

        Nothing is decided when an answer has a wrong form or names nothing that waits here. Where all are
        refused, the first refusal is raised, and the turn waits as it did.
        Raises: WrongResponse, ApprovalError, MalformedProposal.
        """
        granted = self._given.get(limit_id(thread.turn.number))
        if thread.turn.status == "limit" and granted is not None:
            self.check_alone(granted)
            return None, decision_payload(granted).approved
        payloads = {key: decision_payload(one) for key, one in self._given.items()}
        for key in payloads:
            if key not in thread.turn.open.values():
                raise ApprovalNotFound(approval_id=key)
        in_order = [key for key in thread.turn.open.values() if key in payloads]
        for key in in_order:
            try:
                await self._decide(thread, key, payloads[key])
            except (ApprovalError, MalformedProposal) as exc:
                self._refused[key] = exc
        if self._refused and len(self._refused) == len(in_order):
            raise next(iter(self._refused.values()))
        return None, None

    async def _decide(self, thread: Thread, key: str, payload: DecisionPayload) -> None:
        """Decide one proposal, unless that was done elsewhere in the same way."""
        if await is_decided(self._place, thread, payload, key):
            return
        decision = decision_of(payload.approved, payload.feedback, payload.edited_action)
        approvals = self._place.services.approvals
        await approvals.decide(key, decision, self._place.person, thread_id=thread.key)
