"""AQL that reads graphs, nodes, edges, node types, records, and facts about the database.

The order of a list is undefined unless its statement sorts it; the caller sorts by local key.
"""

from __future__ import annotations

from collections.abc import Mapping

from datasources.arango.statements import (
    DIGEST,
    FOUND,
    Statement,
    compose,
    of_graph,
    on_graph,
    with_fewer_edges,
)
from datasources.links import Direction

WORKSPACES = Statement("""
FOR g IN @@graphs
  COLLECT workspace = g.workspace
  FILTER workspace != null
  RETURN workspace""")

GRAPHS = Statement("""
FOR g IN @@graphs
  FILTER g.workspace == @workspace
  RETURN g""")

_TYPE_WORDS = """
FOR c IN @@configs
  FILTER c.workspace IN @workspaces
  RETURN MERGE(
    KEEP(c, "_key", "localKey", "workspace", "displayName", "description"),
    { node: KEEP(c.node, "type", "process") }
  )"""

TYPE_WORDS = Statement(_TYPE_WORDS)

_GRAPH = """
LET stored = FIRST(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN g)
LET types = (
  FILTER stored != null$words
)
LET vectors = FIRST(FOR m IN @@meta FILTER m._key == @vectorsKey AND stored != null RETURN m.mark)
RETURN { found: stored != null, stored, types, vectors }"""

GRAPH = Statement(compose(_GRAPH, words=_TYPE_WORDS))
"""The graph, the mark of its vectors, and the words of its types, so that a following search needs
no further request.
"""

CONFIGS = Statement("""
FOR c IN @@configs
  FILTER c.workspace IN @workspaces
  FILTER @types == null OR c.node.type IN @types
  RETURN c""")

STATS = on_graph("""
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
RETURN { found, types, vectors, edges }""")

_FIRST = """(
  FILTER found
  FOR d IN @@$$elements
    FILTER d.graphKey == @graphKey AND $after
    FILTER @sheet == null OR NOT_NULL(d.sheet, "0") == @sheet
    SORT $key
    LIMIT @limit
    RETURN UNSET(d, @hidden)
)"""
_PAGE = compose(
    "\nLET plain = $plain\nLET encoded = $encoded\nRETURN { found, rows: APPEND(plain, encoded) }",
    plain=compose(_FIRST, after="d.localKey == null AND d._key > @afterKey", key="d._key"),
    encoded=compose(_FIRST, after="d.localKey > @after", key="d.localKey"),
)
"""A page: the first documents of either kind of key, of which the first by local key
are the page.
"""

NODES = on_graph(_PAGE, elements="nodes")
EDGES = on_graph(_PAGE, elements="edges")

_BY_KEY = """
  FOR d IN @@$elements
    FILTER d._key IN @keys AND d.graphKey == @graphKey
    RETURN UNSET(d, @hidden)"""
NODES_BY_KEY = of_graph(compose(_BY_KEY, elements="nodes"))
EDGES_BY_KEY = of_graph(compose(_BY_KEY, elements="edges"))

EDGES_OF = of_graph("""
  FOR e IN @@edges
    FILTER e._from IN @ids OR e._to IN @ids
    FILTER e.graphKey == @graphKey
    RETURN e""")

_LINKS = """$near
  FOR e IN @@edges
    FILTER e._from IN $ids OR e._to IN $ids
    FILTER e.graphKey == @graphKey
    SORT NOT_NULL(e.localKey, SUBSTRING(e._key, @prefix))
    LIMIT @limit
    RETURN [e._from, e._to, e.source, e.target]"""

_NEAR = f"""
  LET near = (
    FOR id IN @ids{with_fewer_edges("@enough")}
    RETURN id
  )"""

LINKS_OF = of_graph(compose(_LINKS, near="", ids="@ids"))
LINKS_OF_DEGREE = of_graph(compose(_LINKS, near=_NEAR, ids="near"))

