"""Where approvals are kept: records of one workspace, each written only over the version that was read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from datasources.base import Record, RecordStore, RecordWrite
from graphrag.approvals.approval import CLAIMED, KIND, Approval, Status, from_record

WriteGuard = Callable[[RecordWrite], Awaitable[None]]
"""Carries out a write together with a check of its own, or raises."""


class Fence(Protocol):
    """Lets a transaction through only as long as its caller may still write; see `graphrag.leases.Lease`."""

    def fence(self) -> RecordWrite: ...

    async def read(self) -> None:
        """Make the next `fence` fit what is stored. Raises: what says that the caller may not."""
        ...


@dataclass(frozen=True, slots=True)
class ApprovalStore:
    """Reads and writes approvals. Raises (writes): RecordConflict when somebody was faster."""

    records: RecordStore
    workspace: str

    async def get(self, approval_id: str) -> Approval | None:
        record = await self.records.get(KIND, approval_id)
        approval = (await _read([record]))[0] if record else None
        return approval if approval and approval.workspace == self.workspace else None

    async def put(self, approval: Approval, *, write_guard: WriteGuard | None = None) -> Approval:
        """Store it; return it with its new version. `write_guard` carries the write out, or refuses to."""
        if write_guard is not None:
            data = await asyncio.to_thread(approval.to_document)
            await write_guard(
                RecordWrite(kind=KIND, key=approval.id, data=data, expected_version=approval.version)
            )
            return await self.get(approval.id) or approval
        record = Record(kind=KIND, key=approval.id, data=await asyncio.to_thread(approval.to_document))
        return (await _read([await self.records.put(record, expected_version=approval.version)]))[0]

    async def find(
        self,
        *,
        graph_key: str | None = None,
        thread_id: str | None = None,
        status: Status | None = None,
        asker: str | None = None,
        automation_id: str | None = None,
        proposal_hash: str | None = None,
        voice_code: str | None = None,
        program: str | None = None,
        limit: int = 100,
    ) -> list[Approval]:
        """Return the latest approvals, newest first."""
        given = {"graphKey": graph_key, "threadId": thread_id, "status": status, "userId": asker}
        given |= {"automationId": automation_id, "proposalHash": proposal_hash}
        given |= {"spokenCode": voice_code, "program": program}
        where = {name: value for name, value in given.items() if value is not None}
        found = await self.records.query(KIND, where, order_by="createdTime", descending=True, limit=limit)
        return await _read([one for one in found if one.data.get("workspace") == self.workspace])

    async def left_claimed(self, limit: int = 100) -> list[Approval]:
        """Return what a program before this one claimed and did not bring to an end."""
        found = await self.records.query(KIND, {"status": CLAIMED}, limit=limit)
        return await _read(found)

    async def due(self, now: int, limit: int = 100) -> list[Approval]:
        """Return pending approvals whose time is over, the oldest first."""
        found = await self.records.query(KIND, {"status": "pending"}, order_by="expiresTime", limit=limit)
        return [approval for approval in await _read(found) if approval.expires <= now]


async def _read(records: Sequence[Record]) -> list[Approval]:
    """Read records in a thread: one can hold thousands of documents."""
    return await asyncio.to_thread(lambda: [from_record(record) for record in records])
