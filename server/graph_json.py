"""Answers with a whole graph as JSON. It is read page by page and written by worker threads, and is
never all in memory.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import orjson
from fastapi import Request, Response

from datasources.base import GraphDataSource
from datasources.errors import RevisionConflict
from datasources.types import Document, Edge, Graph, Node
from graphrag.importers.nodius import (
    FORMAT,
    FORMAT_VERSION,
    config_documents,
    graph_document,
    node_document,
)
from graphrag.workers import run_limited
from server.downloads import Step
from server.requests import state_of
from server.workspaces import GraphContext

E = TypeVar("E", Node, Edge)
Dump = Callable[[Any], bytes]
PAGE = 500
ATTEMPTS = 3
# Elements that are sorted at once; a longer sort would block the interpreter for too long.
RUN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """A list in the JSON. `dump` writes one of its elements."""

    pages: AsyncIterator[Sequence[Any]]
    dump: Dump = orjson.dumps


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPages:
    """A graph with its nodes and edges, by key. Can be read once."""

    graph: Graph
    nodes: AsyncIterator[Sequence[Node]]
    edges: AsyncIterator[Sequence[Edge]]

    @staticmethod
    def stored(source: GraphDataSource, graph: Graph) -> GraphPages:
        """Returns the pages of a source. They are of different moments: compare the revision before
        and after.
        """
        return GraphPages(
            graph=graph,
            nodes=_read(partial(source.get_nodes, graph.key)),
            edges=_read(partial(source.get_edges, graph.key)),
        )

    @staticmethod
    def held(graph: Graph, nodes: Sequence[Node], edges: Sequence[Edge]) -> GraphPages:
        """Returns the pages of a graph in memory; the sequences must not change any more."""
        return GraphPages(graph=graph, nodes=_ordered(nodes), edges=_ordered(edges))


class _ReadPage(Protocol[E]):
    async def __call__(self, *, after: str | None, limit: int) -> list[E]: ...


async def _read(page_after: _ReadPage[E]) -> AsyncIterator[list[E]]:
    after: str | None = None
    while page := await page_after(after=after, limit=PAGE):
        yield page
        after = page[-1].key


async def _ordered(elements: Sequence[E]) -> AsyncIterator[list[E]]:
    key = attrgetter("key")
    runs = [
        await run_limited(sorted, elements[i : i + RUN], key=key)
        for i in range(0, len(elements), RUN)
    ]
    merged = heapq.merge(*runs, key=key)
    while page := await run_limited(lambda: list(islice(merged, PAGE))):
        yield page


async def json_steps(members: Mapping[str, Any]) -> AsyncIterator[Step]:
    """Yields the steps that write an object: the value of each member, and Pages as a list.

    A value that is a function is called in its turn; its member is left out if it returns None.
    """
    mark = b"{"
    for name, value in members.items():
        start = mark + orjson.dumps(name) + b":"
        mark = b","
        if isinstance(value, Pages):
            start += b"["
            async for page in value.pages:
                yield partial(_joined, start, page, value.dump)
                start = b","
            yield partial(bytes, b"]" if start == b"," else start + b"]")
        elif (said := value() if callable(value) else value) is not None:
            yield partial(_joined, start, [said], orjson.dumps)
    yield partial(bytes, b"}")


def _joined(start: bytes, values: Sequence[Any], dump: Dump) -> bytes:
    return start + b",".join(map(dump, values))


def view_steps(content: GraphPages, **more: Any) -> AsyncIterator[Step]:
    """Returns the steps that write a graph with its nodes and edges, and more members."""
    return json_steps(
        {
            "graph": content.graph.to_document(),
            "nodes": Pages(pages=content.nodes, dump=Document.to_json),
            "edges": Pages(pages=content.edges, dump=Document.to_json),
            **more,
        }
    )


def export_steps(source: GraphDataSource, content: GraphPages) -> AsyncIterator[Step]:
    """Returns the steps that write the result of `export_document`."""
    used: set[str] = set()

    async def nodes() -> AsyncIterator[Sequence[Node]]:
        async for page in content.nodes:
            used.update(node.type for node in page)
            yield page

    async def configs() -> AsyncIterator[Sequence[Any]]:
        yield config_documents(await source.get_node_configs(sorted(used)), used) if used else []

    return json_steps(
        {
            "format": FORMAT,
            "formatVersion": FORMAT_VERSION,
            "graph": graph_document(content.graph),
            "nodes": Pages(pages=nodes(), dump=lambda node: orjson.dumps(node_document(node))),
            "edges": Pages(pages=content.edges, dump=Document.to_json),
            "configs": Pages(pages=configs()),
        }
    )


async def whole_graph(
    request: Request,
    place: GraphContext,
    steps: Callable[[GraphPages, int], AsyncIterator[Step]],
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Answers with the result of `steps` for a graph and the time of its latest live edits (or 0).

    Raises: RevisionConflict if others store changes faster than the graph can be read.
    """
    source = place.services.source
    state = state_of(request)
    graph = now = place.graph
    for _ in range(ATTEMPTS):
        graph = now
        live = state.backend.live.get(source.workspace, graph.key)
        if live is not None:
            # Nothing is awaited between these: the time is that of all of it.
            content = GraphPages.held(live.document(), live.nodes, live.edges)
            seen = live.timestamp
            return await state.activity.downloads.answer(request, steps(content, seen), headers)
        answer = await state.activity.downloads.answer(
            request, steps(GraphPages.stored(source, graph), 0), headers
        )
        try:
            now = await source.get_graph(graph.key)
        except BaseException:
            answer.close()
            raise
        if now.revision == graph.revision:
            return answer
        answer.close()
    raise RevisionConflict(graph_key=graph.key, expected=graph.revision, actual=now.revision)
