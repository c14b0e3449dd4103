"""What begins, keeps and ends the conversations with agents of one workspace."""

from __future__ import annotations

from collections.abc import Callable

from datasources.base import RecordStore
from graphrag.agent.thread_store import Threads
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.beginnings import Beginnings
from graphrag.agents.chat_values import Locale
from graphrag.agents.deliveries import Deliveries, LifeParts
from graphrag.agents.ending import Endings
from graphrag.agents.manager import AgentManager
from graphrag.leases import now_ms


class AgentLife:
    """The life of the conversations with agents of one workspace. `leases`: those of their turns."""

    def __init__(
        self,
        records: RecordStore,
        threads: Threads,
        agents: AgentManager,
        *,
        workspace: str,
        locale: Locale,
        leases: TurnLeases | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.locale = locale
        parts = LifeParts(
            records=records,
            threads=threads,
            agents=agents,
            workspace=workspace,
            locale=locale,
            leases=leases or TurnLeases(records, clock=clock),
            clock=clock,
        )
        self.deliveries = Deliveries(parts)
        self.beginnings = Beginnings(parts, self.deliveries)
        self.endings = Endings(parts, self.deliveries)
