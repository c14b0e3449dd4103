"""A live graph at one moment, as a source shows it: its own documents, and what is stored beside them.

Decision: a live graph's text index is made again after an edit, from words that are kept for every node
that did not change: BM25 weighs a word by all nodes, and scores stay those of every other source.
Vectors are the stored ones. A node that was deleted is not found by its vector, nor is one whose words
have changed: it is found by its text until it is embedded again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.everywhere import FoundNode
from datasources.held_reads import HeldReads
from datasources.lexical import LexicalIndex
from datasources.text import node_text, tokenize
from datasources.types import (
    Edge,
    Graph,
    GraphStats,
    Hit,
    Node,
    NodeTypeConfig,
    NodeVector,
    SearchField,
    Vector,
    VectorInfo,
    node_fields,
)
from datasources.uses import entries_of


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a node as it read with a type."""

    node: Node
    config: NodeTypeConfig | None
    content: list[str]
    names: list[str]

    @staticmethod
    def of(node: Node, config: NodeTypeConfig | None, language: str | None) -> _Words:
        text = node_text(node, config, language)
        return _Words(node, config, tokenize(text.content), tokenize(text.names))


@dataclass(slots=True, kw_only=True, eq=False)
class LiveView(HeldReads):
    """Answers what GraphDataSource asks of one graph; `nodes` and `edges` are in key order.

    `words` and `uses` are handed on from one moment to the next.
    """

    stored: GraphDataSource
    graph: Graph
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    words: dict[str, _Words] = field(default_factory=dict[str, _Words])
    uses: dict[str, tuple[Node, frozenset[str]]] = field(
        default_factory=dict[str, tuple[Node, frozenset[str]]]
    )
    types: list[NodeTypeConfig] | None = None
    indexes: dict[SearchField, LexicalIndex] = field(default_factory=dict[SearchField, LexicalIndex])
    lock: Lock = field(default_factory=Lock)

    def held(self, graph_key: str) -> LiveView:  # noqa: ARG002 - there is one
        return self

    async def get_stats(self, graph_key: str) -> GraphStats:
        vectors = await self.stored.get_vector_info(graph_key, list(self.nodes))
        return GraphStats(
            nodes=len(self.nodes),
            edges=len(self.edges),
            types=Counter(node.type for node in self.nodes.values()),
            vectors=Counter(info.model for info in vectors.values() if info.model),
        )

    async def search_text(
        self,
        graph_key: str,  # noqa: ARG002
        query: str,
        *,
        limit: int,
        field: SearchField = "content",
    ) -> list[Hit]:
        """Search its text in a thread: of a large graph the index takes seconds."""
        types = await self.stored.get_node_configs()

        def find() -> list[Hit]:
            with self.lock:
                return self._index(field, types).search(tokenize(query), limit)

        return await asyncio.to_thread(find)

    async def search_vectors(
        self,
        graph_key: str,
        vector: Vector,
        *,
        model: str,
        limit: int,
        min_score: float = 0.0,
        field: SearchField = "content",
    ) -> list[Hit]:
        asked = limit
        while True:
            hits = await self.stored.search_vectors(
                graph_key, vector, model=model, limit=asked, min_score=min_score, field=field
            )
            if limit <= 0:
                return hits
            same = await self.unchanged([hit.key for hit in hits])
            kept = [hit for hit in hits if hit.key in same]
            if len(kept) >= limit or len(hits) < asked:
                return kept[:limit]
            asked *= 2

    async def unchanged(self, keys: Sequence[str]) -> set[str]:
        """Return those of the nodes that read as they did when they were stored."""
        there = [key for key in keys if key in self.nodes]
        stored = await self.stored.get_nodes_by_key(self.graph.key, there)
        names = types_by_name(await self.stored.get_node_configs())
        return {node.key for node in stored if reads_the_same(node, self.nodes[node.key], names)}

    async def get_vector_info(self, graph_key: str, keys: Sequence[str]) -> dict[str, VectorInfo]:
        return await self.stored.get_vector_info(graph_key, [key for key in keys if key in self.nodes])

    async def get_vectors(self, graph_key: str, keys: Sequence[str]) -> dict[str, NodeVector]:
        return await self.stored.get_vectors(graph_key, [key for key in keys if key in self.nodes])

    def _index(self, search_field: SearchField, types: list[NodeTypeConfig]) -> LexicalIndex:
        """Return the index of the nodes' words as they read with these stored types."""
        if self.types is None or not _are_same(self.types, types):
            names = types_by_name(types)
            self.words = {key: self._words(node, names.get(node.type)) for key, node in self.nodes.items()}
            self.types = types
            self.indexes.clear()
        index = self.indexes.get(search_field)
        if index is None:
            documents = (
                (key, words.content if search_field == "content" else words.names)
                for key, words in self.words.items()
            )
            index = self.indexes[search_field] = LexicalIndex.build(documents)
        return index

    def _words(self, node: Node, config: NodeTypeConfig | None) -> _Words:
        known = self.words.get(node.key)
        if known is not None and known.node is node and known.config is config:
            return known
        return _Words.of(node, config, self.graph.language)

    def users(self, entries: Sequence[str]) -> list[FoundNode]:
        """Return the nodes that have one of the entries; those of a node that did not change are known."""
        known, wanted = self.uses, frozenset(entries)
        self.uses = {
            key: had if (had := known.get(key)) and had[0] is node else (node, frozenset(entries_of(node)))
            for key, node in self.nodes.items()
        }
        return [self.found(node) for node, own in self.uses.values() if not wanted.isdisjoint(own)]

    def found(self, node: Node) -> FoundNode:
        return FoundNode(graph_key=self.graph.key, graph_name=self.graph.name, node=node)


def _are_same(old: list[NodeTypeConfig], new: list[NodeTypeConfig]) -> bool:
    return len(old) == len(new) and all(a is b or a == b for a, b in zip(old, new, strict=True))


def reads_the_same(stored: Node, live: Node, types: Mapping[str, NodeTypeConfig]) -> bool:
    """Return whether a live node has the words of the stored one."""
    fields = node_fields("searched", type(live))
    if stored is live or all(getattr(stored, name) == getattr(live, name) for name in fields):
        return True
    return node_text(stored, types.get(stored.type)) == node_text(live, types.get(live.type))
