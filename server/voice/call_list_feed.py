"""Watches the calls of a workspace; see `change_feed`."""

from __future__ import annotations

from collections.abc import Iterable

from graphrag.leases import now_ms
from graphrag.voice.call_records import KIND, Call, CallRecords, CallSummary
from server.change_feed import MAX_SEEN, SKEW_MS, ChangeFeed, SeenDocument


class CallListFeed(ChangeFeed):
    """Watches the calls of a workspace: open ones, those that began lately, and those that were
    open at the last query.
    """

    unreadable = "calls_unreadable"

    def __init__(self, records: CallRecords) -> None:
        super().__init__(records.stored.notices, KIND)
        self._records = records
        self._since = 0
        self._open: set[str] = set()

    async def look(self, *, first: bool) -> Iterable[SeenDocument]:
        now = now_ms()
        calls = {call.call_id: call for call in await self._records.open_calls(limit=MAX_SEEN)}
        ended = self._open - calls.keys()
        self._open = set(calls)
        if not first:
            begun, _ = await self._records.list(since=self._since, limit=MAX_SEEN)
            calls |= {call.call_id: call for call in begun}
            calls |= {call.call_id: call for call in await self._again(ended - calls.keys())}
        self._since = now - SKEW_MS
        shown = [CallSummary.model_validate(call) for call in calls.values()]
        return [
            SeenDocument(key=call.call_id, about=call.agent_id, document=call.to_document())
            for call in shown
        ]

    async def _again(self, call_ids: Iterable[str]) -> list[Call]:
        records = [await self._records.get(call_id) for call_id in call_ids]
        return [call for call in records if call is not None]
