"""Ends the calls of a workspace in its records: after service, after a kill, and after retention.

Decision: the end of the thread is written first, with the deliveries owed to the agent's API, then
the end of the record. After a kill in between, the record is checked when it is due and ends as its
thread did.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, Final, final

from datasources.errors import BadDocument, RecordConflict
from graphrag.agent.thread_agent import EndReason
from graphrag.agent.thread_store import Thread, ThreadBusy, ThreadError, ThreadNotFound
from graphrag.agents.deliveries import KIND as DELIVERY
from graphrag.agents.deliveries import MAX_OF_CALL
from graphrag.agents.errors import AgentError
from graphrag.roles import Person
from graphrag.voice.call_records import WATCHED_MS, Call
from graphrag.voice.dependencies import CallDependencies

log = logging.getLogger(__name__)

DAY_MS: Final = 86_400_000
RETRY_MS: Final = 60_000  # after a failed check of a call
SENDING_S: Final = 15.0  # wait for deliveries in progress before a call is forgotten


@final
class CallEndings:
    """Ends, recovers and forgets calls."""

    def __init__(self, deps: CallDependencies) -> None:
        self._deps = deps
        self._records = deps.records
        self.retention_ms = deps.retention_days * DAY_MS

    async def thread(self, call: Call) -> Thread | None:
        """Returns the thread of a call, None before its answer and after it was forgotten."""
        try:
            return (await self._deps.threads.get_of(call.call_id, call.workspace)).thread
        except ThreadNotFound:
            return None

    async def over(self, call_id: str, reason: EndReason, *, at: int | None = None) -> Call | None:
        """Stores the end of a call, as its thread says if it has one. None if it was over already.

        `at`: the time of the end if it was earlier than now.
        Raises: SourceError, ThreadError, BadDocument.
        """
        before = await self._records.get(call_id)
        if before is None or not before.is_open:
            return None
        thread = await self.thread(before)
        now = self._deps.clock()
        now = now if at is None else min(now, max(at, before.answered_time or before.started_time))
        part = thread.agent if thread else None
        changes: dict[str, Any] = {"status": "ended", "end_reason": reason, "ended_time": now}
        if part is not None and part.ended_time is not None:
            changes |= {
                "outcome": part.outcome,
                "end_reason": part.end_reason,
                "ended_time": part.ended_time,
            }
        changes |= {"token_hashes": [], "next_time": changes["ended_time"] + self.retention_ms}
        call = await self._records.change(call_id, lambda call: call.model_copy(update=changes))
        if call is None:
            return None
        if thread is None:  # else the end of its thread was logged
            facts = {"agent_id": call.agent_id, "call_id": call_id, "reason": reason}
            log.info("call_ended", extra=facts | {"outcome": None})
        self._deps.metrics.state(call_id, call.agent_id, None)
        if call.duration_sec is not None:
            self._deps.metrics.counted(
                "voice_call_seconds", call.duration_sec, agent_id=call.agent_id
            )
        return call

    async def recover(self, call: Call) -> Call | None:
        """Ends an answered call whose server is gone. None if it is served, or over.

        Raises: SourceError, ThreadError, AgentError, BadDocument.
        """
        if await self._deps.leases.runs(call.call_id):
            return None
        if call.status == "transferring":
            return await self.end_transfer(call)
        reason: EndReason = call.end_reason or "lost"
        # The call lasted until its last sign of life, not until this check.
        thread = await self.thread(call)
        held = await self._deps.leases.last_held(call.call_id)
        at = max(call.answered_time or 0, held or 0, thread.last_updated_time if thread else 0)
        try:
            await self._deps.life.endings.end(call.call_id, reason, at=at)
        except ThreadNotFound:
            log.info(
                "call_without_thread", extra={"call_id": call.call_id, "agent_id": call.agent_id}
            )
        except ThreadBusy:  # another server ends it
            return None
        return await self.over(call.call_id, reason, at=at)

    async def end_unopened(self, call: Call) -> Call | None:
        """Ends a ringing call whose stream was never opened. Raises: SourceError."""
        stored = await self._records.get(call.call_id)
        if stored is None or stored.status != "ringing":
            return None
        if stored.returns:  # the caller did not come back after a transfer
            return await self.end_transfer(stored)
        return await self.over(call.call_id, "line_lost")

    async def end_transfer(
        self, call: Call, status: str | None = None, *, answered: bool | None = None
    ) -> Call | None:
        """Ends a call whose caller was transferred. None if it is over already.

        Without a report of the telephone service somebody who picked up counts as `answered`.
        Raises: SourceError, ThreadError, AgentError, BadDocument.
        """
        if answered is None:
            last = call.transfers[-1] if call.transfers else None
            answered = last is not None and last.status is None and last.answered_time is not None
        ctx: dict[str, Any] = {"transfer_answered": answered}
        if status is not None:
            ctx["transfer_status"] = status
        at = call.transferred_time
        with suppress(ThreadNotFound):
            await self._deps.life.endings.end(call.call_id, "transferred", at=at, ctx=ctx)
        return await self.over(call.call_id, "transferred", at=at)

    async def tick(self, now: int | None = None) -> None:
        """Ends unopened and abandoned calls, and forgets calls after retention.

        Raises: SourceError.
        """
        now = self._deps.clock() if now is None else now
        for call in await self._records.due(now):
            try:
                await self._check(call, now)
            except (ThreadError, AgentError, BadDocument, RecordConflict) as exc:
                facts = {"call_id": call.call_id, "agent_id": call.agent_id}
                log.warning("call_not_ended", extra=facts | {"error": type(exc).__name__})
                await self._postpone(call.call_id, now + RETRY_MS)

    async def _check(self, call: Call, now: int) -> None:
        if call.status == "ended":
            await self.forget(call)
        elif call.status == "ringing":
            await self.end_unopened(call)
        elif await self.recover(call) is None:
            await self._postpone(call.call_id, now + WATCHED_MS)

    async def _postpone(self, call_id: str, time: int) -> None:
        def postponed(call: Call) -> Call:
            return call.model_copy(update={"next_time": max(time, call.next_time or 0)})

        await self._records.change(call_id, postponed)

    async def forget(self, call: Call) -> None:
        """Deletes the personal data of an ended call; its totals stay.

        The record is written last, so that the call stays due if the process is killed. The ids of
        its recordings stay, because somebody has to delete those at the telephone service.
        Raises: SourceError, ThreadBusy.
        """
        await self._deps.life.deliveries.wait_until_sent([call.call_id], timeout_s=SENDING_S)
        caller = Person(call.owner, "viewer", call.workspace)
        with suppress(ThreadNotFound):
            await self._deps.threads.delete(call.call_id, caller)
        stored = self._records.stored
        for record in await stored.query(DELIVERY, {"callId": call.call_id}, limit=MAX_OF_CALL):
            await stored.delete(DELIVERY, record.key, expected_version=record.version or "")
        deleted = dict.fromkeys(
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
        changes: dict[str, Any] = deleted | {
            "sources": [],
            "forgotten_time": self._deps.clock(),
            "next_time": None,
        }
        await self._records.change(
            call.call_id, lambda call: call.model_copy(update=changes), when_over=True
        )
        facts = {"call_id": call.call_id, "agent_id": call.agent_id}
        log.info("call_forgotten", extra=facts | {"recordings": len(call.recordings)})
