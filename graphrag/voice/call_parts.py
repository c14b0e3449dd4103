"""What the calls of a workspace work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
from graphrag.voice.call_watch import CallWatch
from graphrag.voice.model_side import ModelSides
from tools.base import History, Search

if TYPE_CHECKING:
    from graphrag.voice.call_places import CallPlaces

RecordedAnswers = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]
"""Gives what is recorded of a tool with these arguments, as `tools[]` of a call has it; None: it is run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallParts:
    """Stores, agents and models. `models` None: no model speaks in calls here. `clock`: ms since 1970.

    `leases`: of the threads of calls. `recorded`: what answers in place of their tools.
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
    clock: Callable[[], int] = now_ms
