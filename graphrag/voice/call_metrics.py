"""The counters and durations of calls, and the interface that receives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, final

CALL_COUNTS: Final[Mapping[str, str]] = {
    "voice_marks_overdue": "Marks that the phone side did not send back in time",
    "voice_reconnects": "Connections to the model that were opened again",
    "voice_stream_gaps": "Messages of phone sides that were missing, repeated or out of order",
    "voice_bad_messages": "Messages of phone sides that are none of the protocol",
    "voice_barge_in": "Times that a caller interrupted an agent",
    "voice_responses_failed": "Answers that a model gave up",
    "voice_repeated_calls": "Tool calls that came twice with one id",
    "voice_too_many_calls": "Tool calls beyond those of a call",
}
CALL_SECONDS: Final[Mapping[str, str]] = {
    "voice_call_seconds": "Time of a call",
    "voice_frame_added_seconds": "Time that a frame of sound spends here",
    "voice_barge_in_seconds": "From the caller's speech to the word that the phone side falls silent",
    "voice_turn_seconds": "From the end of the caller's speech to the answer's first sound",
    "voice_first_audio_seconds": "From the start of a stream to the greeting's first sound",
}


class CallMetrics(Protocol):
    """Receives measurements of calls. Implementations must not raise."""

    def counted(self, name: str, value: float = 1.0, *, code: str = "", agent_id: str = "") -> None:
        """Adds to a counter of CALL_COUNTS or to `voice_errors`, or records a CALL_SECONDS.

        `code` is the code of a `voice_errors`. `agent_id`: the agent of the call, "" if it is not
        known. Unknown names are ignored.
        """
        ...

    def state(self, call_id: str, agent_id: str, status: str | None) -> None:
        """Sets the status of a call in this process, None for a call that is over or elsewhere."""
        ...


@final
class NoMetrics:
    """Discards all measurements."""

    def counted(self, name: str, value: float = 1.0, *, code: str = "", agent_id: str = "") -> None:
        """Does nothing."""

    def state(self, call_id: str, agent_id: str, status: str | None) -> None:
        """Does nothing."""


@final
@dataclass(frozen=True, slots=True)
class AgentMetrics:
    """Passes the measurements of one agent's calls on, under its id."""

    metrics: CallMetrics
    agent_id: str

    def counted(self, name: str, value: float = 1.0, *, code: str = "", agent_id: str = "") -> None:
        self.metrics.counted(name, value, code=code, agent_id=agent_id or self.agent_id)

    def state(self, call_id: str, agent_id: str, status: str | None) -> None:
        self.metrics.state(call_id, agent_id, status)
