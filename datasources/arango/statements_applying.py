"""Statements of a mutation's transaction; each modifies a collection once and reads none of it after."""

from __future__ import annotations

from datasources.arango.statements import Statement

APPLY_LOOK = Statement(
    name="APPLY_LOOK",
    text="""
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
RETURN { stored, nodes, edges, configs }
""",
    collections=("graphs", "nodes", "edges", "configs"),
    values=("graph", "workspace", "nodeKeys", "edgeKeys", "configKeys"),
)

APPLY_ON_SHEETS = Statement(
    name="APPLY_ON_SHEETS",
    text="""
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
RETURN { nodes, edges }
""",
    collections=("nodes", "edges"),
    values=("graphKey", "sheets"),
)

APPLY_CUT = Statement(
    name="APPLY_CUT",
    text="""
FOR e IN @@edges
  FILTER e._key IN @edgeKeys OR e._from IN @nodeIds OR e._to IN @nodeIds
  FILTER e.graphKey == @graphKey
  REMOVE e IN @@edges
""",
    collections=("edges",),
    values=("edgeKeys", "nodeIds", "graphKey"),
    writes=True,
    repeatable=False,
)

APPLY_DELETE_NODES = Statement(
    name="APPLY_DELETE_NODES",
    text="""
FOR n IN @@nodes
  FILTER n._key IN @nodeKeys AND n.graphKey == @graphKey
  REMOVE n IN @@nodes
""",
    collections=("nodes",),
    values=("nodeKeys", "graphKey"),
    writes=True,
    repeatable=False,
)

APPLY_PUT_NODES = Statement(
    name="APPLY_PUT_NODES",
    text="""
FOR d IN @documents
  LET kept = FIRST(
    FOR n IN @@nodes
      FILTER n._key == d._key
      RETURN KEEP(n, @kept)
  )
  LET words = MERGE(d.nodiusText, { of: MD5(JSON_STRINGIFY(@searched[* RETURN d[CURRENT]])) })
  INSERT MERGE(NOT_NULL(kept, {}), d, { nodiusText: words }) INTO @@nodes
  OPTIONS { overwriteMode: "replace" }
""",
    collections=("nodes",),
    values=("documents", "kept", "searched"),
    writes=True,
    repeatable=False,
)

APPLY_PUT_EDGES = Statement(
    name="APPLY_PUT_EDGES",
    text="""
FOR d IN @documents
  INSERT d INTO @@edges
  OPTIONS { overwriteMode: "replace" }
""",
    collections=("edges",),
    values=("documents",),
    writes=True,
    repeatable=False,
)

APPLY_DELETE_CONFIGS = Statement(
    name="APPLY_DELETE_CONFIGS",
    text="""
FOR c IN @@configs
  FILTER c._key IN @configKeys AND c.workspace == @workspace
  REMOVE c IN @@configs
""",
    collections=("configs",),
    values=("configKeys", "workspace"),
    writes=True,
    repeatable=False,
)

APPLY_PUT_CONFIGS = Statement(
    name="APPLY_PUT_CONFIGS",
    text="""
FOR d IN @documents
  INSERT d INTO @@configs
  OPTIONS { overwriteMode: "replace" }
""",
    collections=("configs",),
    values=("documents",),
    writes=True,
    repeatable=False,
)

APPLY_PUT_VECTORS = Statement(
    name="APPLY_PUT_VECTORS",
    text="""
FOR v IN @vectors
  UPDATE { _key: v._key } WITH v IN @@nodes
  OPTIONS { mergeObjects: false, keepNull: false }
""",
    collections=("nodes",),
    values=("vectors",),
    writes=True,
    repeatable=False,
)

APPLY_GRAPH = Statement(
    name="APPLY_GRAPH",
    text="""
LET marked = (
  INSERT @mark INTO @@intents
  RETURN NEW._key
)
FOR g IN @@graphs
  FILTER g._key == @graph AND g.workspace == @workspace
  REPLACE g WITH @document IN @@graphs
  RETURN { revision: NEW.revision, marked }
""",
    collections=("graphs", "intents"),
    values=("graph", "workspace", "document", "mark"),
    writes=True,
    repeatable=False,
)

ALL = (
    APPLY_LOOK,
    APPLY_ON_SHEETS,
    APPLY_CUT,
    APPLY_DELETE_NODES,
    APPLY_PUT_NODES,
    APPLY_PUT_EDGES,
    APPLY_DELETE_CONFIGS,
    APPLY_PUT_CONFIGS,
    APPLY_PUT_VECTORS,
    APPLY_GRAPH,
)
