"""Turns of a conversation with a person: answers are checked for their form, no more."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, final

from graphrag.agent.events import Event, TurnFault
from graphrag.agent.reply import Reply
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.thread_store import TurnStatus
from graphrag.agent.turn import Turn
from graphrag.agent.turn_outcomes import decide_by_policy
from graphrag.approvals import Approval, Approvals
from graphrag.llm.base import ToolCall

CORRECTIONS = 2
"""Number of corrections in a row of answers with a wrong form (empty, or a tool call written as
text). After the last one the model gets no tools; another wrong answer ends the turn.
"""
_CHECKED_CHARS = 20_000
# The name of a tool that changes the graph, and the beginning of its arguments.
_DESCRIBED_CALL = re.compile(r"\bpropose_[a-z_]{4,40}\b[^{]{0,300}\{")


@final
class ChatKind:
    """A `TurnKind` without state: turns of a conversation with a person."""

    async def save(self, turn: Turn, status: TurnStatus, waits_for: Any) -> None:
        await turn.store(status, waits_for)

    def correct(self, turn: Turn, reply: Reply) -> bool | None:
        if reply.leaked:
            form = "leaked"
        elif reply.is_empty:
            form = "empty"
        elif _describes_call(turn, reply):
            form = "described"
        else:
            return None
        return turn.add_correction(form) < CORRECTIONS

    def accept(
        self, _turn: Turn, requested: Requested, _writes: Callable[[str], bool]
    ) -> Requested:
        return requested

    def record_call(self, _turn: Turn, _call: ToolCall, _answered: Answered | None) -> bool:
        return False

    async def end_step(
        self, turn: Turn, approvals: Approvals, proposals: list[Approval]
    ) -> tuple[list[Event], list[Approval]]:
        return await decide_by_policy(turn, approvals, proposals)

    def final_text(self, _turn: Turn) -> str | None:
        return None

    async def stop(self, turn: Turn, _reason: str | None) -> None:
        """Stores the turn with the text that was shown of its answer."""
        turn.keep_partial_reply()
        turn.answer_rest("stopped")
        await turn.save("stopped")

    async def fail(self, turn: Turn, _fault: TurnFault) -> None:
        """Stores the turn so that its last step can be tried again."""
        turn.drop_reply()
        turn.answer_rest("interrupted")
        await turn.save("failed")


def _describes_call(turn: Turn, reply: Reply) -> bool:
    """Returns whether an answer shows a person how a tool is called, instead of calling it."""
    describes = _DESCRIBED_CALL.search(reply.text[:_CHECKED_CHARS]) is not None
    is_wanted = turn.conversation.asks_for_change and not turn.proposed
    return describes and is_wanted and not turn.corrections
