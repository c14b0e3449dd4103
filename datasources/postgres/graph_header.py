"""The row of a graph, and checks of values that PostgreSQL cannot hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from datasources.errors import BadDocument, GraphNotFound
from datasources.postgres import statements as sql
from datasources.postgres.server_pool import Bound, Session
from datasources.types import Graph, is_storable, parse_document

NO_LIMIT = 2**63 - 1  # greatest bigint


@dataclass(frozen=True)
class GraphHeader:
    """A row of the table `graphs`.

    `version` counts all changes, of vectors and words too; `vectors_version` is that of the last
    change of vectors. What was removed since `removed_from` is
    in the table `removed`. `has_halves`: vectors are stored for an index of
    pgvector too. `types_version` changes with the types that the workspace sees; None if
    none is stored, or the row was read to be written.
    """

    id: int
    revision: int
    version: int
    vectors_version: int
    removed_from: int
    nodes: int
    edges: int
    content_words: int
    name_words: int
    body: bytes
    has_halves: bool
    types_version: int | None = None

    @cached_property
    def graph(self) -> Graph:
        """The graph's document. Raises: BadDocument."""
        return parse_document(Graph, self.body, "graphs")

    @property
    def size(self) -> int:
        """The number of nodes and edges of the graph."""
        return self.nodes + self.edges


def named(workspace: str, graph_key: str) -> dict[str, str]:
    """Returns the values that name a graph. Raises: GraphNotFound if no graph can have the key."""
    if not (is_text(graph_key) and is_text(workspace)):
        raise GraphNotFound(graph_key=graph_key)
    return {"graph": graph_key, "workspace": workspace}


def graph_header(session: Session, workspace: str, graph_key: str) -> GraphHeader:
    """Reads a graph's row. Raises: GraphNotFound, also for a graph of another workspace."""
    [rows] = session.batch(Bound(sql.GRAPH_ROW, named(workspace, graph_key)))
    return row_of(rows, graph_key)


def row_of(rows: list[tuple[object, ...]], graph_key: str) -> GraphHeader:
    """Returns the only row. Raises: GraphNotFound if there is none."""
    if not rows:
        raise GraphNotFound(graph_key=graph_key)
    return GraphHeader(*rows[0])  # pyright: ignore[reportArgumentType]


def is_text(value: str) -> bool:
    """Returns True if PostgreSQL can hold this text: no zero character, no half of a pair."""
    return "\0" not in value and is_storable(value)


def texts(values: Iterable[str]) -> list[str]:
    """Returns the values that may be stored, without duplicates."""
    return [value for value in dict.fromkeys(values) if is_text(value)]


def check_text(value: str, *, collection: str, key: str, field: str) -> str:
    """Returns the text. Raises: BadDocument if PostgreSQL cannot hold it."""
    if not is_text(value):
        reason = "has a zero character or half of a surrogate pair"
        raise BadDocument(collection=collection, key=key, field=field, reason=reason)
    return value


def limited(limit: int | None) -> int:
    """Returns a limit that PostgreSQL accepts."""
    return NO_LIMIT if limit is None else min(max(0, limit), NO_LIMIT)
