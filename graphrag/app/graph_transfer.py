"""Copies one graph between two stores: its document with the revision, nodes, edges and vectors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from datasources.base import GraphDataSource, MutableGraphDataSource
from datasources.errors import GraphNotFound
from datasources.hits import NodeVector
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.app.paged_reads import keys_of, read_edges, read_nodes, read_parts

Report = Callable[[int], None]
"""Receives the number of documents that were copied since the last call."""


async def transfer_graph(
    source: GraphDataSource, target: MutableGraphDataSource, graph: Graph, report: Report
) -> None:
    """Copies a graph, unless the target has an equal one; replaces an unfinished copy.

    A large graph is stored in several transactions, and has its revision after the last one.
    Raises: GraphExists (another workspace has the key), SourceError.
    """
    try:
        stored = await target.get_graph(graph.key)
    except GraphNotFound:
        pass
    else:
        if await _is_equal(source, target, graph, stored):
            stats = await source.get_stats(graph.key)
            report(stats.nodes + stats.edges)
            return
        await target.delete_graph(graph.key)
    is_first = True
    async with aclosing(_parts(source, graph)) as parts:
        async for part in parts:
            if is_first:
                await target.create_graph(graph, part)
            else:
                await target.apply(part)
            is_first = False
            report(len(part.put_nodes) + len(part.put_edges))


async def _parts(source: GraphDataSource, graph: Graph) -> AsyncGenerator[Mutation]:
    """Yields the parts of a graph; the last one sets the revision."""
    before: Mutation | None = None
    async with aclosing(read_parts(source, graph.key)) as parts:
        async for part in parts:
            if before is not None:
                yield before
            before = part
    if before is not None:
        yield replace(before, revision=graph.revision)


async def _is_equal(
    source: GraphDataSource, target: GraphDataSource, graph: Graph, stored: Graph
) -> bool:
    """Returns whether both stores have the same graph, with the same content and vectors."""
    if stored.to_document() != graph.to_document():
        return False
    if await source.get_stats(graph.key) != await target.get_stats(graph.key):
        return False
    async with aclosing(read_nodes(source, graph.key)) as pages:
        async for nodes in pages:
            if not await _has_nodes(source, target, graph.key, nodes):
                return False
    async with aclosing(read_edges(source, graph.key)) as pages:
        async for edges in pages:
            if _documents(await target.get_edges_by_key(graph.key, keys_of(edges))) != _documents(
                edges
            ):
                return False
    return True


async def _has_nodes(
    source: GraphDataSource, target: GraphDataSource, graph_key: str, nodes: Sequence[Node]
) -> bool:
    keys = keys_of(nodes)
    if _documents(await target.get_nodes_by_key(graph_key, keys)) != _documents(nodes):
        return False
    vectors = [await store.get_vectors(graph_key, keys) for store in (source, target)]
    ours, theirs = ({key: _plain(one) for key, one in of.items()} for of in vectors)
    return ours == theirs


def _documents(documents: Sequence[Node] | Sequence[Edge]) -> list[object]:
    return [document.to_document() for document in documents]


def _plain(vector: NodeVector) -> tuple[str, str, bytes, bytes | None]:
    name = None if vector.name is None else vector.name.tobytes()
    return vector.model, vector.hash, vector.content.tobytes(), name
