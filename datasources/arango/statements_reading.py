"""AQL that reads graphs, nodes, edges and node types.

Lists come in no order where a comment does not say so: whoever asked sorts by local key.
"""

from __future__ import annotations

from datasources.arango.statements import Statement

PING = Statement(
    name="PING",
    text="""
RETURN 1""",
    collections=(),
)

WORKSPACES = Statement(
    name="WORKSPACES",
    text="""
FOR g IN @@graphs
  COLLECT workspace = g.workspace
  FILTER workspace != null
  RETURN workspace""",
    collections=("graphs",),
)

GRAPHS = Statement(
    name="GRAPHS",
    text="""
FOR g IN @@graphs
  FILTER g.workspace == @workspace
  RETURN g""",
    collections=("graphs",),
    values=("workspace",),
)

GRAPH = Statement(
    name="GRAPH",
    text="""
LET stored = FIRST(
  FOR g IN @@graphs
    FILTER g._key == @graph AND g.workspace == @workspace
    RETURN g
)
LET types = (
  FILTER stored != null
  FOR c IN @@configs
    FILTER c.workspace IN @workspaces
    RETURN {
      _key: c._key, localKey: c.localKey, workspace: c.workspace, displayName: c.displayName,
      description: c.description, node: { type: c.node.type, process: c.node.process }
    }
)
LET vectors = FIRST(
  FILTER stored != null
  FOR m IN @@meta
    FILTER m._key == @vectorsKey
    RETURN m.mark
)
RETURN { found: stored != null, stored, types, vectors }""",
    collections=("graphs", "configs", "meta"),
    values=("graph", "workspace", "workspaces", "vectorsKey"),
)
"""The graph, a mark of its vectors, and what its types say in words: a search that follows needs no
question of its own."""

TYPE_WORDS = Statement(
    name="TYPE_WORDS",
    text="""
FOR c IN @@configs
  FILTER c.workspace IN @workspaces
  RETURN {
    _key: c._key, localKey: c.localKey, workspace: c.workspace, displayName: c.displayName,
    description: c.description, node: { type: c.node.type, process: c.node.process }
  }""",
    collections=("configs",),
    values=("workspaces",),
)

CONFIGS = Statement(
    name="CONFIGS",
    text="""
FOR c IN @@configs
  FILTER c.workspace IN @workspaces
  FILTER @types == null OR c.node.type IN @types
  RETURN c""",
    collections=("configs",),
    values=("workspaces", "types"),
)

STATS = Statement(
    name="STATS",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET types = (
  FILTER found
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    COLLECT type = n.type WITH COUNT INTO amount
    RETURN [type, amount]
)
LET vectors = (
  FILTER found
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    FILTER n.embeddingModel != null
    COLLECT model = n.embeddingModel WITH COUNT INTO amount
    RETURN [model, amount]
)
LET edges = LENGTH(FOR e IN @@edges FILTER found AND e.graphKey == @graphKey RETURN 1)
RETURN { found, types, vectors, edges }""",
    collections=("graphs", "nodes", "edges"),
    values=("graph", "graphKey", "workspace"),
)

NODES = Statement(
    name="NODES",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET plain = (
  FILTER found
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.localKey == null AND n._key > @afterKey
    FILTER @sheet == null OR NOT_NULL(n.sheet, "0") == @sheet
    SORT n._key
    LIMIT @limit
    RETURN UNSET(n, @hidden)
)
LET encoded = (
  FILTER found
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.localKey > @after
    FILTER @sheet == null OR NOT_NULL(n.sheet, "0") == @sheet
    SORT n.localKey
    LIMIT @limit
    RETURN UNSET(n, @hidden)
)
RETURN { found, nodes: APPEND(plain, encoded) }""",
    collections=("graphs", "nodes"),
    values=("graph", "graphKey", "workspace", "sheet", "after", "afterKey", "limit", "hidden"),
)
"""A page: the first nodes of either kind of key, of which the first by local key are the page."""

