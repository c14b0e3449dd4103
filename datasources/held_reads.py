"""Reads of graphs held whole in memory, and walks along edges that stores share."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import TypeVar

from datasources.builtin_types import types_by_name
from datasources.everywhere import FoundNode
from datasources.held_links import HeldLinks
from datasources.hits import FIELDS, Hit, SearchField
from datasources.lexical import LexicalIndex
from datasources.links import Direction, Link, LinkWalk, TypedLink
from datasources.search import SearchHits, SearchRequest, keys_to_name, names_by_key
from datasources.text import node_text, tokenize
from datasources.types import Edge, Graph, GraphStats, Node, NodeTypeConfig, Subgraph
from datasources.uses import entries_of

E = TypeVar("E", Node, Edge)
Place = TypeVar("Place", str, int)


def page_of(
    elements: Iterable[E],
    sheet: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[E]:
    """Returns the first `limit` elements of a sheet with keys greater than `after`, in order."""
    page = (
        e
        for e in elements
        if (sheet is None or e.sheet == sheet) and (after is None or e.key > after)
    )
    return list(page if limit is None else islice(page, min(max(0, limit), sys.maxsize)))


EdgesOf = Callable[[Sequence[str], int, int], Iterable[TypedLink]]
"""Reads the edges of nodes, in edge-key order. The first number is the maximum number of edges of a
node, the second the maximum number of nodes: those with the fewest edges are taken.
"""


WIDTH = 300  # maximum number of nodes from which a step of a typed path goes on


def walk_typed(edges_of: EdgesOf, wanted: LinkWalk) -> list[TypedLink]:
    """Returns the result of `GraphDataSource.get_typed_links`."""
    reached: Mapping[TypedLink, None] = {}
    labels = wanted.labels
    limit = wanted.limit
    seen = set(wanted.keys)
    level = set(wanted.keys)
    for step in range(wanted.steps):
        read = edges_of(
            sorted(level), *((wanted.max_degree, WIDTH) if step else (limit, len(level)))
        )
        chosen = read if labels is None else (link for link in read if link.label in labels)
        links = dict.fromkeys(islice(chosen, limit))
        reached = {**reached, **links} if reached else links
        if step + 1 == wanted.steps:
            break
        level = {key for source, target, _ in links for key in (source, target)} - seen
        if not level:
            break
        seen |= level
    return list(reached)


def breadth_first(
    seeds: Iterable[Place],
    next_of: Callable[[Sequence[Place]], Iterable[Place]],
    *,
    max_depth: int,
    limit: int,
) -> dict[Place, int]:
    """Returns the depths of the nodes around the seeds: level by level, each by key.

    Nodes are given by their keys, or by numbers in the same order. `next_of` returns the nodes at
    the other ends of the edges of a level's nodes.
    """
    level = list(dict.fromkeys(seeds))[: max(0, limit)]
    depths = dict.fromkeys(level, 0)
    for depth in range(1, max_depth + 1):
        level = sorted(set(next_of(level)) - depths.keys())[: limit - len(depths)]
        if not level:
            break
        depths.update(dict.fromkeys(level, depth))
    return depths


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a node, given its type and the language of its graph."""

    node: Node
    config: NodeTypeConfig | None
    language: str | None
    content: list[str]
    name: list[str]

    @staticmethod
    def of(node: Node, config: NodeTypeConfig | None, language: str | None) -> _Words:
        text = node_text(node, config, language)
        return _Words(node, config, language, tokenize(text.content), tokenize(text.names))


