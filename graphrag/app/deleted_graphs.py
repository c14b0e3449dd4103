"""Deletes graphs so that they can be restored for 30 days, and removes them for good after that.

Decision: a deleted graph is no graph any more. It is packed into a record and its documents are
removed, so that no reader, search or other program has to know of deletion, on any store, and its
key is free again.
What hangs on it: editors are sent away, proposals that wait are closed as failed, automations pause
themselves ("graph_gone") and stay paused after a restore; conversations, history and the audit log
stay. Vectors are computed again. After KEPT_MS the copy, conversations, proposals and history go;
only the audit log, a chain, keeps its entries.

A process may end between the two steps: the graph carries the name of its copy then, and `purge`
ends what was begun. Where people went on with the graph meanwhile, it stays, and the copy goes.
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
KEPT = 500
"""So many copies a workspace keeps at most; beyond, the oldest go before their time."""

_MARK = "deletedAs"
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
    """Units: times in milliseconds since 1970; it is gone for good at `ends`."""

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
    """Delete a graph as it is now, with what its editors have not saved; return what is kept of it.

    Raises: GraphNotFound, SourceBusy (another server has edits of it), RevisionConflict,
    SourceError.
    """
    source = approvals.source

    async def keep() -> DeletedGraph:
        state = await read_stored(source, graph_key)
        if await approvals.records.query("journal", {"graphKey": graph_key}, limit=1):
            raise SourceBusy(
                source="live editing", reason="some edits of the graph are not saved yet"
            )
        return await _keep(approvals, state, by)

    kept = await until_stored(keep)
    with suppress(GraphNotFound):  # `purge` may have ended it
        await source.delete_graph(graph_key)
    await approvals.close_for_gone_graph(graph_key)
    return kept


async def _keep(approvals: Approvals, state: LiveState, by: Person) -> DeletedGraph:
    """Store the copy of a graph and mark the graph with it, if nobody changed it meanwhile."""
    graph = state.graph
    now = now_ms()
    kept = DeletedGraph(
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
    data = kept.model_dump(by_alias=True, exclude={"ends"})
    records = [
        RecordWrite(kind=KIND, key=kept.id, data=data, expected_version=None),
        RecordWrite(kind=CONTENT, key=kept.id, data=content, expected_version=None),
    ]
    marked = graph.replace(metadata={**(graph.metadata or {}), _MARK: kept.id})
    mutation = Mutation(graph_key=graph.key, graph=marked)

    said = {"event": "graph_deleted", "graphKey": graph.key, "name": graph.name}
    apply = partial(approvals.source.apply, mutation, expected_revision=graph.revision)
    await approvals.audited(by, said, lambda entry: apply(records=[*records, *entry]))
    return kept


def _packed(state: LiveState) -> str:
    """Return a graph as compressed text: one document a line."""
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
    """Return what can be restored, the latest first. Raises: SourceError."""
    found = await approvals.records.query(
        KIND, given(graphKey=graph_key), order_by="deletedTime", descending=True, limit=2 * KEPT
    )
    return [one for one in map(DeletedGraph.of, found) if one.ends > now_ms()]


async def restore_graph(approvals: Approvals, graph_key: str, by: Person) -> Graph:
    """Store the graph that was deleted last under a key as it was then, and return it.

    Where the key is another graph's by now, it gets a new one. Raises: GraphNotFound,
    RecordConflict (somebody else restores it), SourceError.
    """
    kept = next(iter(await deleted_graphs(approvals, graph_key)), None)
    content = None if kept is None else await approvals.records.get(CONTENT, kept.id)
    if kept is None or content is None:
        raise GraphNotFound(graph_key=graph_key)
    graph, nodes, edges = await asyncio.to_thread(
        _unpacked, str(content.data["content"]), kept.nodes
    )
    more = dict[str, str]()
    file = content.data.get("imported") or kept_file(
        await approvals.records.get(IMPORTS, graph.key), graph
    )
    try:
        while True:
            records = _removal(kept, content)
            if file:
                records.append(
                    keeping_file(file, graph, await approvals.records.get(IMPORTS, graph.key))
                )
            try:
                return await store_graph(
                    approvals, graph, nodes, edges, by, "graph_restored", records=records, **more
                )
            except GraphExists:
                more = {"of": graph_key}
                graph = graph.replace(key=new_graph_key(graph.name))
                nodes, edges = await asyncio.to_thread(of_graph, graph.key, nodes, edges)
    finally:
        free([*nodes, *edges])


def _removal(kept: DeletedGraph, content: Record | None) -> list[RecordWrite]:
    gone = [RecordWrite(kind=KIND, key=kept.id, data=None, expected_version=kept.version)]
    if content is not None:
        gone.append(
            RecordWrite(kind=CONTENT, key=kept.id, data=None, expected_version=content.version)
        )
    return gone


async def purge(approvals: Approvals) -> list[str]:
    """End deletions that were interrupted; remove for good what is past its time, and
    return those keys.

    Raises: SourceError.
    """
    records = approvals.records
    source = approvals.source
    now = now_ms()
    found = await records.query(KIND, order_by="deletedTime", descending=True, limit=2 * KEPT)
    kept = [DeletedGraph.of(record) for record in found]
    graphs = {graph.key: graph for graph in await source.list_graphs()} if kept else {}
    for one in kept:
        graph = graphs.get(one.graph_key)
        if graph is not None and (graph.metadata or {}).get(_MARK) == one.id:
            content = await records.get(CONTENT, one.id)
            if content is None or await _is_changed(approvals, one, content):
                with suppress(RecordConflict):
                    await records.write(_removal(one, content))
                continue
            with suppress(GraphNotFound):
                await source.delete_graph(one.graph_key)
            await approvals.close_for_gone_graph(one.graph_key)
            graphs.pop(one.graph_key)
    over = [one for number, one in enumerate(kept) if one.ends <= now or number >= KEPT]
    left = {one.graph_key for one in kept} - {one.graph_key for one in over} | graphs.keys()
    for one in over:
        with suppress(RecordConflict):  # somebody restored it, or another server was faster
            if one.graph_key not in left:
                await _remove_rest(approvals, one.graph_key)
            await records.write(_removal(one, await records.get(CONTENT, one.id)))
    return [one.graph_key for one in over]


async def _is_changed(approvals: Approvals, kept: DeletedGraph, content: Record) -> bool:
    """Say whether a graph is another than its copy: somebody changed it since its
    deletion was begun.
    """
    state = await read_stored(approvals.source, kept.graph_key)

    def compare() -> bool:
        graph, *parts = _unpacked(str(content.data["content"]), kept.nodes)
        said = [(one.name, one.description, one.sheets_list) for one in (graph, state.graph)]
        now = ({**state.nodes}, {**state.edges})
        return said[0] != said[1] or any(
            {one.key: one for one in then} != held for then, held in zip(parts, now, strict=True)
        )

    return await asyncio.to_thread(compare)


async def _remove_rest(approvals: Approvals, graph_key: str) -> None:
    """Remove the records about a graph, but for the audit log and the conversations of agents.

    They are read before the graph is seen to be gone: of one that is made again meanwhile
    nothing is removed.
    Raises: RecordConflict, SourceError.
    """
    records = approvals.records
    imported = await records.get(IMPORTS, graph_key)
    gone = [] if imported is None else [imported]
    for kind in _OF_GRAPH:
        gone += await records.query(kind, {"graphKey": graph_key}, limit=1_000_000)
    with suppress(GraphNotFound):
        await approvals.source.get_graph(graph_key)
        return
    writes = [
        RecordWrite(kind=one.kind, key=one.key, data=None, expected_version=one.version)
        for one in gone
        if not one.data.get("agentId")
    ]
    for i in range(0, len(writes), _TOGETHER):
        await records.write(writes[i : i + _TOGETHER])
