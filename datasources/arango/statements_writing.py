"""AQL that writes graphs, node types and embeddings, each by itself."""

from __future__ import annotations

from datasources.arango.statements import Statement

CREATE_GRAPH = Statement(
    name="CREATE_GRAPH",
    text="""
INSERT @document INTO @@graphs
RETURN NEW._key""",
    collections=("graphs",),
    values=("document",),
    writes=True,
    repeatable=False,
)

DELETE_GRAPH = Statement(
    name="DELETE_GRAPH",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
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
    collections=("graphs", "nodes", "edges"),
    values=("graph", "graphKey", "workspace"),
    writes=True,
)

PUT_CONFIGS = Statement(
    name="PUT_CONFIGS",
    text="""
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
    collections=("configs",),
    values=("docs", "workspace"),
    writes=True,
)
"""Nodius keeps all workspaces' types in one collection: of two of one key, the later gets its own."""

PUT_EMBEDDINGS = Statement(
    name="PUT_EMBEDDINGS",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
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
    collections=("graphs", "nodes", "meta"),
    values=("graph", "graphKey", "workspace", "docs", "vectorsKey", "mark"),
    writes=True,
    settled=True,
)
"""The mark is kept apart from the graph, whose document a mutation writes: neither waits for the other."""
