"""AQL of set-up and migrations: the version, words of nodes that others wrote, lengths of vectors."""

from __future__ import annotations

from datasources.arango.statements import Statement

VERSION = Statement(
    name="VERSION",
    text="""
FOR m IN @@meta
  FILTER m._key == "schema"
  RETURN m.version""",
    collections=("meta",),
)

ORDER = Statement(
    name="ORDER",
    text="""
RETURN 'Z' < 'a'""",
    collections=(),
)
"""Whether text is ordered by code points, as it is in a deployment made with 3.12 or later."""

SET_VERSION = Statement(
    name="SET_VERSION",
    text="""
INSERT { _key: "schema", version: @version } INTO @@meta
  OPTIONS { overwriteMode: "replace" }
RETURN NEW.version""",
    collections=("meta",),
    values=("version",),
    writes=True,
)

WITHOUT_WORDS = Statement(
    name="WITHOUT_WORDS",
    text="""
FOR n IN @@nodes
  FILTER n._key > @after
  FILTER n.nodiusText == null OR n.nodiusText.of != MD5(JSON_STRINGIFY(@searched[* RETURN n[CURRENT]]))
  SORT n._key
  LIMIT @limit
  RETURN UNSET(n, @hidden)""",
    collections=("nodes",),
    values=("after", "limit", "hidden", "searched"),
)

COUNT_WITHOUT_WORDS = Statement(
    name="COUNT_WITHOUT_WORDS",
    text="""
LET few = (
  FOR n IN @@nodes
    FILTER n.nodiusText == null OR n.nodiusText.of != MD5(JSON_STRINGIFY(@searched[* RETURN n[CURRENT]]))
    LIMIT @limit
    RETURN 1
)
RETURN { missing: LENGTH(few), nodes: LENGTH(@@nodes), graphs: LENGTH(@@graphs), edges: LENGTH(@@edges) }""",
    collections=("nodes", "graphs", "edges"),
    values=("limit", "searched"),
)

PUT_WORDS = Statement(
    name="PUT_WORDS",
    text="""
FOR d IN @docs
  FOR n IN @@nodes
    FILTER n._key == d.key AND n._rev == d.rev
    LET words = MERGE(d.words, { of: MD5(JSON_STRINGIFY(@searched[* RETURN n[CURRENT]])) })
    UPDATE n WITH { nodiusText: words } IN @@nodes OPTIONS { mergeObjects: false }
    RETURN NEW._key""",
    collections=("nodes",),
    values=("docs", "searched"),
    writes=True,
)

VECTOR_LENGTHS = Statement(
    name="VECTOR_LENGTHS",
    text="""
FOR n IN @@nodes
  FILTER LENGTH(n.embedding) > 0
  COLLECT length = LENGTH(n.embedding) WITH COUNT INTO amount
  SORT amount DESC
  RETURN { length, amount }""",
    collections=("nodes",),
)