@dataclass(slots=True, kw_only=True, eq=False)
class HeldGraph:
    """The state of one graph: its documents by key, in key order.

    `words` and `uses` are passed on to the next state, which keeps those of unchanged nodes.
    """

    graph: Graph
    nodes: Mapping[str, Node] = field(default_factory=dict[str, Node])
    edges: Mapping[str, Edge] = field(default_factory=dict[str, Edge])
    words: dict[str, _Words] = field(default_factory=dict[str, _Words])
    uses: dict[str, tuple[Node, frozenset[str]]] = field(
        default_factory=dict[str, tuple[Node, frozenset[str]]]
    )
    types: Sequence[NodeTypeConfig] | None = None
    indexes: dict[SearchField, LexicalIndex] = field(
        default_factory=dict[SearchField, LexicalIndex]
    )
    held_links: HeldLinks | None = None
    lock: Lock = field(default_factory=Lock)

    def links(self) -> HeldLinks:
        """Returns the edges by node."""
        if self.held_links is None:
            self.held_links = HeldLinks.of(self.edges.values())
        return self.held_links

    def stats(self, models: Iterable[str]) -> GraphStats:
        """Returns the counts of the graph. `models` are the embedding models of its vectors."""
        types = Counter(node.type for node in self.nodes.values())
        return GraphStats(
            nodes=len(self.nodes), edges=len(self.edges), types=types, vectors=Counter(models)
        )

    def search_text(
        self, query: str, limit: int, search_field: SearchField, types: Sequence[NodeTypeConfig]
    ) -> list[Hit]:
        """Returns the best nodes by their words with these stored types. Thread-safe."""
        with self.lock:
            words = self.read_with(types)
            index = self.indexes.get(search_field)
            if index is None:
                documents = ((key, getattr(of, search_field)) for key, of in words.items())
                index = self.indexes[search_field] = LexicalIndex.build(documents)
            return index.search(tokenize(query), limit)

    def search_words(self, request: SearchRequest, types: Sequence[NodeTypeConfig]) -> SearchHits:
        """Returns the hits of words that a request asks for, and their names. Thread-safe."""
        text, name = (
            self.search_text(request.query, request.limit, part, types)
            if request.searches_words(part)
            else []
            for part in FIELDS
        )
        named = keys_to_name(text, name) if request.with_names else []
        names = names_by_key(self.nodes[key] for key in named)
        return SearchHits(text=text, name=name, names=names, nodes=len(self.nodes))

    def read_with(self, types: Sequence[NodeTypeConfig]) -> Mapping[str, _Words]:
        """Returns the words of each node with these stored types."""
        if self.types is None or not _are_same(self.types, types):
            names = types_by_name(types)
            self.words = {
                key: self._words(node, names.get(node.type)) for key, node in self.nodes.items()
            }
            self.types = types
            self.indexes.clear()
        return self.words

    def _words(self, node: Node, config: NodeTypeConfig | None) -> _Words:
        words = self.words.get(node.key)
        language = self.graph.language
        if words and words.node is node and words.config is config and words.language == language:
            return words
        return _Words.of(node, config, language)

    def users(self, entries: Sequence[str]) -> list[FoundNode]:
        """Returns the nodes that have one of the entries."""
        old_uses = self.uses
        wanted = frozenset(entries)
        self.uses = {
            key: old
            if (old := old_uses.get(key)) and old[0] is node
            else (node, frozenset(entries_of(node)))
            for key, node in self.nodes.items()
        }
        return [
            self.found(key)
            for key, (_, node_entries) in self.uses.items()
            if not wanted.isdisjoint(node_entries)
        ]

    def found(self, key: str) -> FoundNode:
        """Returns a node as a result of a search in all graphs."""
        return FoundNode(graph_key=self.graph.key, graph_name=self.graph.name, node=self.nodes[key])


def _are_same(old: Sequence[NodeTypeConfig], new: Sequence[NodeTypeConfig]) -> bool:
    return len(old) == len(new) and all(a is b or a == b for a, b in zip(old, new, strict=True))


class HeldReads(ABC):
    """The methods of GraphDataSource that need only the documents of a graph."""

    @abstractmethod
    def held(self, graph_key: str) -> HeldGraph:
        """Returns a graph's documents. Raises: GraphNotFound."""

    @abstractmethod
    async def get_node_configs(self, types: Sequence[str] | None = None) -> list[NodeTypeConfig]:
        """Returns the stored types."""

    async def get_nodes(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Node]:
        return page_of(self.held(graph_key).nodes.values(), sheet, after, limit)

    async def get_edges(
        self,
        graph_key: str,
        *,
        sheet: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Edge]:
        return page_of(self.held(graph_key).edges.values(), sheet, after, limit)

    async def get_nodes_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Node]:
        nodes = self.held(graph_key).nodes
        return [nodes[key] for key in dict.fromkeys(keys) if key in nodes]

    async def get_edges_by_key(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        edges = self.held(graph_key).edges
        return [edges[key] for key in dict.fromkeys(keys) if key in edges]

    async def get_edges_of(self, graph_key: str, keys: Sequence[str]) -> list[Edge]:
        return list(self.held(graph_key).links().edges_of(keys))

    async def get_links(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        limit: int | None = None,
        max_degree: int | None = None,
    ) -> list[Link]:
        return self.held(graph_key).links().links(keys, limit, max_degree)

    async def get_typed_links(self, graph_key: str, wanted: LinkWalk) -> list[TypedLink]:
        return walk_typed(self.held(graph_key).links().typed_links, wanted)

    async def get_neighborhood(
        self,
        graph_key: str,
        keys: Sequence[str],
        *,
        max_depth: int,
        direction: Direction = "any",
        limit: int,
        with_types: bool = False,
    ) -> Subgraph:
        graph = self.held(graph_key)
        nodes = graph.nodes
        links = graph.links()
        seeds = (key for key in keys if key in nodes)

        def next_of(level: Sequence[str]) -> Iterable[str]:
            return links.next_to(level, direction)

        depths = breadth_first(seeds, next_of, max_depth=max_depth, limit=limit)
        inside = tuple(nodes[key] for key in depths)
        types = sorted({node.type for node in inside}) if with_types else []
        return Subgraph(
            nodes=inside,
            edges=tuple(links.edges_inside(depths.keys())),
            depths=depths,
            configs=tuple(await self.get_node_configs(types)) if types else (),
        )
