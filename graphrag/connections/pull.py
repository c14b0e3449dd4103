"""Reads what changed on a server into its graphs, by the three-way merge of imports.

Nothing here is deleted because it is gone there, and nothing is written there.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

import orjson

from datasources.base import Record, RecordStore
from datasources.errors import (
    BadDocument,
    GraphNotFound,
    InvalidMutation,
    RecordConflict,
    RevisionConflict,
    SourceBusy,
)
from datasources.types import parse_document
from graphrag.approvals import Approvals, Person
from graphrag.connections.editor import Editor, RemoteDocument, RemoteWorkflow
from graphrag.connections.local_changes import compared, is_waiting, settled
from graphrag.connections.stored_connection import (
    LINK_KIND,
    ConnectionLink,
    LinkState,
    ServerConnection,
)
from graphrag.importers import UnreadableWorkflow
from graphrag.importers.exchange import ImportOutcome, import_bytes
from graphrag.importers.json_values import as_dict
from graphrag.importers.readable_keys import digest, slug
from graphrag.stored_records import delete_record, put_over, readable
from graphrag.workers import WorkersBusy

log = logging.getLogger(__name__)

MAX_LINKS = 10_000
Change = Literal["created", "updated", "unchanged", "conflict", "refused", "gone", "archived"]

# States in which equal tokens mean that nothing has to be read.
_KNOWN = ("in_step", "conflict")

# What goes wrong with one workflow alone: the others are read.
_OF_ONE = (
    BadDocument,
    InvalidMutation,
    RecordConflict,
    RevisionConflict,
    SourceBusy,
    WorkersBusy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledWorkflow:
    """What a synchronisation did with one workflow. `reason`: why it was refused."""

    workflow_id: str
    name: str
    graph_key: str
    change: Change
    approval: str | None = None
    has_unpublished: bool = False
    reason: str | None = None


class Links:
    """The stored links of one connection."""

    def __init__(self, records: RecordStore, connection: ServerConnection) -> None:
        self._records = records
        self._connection = connection

    async def all(self) -> dict[str, ConnectionLink]:
        """Returns the links by the server's id of their workflow."""
        where = {"connection": self._connection.key}
        records = await self._records.query(LINK_KIND, where, limit=MAX_LINKS)
        links = readable(records, read_link)
        return {link.workflow_id: link for link in links}

    async def put(self, link: ConnectionLink) -> None:
        """Stores a link over the one that is there."""
        stored = await self._records.get(LINK_KIND, link.key)
        record = Record(kind=LINK_KIND, key=link.key, data=link.to_document())
        await put_over(self._records, record, stored.version if stored else None)

    async def remove(self) -> None:
        """Deletes the links; the graphs stay."""
        for link in (await self.all()).values():
            stored = await self._records.get(LINK_KIND, link.key)
            if stored is not None:
                await delete_record(self._records, stored)


