"""Ends the calls of a workspace in its records: by who served them, after a kill, and when
kept long enough.

Decision: the thread's end is written first, with what the agent's API is owed; then the record's. A
kill between leaves a record that is looked at again when it is due, and ends as its thread did.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, Final

from datasources.errors import BadDocument, RecordConflict
from graphrag.agent.thread_agent import EndReason
from graphrag.agent.thread_store import Thread, ThreadBusy, ThreadError, ThreadNotFound
from graphrag.agents.deliveries import EVENTS
from graphrag.agents.deliveries import KIND as DELIVERY
from graphrag.agents.errors import AgentError
from graphrag.roles import Person
from graphrag.voice.call_parts import CallParts
from graphrag.voice.call_records import WATCHED_MS, Call

log = logging.getLogger(__name__)

DAY_MS: Final = 86_400_000
AGAIN_MS: Final = 60_000
"""So long a call that could not be looked at is left alone."""
SENDING_S: Final = 15.0
"""So long a call that is to be forgotten waits for what is being sent for it."""


class CallLife:
    """Ends, recovers and forgets calls."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._records = parts.records
        self.kept_ms = parts.retention_days * DAY_MS

    async def thread(self, call: Call) -> Thread | None:
        """Return the thread of a call, None before it was answered and once it is forgotten."""
        try:
            return (await self._parts.threads.get_of(call.call_id, call.workspace)).thread
        except ThreadNotFound:
            return None

    async def over(self, call_id: str, reason: EndReason, *, at: int | None = None) -> Call | None:
        """Store that a call is over, as its thread says where there is one; None: it was already.

        `at`: when it ended, where that was before now. Raises:
        SourceError, ThreadError, BadDocument.
        """
        before = await self._records.get(call_id)
        if before is None or not before.is_open:
            return None
        thread = await self.thread(before)
        now = self._parts.clock()
        now = now if at is None else min(now, max(at, before.answered_time or before.started_time))
        part = thread.agent if thread else None
        changes: dict[str, Any] = {"status": "ended", "end_reason": reason, "ended_time": now}
        if part is not None and part.ended_time is not None:
            changes |= {
                "outcome": part.outcome,
                "end_reason": part.end_reason,
                "ended_time": part.ended_time,
            }
        changes |= {"token_hashes": [], "next_time": changes["ended_time"] + self.kept_ms}
        call = await self._records.change(call_id, lambda call: call.model_copy(update=changes))
        if call is None:
            return None
        if thread is None:  # else the end of its thread has said so
            facts = {"agent_id": call.agent_id, "call_id": call_id, "reason": reason}
            log.info("call_ended", extra=facts | {"outcome": None})
        self._parts.watch.state(call_id, call.agent_id, None)
        if call.duration_sec is not None:
            self._parts.watch.counted("voice_call_seconds", call.duration_sec)
        return call

    async def recover(self, call: Call) -> Call | None:
        """End an answered call that nobody serves any more; None: somebody does, or it is over.

        Raises: SourceError, ThreadError, AgentError, BadDocument.
        """
        if await self._parts.leases.runs(call.call_id):
            return None
        reason: EndReason = call.end_reason or "lost"
        # Until then it was served: how long nobody looked says nothing of the call.
        thread = await self.thread(call)
        held = await self._parts.leases.last_held(call.call_id)
        at = max(call.answered_time or 0, held or 0, thread.last_updated_time if thread else 0)
        try:
            await self._parts.life.endings.end(call.call_id, reason, at=at)
        except ThreadNotFound:
            log.info("call_without_thread", extra={"call_id": call.call_id})
        except ThreadBusy:  # another server is faster
            return None
        return await self.over(call.call_id, reason, at=at)

    async def not_come(self, call: Call) -> Call | None:
        """End a call whose stream did not come. Raises: SourceError."""
        known = await self._records.get(call.call_id)
        if known is None or known.status != "ringing":
            return None
        return await self.over(call.call_id, "line_lost")

    async def tick(self, now: int | None = None) -> None:
        """End what did not come or was left behind, forget what was kept long
        enough. Raises: SourceError.
        """
        now = self._parts.clock() if now is None else now
        for call in await self._records.due(now):
            try:
                await self._look(call, now)
            except (ThreadError, AgentError, BadDocument, RecordConflict) as exc:
                facts = {"call_id": call.call_id, "error": type(exc).__name__}
                log.warning("call_not_ended", extra=facts)
                await self._later(call.call_id, now + AGAIN_MS)

    async def _look(self, call: Call, now: int) -> None:
        if call.status == "ended":
            await self.forget(call)
        elif call.status == "ringing":
            await self.not_come(call)
        elif await self.recover(call) is None:
            await self._later(call.call_id, now + WATCHED_MS)

    async def _later(self, call_id: str, time: int) -> None:
        def later(call: Call) -> Call:
            return call.model_copy(update={"next_time": max(time, call.next_time or 0)})

        await self._records.change(call_id, later)

    async def forget(self, call: Call) -> None:
        """Remove what a call that is over says of people; its sums stay.
        Raises: SourceError, ThreadBusy.

        The record is written last: what a kill leaves is due still.
        """
        await self._parts.life.deliveries.wait_until_sent([call.call_id], timeout_s=SENDING_S)
        caller = Person(call.owner, "viewer", call.workspace)
        with suppress(ThreadNotFound):
            await self._parts.threads.delete(call.call_id, caller)
        stored = self._records.stored
        for event in EVENTS:
            if (record := await stored.get(DELIVERY, f"{call.call_id}:{event}")) is not None:
                await stored.delete(DELIVERY, record.key, expected_version=record.version or "")
        gone = dict.fromkeys(
            (
                "call_sid",
                "stream_sid",
                "caller_phone",
                "called_phone",
                "destination",
                "refusal",
                "user_id",
            )
        )
        changes: dict[str, Any] = gone | {
            "sources": [],
            "forgotten_time": self._parts.clock(),
            "next_time": None,
        }
        await self._records.change(
            call.call_id, lambda call: call.model_copy(update=changes), when_over=True
        )
        log.info("call_forgotten", extra={"call_id": call.call_id, "agent_id": call.agent_id})
