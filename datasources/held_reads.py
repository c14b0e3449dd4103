"""Reads of graphs whose documents are all held in memory, and the walks along edges that sources share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from datasources.types import Direction, Edge, Link, Node, Subgraph, TypedLink

E = TypeVar("E", Node, Edge)


def page_of(
    elements: Iterable[E], sheet: str | None = None, after: str | None = None, limit: int | None = None
) -> list[E]:
    """Return the first `limit` elements of a sheet with keys greater than `after`, in the order given."""
    found = (e for e in elements if (sheet is None or e.sheet == sheet) and (after is None or e.key > after))
    return list(found if limit is None else islice(found, max(0, limit)))


def links_of(
    edges: Iterable[Edge], keys: Collection[str], limit: int | None, max_degree: int | None
) -> list[Link]:
    """Return what `GraphDataSource.get_links` does, from all edges of a graph in key order."""
    links = [Link(edge.source, edge.target) for edge in edges]
    wanted = set(keys)
    if max_degree is not None:
        degrees = Counter(key for link in links for key in set(link))
        wanted = {key for key in wanted if degrees[key] <= max_degree}
    links = [link for link in links if link.source in wanted or link.target in wanted]
    return links if limit is None else links[: max(0, limit)]


EdgesOf = Callable[[Sequence[str], int, int], Iterable[TypedLink]]
"""Reads the edges of nodes in edge-key order, but for those of nodes with more edges than the first number
says; of more nodes than the second says, those of the nodes with the fewest."""


def typed_links_among(edges: Iterable[Edge]) -> EdgesOf:
    """Return what reads from all edges of a graph, in key order."""
    links = [TypedLink(edge.source, edge.target, edge.label or "") for edge in edges]

    def edges_of(keys: Sequence[str], max_degree: int, most: int) -> list[TypedLink]:
        degrees = Counter(key for link in links for key in {link.source, link.target})
        few = sorted((key for key in keys if degrees[key] <= max_degree), key=degrees.__getitem__)
        wanted = set(few[:most])
        return [link for link in links if link.source in wanted or link.target in wanted]

    return edges_of


WIDTH = 300
"""Typed paths lead on from so many nodes of a step, those with the fewest edges."""


def walk_typed(
    edges_of: EdgesOf,
    keys: Sequence[str],
    labels: Collection[str] | None,
    *,
    steps: int,
    limit: int,
    max_degree: int,
) -> list[TypedLink]:
    """Return what `GraphDataSource.get_typed_links` does."""
    found: dict[TypedLink, None] = {}
    seen = level = set(keys)
    for step in range(steps):
        read = edges_of(sorted(level), *((max_degree, WIDTH) if step else (limit, len(level))))
        links = list(islice((link for link in read if labels is None or link.label in labels), limit))
        found.update(dict.fromkeys(links))
        level = {key for link in links for key in link[:2]} - seen
        seen = seen | level
        if not level:
            break
    return list(found)


def breadth_first(
    seeds: Iterable[str], next_of: Callable[[str], Iterable[str]], *, max_depth: int, limit: int
) -> dict[str, int]:
    """Return the depths of the nodes around the seeds: level by level, each by key."""
    level = list(dict.fromkeys(seeds))[: max(0, limit)]
    depths = dict.fromkeys(level, 0)
    for depth in range(1, max_depth + 1):
        reached = {key for near in level for key in next_of(near)} - depths.keys()
        level = sorted(reached)[: limit - len(depths)]
        if not level:
            break
        depths.update(dict.fromkeys(level, depth))
    return depths


class HeldGraph(Protocol):
    """The documents of one graph by key, in key order."""

    @property
    def nodes(self) -> Mapping[str, Node]: ...

    @property
    def edges(self) -> Mapping[str, Edge]: ...


class HeldReads(ABC):
    """Those methods of GraphDataSource that need no more than the documents of a graph."""

    @abstractmethod
    def held(self, graph_key: str) -> HeldGraph:
        """Return a graph's documents. Raises: GraphNotFound."""

    async def get_nodes(
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Node]:
        return page_of(self.held(graph_key).nodes.values(), sheet, after, limit)

    async def get_edges(
        self, graph_key: str, *, sheet: str | None = None, after: str | None = None, limit: int | None = None
    ) -> list[Edge]:
        return page_of(self.held(graph_key).edges.values(), sheet, after, limit)

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        nodes = self.held(graph_key).nodes
        return [nodes[key] for key in dict.fromkeys(keys) if key in nodes]

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        edges, wanted = self.held(graph_key).edges.values(), set(keys)
        return [edge for edge in edges if edge.source in wanted or edge.target in wanted]

    async def get_links(
        self, graph_key: str, keys: Sequence[str], *, limit: int | None = None, max_degree: int | None = None
    ) -> list[Link]:
        return links_of(self.held(graph_key).edges.values(), keys, limit, max_degree)

    async def get_typed_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        labels: Sequence[str] | None = None,
        steps: int = 1,
        limit: int,
        max_degree: int,
    ) -> list[TypedLink]:
        edges_of = typed_links_among(self.held(graph_key).edges.values())
        return walk_typed(edges_of, keys, labels, steps=steps, limit=limit, max_degree=max_degree)

    async def get_neighborhood(
        self, graph_key: str, keys: Sequence[str], *, max_depth: int, direction: Direction = "any", limit: int
    ) -> Subgraph:
        graph = self.held(graph_key)
        nodes, edges = graph.nodes, graph.edges.values()
        around: dict[str, list[str]] = {}
        for edge in edges:
            if direction != "in":
                around.setdefault(edge.source, []).append(edge.target)
            if direction != "out":
                around.setdefault(edge.target, []).append(edge.source)
        seeds = (key for key in keys if key in nodes)
        depths = breadth_first(seeds, lambda key: around.get(key, ()), max_depth=max_depth, limit=limit)
        inside = [edge for edge in edges if edge.source in depths and edge.target in depths]
        return Subgraph(nodes=tuple(nodes[key] for key in depths), edges=tuple(inside), depths=depths)
