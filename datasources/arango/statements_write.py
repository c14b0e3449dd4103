"""AQL that writes: graphs, node types, vectors, mutations, records, and facts about the database.

Each statement modifies a collection once and reads none of it afterwards.
"""

from __future__ import annotations

from datasources.arango.statements import DIGEST, Statement, compose, on_graph

CREATE_GRAPH = Statement("""
INSERT @document INTO @@graphs""")

DELETE_GRAPH = on_graph("""
LET large = LENGTH(FOR n IN @@nodes FILTER found AND n.graphKey == @graphKey LIMIT @most RETURN 1) == @most
  OR LENGTH(FOR e IN @@edges FILTER found AND e.graphKey == @graphKey LIMIT @most RETURN 1) == @most
LET edges = (
  FILTER found AND NOT large
  FOR e IN @@edges
    FILTER e.graphKey == @graphKey
    REMOVE e IN @@edges
)
LET nodes = (
  FILTER found AND NOT large
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    REMOVE n IN @@nodes
)
LET marks = (FOR m IN @@meta FILTER m._key == @vectorsKey AND found AND NOT large REMOVE m IN @@meta)
LET graphs = (FOR key IN found AND NOT large ? [@graph] : [] REMOVE key IN @@graphs)
RETURN { found, large, edges, nodes, marks, graphs }""")
"""Removes nothing if the graph has `@most` nodes or edges or more; it is reported as `large`."""

HIDE_GRAPH = Statement("""
LET marked = (INSERT @mark INTO @@marks)
FOR g IN @@graphs
  FILTER g._key == @graph AND g.workspace == @workspace
  REPLACE g WITH { graphKey: @graphKey, nodiusChange: @change } IN @@graphs
  RETURN marked""")
"""Removes the workspace from the graph, so that no statement or list finds it any more."""

PUT_STEP = Statement(
    """
INSERT @step INTO @@steps OPTIONS { overwriteMode: "replace" }""",
    idempotent=True,
)

TAKE_CHANGE = Statement("""
FOR g IN @@graphs
  FILTER g._key == @name AND g.nodiusChange.id == @change AND g.nodiusChange.heldUntil == @seen
  UPDATE g WITH { nodiusChange: { heldUntil: @until } } IN @@graphs
  RETURN 1""")

CLAIM_CHANGE = Statement("""
FOR g IN @@graphs
  FILTER g._key == @name AND g.nodiusChange.id == @change
  LET done = NOT_NULL(@done, g.nodiusChange.done)
  UPDATE g WITH { nodiusChange: { done, heldUntil: @until } } IN @@graphs
  RETURN done""")

SWEEP = Statement("""
LET graphKey = FIRST(FOR g IN @@graphs FILTER g._key == @name RETURN g.graphKey)
LET edges = (FOR e IN @@edges FILTER e.graphKey == graphKey LIMIT @most REMOVE e IN @@edges RETURN 1)
LET nodes = (FOR n IN @@nodes FILTER n.graphKey == graphKey LIMIT @most REMOVE n IN @@nodes RETURN 1)
RETURN { edges, nodes }""")

END_DELETION = Statement("""
LET marks = (FOR m IN @@meta FILTER m._key == CONCAT("vectors:", @name) REMOVE m IN @@meta)
REMOVE @name IN @@graphs""")

END_CHANGE = Statement("""
REPLACE @name WITH @document IN @@graphs""")

REMOVE_STEPS = Statement(
    """
FOR s IN @@steps FILTER s.change == @change REMOVE s IN @@steps""",
    idempotent=True,
)

PUT_CONFIGS = Statement("""
FOR d IN @docs
  LET mine = FIRST(
    FOR c IN @@configs
      FILTER c._key IN [d.plain, d.own] AND c.workspace == @workspace
      RETURN c._key
  )
  LET taken = LENGTH(FOR c IN @@configs FILTER c._key == d.plain AND c.workspace != @workspace RETURN 1) > 0
  LET key = NOT_NULL(mine, taken ? d.own : d.plain)
  LET named = key == d.own ? { localKey: d.key } : {}
  INSERT MERGE(d.document, { _key: key }, named) INTO @@configs OPTIONS { overwriteMode: "replace" }""")
"""Nodius stores the types of all workspaces in one collection. If a key is already used by another
workspace, the new type gets a `_key` of its own.
"""

