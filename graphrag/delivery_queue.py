"""Sends requests that are owed to somebody else's server: each is stored, tried until it arrives,
kept for people to see, and removed.

Decision: at least once. Who tries one first moves its next time behind the longest that sending
takes, by compare-and-set: no other server tries it at the same time, and after a kill another finds
it. What is over has a next time too, at which it is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal

from datasources.base import Record, RecordStore
from datasources.errors import SourceError
from graphrag.leases import now_ms
from graphrag.stored_records import delete_record, put_over
from graphrag.workers import end_tasks

log = logging.getLogger(__name__)

DELAYS_MS: Final = (1_000, 5_000, 30_000, 120_000, 600_000)
LATER_MS: Final = 3_600_000
OWED_MS: Final = 24 * 3_600_000
KEPT_MS: Final = 30 * 24 * 3_600_000
"""So long those that are over are kept, for people to see."""
CLAIMED_MS: Final = 45_000
"""Longer than any request takes (30 s), with reading and storing."""
AT_ONCE: Final = 16
DUE: Final = 100
LATER_STATUS: Final = frozenset((408, 425, 429))
"""Refusals by HTTP that may be none later."""

DeliveryStatus = Literal["waiting", "done", "refused", "expired"]
OVER: Final = frozenset(("done", "refused", "expired"))


def is_claimed(data: Mapping[str, Any]) -> bool:
    """Say whether a request is being tried, as far as is known."""
    return data["status"] == "waiting" and data["nextTime"] - CLAIMED_MS == data.get("lastTime")


class DeliveryQueue:
    """Requests of one kind of record. `since`: the field from which on one is owed, for a day.

    Each has `status`, `attempts`, `nextTime`, `lastTime`, in milliseconds since
    1970. Raises: SourceError.
    """

    def __init__(
        self, records: RecordStore, kind: str, *, since: str, clock: Callable[[], int] = now_ms
    ) -> None:
        self.records = records
        self._kind = kind
        self._since = since
        self._clock = clock
        self.sending: dict[str, asyncio.Task[bool]] = {}
        """What is being sent here, by its group."""

    async def add(self, key: str, data: Mapping[str, Any], *, wait_ms: int = 0) -> Record:
        """Store one that is owed from now on, and tried after `wait_ms`. Raises: RecordConflict."""
        owed = self._owed()
        given = {**data, **owed, "nextTime": owed["nextTime"] + wait_ms}
        return await self.records.put(
            Record(kind=self._kind, key=key, data=given), expected_version=None
        )

    def _owed(self) -> dict[str, Any]:
        now = self._clock()
        return {"status": "waiting", "attempts": 0, self._since: now, "nextTime": now}

    async def change(self, record: Record, changes: Mapping[str, Any]) -> Record | None:
        """Store changes over what was read; None: somebody else was faster."""
        changed = Record(kind=self._kind, key=record.key, data={**record.data, **changes})
        return await put_over(self.records, changed, record.version)

    async def retry(self, record: Record) -> Record | None:
        """Have one tried now, for a day again; None: it is being tried, or somebody
        else was faster.
        """
        if is_claimed(record.data) and record.data["nextTime"] > self._clock():
            return None
        return await self.change(record, self._owed())

    async def attempt(
        self, record: Record, send: Callable[[], Awaitable[Mapping[str, Any]]]
    ) -> dict[str, Any] | None:
        """Try one once and return how it stands; None: somebody else was faster.

        `send` returns fields that it changes; unless it ends it by a `status`, it is
        tried again later.
        """
        now = self._clock()
        attempts = int(record.data["attempts"]) + 1
        claim = {"attempts": attempts, "lastTime": now, "nextTime": now + CLAIMED_MS}
        claimed = await self.change(record, claim)
        if claimed is None:
            return None
        after = {**claimed.data, **self._next(claimed.data, await send())}
        await self.change(claimed, after)
        return after

    def _next(self, data: Mapping[str, Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
        """Return an outcome with the time at which something happens next."""
        now = self._clock()
        number = int(data["attempts"]) - 1
        if "status" in outcome:
            return {"nextTime": now + KEPT_MS, **outcome}
        later = now + (DELAYS_MS[number] if number < len(DELAYS_MS) else LATER_MS)
        if later <= int(data[self._since]) + OWED_MS:
            return {**outcome, "nextTime": later}
        log.warning("delivery_given_up", extra={"kind": self._kind})
        return {**outcome, "status": "expired", "nextTime": now + KEPT_MS}

    async def send_due(
        self, send: Callable[[Sequence[Record]], Awaitable[object]], *, together: str = ""
    ) -> int:
        """Have `send` try what is due, and remove what was kept long enough; return how
        many were due.

        `together`: those that have this field in common are given to one call, and are a group.
        """
        found = await self.records.query(
            self._kind, order_by="nextTime", at_most=self._clock(), limit=DUE
        )
        groups: dict[str, list[Record]] = {}
        for record in found:
            if record.data.get("status") in OVER:
                await delete_record(self.records, record)
            else:
                groups.setdefault(str(record.data.get(together, record.key)), []).append(record)
        places = asyncio.Semaphore(AT_ONCE)

        async def one(group: str) -> None:
            async with places:
                if group not in self.sending:
                    await asyncio.wait({self.begin(group, lambda: send(groups[group]))})

        await asyncio.gather(*map(one, groups))
        return len(found)

    def begin(self, group: str, send: Callable[[], Awaitable[object]]) -> asyncio.Task[bool]:
        """Send something beside everything else, after what is being sent for its group.

        The task returns whether nothing was raised.
        """
        before = self.sending.get(group)

        async def sends() -> bool:
            if before is not None:
                await asyncio.wait({before})
            try:
                await send()
            except SourceError as exc:  # what is stored is found when it is due
                log.warning(
                    "delivery_not_sent", extra={"kind": self._kind, "error": type(exc).__name__}
                )
            except Exception:
                log.exception("delivery_failed", extra={"kind": self._kind})
            else:
                return True
            return False

        task = self.sending[group] = asyncio.create_task(sends())
        task.add_done_callback(
            lambda _: self.sending.get(group) is task and self.sending.pop(group)
        )
        return task

    async def wait_until_sent(
        self, groups: Sequence[str] | None = None, *, timeout_s: float
    ) -> bool:
        """Wait, at most `timeout_s`, until nothing of these groups, or of any, is being sent here.

        Returns whether that is so.
        """
        wanted = self.sending.keys() if groups is None else groups
        tasks = [self.sending[group] for group in wanted if group in self.sending]
        return not tasks or not (await asyncio.wait(tasks, timeout=timeout_s))[1]

    async def close(self) -> None:
        """Leave what is being sent; it is found again when it is due."""
        await end_tasks(*self.sending.values())
