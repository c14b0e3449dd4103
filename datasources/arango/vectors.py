"""The server's vector indexes: when they are worth having, whether they can be used.

Decision: a graph of few nodes (see `engine.Limits`) is searched exactly, which finds all there is
and sees a vector as soon as it is stored. A vector index is made where a database holds many more
vectors, all of one length. An index refuses vectors of any other length, so those are kept beside it.

Source: ArangoDB 3.12 documentation, "Vector indexes"; FILTER before APPROX_NEAR from 3.12.6.
"""

from __future__ import annotations

from typing import Any

from arango.database import StandardDatabase
from arango.exceptions import ArangoServerError

from datasources.arango import layout
from datasources.arango.names import EMBEDDING, NODES
from datasources.arango.server_version import version_of
from datasources.arango.statements_setup import VECTOR_LENGTHS

WORTH_AN_INDEX = 20_000
LEAST_VERSION = (3, 12, 10)


def indexed_dimension(database: StandardDatabase) -> int | None:
    """Return the length of vectors that the index of contents takes, None without one."""
    for index in _vector_indexes(database):
        if index["fields"] == [EMBEDDING]:
            return int(index["params"]["dimension"])
    return None


def usable_fields(database: StandardDatabase) -> set[str]:
    """Return the fields whose vector index is trained."""
    return {
        index["fields"][0]
        for index in _vector_indexes(database)
        if index.get("trainingState", "ready") == "ready"
    }


def _vector_indexes(database: StandardDatabase) -> list[dict[str, Any]]:
    found: Any = database.collection(NODES).indexes()
    return [index for index in found if index["type"] == "vector"]


def worth_an_index(database: StandardDatabase) -> int | None:
    """Return the length of vectors that indexes should be made for, None where none should."""
    if version_of(database) < LEAST_VERSION or indexed_dimension(database) is not None:
        return None
    rows: Any = database.aql.execute(VECTOR_LENGTHS.text, bind_vars=VECTOR_LENGTHS.binds({}))
    lengths = list(rows)
    if len(lengths) != 1 or lengths[0]["amount"] < WORTH_AN_INDEX:
        return None
    return int(lengths[0]["length"])


def prepare_vectors(database: StandardDatabase) -> list[str]:
    """Make vector indexes where they are worth it; return what was done."""
    length = worth_an_index(database)
    if length is None:
        return []
    done: list[str] = []
    for field in layout.VECTOR_FIELDS:
        try:
            database.collection(NODES).add_index(layout.vector_index(field, length))
        except ArangoServerError as exc:  # the server was started without --vector-index
            return [*done, f"made no vector index of {field} (error {exc.error_code}): search stays exact"]
        done.append(f"made the vector index of {field}, {length} dimensions")
    return done
