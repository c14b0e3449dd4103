"""AQL of search: words by BM25, vectors by cosine, what links the hits, first nodes where
there are none.

One statement answers all four searches of a retrieval. SEARCH needs no index: exact BM25,
exact cosine, for graphs of few nodes. The statements for large graphs take words from the
View, by its own BM25 of all graphs. The View lags a second behind writes and knows a node by
its stored words only.

`@terms` are words as `datasources.text.tokenize` makes them, `@places` the numbers of their places.
`@inherited` is what each node type adds to its nodes (see `words`), `@unknown` what is added where
the type is not known. A node whose stored words do not fit it (`of`) is searched by its bare text:
each word that it contains counts once.

Source: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

from datasources.arango.statements import DIGEST, Statement, compose, on_graph, with_fewer_edges

_EXACT = """(
  FILTER $$when AND @vector != null
  FOR n IN @@nodes
    FILTER $$of
    FILTER n.embeddingModel == @model
    LET stored = NOT_NULL(n.$field, n.$other)
    FILTER LENGTH(stored) == LENGTH(@vector)
    LET score = NOT_NULL(COSINE_SIMILARITY(stored, @vector), 0)
    FILTER score >= @least
    LET key = $$key
    SORT score DESC, key
    LIMIT @limit
    RETURN [key, score, n._id]
)"""
_BY_COSINE = compose(
    """LET vector = $content
LET nameVector = $name""",
    content=compose(_EXACT, field="embedding", other="otherEmbedding"),
    name=compose(_EXACT, field="nameEmbedding", other="otherNameEmbedding"),
)
_ONE_GRAPH = {
    "of": "n.graphKey == @graphKey",
    "key": "NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))",
}
_ALL_GRAPHS = {
    "of": "n.graphKey IN graphs",
    "key": "[n.graphKey, NOT_NULL(n.localKey, SUBSTRING(n._key, LENGTH(n.graphKey) + 1))]",
}

_NEAR = """(
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.embeddingModel == @model
    LET score = APPROX_NEAR_COSINE(n.$field, @vector, { nProbe: 20 })
    SORT score DESC
    LIMIT @limit
    RETURN [NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix)), score, n._id]
)"""
"""The form of query required by the vector index (error 1554 otherwise). The index searches only
some of its lists, over all graphs: if it finds fewer nodes than requested (`short`), there may be
others in the remaining lists.
"""
_BY_INDEX = compose(
    """LET near = $content