class Pull:
    """One synchronisation of a connection, on behalf of the person who made it."""

    def __init__(
        self,
        connection: ServerConnection,
        editor: Editor,
        approvals: Approvals,
        links: Links,
        by: Person,
        *,
        now: int,
        progress: Callable[[int, int], None],
    ) -> None:
        self._connection = connection
        self._editor = editor
        self._approvals = approvals
        self._links = links
        self._by = by
        self._now = now
        self._progress = progress
        self._revisions: Mapping[str, int] = {}

    async def run(self) -> list[PulledWorkflow]:
        """Returns what became of each workflow. Raises: EditorFault, where the server cannot be
        used at all; a workflow that cannot be read is left out with its reason.
        """
        links = await self._links.all()
        graphs = await self._approvals.source.list_graphs()
        self._revisions = {graph.key: graph.revision for graph in graphs}
        workflows = self._chosen(await self._editor.workflows())
        results: list[PulledWorkflow] = []
        for number, workflow in enumerate(workflows, start=1):
            link = links.pop(workflow.workflow_id, None)
            results.append(await self._one(workflow, link))
            self._progress(number, len(workflows))
        for link in links.values():
            results += await self._missing(link)
        return results

    async def merged(self, link: ConnectionLink) -> tuple[RemoteDocument | None, ConnectionLink]:
        """Reads a workflow and merges what changed there since the last synchronisation.

        Returns it with its link; None where the server has it no more. Raises: EditorFault.
        """
        read = await self._editor.read(link.workflow_id)
        if read is None:
            await self._missing(link)
        elif link.state == "conflict" and await is_waiting(link, self._approvals, self._by):
            return read, link
        elif link.digest != document_digest(read.document) or link.state != "in_step":
            await self._import(read, link, document_digest(read.document))
        stored = (await self._links.all()).get(link.workflow_id, link)
        return read, stored

    async def adopted(self, read: RemoteDocument, link: ConnectionLink) -> bool:
        """Links the graph of `link` with a workflow that was created from it.

        Returns False where the graph was deleted since.
        """
        try:
            await self._approvals.source.get_graph(link.graph_key)
        except GraphNotFound:
            return False
        await self._import(read, link, document_digest(read.document))
        return True

    def _chosen(self, workflows: Sequence[RemoteWorkflow]) -> list[RemoteWorkflow]:
        """Returns the workflows that the connection is about; patterns of Node-RED choose tabs."""
        patterns = self._connection.workflows if self._connection.kind == "n8n" else ()
        if not patterns:
            return list(workflows)
        return [
            workflow
            for workflow in workflows
            if any(fnmatchcase(workflow.name, pattern) for pattern in patterns)
        ]

    async def _one(self, workflow: RemoteWorkflow, link: ConnectionLink | None) -> PulledWorkflow:
        if workflow.is_archived:
            return await self._archived(workflow, link)
        if link is not None:
            link = await self._compared(link)
        if link is not None and link.tokens == workflow.tokens and link.state in _KNOWN:
            return self._result(link, "conflict" if link.state == "conflict" else "unchanged")
        read = await self._editor.read(workflow.workflow_id)
        if read is None:  # deleted between the list and this request
            return self._result(self._link_of(workflow, link), "gone")
        content = document_digest(read.document)
        if link is not None and link.digest == content and link.state == "in_step":
            await self._links.put(
                self._link_of(read.workflow, link, digest=content, state=link.state)
            )
            return self._result(link, "unchanged")
        return await self._import(read, link, content)

    async def _compared(self, link: ConnectionLink) -> ConnectionLink:
        """Returns a link whose conflict was decided, or whose graph was changed here, as it stands
        now; stores it.
        """
        if link.state == "conflict":
            if await is_waiting(link, self._approvals, self._by):
                return link
            now = await settled(link, self._approvals)
        else:
            revision = self._revisions.get(link.graph_key)
            if revision in (None, link.graph_revision, link.compared_revision):
                return link
            now = await compared(link, self._approvals)
        if now != link:
            await self._links.put(now)
        return now

    async def _import(
        self, read: RemoteDocument, link: ConnectionLink | None, content: str
    ) -> PulledWorkflow:
        """Imports a document that changed since the last synchronisation, or is new."""
        workflow = read.workflow
        graph_key = link.graph_key if link and link.graph_key else await self._new_key(workflow)
        try:
            outcome = await import_bytes(
                self._approvals,
                orjson.dumps(read.document),
                self._by,
                file_name=f"{workflow.name}.json",
                graph_key=graph_key,
            )
        except UnreadableWorkflow as exc:
            return await self._refused(workflow, link, exc.reason)
        except _OF_ONE as exc:
            return await self._refused(workflow, link, str(exc))
        change = _change_of(outcome)
        stored = self._link_of(
            workflow,
            link,
            graph_key=outcome.graph_key,
            digest=content,
            state="conflict" if change == "conflict" else "in_step",
            approval=outcome.approval,
        )
        if change == "created":
            graph = await self._approvals.source.get_graph(outcome.graph_key)
            stored = stored.model_copy(update={"graph_revision": graph.revision})
        else:  # the changes of people stay at a merge, so the graph may differ from the document
            stored = await compared(stored, self._approvals)
        await self._links.put(stored)
        return self._result(stored, change)

    async def _new_key(self, workflow: RemoteWorkflow) -> str:
        """Returns the key of a new graph: readable, and not that of another workflow's graph.

        A graph that was imported before from a file of this same workflow is taken over.
        """
        key = slug(workflow.name) or f"workflow-{digest(workflow.workflow_id)}"
        try:
            graph = await self._approvals.source.get_graph(key)
        except GraphNotFound:
            return key
        n8n = as_dict((graph.metadata or {}).get("n8n")) or {}
        if n8n.get("id") == workflow.workflow_id:
            return key
        return f"{key}-{digest(self._connection.key, workflow.workflow_id)}"

    async def _archived(
        self, workflow: RemoteWorkflow, link: ConnectionLink | None
    ) -> PulledWorkflow:
        archived = self._link_of(workflow, link, state="archived")
        if link is not None and link.state != "archived":
            await self._links.put(archived)
        return self._result(archived, "archived")

    async def _missing(self, link: ConnectionLink) -> list[PulledWorkflow]:
        """Returns what became of a workflow that the list does not show any more.

        It may have been left out of the list, or is not chosen any more: only the server's own
        word makes it gone.
        """
        read = await self._editor.read(link.workflow_id)
        if read is not None:
            return [await self._one(read.workflow, link)] if self._chosen([read.workflow]) else []
        if link.state != "gone":
            await self._links.put(link.model_copy(update={"state": "gone"}))
        return [self._result(link, "gone")]

    async def _refused(
        self, workflow: RemoteWorkflow, link: ConnectionLink | None, reason: str
    ) -> PulledWorkflow:
        log.info("workflow_refused", extra={"workflow": workflow.workflow_id, "reason": reason})
        refused = self._link_of(workflow, link, state="refused", reason=reason)
        await self._links.put(refused)
        return self._result(refused, "refused")

    def _link_of(
        self,
        workflow: RemoteWorkflow,
        link: ConnectionLink | None,
        *,
        state: LinkState = "in_step",
        digest: str | None = None,
        graph_key: str | None = None,
        approval: str | None = None,
        reason: str | None = None,
    ) -> ConnectionLink:
        """Returns the link of a workflow as it is now; what is not given is as it was."""
        name = self._connection.key
        return ConnectionLink(
            key=f"{name}/{workflow.workflow_id}",
            connection=name,
            workflow_id=workflow.workflow_id,
            name=workflow.name,
            graph_key=graph_key or (link.graph_key if link else ""),
            labels=workflow.labels,
            tokens=dict(workflow.tokens),
            digest=digest or (link.digest if link else ""),
            graph_revision=link.graph_revision if link else 0,
            compared_revision=link.compared_revision if link else 0,
            state=state,
            has_unpublished=workflow.has_unpublished,
            approval=approval,
            reason=reason,
            last_synced_time=self._now,
        )

    def _result(self, link: ConnectionLink, change: Change) -> PulledWorkflow:
        return PulledWorkflow(
            workflow_id=link.workflow_id,
            name=link.name,
            graph_key=link.graph_key,
            change=change,
            approval=link.approval,
            has_unpublished=link.has_unpublished,
            reason=link.reason,
        )


def read_link(record: Record) -> ConnectionLink:
    """Raises: BadDocument."""
    return parse_document(ConnectionLink, dict(record.data), LINK_KIND)


def document_digest(document: object) -> str:
    """Returns a hash of a document that does not depend on the order of keys."""
    return hashlib.blake2b(
        orjson.dumps(document, option=orjson.OPT_SORT_KEYS), digest_size=16
    ).hexdigest()


def _change_of(outcome: ImportOutcome) -> Change:
    if outcome.conflicts:
        return "conflict"
    changes: Mapping[str, Change] = {"created": "created", "updated": "updated"}
    return changes.get(outcome.action, "unchanged")
