"""AQL of search in large graphs: words by the View, vectors by the vector index or exactly.

The View gives the nodes that its own BM25 ranks highest, in how many nodes each word occurs, and
what is needed to score those nodes by this graph's statistics. It lags a second behind writes, and
knows a node by its stored words only. Types that lend a word by their code lend it to nodes without
code of their own: those are counted apart (`bareHaving`, of nodes that have the word anyway), since
the View does not know which these are.
"""

from __future__ import annotations

from datasources.arango.statements import Statement

_VALUES = (
    "graph",
    "graphKey",
    "workspace",
    "prefix",
    "terms",
    "places",
    "lent",
    "unlent",
    "lenders",
    "lendersOf",
    "bareLendersOf",
    "nameLendersOf",
    "vector",
    "model",
    "least",
    "limit",
    "candidates",
    "links",
    "first",
)

SEARCH_VIEW = Statement(
    name="SEARCH_VIEW",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET rows = (
  FILTER found AND LENGTH(@places) > 0
  FOR n IN @@view
    SEARCH n.graphKey == @graphKey AND (n.nodiusText.words IN @terms OR n.type IN @lenders)
    SORT BM25(n) DESC
    LIMIT @candidates
    LET own = n.nodiusText
    LET lent = NOT_NULL(@lent[n.type], @unlent)
    LET variant = (own.unnamed != null AND own.unnamed != lent.letters ? 2 : 0)
    LET more = lent.variants[n.process == null ? variant + 1 : variant]
    RETURN {
      id: n._id,
      key: NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix)),
      length: NOT_NULL(own.contentLength, 0) + more.contentLength,
      nameLength: NOT_NULL(own.nameLength, 0) + more.nameLength,
      content: (FOR i IN @places RETURN NOT_NULL(own.content[@terms[i]], 0) + more.content[i]),
      name: (FOR i IN @places RETURN NOT_NULL(own.name[@terms[i]], 0) + more.name[i])
    }
)
LET having = (
  FILTER found
  FOR i IN @places
    RETURN LENGTH(
      FOR n IN @@view
        SEARCH n.graphKey == @graphKey AND (n.nodiusText.words == @terms[i] OR n.type IN @lendersOf[i])
        RETURN 1
    )
)
LET bareHaving = (
  FILTER found
  FOR i IN @places
    RETURN LENGTH(
      FOR n IN @@view
        SEARCH n.graphKey == @graphKey AND n.nodiusText.words == @terms[i] AND n.type IN @bareLendersOf[i]
        FILTER n.process == null
        RETURN 1
    )
)
LET nameHaving = (
  FILTER found
  FOR i IN @places
    RETURN LENGTH(
      FOR n IN @@view
        SEARCH n.graphKey == @graphKey
          AND (n.nodiusText.nameWords == @terms[i] OR n.type IN @nameLendersOf[i])
        RETURN 1
    )
)
LET vector = (
  FILTER found AND @vector != null
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    FILTER n.embeddingModel == @model
    LET stored = NOT_NULL(n.embedding, n.otherEmbedding)
    FILTER LENGTH(stored) == LENGTH(@vector)
    LET score = NOT_NULL(COSINE_SIMILARITY(stored, @vector), 0)
    FILTER score >= @least
    LET key = NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))
    SORT score DESC, key
    LIMIT @limit
    RETURN [key, score, n._id]
)
LET nameVector = (
  FILTER found AND @vector != null
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    FILTER n.embeddingModel == @model
    LET stored = NOT_NULL(n.nameEmbedding, n.otherNameEmbedding)
    FILTER LENGTH(stored) == LENGTH(@vector)
    LET score = NOT_NULL(COSINE_SIMILARITY(stored, @vector), 0)
    FILTER score >= @least
    LET key = NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))
    SORT score DESC, key
    LIMIT @limit
    RETURN [key, score, n._id]
)
LET hits = UNION_DISTINCT(rows[*].id, vector[*][2], nameVector[*][2])
LET links = (
  FILTER @links > 0
  FOR e IN @@edges
    FILTER e._from IN hits OR e._to IN hits
    FILTER e.graphKey == @graphKey
    SORT NOT_NULL(e.localKey, SUBSTRING(e._key, @prefix))
    LIMIT @links
    RETURN [e._from, e._to, e.source, e.target]
)
LET first = (
  FILTER found AND LENGTH(hits) == 0
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.localKey == null
    SORT n._key
    LIMIT @first
    RETURN SUBSTRING(n._key, @prefix)
)
RETURN { found, rows, having, bareHaving, nameHaving, vector, nameVector, links, first }""",
    collections=("graphs", "nodes", "edges", "view"),
    values=_VALUES,
)

SEARCH_NEAR = Statement(
    name="SEARCH_NEAR",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET rows = (
  FILTER found AND LENGTH(@places) > 0
  FOR n IN @@view
    SEARCH n.graphKey == @graphKey AND (n.nodiusText.words IN @terms OR n.type IN @lenders)
    SORT BM25(n) DESC
    LIMIT @candidates
    LET own = n.nodiusText
    LET lent = NOT_NULL(@lent[n.type], @unlent)
    LET variant = (own.unnamed != null AND own.unnamed != lent.letters ? 2 : 0)
    LET more = lent.variants[n.process == null ? variant + 1 : variant]
    RETURN {
      id: n._id,
      key: NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix)),
      length: NOT_NULL(own.contentLength, 0) + more.contentLength,
      nameLength: NOT_NULL(own.nameLength, 0) + more.nameLength,
      content: (FOR i IN @places RETURN NOT_NULL(own.content[@terms[i]], 0) + more.content[i]),
      name: (FOR i IN @places RETURN NOT_NULL(own.name[@terms[i]], 0) + more.name[i])
    }
)
LET having = (
  FILTER found
  FOR i IN @places
    RETURN LENGTH(
      FOR n IN @@view
        SEARCH n.graphKey == @graphKey AND (n.nodiusText.words == @terms[i] OR n.type IN @lendersOf[i])
        RETURN 1
    )
)
LET bareHaving = (
  FILTER found
  FOR i IN @places
    RETURN LENGTH(
      FOR n IN @@view
        SEARCH n.graphKey == @graphKey AND n.nodiusText.words == @terms[i] AND n.type IN @bareLendersOf[i]
        FILTER n.process == null
        RETURN 1
    )
)
LET nameHaving = (
  FILTER found
  FOR i IN @places
    RETURN LENGTH(
      FOR n IN @@view
        SEARCH n.graphKey == @graphKey
          AND (n.nodiusText.nameWords == @terms[i] OR n.type IN @nameLendersOf[i])
        RETURN 1
    )
)
LET near = (
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.embeddingModel == @model
    LET score = APPROX_NEAR_COSINE(n.embedding, @vector, { nProbe: 20 })
    SORT score DESC
    LIMIT @limit
    RETURN [NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix)), score, n._id]
)
LET nameNear = (
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.embeddingModel == @model
    LET score = APPROX_NEAR_COSINE(n.nameEmbedding, @vector, { nProbe: 20 })
    SORT score DESC
    LIMIT @limit
    RETURN [NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix)), score, n._id]
)
LET vector = (FOR c IN near FILTER found AND c[1] >= @least SORT c[1] DESC, c[0] RETURN c)
LET nameVector = (FOR c IN nameNear FILTER found AND c[1] >= @least SORT c[1] DESC, c[0] RETURN c)
LET hits = UNION_DISTINCT(rows[*].id, vector[*][2], nameVector[*][2])
LET links = (
  FILTER @links > 0
  FOR e IN @@edges
    FILTER e._from IN hits OR e._to IN hits
    FILTER e.graphKey == @graphKey
    SORT NOT_NULL(e.localKey, SUBSTRING(e._key, @prefix))
    LIMIT @links
    RETURN [e._from, e._to, e.source, e.target]
)
LET first = (
  FILTER found AND LENGTH(hits) == 0
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey AND n.localKey == null
    SORT n._key
    LIMIT @first
    RETURN SUBSTRING(n._key, @prefix)
)
RETURN { found, rows, having, bareHaving, nameHaving, vector, nameVector, links, first }""",
    collections=("graphs", "nodes", "edges", "view"),
    values=_VALUES,
)
"""Whose two inner searches have the shape that the vector index needs: another would be refused (1554)."""

TEXT_SUMS = Statement(
    name="TEXT_SUMS",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET sums = (
  FILTER found
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    COLLECT type = n.type, unnamed = n.nodiusText.unnamed != null, bare = n.process == null
      AGGREGATE amount = COUNT(1), length = SUM(n.nodiusText.contentLength),
        nameLength = SUM(n.nodiusText.nameLength)
    RETURN [type, unnamed, bare, amount, length, nameLength]
)
RETURN { found, sums }""",
    collections=("graphs", "nodes"),
    values=("graph", "graphKey", "workspace"),
)