NODES_BY_KEY = Statement(
    name="NODES_BY_KEY",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET nodes = (
  FILTER found
  FOR n IN @@nodes
    FILTER n._key IN @keys AND n.graphKey == @graphKey
    RETURN UNSET(n, @hidden)
)
RETURN { found, nodes }""",
    collections=("graphs", "nodes"),
    values=("graph", "graphKey", "workspace", "keys", "hidden"),
)

EDGES = Statement(
    name="EDGES",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET plain = (
  FILTER found
  FOR e IN @@edges
    FILTER e.graphKey == @graphKey AND e.localKey == null AND e._key > @afterKey
    FILTER @sheet == null OR NOT_NULL(e.sheet, "0") == @sheet
    SORT e._key
    LIMIT @limit
    RETURN e
)
LET encoded = (
  FILTER found
  FOR e IN @@edges
    FILTER e.graphKey == @graphKey AND e.localKey > @after
    FILTER @sheet == null OR NOT_NULL(e.sheet, "0") == @sheet
    SORT e.localKey
    LIMIT @limit
    RETURN e
)
RETURN { found, edges: APPEND(plain, encoded) }""",
    collections=("graphs", "edges"),
    values=("graph", "graphKey", "workspace", "sheet", "after", "afterKey", "limit"),
)

EDGES_OF = Statement(
    name="EDGES_OF",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET edges = (
  FILTER found
  FOR e IN @@edges
    FILTER e._from IN @ids OR e._to IN @ids
    FILTER e.graphKey == @graphKey
    RETURN e
)
RETURN { found, edges }""",
    collections=("graphs", "edges"),
    values=("graph", "graphKey", "workspace", "ids"),
)

LINKS = Statement(
    name="LINKS",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET links = (
  FILTER found
  FOR e IN @@edges
    FILTER e.graphKey == @graphKey
    SORT NOT_NULL(e.localKey, SUBSTRING(e._key, @prefix))
    LIMIT @limit
    RETURN [e._from, e._to, e.source, e.target]
)
RETURN { found, links }""",
    collections=("graphs", "edges"),
    values=("graph", "graphKey", "workspace", "prefix", "limit"),
)

LINKS_OF = Statement(
    name="LINKS_OF",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET links = (
  FILTER found
  FOR e IN @@edges
    FILTER e._from IN @ids OR e._to IN @ids
    FILTER e.graphKey == @graphKey
    SORT NOT_NULL(e.localKey, SUBSTRING(e._key, @prefix))
    LIMIT @limit
    RETURN [e._from, e._to, e.source, e.target]
)
RETURN { found, links }""",
    collections=("graphs", "edges"),
    values=("graph", "graphKey", "workspace", "ids", "prefix", "limit"),
)

VECTORS_BY_KEY = Statement(
    name="VECTORS_BY_KEY",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET vectors = (
  FILTER found
  FOR n IN @@nodes
    FILTER n._key IN @keys AND n.graphKey == @graphKey
    FILTER n.embeddingModel != null
    RETURN {
      _key: n._key, localKey: n.localKey, model: n.embeddingModel, hash: n.embeddingHash,
      bits: n.embeddingBits, content: NOT_NULL(n.embedding, n.otherEmbedding),
      name: NOT_NULL(n.nameEmbedding, n.otherNameEmbedding)
    }
)
RETURN { found, vectors }""",
    collections=("graphs", "nodes"),
    values=("graph", "graphKey", "workspace", "keys"),
)

VECTOR_INFO = Statement(
    name="VECTOR_INFO",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET vectors = (
  FILTER found
  FOR n IN @@nodes
    FILTER n._key IN @keys AND n.graphKey == @graphKey
    FILTER n.embeddingModel != null OR n.embedding != null
    RETURN { _key: n._key, localKey: n.localKey, model: n.embeddingModel, hash: n.embeddingHash }
)
RETURN { found, vectors }""",
    collections=("graphs", "nodes"),
    values=("graph", "graphKey", "workspace", "keys"),
)

UNMARKED_VECTORS = Statement(
    name="UNMARKED_VECTORS",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET vectors = (
  FILTER found
  FOR n IN @@nodes
    FILTER n._key IN @keys AND n.graphKey == @graphKey
    FILTER n.embeddingModel == null AND IS_LIST(n.embedding)
    RETURN { _key: n._key, localKey: n.localKey, content: n.embedding }
)
RETURN { found, vectors }""",
    collections=("graphs", "nodes"),
    values=("graph", "graphKey", "workspace", "keys"),
)
"""Vectors that the editor wrote, which does not say of which model they are."""
