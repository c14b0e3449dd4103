"""The stores, agents and models that the calls of a workspace work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from datasources.base import GraphDataSource
from graphrag.agent.assistant import GraphAssistant
from graphrag.agent.thread_store import Threads
from graphrag.agent.tool_calls import ToolCalls
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.chats import ModelOf
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.agents.voice_fields import VoiceEngine
from graphrag.approvals import Approvals
from graphrag.leases import now_ms
from graphrag.llm.usage_meter import UsageMeter
from graphrag.realtime.model_side import ModelSides
from graphrag.voice.call_metrics import CallMetrics, NoMetrics
from graphrag.voice.call_records import CallRecords
from graphrag.voice.call_slots import CallSlots
from tools.base import Search
from tools.past_changes import History

# Returns the recorded result of a tool with these arguments, in the form of `tools[]` of a call.
# None: nothing is recorded, so the tool is run.
RecordedAnswers = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTurns:
    """The turns of chats, for calls that the model of chats answers. `model`: by its names."""

    plain: GraphAssistant
    model: ModelOf


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CallDependencies:
    """Everything that calls need from the rest of the service.

    `models`: None if no Realtime model speaks. `turns`: None where no model of chats answers calls,
    as in commands that only read them. `leases`: of the threads of calls. `recorded`:
    replaces the results of tools. `is_priced`: False for models on this machine, whose use costs
    nothing. `clock`: milliseconds since 1970.
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
    turns: ChatTurns | None = None
    slots: CallSlots
    retention_days: int = 30
    metrics: CallMetrics = field(default_factory=NoMetrics)
    search: Search | None = None
    history: History | None = None
    meter: UsageMeter = field(default_factory=UsageMeter)
    recorded: RecordedAnswers | None = None
    is_priced: bool = True
    clock: Callable[[], int] = now_ms

    def answers(self, engine: VoiceEngine) -> bool:
        """Returns whether calls with this engine can be answered."""
        return (self.models if engine == "realtime" else self.turns) is not None
