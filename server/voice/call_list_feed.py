"""Watches the calls of a workspace; see `change_feed`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from graphrag.leases import now_ms
from graphrag.voice.call_records import Call, CallRecords
from server.change_feed import MAX_SEEN, SKEW_MS, ChangeFeed, SeenDocument

_OF_ONE: Final = ("callSid", "streamSid", "userId", "destination", "approvals", "usage", "latency")
"""What only the whole document of a call shows."""


class CallListFeed(ChangeFeed):
    """Looks at the calls of a workspace: those that are open, began lately, or were open at the last look."""

    unreadable = "calls_unreadable"

    def __init__(self, records: CallRecords) -> None:
        super().__init__()
        self._records, self._since = records, 0
        self._open: set[str] = set()

    async def look(self, *, first: bool) -> Iterable[SeenDocument]:
        now, calls = now_ms(), {call.call_id: call for call in await self._records.open_calls(limit=MAX_SEEN)}
        ended = self._open - calls.keys()
        self._open = set(calls)
        if not first:
            begun, _ = await self._records.list(since=self._since, limit=MAX_SEEN)
            calls |= {call.call_id: call for call in begun}
            calls |= {call.call_id: call for call in await self._again(ended - calls.keys())}
        self._since = now - SKEW_MS
        return [
            SeenDocument(key=call.call_id, about=call.agent_id, document=listed_document(call))
            for call in calls.values()
        ]

    async def _again(self, call_ids: Iterable[str]) -> list[Call]:
        found = [await self._records.get(call_id) for call_id in call_ids]
        return [call for call in found if call is not None]


def listed_document(call: Call) -> dict[str, Any]:
    """Return a call as lists show it."""
    return {
        name: value for name, value in call.to_listed().items() if value is not None and name not in _OF_ONE
    }