LET nameNear = $name
LET short = LENGTH(near) < @limit OR LENGTH(nameNear) < @limit
LET vector = (FOR c IN near FILTER found AND c[1] >= @least SORT c[1] DESC, c[0] RETURN c)
LET nameVector = (FOR c IN nameNear FILTER found AND c[1] >= @least SORT c[1] DESC, c[0] RETURN c)""",
    content=compose(_NEAR, field="embedding"),
    name=compose(_NEAR, field="nameEmbedding"),
)

_LINKS = f"""LET links = (
  FILTER @links > 0
  FOR e IN @@edges
    FILTER e._from IN hits OR e._to IN hits
    FILTER e.graphKey == @graphKey
    SORT NOT_NULL(e.localKey, SUBSTRING(e._key, @prefix))
    LIMIT @links
    RETURN [e._from, e._to, e.source, e.target, e.label]
)
LET strong = (
  FOR list IN [content, name, vector, nameVector]
    FOR c IN list
      COLLECT id = c[2] AGGREGATE sum = SUM(c[1] / list[0][1])
      RETURN [id, sum]
)
LET strength = ZIP(strong[*][0], strong[*][1])
LET next = (
  FOR l IN links
    FOR ends IN [[l[0], l[1]], [l[1], l[0]]]
      FILTER ends[1] NOT IN hits
      COLLECT id = ends[1] AGGREGATE sum = SUM(POW(NOT_NULL(strength[ends[0]], 0), 4))
      SORT sum DESC, id
      LIMIT @next
      RETURN id
)
LET passed = (
  FOR id IN next{with_fewer_edges("@enough")}
    RETURN id
)
LET further = (
  FOR e IN @@edges
    FILTER e._from IN passed OR e._to IN passed
    FILTER e.graphKey == @graphKey
    RETURN [e._from, e._to, e.source, e.target]
)"""
"""The edges of the hits, and those of their best neighbours, ranked by the hits they are connected
to. Neighbours with `@enough` edges or more are left out.
"""

_BM25 = """(
  LET average = MAX([1, SUM(rows[*].$length)]) / MAX([1, total])
  LET weights = (
    FOR i IN @places
      LET having = LENGTH(rows[* FILTER CURRENT.$counts[i] > 0])
      RETURN LOG(1 + (total - having + 0.5) / (having + 0.5))
  )
  FOR r IN rows
    LET norm = 1.2 * (0.25 + 0.75 * r.$length / average)
    LET score = SUM(FOR i IN @places RETURN weights[i] * r.$counts[i] * 2.2 / (r.$counts[i] + norm))
    FILTER score > 0
    SORT score DESC, r.key
    LIMIT @limit
    RETURN [r.key, score, r.id, r.labels, r.aliases]
)"""

_ROWS = compose(
    """LET rows = (
  FILTER $$when AND LENGTH(@places) > 0
  FOR n IN @@nodes
    FILTER $$of
    LET key = $$key
    LET own = n.nodiusText
    LET fits = own != null AND own.of == $digest
    LET more = NOT_NULL(@inherited[n.type], @unknown)
    LET named = (fits AND own.unnamed != null AND own.unnamed != more.letters ? 2 : 1)
    LET code = n.process == null ? 1 : 0
    LET title = NOT_NULL(n.data.name, n.data.title, n.data.label, n.data.displayName)
    LET called = fits ? "" : LOWER(CONCAT_SEPARATOR(" ", $$local, title, n.type))
    LET fields = fits ? "" : JSON_STRINGIFY(@searched[* RETURN n[CURRENT]])
    LET text = fits ? "" : LOWER(CONCAT_SEPARATOR(" ", called, fields))
    RETURN {
      id: n._id,
      key,
      labels: [n.data.name, n.data.title, n.data.label, n.data.displayName],
      aliases: n.data.aliases,
      length: (fits ? own.contentLength : LENGTH(SPLIT(text, " ")))
        + named * more.name.length + more.description.length + code * more.process.length,
      nameLength: (fits ? own.nameLength : LENGTH(SPLIT(called, " "))) + named * more.name.length,
      content: (
        FOR i IN @places
          LET counted = fits ? NOT_NULL(own.content[@terms[i]], 0) : (CONTAINS(text, @terms[i]) ? 1 : 0)
          LET kind = named * more.name.counts[i] + more.description.counts[i]
          RETURN counted + kind + code * more.process.counts[i]
      ),
      name: (
        FOR i IN @places
          LET counted = fits ? NOT_NULL(own.name[@terms[i]], 0) : (CONTAINS(called, @terms[i]) ? 1 : 0)
          RETURN counted + named * more.name.counts[i]
      )
    }
)
LET content = $content
LET name = $name
$vectors
LET hits = UNION_DISTINCT(content[*][2], name[*][2], vector[*][2], nameVector[*][2])""",
    digest=compose(DIGEST, node="n"),
    content=compose(_BM25, length="length", counts="content"),
    name=compose(_BM25, length="nameLength", counts="name"),
    vectors=_BY_COSINE,
)

_SEARCH = """
LET total = LENGTH(FOR n IN @@nodes FILTER found AND n.graphKey == @graphKey LIMIT @most RETURN 1)
LET small = found AND total < @most
$rows
$links
LET first = (
  FILTER small AND LENGTH(hits) == 0
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    LET key = NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))
    SORT key
    LIMIT @first
    RETURN key
)
RETURN { found, total, text: content, name, vector, name_vector: nameVector, links, further, first }"""

SEARCH = on_graph(
    _SEARCH, rows=compose(_ROWS, when="small", local="key", **_ONE_GRAPH), links=_LINKS
)
"""Finds nothing in a graph of `@most` nodes or more; `total` is their number."""

_BY_VIEW = """(
  FILTER found AND LENGTH(@terms) > 0
  FOR n IN @@view
    SEARCH BOOST(n.graphKey == @graphKey, 0)
      AND (n.nodiusText.$words IN @terms OR n.type IN @$types$orByCode)
    LET score = BM25(n)
    SORT score DESC
    LIMIT @candidates
    $codeless
    LET key = NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))
    SORT score DESC, key
    LIMIT @limit
    RETURN [key, score, n._id, [n.data.name, n.data.title, n.data.label, n.data.displayName], n.data.aliases]
)"""
"""Types that have a term add it to their nodes, those that have it in their code to
nodes without code.
"""

_LARGE = compose(
    """
