"""AQL of search: words by BM25, vectors by cosine, what links the hits, first nodes where there are none.

One statement answers all four searches of a retrieval. SEARCH needs no index: exact BM25, exact cosine.
The statements for large graphs find words by the View: it gives the nodes that its own BM25 ranks highest,
in how many nodes each term occurs, and what is needed to score those nodes by this graph's statistics. The
View lags a second behind writes and knows a node by its stored words only.

`@terms` are words as `datasources.text.tokenize` makes them, `@places` the numbers of their places.
`@inherited` is what each node type adds to its nodes (see `words`), `@unknown` what is added where the type
is not known. A node whose stored words do not fit it (`of`) is searched by its bare text: each word that it
contains counts once.

Source: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

from datasources.arango.statements import Statement, compose, of_graph

_EXACT = """(
  FILTER found AND @vector != null
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    FILTER n.embeddingModel == @model
    LET stored = NOT_NULL(n.$field, n.$other)
    FILTER LENGTH(stored) == LENGTH(@vector)
    LET score = NOT_NULL(COSINE_SIMILARITY(stored, @vector), 0)
    FILTER score >= @least
    LET key = NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))
    SORT score DESC, key
    LIMIT @limit
    RETURN [key, score, n._id]
)"""
_EXACT_CONTENT = compose(_EXACT, field="embedding", other="otherEmbedding")
_EXACT_NAME = compose(_EXACT, field="nameEmbedding", other="otherNameEmbedding")

_NEAR = """(
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.embeddingModel == @model
    LET score = APPROX_NEAR_COSINE(n.$field, @vector, { nProbe: 20 })
    SORT score DESC
    LIMIT @limit
    RETURN [NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix)), score, n._id]
)"""
"""The shape that the vector index needs: another would be refused (1554)."""
_NEAR_CONTENT = compose(_NEAR, field="embedding")
_NEAR_NAME = compose(_NEAR, field="nameEmbedding")

_LINKS = """LET links = (
  FILTER @links > 0
  FOR e IN @@edges
    FILTER e._from IN hits OR e._to IN hits
    FILTER e.graphKey == @graphKey
    SORT NOT_NULL(e.localKey, SUBSTRING(e._key, @prefix))
    LIMIT @links
    RETURN [e._from, e._to, e.source, e.target]
)"""

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
    RETURN [r.key, score, r.id]
)"""
_BM25_CONTENT = compose(_BM25, length="length", counts="content")
_BM25_NAME = compose(_BM25, length="nameLength", counts="name")

_SEARCH = """
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET rows = (
  FILTER found AND LENGTH(@places) > 0
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    LET key = NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))
    LET own = n.nodiusText
    LET fits = own != null AND own.of == MD5(JSON_STRINGIFY(@searched[* RETURN n[CURRENT]]))
    LET inherited = NOT_NULL(@inherited[n.type], @unknown)
    LET variant = (fits AND own.unnamed != null AND own.unnamed != inherited.letters ? 2 : 0)
    LET more = inherited.variants[n.process == null ? variant + 1 : variant]
    LET title = NOT_NULL(n.data.name, n.data.title, n.data.label, n.data.displayName)
    LET called = fits ? "" : LOWER(CONCAT_SEPARATOR(" ", key, title, n.type))
    LET fields = fits ? "" : JSON_STRINGIFY(@searched[* RETURN n[CURRENT]])
    LET text = fits ? "" : LOWER(CONCAT_SEPARATOR(" ", called, fields))
    RETURN {
      id: n._id,
      key,
      length: (fits ? own.contentLength : LENGTH(SPLIT(text, " "))) + more.contentLength,
      nameLength: (fits ? own.nameLength : LENGTH(SPLIT(called, " "))) + more.nameLength,
      content: (
        FOR i IN @places
          LET counted = fits ? NOT_NULL(own.content[@terms[i]], 0) : (CONTAINS(text, @terms[i]) ? 1 : 0)
          RETURN counted + more.content[i]
      ),
      name: (
        FOR i IN @places
          LET counted = fits ? NOT_NULL(own.name[@terms[i]], 0) : (CONTAINS(called, @terms[i]) ? 1 : 0)
          RETURN counted + more.name[i]
      )
    }
)
LET total = LENGTH(rows)
LET content = $content
LET name = $name
LET vector = $vector
LET nameVector = $nameVector
LET hits = UNION_DISTINCT(content[*][2], name[*][2], vector[*][2], nameVector[*][2])
$links
LET first = (
  FILTER found AND LENGTH(hits) == 0
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    LET key = NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))
    SORT key
    LIMIT @first
    RETURN key
)
RETURN { found, total, content, name, vector, nameVector, links, first }"""

