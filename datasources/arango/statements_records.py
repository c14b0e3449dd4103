"""Statements on records, and on the marks that transactions leave.

The collection of a record is bound by its kind; as `ALL` shows them they bind the collection of
records of no named kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasources.arango.names import COLLECTIONS, RECORD_COLLECTIONS
from datasources.arango.statements import Statement

OTHER_RECORDS = "records"


def collection_of(kind: str) -> str:
    """Return the name of the collection where the records of a kind are."""
    return COLLECTIONS[RECORD_COLLECTIONS.get(kind, OTHER_RECORDS)]


class RecordStatement(Statement):
    """A statement on the records of one kind, which is given as the value `kind`."""

    def binds(self, values: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(values)
        kind = given.pop("kind", None)
        bound = super().binds(given)
        return bound if kind is None else {**bound, "@records": collection_of(kind)}


RECORD_GET = RecordStatement(
    name="RECORD_GET",
    text="""
FOR d IN @@records
  FILTER d._key IN @names AND d.workspace == @workspace
  LIMIT 1
  RETURN d
""",
    collections=("records",),
    values=("names", "workspace"),
)

RECORDS_EXIST = RecordStatement(
    name="RECORDS_EXIST",
    text="""
FOR d IN @@records
  FILTER d._key IN @names AND d.workspace == @workspace
  RETURN d._key
""",
    collections=("records",),
    values=("names", "workspace"),
)

RECORDS_INSERT = RecordStatement(
    name="RECORDS_INSERT",
    text="""
FOR w IN @writes
  INSERT w INTO @@records
  RETURN NEW._rev
""",
    collections=("records",),
    values=("writes",),
    writes=True,
    repeatable=False,
)

RECORDS_REPLACE = RecordStatement(
    name="RECORDS_REPLACE",
    text="""
FOR w IN @writes
  FOR d IN @@records
    FILTER d._key IN w.names AND d.workspace == @workspace AND d._rev == w.rev
    REPLACE d WITH w.document IN @@records OPTIONS { ignoreRevs: false }
    RETURN { key: w.key, rev: NEW._rev }
""",
    collections=("records",),
    values=("writes", "workspace"),
    writes=True,
    repeatable=False,
)

RECORDS_REMOVE = RecordStatement(
    name="RECORDS_REMOVE",
    text="""
FOR w IN @writes
  FOR d IN @@records
    FILTER d._key IN w.names AND d.workspace == @workspace AND d._rev == w.rev
    REMOVE d IN @@records OPTIONS { ignoreRevs: false }
    RETURN { key: w.key, rev: OLD._rev }
""",
    collections=("records",),
    values=("writes", "workspace"),
    writes=True,
    repeatable=False,
)

RECORDS_ALL = RecordStatement(
    name="RECORDS_ALL",
    text="""
FOR d IN @@records
  FILTER d.workspace == @workspace
  SORT d.@order ASC, d.rag.key ASC
  LIMIT @limit
  RETURN d
""",
    collections=("records",),
    values=("workspace", "order", "limit"),
)

RECORDS_ALL_BACKWARDS = RecordStatement(
    name="RECORDS_ALL_BACKWARDS",
    text="""
FOR d IN @@records
  FILTER d.workspace == @workspace
  SORT d.@order DESC, d.rag.key ASC
  LIMIT @limit
  RETURN d
""",
    collections=("records",),
    values=("workspace", "order", "limit"),
)

RECORDS_WHERE = RecordStatement(
    name="RECORDS_WHERE",
    text="""
FOR d IN @@records
  FILTER d.workspace == @workspace AND d.@field == @value
  FILTER LENGTH(@others[* FILTER d[CURRENT.field] != CURRENT.value]) == 0
  SORT d.@order ASC, d.rag.key ASC
  LIMIT @limit
  RETURN d
""",
    collections=("records",),
    values=("workspace", "field", "value", "others", "order", "limit"),
)

RECORDS_WHERE_BACKWARDS = RecordStatement(
    name="RECORDS_WHERE_BACKWARDS",
    text="""
FOR d IN @@records
  FILTER d.workspace == @workspace AND d.@field == @value
  FILTER LENGTH(@others[* FILTER d[CURRENT.field] != CURRENT.value]) == 0
  SORT d.@order DESC, d.rag.key ASC
  LIMIT @limit
  RETURN d
""",
    collections=("records",),
    values=("workspace", "field", "value", "others", "order", "limit"),
)

MARK_PUT = Statement(
    name="MARK_PUT",
    text="""
INSERT @mark INTO @@intents
RETURN NEW._key
""",
    collections=("intents",),
    values=("mark",),
    writes=True,
    repeatable=False,
)

MARK_GET = Statement(
    name="MARK_GET",
    text="""
FOR m IN @@intents
  FILTER m._key == @mark
  RETURN m
""",
    collections=("intents",),
    values=("mark",),
)

ALL = (
    RECORD_GET,
    RECORDS_EXIST,
    RECORDS_INSERT,
    RECORDS_REPLACE,
    RECORDS_REMOVE,
    RECORDS_ALL,
    RECORDS_ALL_BACKWARDS,
    RECORDS_WHERE,
    RECORDS_WHERE_BACKWARDS,
    MARK_PUT,
    MARK_GET,
)
