"""A graph that is held whole in memory: its documents, words and vectors.

Each part is read on first use. After a change, by whichever server, only what changed since is read
again: rows carry the version of the graph at which they were written, and `removed` tells what is
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, final

import numpy as np

from datasources.cache import Cache
from datasources.held_elements import HeldElements
from datasources.hits import Hit, SearchField, Vector, VectorQuery
from datasources.lexical import LexicalIndex, best_hits
from datasources.links import Link
from datasources.postgres import statements as sql
from datasources.postgres.graph_header import GraphHeader, row_of
from datasources.postgres.node_words import StoredWords
from datasources.postgres.server_pool import Bound, Row, Session
from datasources.vectors import VectorGroup, matrix_of, normalize

# All words are read again when more than this share of the nodes changed.
MAX_CHANGED = 0.1


class Version(NamedTuple):
    """The state of a graph that a part was read from.

    `losses` are those of `ServerPool`: a server that took over may lack what was read of the other,
    and use the same numbers for other changes.
    """

    losses: int
    number: int


class _Versioned(Protocol):
    @property
    def version(self) -> Version: ...


P = TypeVar("P", bound=_Versioned)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _CachedDocuments:
    version: Version
    elements: HeldElements

    @property
    def nbytes(self) -> int:
        return self.elements.nbytes


@final
@dataclass(frozen=True, slots=True, eq=False)
class _CachedWords:
    version: Version
    index: LexicalIndex

    @property
    def nbytes(self) -> int:
        return self.index.nbytes


@final
@dataclass(frozen=True, slots=True, eq=False)
class CachedVectors:
    """The vectors of a group, in key order. Shapes: `unit` is float32[len(keys), dim]."""

    version: Version
    keys: list[str]
    unit: Vector

    @property
    def nbytes(self) -> int:
        return self.unit.nbytes + 100 * len(self.keys)

    def search(self, query: VectorQuery) -> list[Hit]:
        """Returns the nodes of greatest cosine."""
        scores = self.unit @ normalize(query.vector)
        candidates = np.flatnonzero(scores >= query.min_score)
        return best_hits(self.keys, scores, query.limit, candidates=candidates)


@final
@dataclass(frozen=True, slots=True)
class _ChangeSince:
    """What changed in a graph since a version, at one moment."""

    version: Version
    rows: Sequence[list[Row]]
    removed_nodes: Sequence[str]
    removed_edges: Sequence[str]


@final
@dataclass(frozen=True, slots=True, eq=False)
class CachedGraph:
    """Implements HeldParts: parts of a graph of a server."""

    session: Session
    workspace: str
    row: GraphHeader
    cache: Cache
    losses: int

    def search_text(self, terms: Sequence[str], limit: int, search_field: SearchField) -> list[Hit]:
        words = self.cache.get(
            ("words", self.row.id, search_field),
            Version(self.losses, self.row.version),
            self._words_of(search_field),
        )
        return words.index.search(terms, limit)

    def search_vectors(self, query: VectorQuery) -> list[Hit]:
        return self.vectors(VectorGroup.of(query)).search(query)

    def vectors(self, group: VectorGroup) -> CachedVectors:
        """Returns the vectors of a group."""
        return self.cache.get(
            ("vectors", self.row.id, group),
            Version(self.losses, self.row.vectors_version),
            self._vectors_of(group),
        )

    @property
    def elements(self) -> HeldElements:
        name = ("documents", self.row.id)
        version = Version(self.losses, self.row.version)
        return self.cache.get(name, version, self._load_documents).elements

    def _since(
        self, older: P | None, *statements: str, **values: Any
    ) -> tuple[P | None, _ChangeSince]:
        """Reads the rows that changed since an older part, or all rows.

        Returns the older part if the change begins with it.
        """
        if older is not None and older.version.losses != self.losses:
            older = None
        since = -1 if older is None else older.version.number
        found, removed, *rows = self.session.batch(
            Bound(sql.GRAPH_ROW, {"graph": self.row.graph.key, "workspace": self.workspace}),
            *(
                Bound(statement, {"id": self.row.id, "version": since, **values})
                for statement in (sql.REMOVED_SINCE, *statements)
            ),
        )
        row = row_of(found, self.row.graph.key)
        if older is not None and since < row.removed_from:
            return self._since(None, *statements, **values)
        gone: dict[str, list[str]] = {"node": [], "edge": []}
        for kind, key in removed if older is not None else ():
            gone[kind].append(key)
        version = Version(self.losses, row.version)
        return older, _ChangeSince(version, rows, gone["node"], gone["edge"])

    def _load_documents(self, older: _CachedDocuments | None) -> _CachedDocuments:
        older, change = self._since(older, sql.NODES_SINCE, sql.EDGES_SINCE)
        nodes = dict(change.rows[0])
        edges = {key: (Link(source, target), body) for key, source, target, body in change.rows[1]}
        if older is None:
            return _CachedDocuments(change.version, HeldElements.of(nodes, edges))
        if not (nodes or edges or change.removed_nodes or change.removed_edges):
            return _CachedDocuments(change.version, older.elements)
        elements = older.elements.changed(
            {**dict.fromkeys(change.removed_nodes), **nodes},
            {**dict.fromkeys(change.removed_edges), **edges},
        )
        return _CachedDocuments(change.version, elements)

    def _words_of(self, search_field: SearchField) -> Callable[[_CachedWords | None], _CachedWords]:
        def load(older: _CachedWords | None) -> _CachedWords:
            older, change = self._since(older, sql.WORDS_SINCE)
            put = {key: StoredWords(*words).tokens(search_field) for key, *words in change.rows[0]}
            if older is None:
                return _CachedWords(change.version, LexicalIndex.build(put.items()))
            if not (put or change.removed_nodes):
                return _CachedWords(change.version, older.index)
            if len(put) > MAX_CHANGED * len(older.index.keys):
                return load(None)
            documents = {**dict.fromkeys(change.removed_nodes), **put}
            return _CachedWords(change.version, older.index.changed(documents))

        return load

    def _vectors_of(self, group: VectorGroup) -> Callable[[CachedVectors | None], CachedVectors]:
        def load(older: CachedVectors | None) -> CachedVectors:
            statement = sql.VECTORS_SINCE.format(group.field)
            older, change = self._since(older, statement, model=group.model, dim=group.dim)
            changed = dict(change.rows[0])
            keys = [key for key, vector in changed.items() if vector is not None]
            unit = normalize(matrix_of([changed[key] for key in keys], group.dim))
            if older is None:
                return CachedVectors(change.version, keys, unit)
            gone = changed.keys() | change.removed_nodes
            if not gone:
                return CachedVectors(change.version, older.keys, older.unit)
            kept = [place for place, key in enumerate(older.keys) if key not in gone]
            keys = [*(older.keys[place] for place in kept), *keys]
            unit = np.concatenate([older.unit[kept], unit])
            order = sorted(range(len(keys)), key=keys.__getitem__)
            return CachedVectors(change.version, [keys[place] for place in order], unit[order])

        return load
