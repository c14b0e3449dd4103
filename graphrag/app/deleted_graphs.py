"""Deletes graphs so that they can be restored for 30 days, and then removes them permanently.

Decision: a deleted graph does not exist as a graph. It is packed into a record and its documents
are removed. So on every store, readers, searches and other programs need not know about deletion,
and its key is free again. What depends on it: editors are disconnected, pending proposals are
closed as failed, automations pause at the next tick ("graph_gone") and stay paused after a restore;
conversations, history and the audit log stay. Vectors are computed again. After KEPT_MS the copy,
conversations, proposals and history are removed; only the audit log, a chain, keeps its entries.

A process may end between the two steps of a deletion. The graph then names its copy, and `purge`
completes the deletion. If people changed the graph meanwhile, it stays and the copy is removed.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import zlib
from contextlib import suppress
from functools import partial

from pydantic import Field, computed_field

from datasources.base import Record, RecordWrite
from datasources.errors import GraphExists, GraphNotFound, RecordConflict, SourceBusy
from datasources.types import Edge, Graph, Mutation, Node, parse_document
from graphrag.answer_body import AnswerBody
from graphrag.app.whole_graphs import new_graph_key, of_graph, store_graph, until_stored
from graphrag.approvals import Approvals
from graphrag.automations.automation_store import Automations
from graphrag.changes.draft import LiveState
from graphrag.importers.exchange import KIND as IMPORTS
from graphrag.importers.exchange import keeping_file, kept_file
from graphrag.leases import now_ms
from graphrag.live.working_copy import read_stored
from graphrag.roles import Person
from graphrag.stored_records import given
from graphrag.workers import free

KIND, CONTENT = "deleted_graph", "deleted_content"
KEPT_MS = 30 * 86_400_000
# Maximum number of copies in a workspace; beyond it the oldest are removed early.
KEPT = 500

# The metadata field of a graph with the id of its copy.
_MARK = "deletedAs"
# Kinds of records that are removed with a graph.
_OF_GRAPH = (
    *(
        "history",
        "approval",
        "undo",
        "approval_shown",
        "thread",
        "session",
        "automation",
        "journal",
        "trace",
    ),
)
_TOGETHER = 200


class DeletedGraph(AnswerBody):
    """A deleted graph that can be restored until `ends`. Units: times in milliseconds since
    1970.
    """

    id: str = Field(exclude=True)
    graph_key: str
    name: str
    nodes: int
    edges: int
    deleted_time: int
    deleted_by: str
    version: str | None = Field(default=None, exclude=True)

    @computed_field
    @property
    def ends(self) -> int:
        return self.deleted_time + KEPT_MS

    @classmethod
    def of(cls, record: Record) -> DeletedGraph:
        return cls.model_validate({**record.data, "id": record.key, "version": record.version})


async def delete_graph(approvals: Approvals, graph_key: str, by: Person) -> DeletedGraph:
    """Deletes the present graph, including unsaved edits; returns a description of its copy.

    Raises: GraphNotFound, SourceBusy (another server has edits of it), RevisionConflict,
    SourceError.
    """
    source = approvals.source

    async def store_copy() -> DeletedGraph:
        state = await read_stored(source, graph_key)
        if await approvals.records.query("journal", {"graphKey": graph_key}, limit=1):
            raise SourceBusy(
                source="live editing", reason="some edits of the graph are not saved yet"
            )
        return await _store_copy(approvals, state, by)

    copy = await until_stored(store_copy)
    with suppress(GraphNotFound):  # `purge` may have completed the deletion
        await source.delete_graph(graph_key)
    await _close_what_depends(approvals, graph_key)
    return copy


async def _close_what_depends(approvals: Approvals, graph_key: str) -> None:
    await approvals.close_for_gone_graph(graph_key)
    automations = Automations(approvals.records, workspace=approvals.source.workspace)
    await automations.check_soon(graph_key)


async def _store_copy(approvals: Approvals, state: LiveState, by: Person) -> DeletedGraph:
    """Stores the copy of a graph and marks the graph with its id, unless the graph was changed
    meanwhile.
    """
    graph = state.graph
    now = now_ms()
    copy = DeletedGraph(
        id=f"{now:014}-{secrets.token_hex(8)}",
        graph_key=graph.key,
        name=graph.name,
        nodes=len(state.nodes),
        edges=len(state.edges),
        deleted_time=now,
        deleted_by=by.user_id,
    )
    content = {
        "content": await asyncio.to_thread(_packed, state),
        "imported": kept_file(await approvals.records.get(IMPORTS, graph.key), graph),
    }
    data = copy.model_dump(by_alias=True, exclude={"ends"})
    records = [
        RecordWrite(kind=KIND, key=copy.id, data=data, expected_version=None),
        RecordWrite(kind=CONTENT, key=copy.id, data=content, expected_version=None),
    ]
    marked = graph.replace(metadata={**(graph.metadata or {}), _MARK: copy.id})
    mutation = Mutation(graph_key=graph.key, graph=marked)

    event = {"event": "graph_deleted", "graphKey": graph.key, "name": graph.name}
    apply = partial(approvals.source.apply, mutation, expected_revision=graph.revision)
    await approvals.audited(by, event, lambda entry: apply(records=[*records, *entry]))
    return copy


def _packed(state: LiveState) -> str:
    """Returns a graph as compressed text, one document a line."""
    packer = zlib.compressobj()
    parts = list[bytes]()
    for document in (state.graph, *state.nodes.values(), *state.edges.values()):
        parts.append(packer.compress(document.to_json() + b"\n"))
    return base64.b64encode(b"".join(parts) + packer.flush()).decode()


def _unpacked(content: str, nodes: int) -> tuple[Graph, list[Node], list[Edge]]:
    graph, *lines = zlib.decompress(base64.b64decode(content)).splitlines()
    return (
        parse_document(Graph, graph, "graphs"),
        [parse_document(Node, line, "nodes") for line in lines[:nodes]],
        [parse_document(Edge, line, "edges") for line in lines[nodes:]],
    )


async def deleted_graphs(approvals: Approvals, graph_key: str | None = None) -> list[DeletedGraph]:
    """Returns the graphs that can be restored, the latest first. Raises: SourceError."""
    records = await approvals.records.query(
        KIND, given(graphKey=graph_key), order_by="deletedTime", descending=True, limit=2 * KEPT
    )
    return [deleted for deleted in map(DeletedGraph.of, records) if deleted.ends > now_ms()]


async def restore_graph(approvals: Approvals, graph_key: str, by: Person) -> Graph:
    """Restores the graph that was deleted last under a key, and returns it.

    It gets a new key if another graph has the key now. Raises: GraphNotFound, RecordConflict (it is
    being restored by others), SourceError.
    """
    copy = next(iter(await deleted_graphs(approvals, graph_key)), None)
    content = None if copy is None else await approvals.records.get(CONTENT, copy.id)
    if copy is None or content is None:
        raise GraphNotFound(graph_key=graph_key)
    graph, nodes, edges = await asyncio.to_thread(
        _unpacked, str(content.data["content"]), copy.nodes
    )
    facts = dict[str, str]()
    file = content.data.get("imported") or kept_file(
        await approvals.records.get(IMPORTS, graph.key), graph
    )
    try:
        while True:
            records = _removal(copy, content)
            if file:
                records.append(
                    keeping_file(file, graph, await approvals.records.get(IMPORTS, graph.key))
                )
            try:
                return await store_graph(
                    approvals, graph, nodes, edges, by, "graph_restored", records=records, **facts
                )
            except GraphExists:
                facts = {"of": graph_key}
                graph = graph.replace(key=new_graph_key(graph.name))
                nodes, edges = await asyncio.to_thread(of_graph, graph.key, nodes, edges)
    finally:
        free([*nodes, *edges])


def _removal(copy: DeletedGraph, content: Record | None) -> list[RecordWrite]:
    removals = [RecordWrite(kind=KIND, key=copy.id, data=None, expected_version=copy.version)]
    if content is not None:
        removals.append(
            RecordWrite(kind=CONTENT, key=copy.id, data=None, expected_version=content.version)
        )
    return removals


async def purge(approvals: Approvals) -> list[str]:
    """Completes interrupted deletions, and permanently removes expired copies; returns the keys of
    these.

    Raises: SourceError.
    """
    records = approvals.records
    source = approvals.source
    now = now_ms()
    copy_records = await records.query(
        KIND, order_by="deletedTime", descending=True, limit=2 * KEPT
    )
    copies = [DeletedGraph.of(record) for record in copy_records]
    graphs = {graph.key: graph for graph in await source.list_graphs()} if copies else {}
    for copy in copies:
        graph = graphs.get(copy.graph_key)
        if graph is not None and (graph.metadata or {}).get(_MARK) == copy.id:
            content = await records.get(CONTENT, copy.id)
            if content is None or await _is_changed(approvals, copy, content):
                with suppress(RecordConflict):
                    await records.write(_removal(copy, content))
                continue
            with suppress(GraphNotFound):
                await source.delete_graph(copy.graph_key)
            await _close_what_depends(approvals, copy.graph_key)
            graphs.pop(copy.graph_key)
    expired = [copy for number, copy in enumerate(copies) if copy.ends <= now or number >= KEPT]
    remaining = {copy.graph_key for copy in copies} - {
        copy.graph_key for copy in expired
    } | graphs.keys()
    for copy in expired:
        with suppress(RecordConflict):  # it was restored, or another server removed it
            if copy.graph_key not in remaining:
                await _remove_rest(approvals, copy.graph_key)
            await records.write(_removal(copy, await records.get(CONTENT, copy.id)))
    return [copy.graph_key for copy in expired]


async def _is_changed(approvals: Approvals, copy: DeletedGraph, content: Record) -> bool:
    """Returns whether a graph differs from its copy, because it was changed after its deletion
    began.
    """
    state = await read_stored(approvals.source, copy.graph_key)

    def compare() -> bool:
        graph, *parts = _unpacked(str(content.data["content"]), copy.nodes)
        fields = [(g.name, g.description, g.sheets_list) for g in (graph, state.graph)]
        present = ({**state.nodes}, {**state.edges})
        return fields[0] != fields[1] or any(
            {document.key: document for document in copied} != documents
            for copied, documents in zip(parts, present, strict=True)
        )

    return await asyncio.to_thread(compare)


async def _remove_rest(approvals: Approvals, graph_key: str) -> None:
    """Removes the records about a graph, except the audit log and the conversations of agents.

    The records are read before the graph is seen to be missing, so none of a graph created again
    meanwhile is removed.
    Raises: RecordConflict, SourceError.
    """
    records = approvals.records
    imported = await records.get(IMPORTS, graph_key)
    related = [] if imported is None else [imported]
    for kind in _OF_GRAPH:
        related += await records.query(kind, {"graphKey": graph_key}, limit=1_000_000)
    with suppress(GraphNotFound):
        await approvals.source.get_graph(graph_key)
        return
    writes = [
        RecordWrite(kind=record.kind, key=record.key, data=None, expected_version=record.version)
        for record in related
        if not record.data.get("agentId")
    ]
    for i in range(0, len(writes), _TOGETHER):
        await records.write(writes[i : i + _TOGETHER])
