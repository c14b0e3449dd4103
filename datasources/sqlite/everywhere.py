"""Reads of all graphs of a workspace at one moment: nodes that use a value, and search.

The small graphs are searched together, as if they were one graph; a large graph is searched by its
own indexes. Graphs of other workspaces are neither found nor counted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from datasources.cache import Cache
from datasources.everywhere import FoundNode, NodeName, WideHit, WideHits
from datasources.hits import Vector, VectorQuery
from datasources.lexical import score_texts
from datasources.ranking import best_rows, with_rarest
from datasources.search import SearchRequest
from datasources.sqlite import statements as sql
from datasources.sqlite.rows import SHIFT, array
from datasources.sqlite.words import content_tokens, name_tokens
from datasources.text import tokenize
from datasources.types import Node, parse_document
from datasources.vectors import can_match, matrix_of, normalize

# Limits of one question to all small graphs:
MAX_TERMS = 64  # distinct words
MAX_CANDIDATES = 20_000  # nodes read of each word
MAX_VECTORS = 100_000  # vectors compared
SCORED = 400  # nodes scored with all words, those with the rarest words first

MAX_PASSED = 1_000  # rows of other graphs that one range of row ids may hold

Range = tuple[int, int]


class WideGraph(NamedTuple):
    """A graph of a workspace. `passed` is the number of nodes of other workspaces with row ids
    between the preceding graph of this workspace and this graph.
    """

    id: int
    key: str
    nodes: int
    edges: int
    content_words: int
    name_words: int
    vector_version: int
    passed: int

    @property
    def size(self) -> int:
        return self.nodes + self.edges


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceView:
    """A workspace at one moment: all of its graphs, or those named."""

    connection: sqlite3.Connection
    cache: Cache
    workspace: str
    graphs: Sequence[str] | None

    def _rows(
        self, statement: str, graphs: Sequence[str] | None = None, **values: object
    ) -> sqlite3.Cursor:
        named = self.graphs if graphs is None else graphs
        chosen = None if named is None else array(named)
        return self.connection.execute(
            statement, {"workspace": self.workspace, "graphs": chosen, **values}
        )

    def users(self, entries: Sequence[str], limit: int) -> list[FoundNode]:
        rows = self._rows(sql.USERS, entries=array(entries), limit=max(0, limit))
        return [_found_node(*row) for row in rows]

    def nodes(self, names: Sequence[NodeName]) -> dict[NodeName, FoundNode]:
        values = {"workspace": self.workspace, "names": orjson.dumps(names).decode()}
        nodes = [_found_node(*row) for row in self.connection.execute(sql.WIDE_NODES, values)]
        return {(node.graph_key, node.node.key): node for node in nodes}

    def search(self, wanted: SearchRequest, small: int) -> tuple[WideHits, list[str]]:
        """Searches the graphs of up to `small` nodes and edges.

        Returns the hits and the keys of the larger graphs.
        """
        all_graphs = [WideGraph(*row) for row in self._rows(sql.WIDE_GRAPHS)]
        graphs = [graph for graph in all_graphs if graph.size <= small]
        text, name = self._find_words(wanted, graphs, _ranges(all_graphs, small))
        vector, name_vector = self._find_near(wanted, graphs)
        hits = WideHits(text=text, name=name, vector=vector, name_vector=name_vector)
        return hits, [graph.key for graph in all_graphs if graph.size > small]

    def _find_words(
        self, wanted: SearchRequest, graphs: Sequence[WideGraph], ranges: Sequence[Range]
    ) -> tuple[list[WideHit], list[WideHit]]:
        """Returns the best nodes by BM25 of all text, and of names."""
        terms = sorted(set(tokenize(wanted.query)))[:MAX_TERMS]
        counts, rids = self._candidates(terms, graphs, ranges, max(SCORED, 2 * wanted.limit))
        if not rids:
            return [], []
        rows = self.connection.execute(sql.WIDE_WORDS, {"rids": array(rids)}).fetchall()
        names: list[NodeName] = [(graph, key) for graph, key, *_ in rows]
        nodes = max(1, sum(graph.nodes for graph in graphs))

        def best_by(texts: Sequence[list[str]], total_words: int) -> list[WideHit]:
            scores = score_texts(texts, counts, nodes, total_words / nodes)
            return best(names, scores, wanted.limit, above=0.0)

        return (
            best_by(
                [content_tokens(row[2:]) for row in rows],
                sum(graph.content_words for graph in graphs),
            ),
            best_by(
                [name_tokens(row[2:]) for row in rows],
                sum(graph.name_words for graph in graphs),
            ),
        )

    def _candidates(
        self, terms: Sequence[str], graphs: Sequence[WideGraph], ranges: Sequence[Range], most: int
    ) -> tuple[dict[str, int], list[int]]:
        """Returns the number of nodes with each term, and the nodes with the rarest terms."""
        rids_by_term: dict[str, list[int]] = {}
        values = {
            "ranges": orjson.dumps(ranges).decode(),
            "ids": array(graph.id for graph in graphs),
            "most": MAX_CANDIDATES,
        }
        for term in terms:
            query = '"' + term.replace('"', '""') + '"'
            rows = self.connection.execute(sql.WIDE_MATCH, {**values, "query": query})
            if rids := [rid for (rid,) in rows]:
                rids_by_term[term] = rids
        counts = {term: len(rids) for term, rids in rids_by_term.items()}
        if not counts:
            return counts, []
        nodes = max(*counts.values(), sum(graph.nodes for graph in graphs))
        return counts, with_rarest(rids_by_term, nodes, most)

    def _find_near(
        self, wanted: SearchRequest, graphs: Sequence[WideGraph]
    ) -> tuple[list[WideHit], list[WideHit]]:
        """Returns the nodes of greatest cosine by all text, and by names."""
        if wanted.vector is None:
            return [], []
        model, vector = wanted.vector
        if not can_match(VectorQuery(vector=vector, model=model, limit=wanted.limit)):
            return [], []
        keys = [graph.key for graph in graphs]
        chosen = None if self.graphs is None else tuple(keys)
        held = self.cache.get(
            ("wide vectors", self.workspace, model, vector.size, chosen),
            tuple((graph.id, graph.vector_version) for graph in graphs),
            lambda _: self._vectors(model, vector.size, keys),
        )
        unit = normalize(vector)
        content, name = (
            best(names, vectors @ unit, wanted.limit)
            for names, vectors in (held.content, held.name)
        )
        return content, name

    def _vectors(self, model: str, dim: int, graphs: Sequence[str]) -> WideVectors:
        names: tuple[list[NodeName], list[NodeName]] = [], []
        blobs: tuple[list[bytes], list[bytes]] = [], []
        values = {"model": model, "dim": dim, "most": MAX_VECTORS}
        for graph, key, *parts in self._rows(sql.WIDE_VECTORS, graphs, **values):
            for place, part in enumerate(parts):
                if part is not None:
                    names[place].append((graph, key))
                    blobs[place].append(part)
        content, name = (
            (of, normalize(matrix_of(part, dim))) for of, part in zip(names, blobs, strict=True)
        )
        return WideVectors(content, name)


def best(
    names: Sequence[NodeName],
    scores: NDArray[np.floating[Any]],
    limit: int,
    *,
    above: float = -1e-9,
) -> list[WideHit]:
    """Returns the names with the greatest scores, ties in order of name."""
    if limit <= 0:
        return []
    rows: list[int] = best_rows(np.where(scores > above, scores, -np.inf), limit).tolist()
    ranking = sorted((-float(scores[row]), names[row]) for row in rows)[:limit]
    return [(name, -score) for score, name in ranking]


def _ranges(graphs: Sequence[WideGraph], small: int) -> list[Range]:
    """Returns the row ids of the small graphs in few ranges.

    A word is looked up once for each range. Up to MAX_PASSED rows of large graphs and of other
    workspaces within a range are passed over, which takes less time than another range.
    """
    ranges: list[Range] = []
    passed = 0
    for graph in sorted(graphs, key=lambda graph: graph.id):
        passed += graph.passed
        if graph.size > small:
            passed += graph.nodes
            continue
        low = ranges.pop()[0] if ranges and passed <= MAX_PASSED else graph.id << SHIFT
        ranges.append((low, ((graph.id + 1) << SHIFT) - 1))
        passed = 0
    return ranges


@dataclass(frozen=True, slots=True)
class WideVectors:
    """Vectors of the nodes of several graphs and of their names, at length 1.

    Shapes: float32[names, dim].
    """

    content: tuple[list[NodeName], Vector]
    name: tuple[list[NodeName], Vector]

    @property
    def nbytes(self) -> int:
        return sum(unit.nbytes + 200 * len(names) for names, unit in (self.content, self.name))


def _found_node(graph: str, name: str, body: bytes) -> FoundNode:
    return FoundNode(graph_key=graph, graph_name=name, node=parse_document(Node, body, "nodes"))