_TYPED_STEP = f"""
LET passed$step = (
  FILTER found AND @steps >= $step
  FOR id IN $level{with_fewer_edges("$enough")}
    SORT leaving + arriving, id
    LIMIT $most
    RETURN id
)
LET links$step = (
  FOR e IN @@edges
    FILTER e._from IN passed$step OR e._to IN passed$step
    FILTER e.graphKey == @graphKey
    LET label = NOT_NULL(e.label, "")
    FILTER @labels == null OR label IN @labels
    SORT NOT_NULL(e.localKey, SUBSTRING(e._key, @prefix))
    LIMIT @limit
    RETURN [e._from, e._to, e.source, e.target, label]
)
LET level$step = MINUS(UNION_DISTINCT(links$step[*][0], links$step[*][1]), $seen)"""

_FURTHER_STEP = compose(
    _TYPED_STEP, step="$step", level="$level", enough="@enough", most="@width", seen="$seen"
)

TYPED_LINKS = on_graph(
    "$first$second$third\nRETURN { found, rows: UNION_DISTINCT(links1, links2, links3) }",
    first=compose(_TYPED_STEP, step="1", level="@ids", enough="@most", most="@most", seen="@ids"),
    second=compose(_FURTHER_STEP, step="2", level="level1", seen="UNION(@ids, level1)"),
    third=compose(_FURTHER_STEP, step="3", level="level2", seen="[]"),
)
"""Edges with their labels, up to three steps away."""

VECTORS = of_graph("""
  FOR n IN @@nodes
    FILTER n._key IN @keys AND n.graphKey == @graphKey
    FILTER n.embeddingModel != null OR n.embedding != null
    RETURN {
      _key: n._key, localKey: n.localKey, model: n.embeddingModel, hash: n.embeddingHash,
      content: @whole ? NOT_NULL(n.embedding, n.otherEmbedding) : null,
      name: @whole ? NOT_NULL(n.nameEmbedding, n.otherNameEmbedding) : null
    }""")
"""Vectors; without `@whole` only their model and hash. Vectors written by the editor name no model.
"""

CHANGE_STEP = Statement("""
FOR s IN @@steps
  FILTER s._key == @key
  RETURN KEEP(s, "name", "values")""")

LARGE_CHANGES = Statement("""
FOR g IN @@graphs
  FILTER g.nodiusChange != null AND (@name == null OR g._key == @name)
  RETURN { name: g._key, change: g.nodiusChange }""")
"""The marker in the place of a graph during a large change; see `large_changes`."""

UNMARKED_VECTORS = Statement("""
FOR g IN @@graphs
  FILTER g.workspace == @workspace
  FOR n IN @@nodes
    FILTER n.graphKey == NOT_NULL(g.localKey, g._key) AND n.embeddingModel == null
    FILTER IS_ARRAY(n.embedding)
    LIMIT @limit
    COLLECT length = LENGTH(n.embedding) WITH COUNT INTO amount
    RETURN { length, amount }""")
"""The number of nodes with a vector written by the editor, by its length."""

_AROUND = """
WITH @@nodes$found
LET reached = (
  FILTER found
  FOR s IN @seeds
    FOR v, e, p IN 0..@depth $direction s @@edges
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
RETURN { found, nodes, depths: chosen[*].depth, edges, types }"""
"""A neighbourhood: one traversal for all seeds. A depth of 0 is the seeds alone. The direction of a
traversal is a keyword and cannot be bound."""

AROUND_ANY = Statement(compose(_AROUND, found=FOUND, direction="ANY"))
AROUND_OUT = Statement(compose(_AROUND, found=FOUND, direction="OUTBOUND"))
AROUND_IN = Statement(compose(_AROUND, found=FOUND, direction="INBOUND"))
AROUND: Mapping[Direction, Statement] = {"any": AROUND_ANY, "out": AROUND_OUT, "in": AROUND_IN}

RECORDS_GET = Statement("""
FOR d IN @@records
  FILTER d._key IN @names AND d.workspace == @workspace
  RETURN d""")

