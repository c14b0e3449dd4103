"""Reads graphs and records of any size in pages of limited memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import orjson

from datasources.base import GraphDataSource, Record, RecordStore
from datasources.types import Edge, Mutation, Node

PAGE_BYTES = 4 << 20  # wanted size of a page, as JSON
# Documents of the first page, before their size is known. A record may hold a whole deleted graph.
FIRST_NODES = 200
FIRST_RECORDS = 10
LARGEST_PAGE = 1_000  # documents

E = TypeVar("E", Node, Edge, Record)


async def read_pages(
    read: Callable[[str | None, int], Awaitable[list[E]]],
    size_of: Callable[[E], int],
    *,
    first: int,
) -> AsyncGenerator[list[E]]:
    """Yields pages. `read(after, limit)` returns documents whose key is greater than `after`.

    The number of documents of a page follows from the size of those before it; `first` is that of
    the first page.
    """
    limit = first
    after: str | None = None
    while True:
        page = await read(after, limit)
        if page:
            yield page
        if len(page) < limit:
            return
        after = page[-1].key
        fitting = len(page) * PAGE_BYTES // (sum(map(size_of, page)) + 1)
        limit = max(1, min(fitting, 2 * limit, LARGEST_PAGE))


def read_nodes(source: GraphDataSource, graph_key: str) -> AsyncGenerator[list[Node]]:
    """Yields the nodes of a graph in pages, by key."""
    return read_pages(
        lambda after, limit: source.get_nodes(graph_key, after=after, limit=limit),
        lambda node: len(node.to_json()),
        first=FIRST_NODES,
    )


def read_edges(source: GraphDataSource, graph_key: str) -> AsyncGenerator[list[Edge]]:
    """Yields the edges of a graph in pages, by key."""
    return read_pages(
        lambda after, limit: source.get_edges(graph_key, after=after, limit=limit),
        lambda edge: len(edge.to_json()),
        first=FIRST_NODES,
    )


def read_records(records: RecordStore, kind: str) -> AsyncGenerator[list[Record]]:
    """Yields the records of a kind in pages."""
    return read_pages(
        lambda after, limit: records.get_page(kind, after=after, limit=limit),
        lambda record: len(orjson.dumps(record.data)),
        first=FIRST_RECORDS,
    )


async def read_parts(source: GraphDataSource, graph_key: str) -> AsyncGenerator[Mutation]:
    """Yields mutations that store the content of a graph, with its vectors, one after another.

    The last nodes and the first edges go together, so a small graph is one mutation.
    """
    part = Mutation(graph_key=graph_key)
    async for nodes in read_nodes(source, graph_key):
        if part.put_nodes:
            yield part
        vectors = await source.get_vectors(graph_key, keys_of(nodes))
        part = replace(part, put_nodes=nodes, put_vectors=list(vectors.values()))
    async for edges in read_edges(source, graph_key):
        if part.put_edges:
            yield part
            part = Mutation(graph_key=graph_key)
        part = replace(part, put_edges=edges)
    yield part


def keys_of(documents: Sequence[Node] | Sequence[Edge]) -> list[str]:
    """Returns the keys of documents."""
    return [document.key for document in documents]
