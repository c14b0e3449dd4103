"""Statements on the intents of mutations in a cluster, and on whatever documents an intent names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasources.arango.statements import Statement


class DocumentsStatement(Statement):
    """A statement on the documents of one collection, which is given as the value `collection`."""

    def binds(self, values: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(values)
        collection = given.pop("collection", None)
        bound = super().binds(given)
        return bound if collection is None else {**bound, "@records": collection}


OPEN_INTENTS = Statement(
    name="OPEN_INTENTS",
    text="""
FOR i IN @@intents
  FILTER i.state == "open"
  FILTER @graphKey == null OR (i.workspace == @workspace AND i.graphKey == @graphKey)
  SORT i.began
  RETURN i
""",
    collections=("intents",),
    values=("workspace", "graphKey"),
)

INTENT_GET = Statement(
    name="INTENT_GET",
    text="""
FOR i IN @@intents
  FILTER i._key == @key
  RETURN i
""",
    collections=("intents",),
    values=("key",),
)

INTENT_PUT = Statement(
    name="INTENT_PUT",
    text="""
INSERT @intent INTO @@intents
OPTIONS { overwriteMode: "replace", waitForSync: true }
""",
    collections=("intents",),
    values=("intent",),
    writes=True,
)

INTENT_REMOVE = Statement(
    name="INTENT_REMOVE",
    text="""
FOR i IN @@intents
  FILTER i._key == @key
  REMOVE i IN @@intents
""",
    collections=("intents",),
    values=("key",),
    writes=True,
)

HANGING_EDGES = Statement(
    name="HANGING_EDGES",
    text="""
LET hanging = (
  FOR e IN @@edges
    FILTER e._from IN @ids OR e._to IN @ids
    RETURN e._key
)
FOR key IN hanging
  RETURN key
""",
    collections=("edges",),
    values=("ids",),
)

DOCUMENTS = DocumentsStatement(
    name="DOCUMENTS",
    text="""
FOR d IN @@records
  FILTER d._key IN @keys
  RETURN d
""",
    collections=("records",),
    values=("keys",),
)

REVISIONS = DocumentsStatement(
    name="REVISIONS",
    text="""
FOR d IN @@records
  FILTER d._key IN @keys
  RETURN { key: d._key, rev: d._rev }
""",
    collections=("records",),
    values=("keys",),
)

COMPLETE_PUTS = DocumentsStatement(
    name="COMPLETE_PUTS",
    text="""
FOR w IN @writes
  LET now = FIRST(
    FOR d IN @@records
      FILTER d._key == w.key
      RETURN d._rev
  )
  FILTER now == w.before
  INSERT w.after INTO @@records
  OPTIONS { overwriteMode: "replace" }
""",
    collections=("records",),
    values=("writes",),
    writes=True,
)

COMPLETE_REMOVALS = DocumentsStatement(
    name="COMPLETE_REMOVALS",
    text="""
FOR w IN @writes
  FOR d IN @@records
    FILTER d._key == w.key AND d._rev == w.before
    REMOVE d IN @@records
""",
    collections=("records",),
    values=("writes",),
    writes=True,
)

ALL = (
    OPEN_INTENTS,
    INTENT_GET,
    INTENT_PUT,
    INTENT_REMOVE,
    HANGING_EDGES,
    DOCUMENTS,
    REVISIONS,
    COMPLETE_PUTS,
    COMPLETE_REMOVALS,
)
