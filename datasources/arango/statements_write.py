"""AQL that writes: graphs, node types, vectors, mutations, records, and facts about the database.

Each statement modifies a collection once and reads none of it afterwards.
"""

from __future__ import annotations

from datasources.arango.statements import FOUND, Statement, compose

CREATE_GRAPH = Statement(
    "CREATE_GRAPH",
    """
INSERT @document INTO @@graphs
RETURN NEW._key""",
    writes=True,
    repeatable=False,
)

DELETE_GRAPH = Statement(
    "DELETE_GRAPH",
    compose(
        """$found
LET edges = (
  FILTER found
  FOR e IN @@edges
    FILTER e.graphKey == @graphKey
    REMOVE e IN @@edges
    RETURN 1
)
LET nodes = (
  FILTER found
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    REMOVE n IN @@nodes
    RETURN 1
)
FOR key IN found ? [@graph] : []
  REMOVE key IN @@graphs
  RETURN { nodes: LENGTH(nodes), edges: LENGTH(edges) }""",
        found=FOUND,
    ),
    writes=True,
)

PUT_CONFIGS = Statement(
    "PUT_CONFIGS",
    """
FOR d IN @docs
  LET mine = FIRST(
    FOR c IN @@configs
      FILTER c._key IN [d.plain, d.own] AND c.workspace == @workspace
      RETURN c._key
  )
  LET taken = LENGTH(FOR c IN @@configs FILTER c._key == d.plain AND c.workspace != @workspace RETURN 1) > 0
  LET key = NOT_NULL(mine, taken ? d.own : d.plain)
  LET named = key == d.own ? { localKey: d.key } : {}
  INSERT MERGE(d.document, { _key: key }, named) INTO @@configs OPTIONS { overwriteMode: "replace" }
  RETURN NEW._key""",
    writes=True,
)
"""Nodius keeps all workspaces' types in one collection: of two of one key, the later gets its own."""

PUT_EMBEDDINGS = Statement(
    "PUT_EMBEDDINGS",
    compose(
        """$found
LET done = (
  FILTER found
  FOR d IN @docs
    FOR n IN @@nodes
      FILTER n._key == d.key AND n.graphKey == @graphKey
      UPDATE n WITH d.fields IN @@nodes OPTIONS { keepNull: false, mergeObjects: false }
      RETURN NEW._key
)
LET marked = (
  FOR key IN LENGTH(done) > 0 ? [@vectorsKey] : []
    INSERT { _key: key, mark: @mark } INTO @@meta OPTIONS { overwriteMode: "replace" }
    RETURN NEW._key
)
RETURN { found, done, marked }""",
        found=FOUND,
    ),
    writes=True,
    idempotent=True,
)
"""The mark is kept apart from the graph, whose document a mutation writes: neither waits for the other."""

APPLY_LOOK = Statement(
    "APPLY_LOOK",
    """
LET stored = FIRST(
  FOR g IN @@graphs
    FILTER g._key == @graph AND g.workspace == @workspace
    RETURN g
)
LET nodes = (
  FOR n IN @@nodes
    FILTER n._key IN @nodeKeys
    RETURN { key: n._key, graphKey: n.graphKey }
)
LET edges = (
  FOR e IN @@edges
    FILTER e._key IN @edgeKeys
    RETURN { key: e._key, graphKey: e.graphKey }
)
LET configs = (
  FOR c IN @@configs
    FILTER c._key IN @configKeys
    RETURN { key: c._key, workspace: c.workspace }
)
RETURN { stored, nodes, edges, configs }""",
)

APPLY_ON_SHEETS = Statement(
    "APPLY_ON_SHEETS",
    """
LET nodes = (
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    FILTER NOT_NULL(n.sheet, "0") IN @sheets
    RETURN { _key: n._key, localKey: n.localKey }
)
LET edges = (
  FOR e IN @@edges
    FILTER e.graphKey == @graphKey
    FILTER NOT_NULL(e.sheet, "0") IN @sheets
    RETURN {
      _key: e._key, localKey: e.localKey, _from: e._from, _to: e._to, source: e.source, target: e.target
    }
)
RETURN { nodes, edges }""",
)

