"""Creates, renames and copies whole graphs for people, each audited in its own transaction."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from datasources.base import RecordWrite
from datasources.errors import RevisionConflict
from datasources.types import Edge, Family, Graph, Mutation, Node
from graphrag.approvals import Approvals
from graphrag.importers.exchange import KIND as IMPORTS
from graphrag.importers.exchange import keeping_file, kept_file
from graphrag.importers.readable_keys import slug
from graphrag.leases import now_ms
from graphrag.live.working_copy import read_stored
from graphrag.roles import Person
from graphrag.workers import free

T = TypeVar("T")

MAX_NAME = 200
ATTEMPTS = 10


def new_graph_key(name: str) -> str:
    """Returns a key with the words of a name and a random ending."""
    return f"{slug(name) or 'graph'}-{secrets.token_hex(4)}"


async def new_graph(
    approvals: Approvals,
    name: str,
    by: Person,
    *,
    family: Family = "nodius",
    language: str | None = None,
) -> Graph:
    """Stores an empty graph and returns it; `language` is the language of its future texts.

    Raises: SourceError.
    """
    now = now_ms()
    graph = Graph(
        key=new_graph_key(name),
        name=name,
        workspace=approvals.source.workspace,
        category="default" if family == "nodius" else family,
        sheets_list={"0": "main"},
        created_time=now,
        last_updated_time=now,
    )
    if language is not None:
        graph = graph.replace(language=language)
    return await store_graph(approvals, graph, (), (), by, "graph_created")


async def copy_graph(approvals: Approvals, graph_key: str, name: str, by: Person) -> Graph:
    """Stores a copy of the present graph under a new key, and returns it.

    Conversations, proposals and automations stay with the original. The imported file is copied, so
    that the copy can be exported like the original.
    Raises: GraphNotFound, SourceError.
    """
    state = await read_stored(approvals.source, graph_key)
    now = now_ms()
    key = new_graph_key(name)
    graph = state.graph.replace(key=key, name=name, created_time=now, last_updated_time=now)
    file = kept_file(await approvals.records.get(IMPORTS, graph_key), state.graph)
    records = [] if file is None else [keeping_file(file, graph, None)]
    nodes, edges = await asyncio.to_thread(
        of_graph, key, state.nodes.values(), state.edges.values()
    )
    try:
        return await store_graph(
            approvals, graph, nodes, edges, by, "graph_copied", records=records, of=graph_key
        )
    finally:
        free([*nodes, *edges])


def of_graph(key: str, nodes: Any, edges: Any) -> tuple[list[Node], list[Edge]]:
    """Returns copies of nodes and edges for another graph."""
    return (
        [node.model_copy(update={"graph_key": key}) for node in nodes],
        [edge.model_copy(update={"graph_key": key}) for edge in edges],
    )


async def store_graph(
    approvals: Approvals,
    graph: Graph,
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    by: Person,
    event: str,
    *,
    records: Sequence[RecordWrite] = (),
    **facts: Any,
) -> Graph:
    """Stores a whole graph with its audit entry. Raises: GraphExists, RecordConflict,
    SourceError.
    """
    content = Mutation(graph_key=graph.key, put_nodes=nodes, put_edges=edges)
    stored: list[Graph] = []

    async def write(entry: Sequence[RecordWrite]) -> None:
        stored.append(await approvals.source.create_graph(graph, content, [*records, *entry]))

    await approvals.audited(by, {"event": event, "graphKey": graph.key, **facts}, write)
    return stored[-1]


async def rename_graph(approvals: Approvals, graph_key: str, name: str, by: Person) -> Graph:
    """Renames a graph. Raises: GraphNotFound, RevisionConflict if others keep changing it."""
    source = approvals.source

    async def rename() -> Graph:
        graph = await source.get_graph(graph_key)
        new = Mutation(graph_key=graph_key, graph=graph.replace(name=name), changed_at=now_ms())

        facts = {"event": "graph_renamed", "graphKey": graph_key, "from": graph.name, "to": name}
        apply = partial(source.apply, new, expected_revision=graph.revision)
        await approvals.audited(by, facts, lambda entry: apply(records=entry))
        return await source.get_graph(graph_key)

    return await until_stored(rename)


async def until_stored(store: Callable[[], Awaitable[T]]) -> T:
    """Retries while others change the graph. Raises: RevisionConflict after ATTEMPTS."""
    for _ in range(ATTEMPTS - 1):
        with suppress(RevisionConflict):
            return await store()
    return await store()