SEARCH = Statement(
    compose(
        _SEARCH,
        content=_BM25_CONTENT,
        name=_BM25_NAME,
        vector=_EXACT_CONTENT,
        nameVector=_EXACT_NAME,
        links=_LINKS,
    ),
)

_HAVING = """(
  FILTER found
  FOR i IN @places
    RETURN LENGTH(
      FOR n IN @@view
        SEARCH n.graphKey == @graphKey AND $matches
        RETURN 1
    )
)"""
_WORD_OR_TYPE = "(n.nodiusText.words == @terms[i] OR n.type IN @typesOf[i])"
_NAME_OR_TYPE = "(n.nodiusText.nameWords == @terms[i] OR n.type IN @nameTypesOf[i])"
_WORD_AND_CODE = """n.nodiusText.words == @terms[i] AND n.type IN @codeTypesOf[i]
        FILTER n.process == null"""
"""Types that add a term by their code add it to nodes without code of their own. Those that have the word
anyway are counted apart, since the View does not know which nodes have code."""

_LARGE = compose(
    """
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET rows = (
  FILTER found AND LENGTH(@places) > 0
  FOR n IN @@view
    SEARCH n.graphKey == @graphKey AND (n.nodiusText.words IN @terms OR n.type IN @matchingTypes)
    SORT BM25(n) DESC
    LIMIT @candidates
    LET own = n.nodiusText
    LET inherited = NOT_NULL(@inherited[n.type], @unknown)
    LET variant = (own.unnamed != null AND own.unnamed != inherited.letters ? 2 : 0)
    LET more = inherited.variants[n.process == null ? variant + 1 : variant]
    RETURN {
      id: n._id,
      key: NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix)),
      length: NOT_NULL(own.contentLength, 0) + more.contentLength,
      nameLength: NOT_NULL(own.nameLength, 0) + more.nameLength,
      content: (FOR i IN @places RETURN NOT_NULL(own.content[@terms[i]], 0) + more.content[i]),
      name: (FOR i IN @places RETURN NOT_NULL(own.name[@terms[i]], 0) + more.name[i])
    }
)
LET having = $having
LET codeHaving = $codeHaving
LET nameHaving = $nameHaving
$$vectors
LET hits = UNION_DISTINCT(rows[*].id, vector[*][2], nameVector[*][2])
$links
LET first = (
  FILTER found AND LENGTH(hits) == 0
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.localKey == null
    SORT n._key
    LIMIT @first
    RETURN SUBSTRING(n._key, @prefix)
)
RETURN { found, rows, having, codeHaving, nameHaving, vector, nameVector, links, first }""",
    having=compose(_HAVING, matches=_WORD_OR_TYPE),
    codeHaving=compose(_HAVING, matches=_WORD_AND_CODE),
    nameHaving=compose(_HAVING, matches=_NAME_OR_TYPE),
    links=_LINKS,
)

_BY_COSINE = compose(
    """LET vector = $content
LET nameVector = $name""",
    content=_EXACT_CONTENT,
    name=_EXACT_NAME,
)
_BY_INDEX = compose(
    """LET near = $content
LET nameNear = $name
LET vector = (FOR c IN near FILTER found AND c[1] >= @least SORT c[1] DESC, c[0] RETURN c)
LET nameVector = (FOR c IN nameNear FILTER found AND c[1] >= @least SORT c[1] DESC, c[0] RETURN c)""",
    content=_NEAR_CONTENT,
    name=_NEAR_NAME,
)

SEARCH_VIEW = Statement(compose(_LARGE, vectors=_BY_COSINE))
SEARCH_NEAR = Statement(compose(_LARGE, vectors=_BY_INDEX))

TEXT_SUMS = of_graph("""
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    COLLECT type = n.type, unnamed = n.nodiusText.unnamed != null, codeless = n.process == null
      AGGREGATE amount = COUNT(1), length = SUM(n.nodiusText.contentLength),
        nameLength = SUM(n.nodiusText.nameLength)
    RETURN [type, unnamed, codeless, amount, length, nameLength]""")
