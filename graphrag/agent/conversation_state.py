"""The session state of a conversation, derived from its stored thread.

A conversation stores no phase, so that servers of two versions can share its thread: the phase
follows from the status of its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from graphrag.agent.events import PendingQuestion
from graphrag.agent.history import unanswered
from graphrag.agent.thread_store import Thread
from graphrag.sessions.machine import SessionState
from graphrag.sessions.phases import Phase, SessionKind


def conversation_state(thread: Thread) -> SessionState:
    """Returns the state of a conversation as it is stored."""
    phase = _phase(thread)
    return SessionState(
        kind=SessionKind.CHAT, phase=phase, waiting=_waiting(thread) if phase in _WAITS else None
    )


_WAITS = frozenset({Phase.WAITING_VALIDATION, Phase.WAITING_COMMUNICATION_RESPONSE})


def _phase(thread: Thread) -> Phase:
    match thread.turn.status:
        case "running":
            open_calls = [c for c in unanswered(thread.messages) if c.id not in thread.turn.open]
            return Phase.EXECUTING_DATA_QUERIES if open_calls else Phase.CALLING_AI
        case "limit":
            return Phase.WAITING_COMMUNICATION_RESPONSE
        case "waiting" if PendingQuestion.of(thread) is not None:
            return Phase.WAITING_COMMUNICATION_RESPONSE
        case "waiting":
            return Phase.WAITING_VALIDATION
        case "idle" | "failed" | "stopped":
            return Phase.IDLE


def _waiting(thread: Thread) -> dict[str, Any]:
    """Returns the content of `waiting`, in the form that runs of automations have."""
    if (asked := PendingQuestion.of(thread)) is not None:
        module = asked.question.document
        return {"type": "communication", "module": module["type"], "callId": asked.call_id}
    if thread.turn.status == "limit":
        limit = cast(Mapping[str, Any], thread.pending_interrupt or {})
        used = thread.turn.rounds_used
        return {"type": "rounds", "used": used, "max": limit.get("maxExtended", used)}
    return {"type": "validation", "approvalIds": list(thread.turn.open.values())}