PUT_EMBEDDINGS = on_graph(
    """
LET done = (
  FILTER found
  FOR d IN @docs
    FOR n IN @@nodes
      FILTER n._key == d._key AND n.graphKey == @graphKey
      UPDATE n WITH d IN @@nodes OPTIONS { keepNull: false, mergeObjects: false }
      RETURN NEW._key
)
LET marked = (
  FOR key IN LENGTH(done) > 0 ? [@vectorsKey] : []
    INSERT { _key: key, mark: @mark } INTO @@meta OPTIONS { overwriteMode: "replace" }
)
RETURN { found, done, marked }""",
    idempotent=True,
)
"""The mark is stored in a separate document from the graph, which mutations write, so that neither
blocks the other.
"""

APPLY_LOOK = Statement("""
LET stored = FIRST(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN g)
LET nodes = (
  FOR n IN @@nodes
    FILTER n._key IN @nodeKeys
    RETURN [n._key, n.graphKey == @graphKey]
)
LET edges = (
  FOR e IN @@edges
    FILTER e._key IN @edgeKeys
    RETURN [e._key, e.graphKey == @graphKey]
)
LET configs = (
  FOR c IN @@configs
    FILTER c._key IN @configKeys AND c.workspace == @workspace
    RETURN c._key
)
RETURN { stored, nodes, edges, configs }""")

APPLY_ON_SHEETS = Statement("""
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
RETURN { nodes, edges }""")

APPLY_DELETE = Statement("""
LET edges = (
  FOR e IN @@edges
    FILTER e._key IN @edgeKeys OR e._from IN @nodeIds OR e._to IN @nodeIds
    FILTER e.graphKey == @graphKey
    REMOVE e IN @@edges
)
LET nodes = (
  FOR n IN @@nodes
    FILTER n._key IN @nodeKeys AND n.graphKey == @graphKey
    REMOVE n IN @@nodes
)
FOR c IN @@configs
  FILTER c._key IN @configKeys AND c.workspace == @workspace
  REMOVE c IN @@configs""")

APPLY_PUT_NODES = Statement(
    compose(
        """
FOR d IN @documents
  LET kept = FIRST(FOR n IN @@nodes FILTER n._key == d._key RETURN KEEP(n, @kept))
  LET words = MERGE(d.nodiusText, { of: $digest })
  INSERT MERGE(NOT_NULL(kept, {}), d, { nodiusText: words }) INTO @@nodes
  OPTIONS { overwriteMode: "replace" }""",
        digest=compose(DIGEST, node="d"),
    )
)

APPLY_PUT_EDGES = Statement("""
FOR d IN @documents
  INSERT d INTO @@edges OPTIONS { overwriteMode: "replace" }""")

APPLY_PUT_VECTORS = Statement("""
FOR v IN @vectors
  UPDATE { _key: v._key } WITH v IN @@nodes OPTIONS { mergeObjects: false, keepNull: false }""")

APPLY_GRAPH = Statement("""
LET marked = (INSERT @mark INTO @@marks)
FOR g IN @@graphs
  FILTER g._key == @graph AND g.workspace == @workspace
  REPLACE g WITH @document IN @@graphs
  RETURN marked""")

RECORDS_INSERT = Statement("""
FOR w IN @writes
  FILTER LENGTH(FOR d IN @@records FILTER d._key IN w.names AND d.workspace == @workspace RETURN 1) == 0
  INSERT w.document INTO @@records
  RETURN { key: w.key, rev: NEW._rev }""")

RECORDS_REPLACE = Statement("""
FOR w IN @writes
  FOR d IN @@records
    FILTER d._key IN w.names AND d.workspace == @workspace AND d._rev == w.rev
    REPLACE d WITH UNSET(w.document, "_key") IN @@records OPTIONS { ignoreRevs: false }
    RETURN { key: w.key, rev: NEW._rev }""")

RECORDS_REMOVE = Statement("""
FOR w IN @writes
  FOR d IN @@records
    FILTER d._key IN w.names AND d.workspace == @workspace AND d._rev == w.rev
    REMOVE d IN @@records OPTIONS { ignoreRevs: false }
    RETURN { key: w.key, rev: OLD._rev }""")

MARK_PUT = Statement("""
INSERT @mark INTO @@marks""")

SET_VERSION = Statement("""
INSERT { _key: "schema", version: @version } INTO @@meta OPTIONS { overwriteMode: "replace" }
RETURN NEW.version""")

PUT_WORDS = Statement(
    compose(
        """
FOR d IN @docs
  FOR n IN @@nodes
    FILTER n._key == d.key AND n._rev == d.rev
    LET words = MERGE(d.words, { of: $digest })
    UPDATE n WITH { nodiusText: words } IN @@nodes OPTIONS { mergeObjects: false }
    RETURN NEW._key""",
        digest=compose(DIGEST, node="n"),
    )
)
