"""What the calls of a workspace work with, and what is counted and measured of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from datasources.base import GraphDataSource
from graphrag.agent.thread_store import Threads
from graphrag.agent.tool_calls import ToolCalls
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.approvals import Approvals
from graphrag.leases import now_ms
from graphrag.llm.usage_meter import UsageMeter
from graphrag.voice.call_records import CallRecords
from graphrag.voice.model_side import ModelSides
from tools.base import History, Search

if TYPE_CHECKING:
    from graphrag.voice.call_places import CallPlaces

RecordedAnswers = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]
"""Gives what is recorded of a tool with these arguments, as `tools[]` of a call has it; None:
it is run.
"""


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


class CallWatch:
    """Called while calls run, does nothing; one that counts may not raise. An unknown
    name is ignored.
    """

    def counted(self, name: str, value: float = 1.0, *, code: str = "") -> None:
        """Count `value` more of CALL_COUNTS, or a `voice_errors` by code, or a
        time of CALL_SECONDS.
        """

    def state(self, call_id: str, agent_id: str, status: str | None) -> None:
        """Note which status a call of an agent has here; None: it is over, or was never here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallParts:
    """Stores, agents and models. `models` None: no model speaks in calls here. `clock`:
    ms since 1970.

    `leases`: of the threads of calls. `recorded`: what answers in place of their tools.
    `is_priced`: models cost money; those of this machine, such as the double of a simulated
    call, do not.
    """

    records: CallRecords
    threads: Threads
    leases: TurnLeases
    life: AgentLife
    agents: AgentManager
    approvals: Approvals
    tools: ToolCalls
    source: GraphDataSource
    models: ModelSides | None
    places: CallPlaces
    retention_days: int = 30
    watch: CallWatch = field(default_factory=CallWatch)
    search: Search | None = None
    history: History | None = None
    meter: UsageMeter = field(default_factory=UsageMeter)
    recorded: RecordedAnswers | None = None
    is_priced: bool = True
    clock: Callable[[], int] = now_ms
