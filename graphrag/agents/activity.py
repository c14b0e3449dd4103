"""Counts from the stored conversations and deliveries what the agents of a workspace are doing.

Read from the database and not counted in a process, so that every server and the command line say the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from datasources.base import Record, RecordStore

RECENT_MS: Final = 3_600_000
LATE_MS: Final = 600_000
CALLS: Final = 20
_OPEN, _RECENT, _DELIVERIES = 500, 200, 1_000
_KEPT_MS: Final = 3_000


@dataclass(slots=True, kw_only=True)
class AgentActivity:
    """Open conversations of an agent, its last tool calls (newest first, True: done), late deliveries."""

    open: int = 0
    calls: list[bool] = field(default_factory=list[bool])
    late_deliveries: int = 0

    @property
    def error_rate(self) -> float:
        return self.calls.count(False) / len(self.calls) if self.calls else 0.0


class ActivityReader:
    """Reads what the agents of one workspace do; remembers it for seconds. `clock`: ms since 1970."""

    def __init__(self, records: RecordStore, clock: Callable[[], int]) -> None:
        self._records, self._clock = records, clock
        self._found: Mapping[str, AgentActivity] = {}
        self._read_time = 0

    async def all(self) -> Mapping[str, AgentActivity]:
        """Return what agents do, by id; one that does nothing is left out."""
        now = self._clock()
        if not now - _KEPT_MS < self._read_time <= now:
            self._found, self._read_time = await self._read(now), now
        return self._found

    async def open_conversations(self, agent_id: str, *, limit: int = _OPEN) -> int:
        """Return how many conversations of an agent are open, at most `limit`."""
        where: dict[str, str | int | bool] = {"agentId": agent_id, "agentOpen": True}
        return len(await self._records.query("thread", where, limit=limit))

    async def _read(self, now: int) -> Mapping[str, AgentActivity]:
        open_ones = await self._records.query("thread", {"agentOpen": True}, limit=_OPEN)
        recent = await self._records.query(
            "thread", order_by="lastUpdatedTime", at_least=now - RECENT_MS, descending=True, limit=_RECENT
        )
        owed = await self._records.query("delivery", {"status": "waiting"}, limit=_DELIVERIES)
        found: defaultdict[str, AgentActivity] = defaultdict(AgentActivity)
        for thread in open_ones:
            found[str(thread.data.get("agentId"))].open += 1
        for agent_id, is_done in _calls(recent):
            if len(found[agent_id].calls) < CALLS:
                found[agent_id].calls.append(is_done)
        for delivery in owed:
            if int(delivery.data.get("createdTime", now)) < now - LATE_MS:
                found[str(delivery.data.get("agentId"))].late_deliveries += 1
        return dict(found)


def _calls(threads: Iterable[Record]) -> Iterable[tuple[str, bool]]:
    """Yield agent and success of each logged tool call, the newest conversation's last call first."""
    for thread in threads:
        agent = cast(dict[str, Any], thread.data.get("agent") or {})
        for call in reversed(cast(list[dict[str, Any]], agent.get("tools") or [])[-CALLS:]):
            if call.get("ok") is not None:
                yield str(agent.get("agentId")), bool(call["ok"])