LET content = $content
LET name = $name
$$vectors
LET hits = UNION_DISTINCT(content[*][2], name[*][2], vector[*][2], nameVector[*][2])
$links
LET first = (
  FILTER found AND LENGTH(hits) == 0
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.localKey == null
    SORT n._key
    LIMIT @first
    RETURN SUBSTRING(n._key, @prefix)
)
RETURN { found, short, text: content, name, vector, name_vector: nameVector, links, further, first }""",
    content=compose(
        _BY_VIEW,
        words="words",
        types="types",
        orByCode=" OR n.type IN @codeTypes",
        codeless="""FILTER n.process == null OR n.type NOT IN @codeTypes
      OR NOT_NULL(n.nodiusText.words, []) ANY IN @terms""",
    ),
    name=compose(_BY_VIEW, words="nameWords", types="nameTypes", orByCode="", codeless=""),
    links=_LINKS,
)

SEARCH_VIEW = on_graph(
    _LARGE, vectors=compose(_BY_COSINE, when="found", **_ONE_GRAPH) + "\nLET short = false"
)
SEARCH_NEAR = on_graph(_LARGE, vectors=_BY_INDEX)

_GRAPHS = """LET owned = (
  FOR g IN @@graphs
    FILTER g.workspace == @workspace
    LET key = NOT_NULL(g.localKey, g._key)
    FILTER @graphs == null OR key IN @graphs
    RETURN [key, g.name]
)
LET graphs = owned[*][0]
LET titles = ZIP(owned[*][0], owned[*][1])"""

_SEARCH_ALL = """
$graphs
LET total = LENGTH(FOR n IN @@nodes FILTER n.graphKey IN graphs RETURN 1)
$rows
LET nodes = (
  FOR n IN @@nodes
    FILTER n._id IN hits
    RETURN { graphKey: n.graphKey, title: titles[n.graphKey], node: UNSET(n, @hidden) }
)
RETURN { text: content, name, vector, name_vector: nameVector, nodes }"""

_ALL_ROWS = compose(_ROWS, when="true", local="key[1]", **_ALL_GRAPHS)

SEARCH_ALL = Statement(compose(_SEARCH_ALL, graphs=_GRAPHS, rows=_ALL_ROWS))
"""Searches all graphs of a workspace as one graph, reading all nodes."""

_USERS = """
$graphs
LET ids = (
  FOR g IN graphs
    FOR entry IN @entries
      FOR n IN @@nodes
        FILTER n.graphKey == g AND entry IN n.nodiusText.uses
        RETURN DISTINCT n._id
)
FOR n IN @@nodes
  FILTER n._id IN ids
  RETURN { graphKey: n.graphKey, title: titles[n.graphKey], node: UNSET(n, @hidden) }"""

USERS = Statement(compose(_USERS, graphs=_GRAPHS))
