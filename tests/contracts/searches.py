"""One search at a time: the hits of words, or of a vector, in one field."""

from datasources.base import GraphDataSource
from datasources.hits import Hit, SearchField, VectorQuery
from datasources.search import SearchRequest


async def search_text(
    source: GraphDataSource,
    graph_key: str,
    query: str,
    *,
    limit: int,
    field: SearchField = "content",
) -> list[Hit]:
    """Returns the hits of words in a field."""
    request = SearchRequest(query=query, limit=limit, fields=(field,))
    return list((await source.search(graph_key, request)).by_words(field))


async def search_vectors(source: GraphDataSource, graph_key: str, query: VectorQuery) -> list[Hit]:
    """Returns the hits of a vector in a field."""
    request = SearchRequest(
        vector=(query.model, query.vector),
        limit=query.limit,
        min_score=query.min_score,
        fields=(query.field,),
    )
    return list((await source.search(graph_key, request)).by_vector(query.field))
