"""AQL of neighbourhoods: one traversal for all seeds, with nodes, edges and node types.

The direction of a traversal is a keyword and cannot be bound, so there are three texts. A depth of
0 is the seeds alone. `types` gives the node types of the nodes found, where it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from datasources.arango.statements import Statement
from datasources.types import Direction

_COLLECTIONS = ("graphs", "nodes", "edges", "configs")
_VALUES = (
    "graph", "graphKey", "workspace", "workspaces", "seeds", "depth", "limit", "prefix", "typed", "hidden",
)  # fmt: skip

AROUND_ANY = Statement(
    name="AROUND_ANY",
    text="""
WITH @@nodes
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET reached = (
  FILTER found
  FOR s IN @seeds
    FOR v, e, p IN 0..@depth ANY s @@edges
      PRUNE outside = v == null OR v.graphKey != @graphKey
      OPTIONS { order: "bfs", uniqueVertices: "global", uniqueEdges: "path" }
      FILTER NOT outside
      COLLECT id = v._id, key = NOT_NULL(v.localKey, SUBSTRING(v._key, @prefix))
        AGGREGATE depth = MIN(LENGTH(p.edges))
      RETURN { id, key, depth }
)
LET chosen = (
  FOR r IN reached
    SORT r.depth, r.depth == 0 ? POSITION(@seeds, r.id, true) : 0, r.key
    LIMIT @limit
    RETURN r
)
LET ids = chosen[*].id
LET nodes = (FOR c IN chosen FOR n IN @@nodes FILTER n._id == c.id RETURN UNSET(n, @hidden))
LET edges = (
  FOR e IN @@edges
    FILTER e._from IN ids
    FILTER e._to IN ids
    FILTER e.graphKey == @graphKey
    RETURN e
)
LET names = UNIQUE(nodes[*].type)
LET types = (
  FILTER @typed
  FOR c IN @@configs
    FILTER c.workspace IN @workspaces
    FILTER c.node.type IN names
    RETURN c
)
RETURN { found, nodes, depths: chosen[*].depth, edges, types }""",
    collections=_COLLECTIONS,
    values=_VALUES,
)

AROUND_OUT = Statement(
    name="AROUND_OUT",
    text="""
WITH @@nodes
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET reached = (
  FILTER found
  FOR s IN @seeds
    FOR v, e, p IN 0..@depth OUTBOUND s @@edges
      PRUNE outside = v == null OR v.graphKey != @graphKey
      OPTIONS { order: "bfs", uniqueVertices: "global", uniqueEdges: "path" }
      FILTER NOT outside
      COLLECT id = v._id, key = NOT_NULL(v.localKey, SUBSTRING(v._key, @prefix))
        AGGREGATE depth = MIN(LENGTH(p.edges))
      RETURN { id, key, depth }
)
LET chosen = (
  FOR r IN reached
    SORT r.depth, r.depth == 0 ? POSITION(@seeds, r.id, true) : 0, r.key
    LIMIT @limit
    RETURN r
)
LET ids = chosen[*].id
LET nodes = (FOR c IN chosen FOR n IN @@nodes FILTER n._id == c.id RETURN UNSET(n, @hidden))
LET edges = (
  FOR e IN @@edges
    FILTER e._from IN ids
    FILTER e._to IN ids
    FILTER e.graphKey == @graphKey
    RETURN e
)
LET names = UNIQUE(nodes[*].type)
LET types = (
  FILTER @typed
  FOR c IN @@configs
    FILTER c.workspace IN @workspaces
    FILTER c.node.type IN names
    RETURN c
)
RETURN { found, nodes, depths: chosen[*].depth, edges, types }""",
    collections=_COLLECTIONS,
    values=_VALUES,
)

AROUND_IN = Statement(
    name="AROUND_IN",
    text="""
WITH @@nodes
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET reached = (
  FILTER found
  FOR s IN @seeds
    FOR v, e, p IN 0..@depth INBOUND s @@edges
      PRUNE outside = v == null OR v.graphKey != @graphKey
      OPTIONS { order: "bfs", uniqueVertices: "global", uniqueEdges: "path" }
      FILTER NOT outside
      COLLECT id = v._id, key = NOT_NULL(v.localKey, SUBSTRING(v._key, @prefix))
        AGGREGATE depth = MIN(LENGTH(p.edges))
      RETURN { id, key, depth }
)
LET chosen = (
  FOR r IN reached
    SORT r.depth, r.depth == 0 ? POSITION(@seeds, r.id, true) : 0, r.key
    LIMIT @limit
    RETURN r
)
LET ids = chosen[*].id
LET nodes = (FOR c IN chosen FOR n IN @@nodes FILTER n._id == c.id RETURN UNSET(n, @hidden))
LET edges = (
  FOR e IN @@edges
    FILTER e._from IN ids
    FILTER e._to IN ids
    FILTER e.graphKey == @graphKey
    RETURN e
)
LET names = UNIQUE(nodes[*].type)
LET types = (
  FILTER @typed
  FOR c IN @@configs
    FILTER c.workspace IN @workspaces
    FILTER c.node.type IN names
    RETURN c
)
RETURN { found, nodes, depths: chosen[*].depth, edges, types }""",
    collections=_COLLECTIONS,
    values=_VALUES,
)

AROUND: Mapping[Direction, Statement] = {"any": AROUND_ANY, "out": AROUND_OUT, "in": AROUND_IN}
