"""AQL of search without an index: words by exact BM25, vectors by exact cosine, and what links the hits.

One statement answers all four searches of a retrieval, the edges at what they found, and the first
nodes of the graph for when they find nothing. `@terms` are words as `datasources.text.tokenize`
makes them, `@places` the numbers of their places; `@lent` is what each node type lends its nodes
(see `words`). A node whose stored words do not fit it (`of`) is searched by its bare text: each
word that it contains counts once.

Source: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

from datasources.arango.statements import Statement

SEARCH = Statement(
    name="SEARCH",
    text="""
LET found = LENGTH(FOR g IN @@graphs FILTER g._key == @graph AND g.workspace == @workspace RETURN 1) > 0
LET rows = (
  FILTER found AND LENGTH(@places) > 0
  FOR n IN @@nodes
    FILTER n.graphKey == @graphKey
    LET key = NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))
    LET own = n.nodiusText
    LET fits = own != null AND own.of == MD5(JSON_STRINGIFY(@searched[* RETURN n[CURRENT]]))
    LET lent = NOT_NULL(@lent[n.type], @unlent)
    LET variant = (fits AND own.unnamed != null AND own.unnamed != lent.letters ? 2 : 0)
    LET more = lent.variants[n.process == null ? variant + 1 : variant]
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
LET average = MAX([1, SUM(rows[*].length)]) / MAX([1, total])
LET nameAverage = MAX([1, SUM(rows[*].nameLength)]) / MAX([1, total])
LET weights = (
  FOR i IN @places
    LET having = LENGTH(rows[* FILTER CURRENT.content[i] > 0])
    RETURN LOG(1 + (total - having + 0.5) / (having + 0.5))
)
LET nameWeights = (
  FOR i IN @places
    LET having = LENGTH(rows[* FILTER CURRENT.name[i] > 0])
    RETURN LOG(1 + (total - having + 0.5) / (having + 0.5))
)
LET content = (
  FOR r IN rows
    LET norm = 1.2 * (0.25 + 0.75 * r.length / average)
    LET score = SUM(FOR i IN @places RETURN weights[i] * r.content[i] * 2.2 / (r.content[i] + norm))
    FILTER score > 0
    SORT score DESC, r.key
    LIMIT @limit
    RETURN [r.key, score, r.id]
)
LET name = (
  FOR r IN rows
    LET norm = 1.2 * (0.25 + 0.75 * r.nameLength / nameAverage)
    LET score = SUM(FOR i IN @places RETURN nameWeights[i] * r.name[i] * 2.2 / (r.name[i] + norm))
    FILTER score > 0
    SORT score DESC, r.key
    LIMIT @limit
    RETURN [r.key, score, r.id]
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
LET hits = UNION_DISTINCT(content[*][2], name[*][2], vector[*][2], nameVector[*][2])
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
    FILTER n.graphKey == @graphKey
    LET key = NOT_NULL(n.localKey, SUBSTRING(n._key, @prefix))
    SORT key
    LIMIT @first
    RETURN key
)
RETURN { found, total, content, name, vector, nameVector, links, first }""",
    collections=("graphs", "nodes", "edges"),
    values=(
        "graph",
        "graphKey",
        "workspace",
        "prefix",
        "terms",
        "places",
        "lent",
        "unlent",
        "vector",
        "model",
        "least",
        "limit",
        "links",
        "first",
        "searched",
    ),
)
