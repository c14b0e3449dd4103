"""Reads of a graph that is too large to be held, by SQL; most take one more round trip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import orjson

from datasources.hits import Hit, NodeVector, SearchField, Vector, VectorInfo, VectorQuery
from datasources.lexical import score_texts
from datasources.links import Direction, Link, TypedLink
from datasources.postgres import statements as sql
from datasources.postgres.cached_graph import CachedGraph
from datasources.postgres.graph_header import GraphHeader, limited, texts
from datasources.postgres.node_words import StoredWords, term
from datasources.postgres.schema import MAX_INDEXED_DIM
from datasources.postgres.server_pool import Bound, Row, Session
from datasources.ranking import ordered
from datasources.types import Edge, GraphStats, Node, Subgraph, parse_document
from datasources.vectors import VectorGroup, matrix_of, normalize, vector_of

CANDIDATES = 3_000  # nodes that are looked at: those with the rarest words, or with all
SCORED = 400  # of these, nodes whose words are read and scored
MAX_TERMS = 64  # distinct words of a question

# Of an index of halved vectors: nodes that are compared exactly beside those wanted, the width of
# its search, and how many it may look at to find enough of this graph.
SPARE = 40
SCAN_WIDTH = 200
MAX_WIDTH = 1_000  # pgvector's
# From 100,000 nodes on the width grows with the graph. Measured for the names of 1,000,000 nodes:
# recall@20 is .65 in 6 ms with a width of 200, and .87 in 28 ms with 1,000.
NODES_A_WIDTH = 500
SCAN_TUPLES = 200_000

BLOCK_ROWS = 4_000  # vectors read at one time


@final
@dataclass(frozen=True, slots=True, eq=False)
class GraphInTables:
    """Implements GraphReads from the database.

    Without pgvector, vectors are held in memory if they take up to `held_bytes`, and else read for
    each question.
    """

    session: Session
    row: GraphHeader
    workspace: str
    held: CachedGraph
    held_bytes: int

    def _rows(self, statement: str, **values: Any) -> list[Row]:
        return self.session.rows(statement, {"id": self.row.id, **values})

    def nodes(self, sheet: str | None, after: str | None, limit: int | None) -> list[Node]:
        return _nodes(self._page(sql.NODES, sheet, after, limit))

    def edges(self, sheet: str | None, after: str | None, limit: int | None) -> list[Edge]:
        return _edges(self._page(sql.EDGES, sheet, after, limit))

    def _page(
        self, statement: str, sheet: str | None, after: str | None, limit: int | None
    ) -> list[Row]:
        if not texts([sheet or ""]) or not texts([after or ""]):
            return []
        return self._rows(statement, sheet=sheet, after=after or "", limit=limited(limit))

    def nodes_by_key(self, keys: Sequence[str]) -> list[Node]:
        return _nodes(self._rows(sql.NODES_BY_KEY, keys=texts(keys)))

    def edges_by_key(self, keys: Sequence[str]) -> list[Edge]:
        return _edges(self._rows(sql.EDGES_BY_KEY, keys=texts(keys)))

    def edges_of(self, keys: Sequence[str]) -> list[Edge]:
        return _edges(self._rows(sql.EDGES_AT, keys=texts(keys), limit=limited(None)))

    def links(self, keys: Sequence[str], limit: int | None, max_degree: int | None) -> list[Link]:
        with self.session.moment():
            chosen = texts(keys)
            if max_degree is not None:
                chosen = self._of_degree(chosen, max_degree, None)
            rows = self._rows(sql.LINKS_AT, keys=chosen, limit=limited(limit))
        return [Link(*ends) for ends in rows]

    def _of_degree(self, keys: Sequence[str], max_degree: int, most: int | None) -> list[str]:
        rows = self._rows(
            sql.DEGREES, keys=keys, degree=min(max_degree, 2**31), limit=limited(most)
        )
        return [key for (key,) in rows]

    def typed_links(self, keys: Sequence[str], max_degree: int, most: int) -> Iterable[TypedLink]:
        with self.session.moment():
            chosen = self._of_degree(texts(keys), max_degree, most)
            rows = self._rows(sql.TYPED_LINKS_AT, keys=chosen, limit=limited(None))
        for source, target, body in rows:
            yield TypedLink(source, target, orjson.loads(body).get("label") or "")

    def neighborhood(
        self, keys: Sequence[str], max_depth: int, direction: Direction, limit: int
    ) -> Subgraph:
        with self.session.moment():
            found = {node.key: node for node in self.nodes_by_key(keys)}
            depths = dict.fromkeys(list(found)[: max(0, limit)], 0)
            level = list(depths)
            for depth in range(1, max_depth + 1):
                room = limit - len(depths)
                if not level or room <= 0:
                    break
                # Nodes seen before may come first in key order, so the limit leaves room for them.
                reached = self._rows(sql.NEXT[direction], keys=level, limit=room + len(depths))
                level = [key for (key,) in reached if key not in depths][:room]
                depths.update(dict.fromkeys(level, depth))
            inside = list(depths)
            nodes, edges = self.session.batch(
                Bound(sql.NODES_BY_KEY, {"id": self.row.id, "keys": inside}),
                Bound(sql.EDGES_INSIDE, {"id": self.row.id, "keys": inside}),
            )
        return Subgraph(nodes=tuple(_nodes(nodes)), edges=tuple(_edges(edges)), depths=depths)

    def search_text(self, terms: Sequence[str], limit: int, search_field: SearchField) -> list[Hit]:
        sizes = {"content": self.row.content_words, "name": self.row.name_words}
        found = find_words(
            self.session,
            workspace=self.workspace,
            graphs=[self.row.id],
            words=terms,
            search_field=search_field,
            nodes=self.row.nodes,
            total_words=sizes[search_field],
        )
        return ordered((Hit(key, score) for (_, key), score in found.items()), limit)

    def search_vectors(self, query: VectorQuery) -> list[Hit]:
        if self.row.has_halves and query.vector.size <= MAX_INDEXED_DIM:
            return self._search_halves(query)
        if self.row.nodes * query.vector.size * 4 <= self.held_bytes:
            return self.held.search_vectors(query)
        return self._search_all(query)

    def _search_halves(self, query: VectorQuery) -> list[Hit]:
        dim = query.vector.size
        statement = sql.NEAREST.format(vector=query.field, half=f"{query.field}_half", dim=dim)
        unit = normalize(query.vector)
        wanted = SPARE + query.limit
        width = min(MAX_WIDTH, max(SCAN_WIDTH, 2 * query.limit, self.row.nodes // NODES_A_WIDTH))
        _, rows = self.session.batch(
            Bound(sql.NEAREST_SCAN, {"ef": str(width), "tuples": str(SCAN_TUPLES)}),
            Bound(
                statement,
                {
                    "id": self.row.id,
                    "model": query.model,
                    "dim": dim,
                    "vector": vector_text(unit),
                    "limit": wanted,
                },
            ),
        )
        if len(rows) < wanted:
            values = {"id": self.row.id, "model": query.model, "dim": dim, "limit": wanted}
            without = sql.NOT_INDEXED.format(vector=query.field, half=f"{query.field}_half")
            rows = [*rows, *self._rows(without, **values)]
        return _scored(rows, query)

    def _search_all(self, query: VectorQuery) -> list[Hit]:
        """Compares every stored vector of a group, block by block."""
        group = VectorGroup.of(query)
        statement = sql.VECTORS_AFTER.format(vector=group.field)
        hits: list[Hit] = []
        after = ""
        while rows := self._rows(
            statement, model=group.model, dim=group.dim, after=after, limit=BLOCK_ROWS
        ):
            hits = ordered([*hits, *_scored(rows, query)], query.limit)
            after = rows[-1][0]
        return hits


def _scored(rows: Sequence[Row], query: VectorQuery) -> list[Hit]:
    """Returns the best of some nodes by the cosine of their stored vectors."""
    if not rows:
        return []
    keys = [key for key, _ in rows]
    unit = normalize(matrix_of([vector for _, vector in rows], query.vector.size))
    scores = (unit @ normalize(query.vector)).tolist()
    hits = (Hit(key, score) for key, score in zip(keys, scores, strict=True))
    return ordered((hit for hit in hits if hit.score >= query.min_score), query.limit)


def vector_text(vector: Vector) -> str:
    """Returns a vector as pgvector reads it."""
    return orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def find_words(
    session: Session,
    *,
    workspace: str,
    graphs: Sequence[int],
    words: Sequence[str],
    search_field: SearchField,
    nodes: int,
    total_words: int,
) -> Mapping[tuple[int, str], float]:
    """Returns the BM25 scores of nodes by (graph id, key), as if the graphs were one.

    `nodes` and `total_words` are the totals of these graphs.
    """
    numbers = {term(search_field, word): word for word in dict.fromkeys(words)}
    chosen = dict(list(numbers.items())[:MAX_TERMS])
    if not chosen or not nodes:
        return {}
    values = {"workspace": workspace, "graphs": list(graphs), "terms": list(chosen)}
    counted, rows = session.batch(
        Bound(sql.TERM_COUNTS, values),
        Bound(
            sql.CANDIDATES,
            {
                **values,
                "nodes": nodes,
                "most": CANDIDATES,
                "scored": SCORED,
                "all": len(graphs) == 1,
            },
        ),
    )
    counts = {chosen[number]: count for number, count in counted}
    if not counts:
        return {}
    tokens = [StoredWords(*words).tokens(search_field) for _, _, *words in rows]
    total = max(nodes, *counts.values())
    scores = score_texts(tokens, counts, total, total_words / total).tolist()
    return {
        (graph, key): score
        for (graph, key, *_), score in zip(rows, scores, strict=True)
        if score > 0
    }


def read_stats(session: Session, row: GraphHeader) -> GraphStats:
    """Returns the counts of a graph."""
    types, vectors = session.batch(
        Bound(sql.TYPE_COUNTS, {"id": row.id}), Bound(sql.VECTOR_COUNTS, {"id": row.id})
    )
    return GraphStats(nodes=row.nodes, edges=row.edges, types=dict(types), vectors=dict(vectors))


def read_vector_info(
    session: Session, row: GraphHeader, keys: Sequence[str]
) -> dict[str, VectorInfo]:
    """Returns model and hash of the vectors of nodes that have one."""
    rows = session.rows(sql.VECTOR_INFO, {"id": row.id, "keys": texts(keys)})
    return {key: VectorInfo(model, digest) for key, model, digest in rows}


def read_vectors(session: Session, row: GraphHeader, keys: Sequence[str]) -> dict[str, NodeVector]:
    """Returns the vectors of nodes that have one, in the order of `keys`."""
    rows = session.rows(sql.VECTORS_BY_KEY, {"id": row.id, "keys": texts(keys)})
    vectors = {
        key: NodeVector(
            key=key,
            model=model,
            hash=digest,
            content=vector_of(content),
            name=None if name is None else vector_of(name),
        )
        for key, model, digest, content, name in rows
    }
    return {key: vectors[key] for key in keys if key in vectors}


def _nodes(rows: Iterable[Row]) -> list[Node]:
    return [parse_document(Node, body, "nodes") for (body,) in rows]


def _edges(rows: Iterable[Row]) -> list[Edge]:
    return [parse_document(Edge, body, "edges") for (body,) in rows]
