"""Watches what becomes of pushes on the server: undone there, or followed by failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import orjson

from datasources.base import MutableGraphDataSource, RecordStore
from datasources.errors import GraphNotFound
from graphrag.approvals import Person
from graphrag.connections.document_patch import entry_names
from graphrag.connections.editor import ServerNotice
from graphrag.connections.push_plan import FORMATS
from graphrag.connections.push_records import PushRecords
from graphrag.connections.server_connections import PullReport
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


@final
class PushWatch:
    """Watches the pushes of one workspace. `clock` gives milliseconds since 1970."""

    def __init__(
        self,
        pushes: PushRecords,
        source: MutableGraphDataSource,
        records: RecordStore,
        *,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._pushes = pushes
        self._source = source
        self._records = records
        self._clock = clock

    async def notice_undone(self, report: PullReport, by: Person) -> list[Push]:
        """Returns the pushes that somebody undid on the server, as a synchronisation showed.

        It happens where an editor's page was open during the push and is saved later.
        """
        changed = {each.workflow_id for each in report.workflows if each.change == "updated"}
        undone: list[Push] = []
        for push in await self._pushes.list(report.connection.key) if changed else ():
            if push.workflow_id not in changed:
                continue
            changed.discard(push.workflow_id)  # only the newest one of a workflow counts
            document = await self._document_of(push, report.connection.kind)
            if push.state == "verified" and document is not None and is_undone(push, document):
                reason = StoredRemark(code="push_undone")
                undone.append(await self._pushes.change(push, by, state="undone", reason=reason))
        return undone

    async def notice_failure(
        self, connection: ServerConnection, notice: ServerNotice, by: Person
    ) -> None:
        """Keeps a failure of a node with the connection's newest push, if that was written a few
        minutes ago at most.
        """
        [push] = await self._pushes.list(connection.key, limit=1) or [None]
        if push is None or push.state != "verified" or len(push.failures) >= MAX_FAILURES:
            return
        if (push.ended_time or 0) + WATCH_MS < self._clock():
            return
        names = entry_names(await self._document_of(push, connection.kind))
        facts = {"node": names.get(notice.node_id, notice.node_id), "message": notice.message}
        failure = StoredRemark(code="push_node_failed", facts=facts)
        if failure not in push.failures:
            failures = (*push.failures, failure)
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
