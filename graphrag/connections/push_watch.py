"""Watches what becomes of pushes on the server: undone there, or followed by failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import orjson

from datasources.base import MutableGraphDataSource, RecordStore
from datasources.errors import GraphNotFound
from graphrag.approvals import Person
from graphrag.connections.document_patch import entry_names
from graphrag.connections.editor import KeepsFailures, ServerNotice
from graphrag.connections.errors import EditorFault
from graphrag.connections.push_plan import FORMATS
from graphrag.connections.push_records import PushRecords
from graphrag.connections.server_connections import Connections, PullReport
from graphrag.connections.stored_connection import EditorKind, ServerConnection
from graphrag.connections.stored_push import Push, StoredRemark, is_undone
from graphrag.importers.exchange import KIND as IMPORT_KIND
from graphrag.importers.exchange import kept_source
from graphrag.importers.export import file_without_secrets
from graphrag.leases import now_ms
from graphrag.workers import run_limited

WATCH_MS = 5 * 60_000
"""How long after a push the failures of nodes are kept with it."""
MAX_FAILURES = 5
READ_LATE_MS = 24 * 3_600_000
"""A service that did not run in these minutes still reads the failed runs this long."""

log = logging.getLogger(__name__)


@final
class PushWatch:
    """Watches the pushes of one workspace. `clock` gives milliseconds since 1970."""

    def __init__(
        self,
        pushes: PushRecords,
        connections: Connections,
        source: MutableGraphDataSource,
        records: RecordStore,
        *,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._pushes = pushes
        self._connections = connections
        self._source = source
        self._records = records
        self._clock = clock

    async def look(self, report: PullReport, by: Person) -> None:
        """Finds out, after a synchronisation, what became of pushes that were verified."""
        await self._notice_undone(report, by)
        await self._read_failures(report.connection, by)

    async def _notice_undone(self, report: PullReport, by: Person) -> None:
        """Marks the pushes that somebody undid on the server, as a synchronisation showed.

        It happens where an editor's page was open during the push and is saved later.
        """
        changed = {each.workflow_id for each in report.workflows if each.change == "updated"}
        for push in await self._pushes.list(report.connection.key) if changed else ():
            if push.workflow_id not in changed:
                continue
            changed.discard(push.workflow_id)  # only the newest one of a workflow counts
            document = await self._document_of(push, report.connection.kind)
            if push.state == "verified" and document is not None and is_undone(push, document):
                reason = StoredRemark(code="push_undone")
                await self._pushes.change(push, by, state="undone", reason=reason)

    async def _read_failures(self, connection: ServerConnection, by: Person) -> None:
        """Keeps failed runs with the push before them, where the server keeps runs."""
        for push, until in self._watched(await self._pushes.list(connection.key)):
            is_over = until < self._clock()
            try:
                failures = await self._failed_runs(push, until)
            except EditorFault as fault:
                if fault.code != "editor_right_missing":
                    log.info("failures_unread", extra={"push": push.key, "code": fault.code})
                    return
                remark = StoredRemark(code="push_failures_unread", facts=dict(fault.facts))
                warnings = (*push.warnings, remark)
                await self._pushes.change(push, by, event=remark.code, warnings=warnings)
                is_over = True
            else:
                if failures is None:
                    return
                await self._keep(push, failures, connection.kind, by)
            if is_over:
                await self._pushes.failures_read(push)

    def _watched(self, pushes: Sequence[Push]) -> Iterator[tuple[Push, int]]:
        """Yields the pushes whose failed runs are still to be read, each with the time until which
        a run counts: a newer push of the same workflow takes over. `pushes`: newest first.
        """
        newer: dict[str, int] = {}
        for push in pushes:
            if push.state != "verified" or push.sent_time is None or push.ended_time is None:
                continue
            until = push.ended_time + WATCH_MS
            until = min(until, newer.get(push.workflow_id, until))
            newer[push.workflow_id] = push.sent_time
            if not push.has_failures_read and push.ended_time + READ_LATE_MS > self._clock():
                yield push, until

    async def _failed_runs(self, push: Push, until: int) -> list[ServerNotice] | None:
        """Returns what failed since a push, None where the server keeps no runs."""
        async with self._connections.reading(push.connection) as editor:
            if not isinstance(editor, KeepsFailures):
                return None
            return await editor.failures(
                push.workflow_id, push.tokens_after, since=push.sent_time or 0, until=until
            )

    async def notice_failure(
        self, connection: ServerConnection, notice: ServerNotice, by: Person
    ) -> None:
        """Keeps a failure of a node with the connection's newest push, if that was written a few
        minutes ago at most.
        """
        [push] = await self._pushes.list(connection.key, limit=1) or [None]
        if push is None or push.state != "verified":
            return
        if (push.ended_time or 0) + WATCH_MS >= self._clock():
            await self._keep(push, [notice], connection.kind, by)

    async def _keep(
        self, push: Push, notices: Sequence[ServerNotice], kind: EditorKind, by: Person
    ) -> None:
        """Stores failures with a push, each one once."""
        if not notices or len(push.failures) >= MAX_FAILURES:
            return
        names = entry_names(await self._document_of(push, kind))
        told = dict.fromkeys(
            (names.get(each.node_id, each.node_id), each.message) for each in notices
        )
        remarks = [
            StoredRemark(code="push_node_failed", facts={"node": node, "message": message})
            for node, message in told
        ]
        new = [remark for remark in remarks if remark not in push.failures]
        if new:
            failures = (*push.failures, *new)[:MAX_FAILURES]
            await self._pushes.change(push, by, event="push_node_failed", failures=failures)

    async def _document_of(self, push: Push, kind: EditorKind) -> Any:
        """Returns the server's document of the last synchronisation, None where there is none."""
        try:
            graph = await self._source.get_graph(push.graph_key)
        except GraphNotFound:
            return None
        raw = kept_source(await self._records.get(IMPORT_KIND, graph.key), graph)
        if raw is None:
            return None
        return await run_limited(file_without_secrets, FORMATS[kind], orjson.loads(raw))