APPLY_CUT = Statement(
    "APPLY_CUT",
    """
FOR e IN @@edges
  FILTER e._key IN @edgeKeys OR e._from IN @nodeIds OR e._to IN @nodeIds
  FILTER e.graphKey == @graphKey
  REMOVE e IN @@edges""",
    writes=True,
)

APPLY_DELETE_NODES = Statement(
    "APPLY_DELETE_NODES",
    """
FOR n IN @@nodes
  FILTER n._key IN @nodeKeys AND n.graphKey == @graphKey
  REMOVE n IN @@nodes""",
    writes=True,
)

APPLY_DELETE_CONFIGS = Statement(
    "APPLY_DELETE_CONFIGS",
    """
FOR c IN @@configs
  FILTER c._key IN @configKeys AND c.workspace == @workspace
  REMOVE c IN @@configs""",
    writes=True,
)

APPLY_PUT_NODES = Statement(
    "APPLY_PUT_NODES",
    """
FOR d IN @documents
  LET kept = FIRST(
    FOR n IN @@nodes
      FILTER n._key == d._key
      RETURN KEEP(n, @kept)
  )
  LET words = MERGE(d.nodiusText, { of: MD5(JSON_STRINGIFY(@searched[* RETURN d[CURRENT]])) })
  INSERT MERGE(NOT_NULL(kept, {}), d, { nodiusText: words }) INTO @@nodes
  OPTIONS { overwriteMode: "replace" }""",
    writes=True,
)

_PUT = """
FOR d IN @documents
  INSERT d INTO @@$collection
  OPTIONS { overwriteMode: "replace" }"""

APPLY_PUT_EDGES = Statement("APPLY_PUT_EDGES", compose(_PUT, collection="edges"), writes=True)
APPLY_PUT_CONFIGS = Statement("APPLY_PUT_CONFIGS", compose(_PUT, collection="configs"), writes=True)

APPLY_PUT_VECTORS = Statement(
    "APPLY_PUT_VECTORS",
    """
FOR v IN @vectors
  UPDATE { _key: v._key } WITH v IN @@nodes
  OPTIONS { mergeObjects: false, keepNull: false }""",
    writes=True,
)

APPLY_GRAPH = Statement(
    "APPLY_GRAPH",
    """
LET marked = (
  INSERT @mark INTO @@marks
  RETURN NEW._key
)
FOR g IN @@graphs
  FILTER g._key == @graph AND g.workspace == @workspace
  REPLACE g WITH @document IN @@graphs
  RETURN { revision: NEW.revision, marked }""",
    writes=True,
)

RECORDS_INSERT = Statement(
    "RECORDS_INSERT",
    """
FOR w IN @writes
  INSERT w INTO @@records
  RETURN NEW._rev""",
    writes=True,
)

RECORDS_REPLACE = Statement(
    "RECORDS_REPLACE",
    """
FOR w IN @writes
  FOR d IN @@records
    FILTER d._key IN w.names AND d.workspace == @workspace AND d._rev == w.rev
    REPLACE d WITH w.document IN @@records OPTIONS { ignoreRevs: false }
    RETURN { key: w.key, rev: NEW._rev }""",
    writes=True,
)

RECORDS_REMOVE = Statement(
    "RECORDS_REMOVE",
    """
FOR w IN @writes
  FOR d IN @@records
    FILTER d._key IN w.names AND d.workspace == @workspace AND d._rev == w.rev
    REMOVE d IN @@records OPTIONS { ignoreRevs: false }
    RETURN { key: w.key, rev: OLD._rev }""",
    writes=True,
)

MARK_PUT = Statement(
    "MARK_PUT",
    """
INSERT @mark INTO @@marks
RETURN NEW._key""",
    writes=True,
)

SET_VERSION = Statement(
    "SET_VERSION",
    """
INSERT { _key: "schema", version: @version } INTO @@meta
  OPTIONS { overwriteMode: "replace" }
RETURN NEW.version""",
    writes=True,
)

PUT_WORDS = Statement(
    "PUT_WORDS",
    """
FOR d IN @docs
  FOR n IN @@nodes
    FILTER n._key == d.key AND n._rev == d.rev
    LET words = MERGE(d.words, { of: MD5(JSON_STRINGIFY(@searched[* RETURN n[CURRENT]])) })
    UPDATE n WITH { nodiusText: words } IN @@nodes OPTIONS { mergeObjects: false }
    RETURN NEW._key""",
    writes=True,
)
