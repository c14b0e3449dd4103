"""The answers of one AG-UI run to what the runs before it waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphrag.agent.events import AlreadyAnswered, in_words
from graphrag.agent.thread_store import Thread
from graphrag.approvals import AlreadyDecided, ApprovalError, ApprovalNotFound, Decision
from graphrag.i18n import Language
from graphrag.llm.base import ToolMessage
from server.channels.agui_interrupts import (
    LIMIT,
    QUESTION,
    ResumeAnswer,
    decision_payload,
    limit_id,
    response_of,
)
from server.error_responses import error_response
from server.rest_ai import decided_alike, decision_of
from server.workspaces import WorkspaceContext
from tools.proposals import MalformedProposal


class Resumption:
    """The answers of one run to the interrupts before it. Answers that are refused while others are
    accepted are kept, to be reported.

    An answer that repeats an accepted one counts as accepted: its sender may not know, or the model
    may have failed after it. One that contradicts an accepted answer is refused, and the accepted
    answer is named.
    """

    def __init__(
        self, place: WorkspaceContext, given: Sequence[ResumeAnswer], language: Language
    ) -> None:
        self._place = place
        self._language: Language = language
        self._given = {one.interrupt_id: one for one in given}
        self._refused: dict[str, Exception] = {}

    def refused(self) -> Iterator[dict[str, Any]]:
        """Yields which answers were refused although others were carried out, and why."""
        for interrupt_id, exc in self._refused.items():
            answer = error_response(exc, self._language)
            yield {"interruptId": interrupt_id, "code": answer.code, "message": answer.message}

    def check_alone(self, answered: ResumeAnswer) -> None:
        """Raises: ApprovalNotFound where something else is answered, too: nothing else waits."""
        for key in self._given.keys() - {answered.interrupt_id}:
            raise ApprovalNotFound(approval_id=key)

    async def is_over(self, thread: Thread) -> bool:
        """Returns whether all was taken before and the conversation has gone on since.

        Raises: as `answer`.
        """
        if not self._given or thread.turn.status not in ("idle", "stopped"):
            return False
        if any(key in thread.turn.open.values() for key in self._given):
            return False
        for answer in self._given.values():
            await self._check_taken(thread, answer)
        return True

    async def answer(self, thread: Thread) -> tuple[Decision | None, bool | None]:
        """Decides the answered interrupts. Called while the thread is locked; returns the arguments
        of `Agent.resume`.

        Decides nothing if an answer has a wrong form or names nothing that waits or waited here. If
        all answers are refused, the first refusal is raised and the turn waits as before. Raises:
        WrongResponse, ApprovalError, AlreadyAnswered, MalformedProposal.
        """
        granted = self._given.get(limit_id(thread.turn.number))
        if thread.turn.status == "limit" and granted is not None:
            self.check_alone(granted)
            return None, decision_payload(granted).approved
        waiting = [key for key in thread.turn.open.values() if key in self._given]
        for key in waiting:
            decision_payload(self._given[key])
        for key, answer in self._given.items():
            if key not in waiting:
                await self._check_taken(thread, answer)
        for key in waiting:
            try:
                await self._decide(thread, self._given[key])
            except (ApprovalError, MalformedProposal) as exc:
                self._refused[key] = exc
        if self._refused and len(self._refused) == len(waiting):
            raise next(iter(self._refused.values()))
        return None, None

    async def _decide(self, thread: Thread, answer: ResumeAnswer) -> None:
        """Decides one proposal, unless that was done elsewhere in the same way."""
        approvals = self._place.services.approvals
        person = self._place.person
        payload = decision_payload(answer)
        approval = await approvals.get(answer.interrupt_id, person)
        if decided_alike(approval, payload):
            return
        decision = decision_of(payload.approved, payload.feedback, payload.edited_action)
        await approvals.decide(approval.id, decision, person, thread_id=thread.key)

    async def _check_taken(self, thread: Thread, answer: ResumeAnswer) -> None:
        """Raises: ApprovalNotFound for what never waited here; AlreadyDecided, AlreadyAnswered for
        another answer than the one that was taken; WrongResponse.
        """
        key = answer.interrupt_id
        if key.startswith(QUESTION):
            self._check_question(thread, answer)
        elif key.startswith(LIMIT):
            self._check_limit(thread, answer)
        else:
            payload = decision_payload(answer)
            approval = await self._place.services.approvals.get(key, self._place.person)
            if approval.thread_id != thread.key or approval.is_open:
                raise ApprovalNotFound(approval_id=key)
            if not decided_alike(approval, payload):
                by = approval.decision.by if approval.decision else "?"
                raise AlreadyDecided(approval_id=key, status=approval.status, by=by)

    def _check_question(self, thread: Thread, answer: ResumeAnswer) -> None:
        call_id = answer.interrupt_id.removeprefix(QUESTION)
        answers = (
            m.content
            for m in thread.messages
            if isinstance(m, ToolMessage) and m.call_id == call_id
        )
        accepted = next(answers, None)
        if accepted is None:
            raise ApprovalNotFound(approval_id=answer.interrupt_id)
        if (
            answer.status == "resolved"
            and in_words(response_of(answer), self._language) not in accepted
        ):
            raise AlreadyAnswered(thread_id=thread.key, answer=accepted)

    def _check_limit(self, thread: Thread, answer: ResumeAnswer) -> None:
        if answer.interrupt_id != limit_id(thread.turn.number):
            raise ApprovalNotFound(approval_id=answer.interrupt_id)
        was_granted = thread.turn.rounds_allowed >= self._place.agent.limits.max_rounds
        if decision_payload(answer).approved != was_granted:
            raise AlreadyAnswered(
                thread_id=thread.key, answer=in_words(was_granted, self._language)
            )
