"""What begins, keeps and ends the conversations with agents of one workspace."""

from __future__ import annotations

from collections.abc import Callable

from datasources.base import RecordStore
from graphrag.agent.thread_store import Threads
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.beginnings import Beginnings
from graphrag.agents.chat_values import Locale
from graphrag.agents.deliveries import Deliveries
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
        self.deliveries = Deliveries(
            records, threads, agents, workspace=workspace, locale=locale, clock=clock
        )
        self.beginnings = Beginnings(threads, agents, self.deliveries, locale=locale, clock=clock)
        self.endings = Endings(
            records,
            threads,
            leases or TurnLeases(records, clock=clock),
            agents,
            self.deliveries,
            workspace=workspace,
            locale=locale,
            clock=clock,
        )