RECORDS_ABSENT = Statement("""
FOR w IN @writes
  FILTER LENGTH(FOR d IN @@records FILTER d._key IN w.names AND d.workspace == @workspace RETURN 1) == 0
  RETURN { key: w.key, rev: "" }""")

RECORD_WORKSPACES = Statement("""
FOR d IN @@records
  FILTER @of_kind == null OR d.rag.kind == @of_kind
  COLLECT workspace = d.workspace
  FILTER workspace != null
  RETURN workspace""")

_EQUAL = "d.@field == @value"
_WITHIN = "d.@order >= @least_value AND d.@order <= @most_value"
_RECORDS = """
FOR d IN @@records
  FILTER d.workspace == @workspace AND $first
  FILTER @of_kind == null OR d.rag.kind == @of_kind
  FILTER LENGTH(@conditions[* FILTER d[CURRENT.field] != CURRENT.value]) == 0
  SORT d.@order $direction, d.rag.key ASC
  LIMIT @limit
  RETURN d"""

RECORDS_UP = Statement(compose(_RECORDS, first=_EQUAL, direction="ASC"))
RECORDS_DOWN = Statement(compose(_RECORDS, first=_EQUAL, direction="DESC"))
RECORDS_WITHIN_UP = Statement(compose(_RECORDS, first=_WITHIN, direction="ASC"))
RECORDS_WITHIN_DOWN = Statement(compose(_RECORDS, first=_WITHIN, direction="DESC"))

RECORDS_PAGE = Statement("""
LET own = (
  FOR d IN @@records
    FILTER d.workspace == @workspace AND d.@field == @value AND d.rag.key > @after
    SORT d.rag.key
    LIMIT @limit
    RETURN d
)
LET others = (
  FOR d IN @@records
    FILTER d.workspace == @workspace AND d.@field == @value AND d.rag.key == null AND d._key > @after
    SORT d._key
    LIMIT @limit
    RETURN d
)
FOR d IN APPEND(own, others)
  SORT NOT_NULL(d.rag.key, d._key)
  LIMIT @limit
  RETURN d""")
"""Records by key; `others` are threads that the reference wrote, whose key is that of the document.
"""

MARK_GET = Statement("""
FOR m IN @@marks
  FILTER m._key == @mark
  RETURN m""")

FACTS = Statement("""
LET version = FIRST(FOR m IN @@meta FILTER m._key == "schema" RETURN m.version)
RETURN { version, byCodePoint: 'Z' < 'a' }""")
"""The version of the set-up, and whether text is ordered by code points, as it is in a deployment
made with 3.12 or later.
"""

_NODES_AFTER = """
FOR n IN @@nodes
  FILTER $which AND n._key > @after
  SORT n._key
  LIMIT @limit
  RETURN UNSET(n, @hidden)"""
_WORDS_OF_ANOTHER = compose("n.nodiusText.of != $digest", digest=compose(DIGEST, node="n"))

WITHOUT_WORDS = Statement(compose(_NODES_AFTER, which=_WORDS_OF_ANOTHER))
ALL_NODES = Statement(compose(_NODES_AFTER, which="n.graphKey == @graphKey"))

WITH_LANGUAGE = Statement("""
FOR g IN @@graphs
  FILTER g.language != null
  RETURN g""")

_COUNT = """
LET few = (FOR n IN @@nodes FILTER $which LIMIT @limit RETURN 1)
RETURN { missing: LENGTH(few), nodes: LENGTH(@@nodes), graphs: LENGTH(@@graphs), edges: LENGTH(@@edges) }"""

COUNT_WITHOUT_WORDS = Statement(compose(_COUNT, which=_WORDS_OF_ANOTHER))

VECTOR_LENGTHS = Statement("""
FOR n IN @@nodes
  FILTER LENGTH(n.embedding) > 0
  COLLECT length = LENGTH(n.embedding) WITH COUNT INTO amount
  SORT amount DESC
  RETURN { length, amount }""")
