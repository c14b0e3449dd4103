"""Pauses the run of a graph when a conversation about the graph begins."""

from __future__ import annotations

import logging
from typing import Final

from datasources.base import RecordStore
from datasources.errors import SourceError
from graphrag.agent.turn_lease import TurnLeases
from graphrag.sessions.machine import EndReason

log = logging.getLogger(__name__)

SLOT: Final = "slot"
"""Prefix of the leases that let one run work on a graph."""


class MakingWay:
    """Asks whichever process runs an automation on a graph to pause it; it goes on by itself later."""

    def __init__(self, records: RecordStore) -> None:
        self._slots, self._sessions = TurnLeases(records, prefix=SLOT), TurnLeases(records)

    async def pause_run_of(self, graph_key: str) -> None:
        """Note on the run of a graph, if there is one, that it has to pause. Raises nothing."""
        try:
            holder = await self._slots.holder(graph_key)
            if holder is not None:
                await self._sessions.ask_to_stop(str(holder.get("sessionId")), EndReason.SUSPENDED.value)
        except SourceError as exc:
            log.warning("yield_failed", extra={"graphKey": graph_key, "error": type(exc).__name__})
