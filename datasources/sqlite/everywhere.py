"""Reads all graphs of a workspace at one moment: who refers to a value, and the best nodes
for a question.

Of a question the small graphs are looked at together, as if they were one graph; large ones have
indexes of their own. Nothing of another workspace is found or counted.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from datasources.batches import BatchRequest
from datasources.everywhere import FoundNode, NodeName, WideHit, WideHits
from datasources.hits import Vector
from datasources.lexical import score_texts
from datasources.sqlite import statements as sql
from datasources.sqlite.cache import Cache
from datasources.sqlite.rows import SHIFT, array, best_rows, matrix_of, with_rarest
from datasources.sqlite.words import content_tokens, name_tokens
from datasources.text import tokenize
from datasources.types import Node, is_storable, parse_document
from datasources.vectors import normalize

MAX_TERMS = 64
MAX_CANDIDATES = 20_000
MAX_VECTORS = 100_000
"""So many nodes with a word, and so many vectors, are looked at for one question to
all small graphs.
"""
SCORED = 400
"""Of the nodes that have a word of the question so many are scored, those with the
rarest words first.
"""
MAX_PASSED = 1_000
Range = tuple[int, int]


class WideGraph(NamedTuple):
    """A graph of a workspace. `passed`: how many nodes of others' lie between it and
    the one before.
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


def put_uses(
    connection: sqlite3.Connection, uses: Mapping[int, Sequence[str]], known: Collection[int]
) -> None:
    """Store the entries of nodes where they are others than those stored; `known`
    are stored nodes.
    """
    old = defaultdict[int, set[str]](set)
    for rid, entry in connection.execute(sql.USES_OF, {"rids": array(known)}) if known else ():
        old[rid].add(entry)
    changed = [rid for rid, entries in uses.items() if old.get(rid, set()) != set(entries)]
    connection.executemany(sql.USES_DELETE, ((rid,) for rid in changed if rid in old))
    rows = [(entry, rid) for rid in changed for entry in uses[rid]]
    connection.executemany(sql.USES_INSERT, sorted(rows))


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
        return [_found(*row) for row in rows]

    def nodes(self, names: Sequence[NodeName]) -> dict[NodeName, FoundNode]:
        values = {"workspace": self.workspace, "names": orjson.dumps(names).decode()}
        found = [_found(*row) for row in self.connection.execute(sql.WIDE_NODES, values)]
        return {(one.graph_key, one.node.key): one for one in found}

    def search(self, wanted: BatchRequest, small: int) -> tuple[WideHits, list[str]]:
        """Search the graphs of so many nodes and edges or fewer; return what is found,
        and the others.
        """
        limit = wanted.limit
        found = [WideGraph(*row) for row in self._rows(sql.WIDE_GRAPHS)]
        sizes = [graph for graph in found if graph.size <= small]
        graphs = [graph.key for graph in sizes]
        nodes = sum(graph.nodes for graph in sizes)
        words = (
            sum(graph.content_words for graph in sizes),
            sum(graph.name_words for graph in sizes),
        )
        names: list[NodeName] = []
        texts: tuple[list[list[str]], list[list[str]]] = [], []
        asked = sorted(set(tokenize(wanted.query)))[:MAX_TERMS]
        counts, rids = self._candidates(asked, sizes, _ranges(found, small), max(SCORED, 2 * limit))
        for row in self.connection.execute(sql.WIDE_WORDS, {"rids": array(rids)}) if rids else ():
            names.append((row[0], row[1]))
            texts[0].append(content_tokens(row[2:]))
            texts[1].append(name_tokens(row[2:]))
        version = tuple((graph.id, graph.vector_version) for graph in sizes)
        text, name = (
            best(
                names,
                score_texts(of, counts, max(1, nodes), count / max(1, nodes)),
                limit,
                above=0.0,
            )
            for of, count in zip(texts, words, strict=True)
        )
        near, name_near = self._near(wanted.vector, graphs, version, limit)
        hits = WideHits(text=text, name=name, vector=near, name_vector=name_near)
        return hits, [graph.key for graph in found if graph.size > small]

    def _candidates(
        self, terms: Sequence[str], graphs: Sequence[WideGraph], ranges: Sequence[Range], most: int
    ) -> tuple[dict[str, int], list[int]]:
        """Return how many nodes have each term, and those that have the rarest ones."""
        found: dict[str, list[int]] = {}
        values = {
            "ranges": orjson.dumps(ranges).decode(),
            "ids": array(graph.id for graph in graphs),
            "most": MAX_CANDIDATES,
        }
        for term in terms:
            query = '"' + term.replace('"', '""') + '"'
            rows = self.connection.execute(sql.WIDE_MATCH, {**values, "query": query})
            if rids := [rid for (rid,) in rows]:
                found[term] = rids
        counts = {term: len(rids) for term, rids in found.items()}
        if not counts:
            return counts, []
        nodes = max(*counts.values(), sum(graph.nodes for graph in graphs))
        return counts, with_rarest(found, nodes, most)

    def _near(
        self, vector: tuple[str, Vector] | None, graphs: Sequence[str], version: object, limit: int
    ) -> tuple[list[WideHit], list[WideHit]]:
        model, numbers = vector or ("", np.zeros(0, np.float32))
        if (
            numbers.ndim != 1
            or not numbers.size
            or not np.isfinite(numbers).all()
            or not is_storable(model)
        ):
            return [], []
        chosen = None if self.graphs is None else tuple(graphs)
        held = self.cache.get(
            ("wide vectors", self.workspace, model, numbers.size, chosen),
            version,
            lambda _: self._vectors(model, numbers.size, graphs),
        )
        wanted = normalize(numbers)
        content, name = (
            best(names, unit @ wanted, limit) for names, unit in (held.content, held.name)
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
    """Return the names of the greatest scores, ties by name."""
    if limit <= 0:
        return []
    rows: list[int] = best_rows(np.where(scores > above, scores, -np.inf), limit).tolist()
    found = sorted((-float(scores[row]), names[row]) for row in rows)[:limit]
    return [(name, -score) for score, name in found]


def _ranges(graphs: Sequence[WideGraph], small: int) -> list[Range]:
    """Return the row ids of the small graphs in as few ranges as it takes.

    A word is looked for once a range. A few rows of large graphs and of others' lie within one:
    they are passed over, which takes less time than another range.
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
    """Vectors of nodes of several graphs, at length 1, and of their names.
    Shapes: float32[names, dim].
    """

    content: tuple[list[NodeName], Vector]
    name: tuple[list[NodeName], Vector]

    @property
    def nbytes(self) -> int:
        return sum(unit.nbytes + 200 * len(names) for names, unit in (self.content, self.name))


def _found(graph: str, name: str, body: bytes) -> FoundNode:
    return FoundNode(graph_key=graph, graph_name=name, node=parse_document(Node, body, "nodes"))
