"""Stores pushes, each change with an entry of the audit log in the same transaction."""

from __future__ import annotations

from typing import Any, final

from datasources.base import Record, RecordStore, RecordWrite
from graphrag.approvals import Approvals, Person
from graphrag.connections.errors import PushDecided, PushNotFound
from graphrag.connections.stored_push import PUSH_KIND, Push, read_push
from graphrag.stored_records import change_record, delete_record, readable

MAX_PUSHES = 1_000
"""Pushes of a connection that are kept; the oldest are removed."""
MAX_UNDOABLE = 5
"""Pushes of a workflow whose documents are kept; older ones cannot be undone by them."""


@final
class PushRecords:
    """The stored pushes of one workspace."""

    def __init__(self, records: RecordStore, approvals: Approvals) -> None:
        self._records = records
        self._approvals = approvals

    async def list(self, connection: str | None = None, *, limit: int = 100) -> list[Push]:
        """Returns the pushes, newest first."""
        where = {"connection": connection} if connection is not None else {}
        records = await self._records.query(
            PUSH_KIND, where, order_by="createdTime", descending=True, limit=limit
        )
        return list(readable(records, read_push))

    async def get(self, push_id: str) -> Push:
        """Raises: PushNotFound, BadDocument."""
        return read_push(await self._record(push_id))

    async def add(self, push: Push, by: Person) -> Push:
        """Stores a new push; the oldest ones of the connection make room."""
        oldest = await self._records.query(
            PUSH_KIND, {"connection": push.connection}, order_by="createdTime", limit=MAX_PUSHES
        )
        for record in oldest[: max(0, len(oldest) - MAX_PUSHES + 1)]:
            await delete_record(self._records, record)
        await self._write(push, by, version=None, event=f"push_{push.state}")
        return push

    async def change(self, push: Push, by: Person, *, event: str = "", **update: Any) -> Push:
        """Stores fields of a push. `event` of the audit log is by default the push's state.

        Raises: PushDecided where its state was changed meanwhile, RecordConflict.
        """
        stored = await self._record(push.key)
        state = read_push(stored).state
        if state != push.state:
            raise PushDecided(push_id=push.key, state=state)
        changed = push.model_copy(update=update)
        event = event or f"push_{changed.state}"
        await self._write(changed, by, version=stored.version, event=event)
        return changed

    async def forget_documents(self, connection: str, workflow_id: str) -> None:
        """Removes the documents of older pushes of a workflow."""
        kept = 0
        for push in await self.list(connection, limit=MAX_PUSHES):
            if push.workflow_id != workflow_id or push.sealed_documents is None:
                continue
            kept += 1
            if kept > MAX_UNDOABLE:
                await self._note(push.key, sealedDocuments=None)

    async def failures_read(self, push: Push) -> None:
        """Stores that no more failures are looked for."""
        await self._note(push.key, hasFailuresRead=True)

    async def _note(self, push_id: str, **fields: Any) -> None:
        """Stores fields of a push that the audit log does not tell."""

        def noted(record: Record | None) -> dict[str, Any] | None:
            return {**record.data, **fields} if record is not None else None

        await change_record(self._records, PUSH_KIND, push_id, noted)

    async def _record(self, push_id: str) -> Record:
        record = await self._records.get(PUSH_KIND, push_id)
        if record is None:
            raise PushNotFound(push_id=push_id)
        return record

    async def _write(self, push: Push, by: Person, *, version: str | None, event: str) -> None:
        write = RecordWrite(
            kind=PUSH_KIND, key=push.key, data=push.to_document(), expected_version=version
        )
        facts = {
            "event": event,
            "pushId": push.key,
            "connection": push.connection,
            "workflowId": push.workflow_id,
            "graphKey": push.graph_key,
            "changesHash": push.changes_digest,
            "tokensBefore": push.tokens_before,
            "tokensAfter": push.tokens_after,
            "reason": push.reason.code if push.reason else None,
        }
        await self._approvals.audited(by, facts, lambda entry: self._records.write([write, *entry]))
