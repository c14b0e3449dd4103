"""Puts together what begins, keeps and ends the conversations with agents of one workspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from datasources.base import RecordStore
from graphrag.agent.thread_store import Threads
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.beginnings import Beginnings
from graphrag.agents.chat_values import Locale, RunningAgents
from graphrag.agents.deliveries import Deliveries
from graphrag.agents.ending import Endings
from graphrag.leases import now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLife:
    """The life of the conversations with agents of one workspace."""

    locale: Locale
    beginnings: Beginnings
    endings: Endings
    deliveries: Deliveries


def life_of(
    records: RecordStore,
    threads: Threads,
    agents: RunningAgents,
    *,
    workspace: str,
    locale: Locale,
    leases: TurnLeases | None = None,
    clock: Callable[[], int] = now_ms,
) -> AgentLife:
    """Return the life of a workspace's conversations. `leases`: those of their turns."""
    deliveries = Deliveries(records, threads, agents, workspace=workspace, locale=locale, clock=clock)
    return AgentLife(
        locale=locale,
        beginnings=Beginnings(threads, agents, deliveries, locale=locale, clock=clock),
        endings=Endings(
            records,
            threads,
            leases or TurnLeases(records, clock=clock),
            agents,
            deliveries,
            workspace=workspace,
            locale=locale,
            clock=clock,
        ),
        deliveries=deliveries,
    )
