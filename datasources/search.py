"""One search of a graph: the request that every store answers in one call, and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from datasources.hits import FIELDS, Hit, SearchField, Vector, VectorQuery
from datasources.links import Link, TypedLink
from datasources.text import names_of
from datasources.types import Node

Names = Mapping[str, Sequence[str]]  # by node key: the name of the node and its aliases

FURTHER_SHARE = 3  # a second step over the edges starts at one node for this many hits
NAMED_BY_NAME = 20  # best hits of words in names whose names are read
NAMED_BY_TEXT = 10  # best hits of words in all text whose names are read


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchRequest:
    """Searches for words, for a vector, or for both, in each of the `fields`.

    Words are compared by BM25; `vector` (model, float32[dim]) by cosine, at least `min_score`. Each
    of these searches returns up to `limit` hits. A request may include data that a retrieval reads
    next: `with_names` adds the names of the best hits of words, and `first` is the number of nodes
    to return if nothing is found.

    A store that is reached over a network also sends up to `links` edges at the hits, and those of
    the best nodes that they lead to (one in `FURTHER_SHARE` of the limit, without nodes that have
    more than `max_degree` edges).
    """

    query: str = ""
    vector: tuple[str, Vector] | None = None
    limit: int
    min_score: float = 0.0
    fields: Sequence[SearchField] = FIELDS
    with_names: bool = False
    first: int = 0
    links: int = 0
    max_degree: int = 0

    def searches_words(self, name: SearchField) -> bool:
        """Returns True if the words of this field are searched."""
        return bool(self.query) and name in self.fields

    def vector_query(self, name: SearchField) -> VectorQuery | None:
        """Returns the search of this field by vector, None if there is none."""
        if self.vector is None or name not in self.fields:
            return None
        model, vector = self.vector
        return VectorQuery(
            vector=vector, model=model, limit=self.limit, min_score=self.min_score, field=name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HitLinks:
    """The edges at the hits, in key order, and those of the best nodes that they lead to.

    `is_cut`: there may be more edges at the hits than were asked for.
    """

    links: Sequence[TypedLink]
    further: Sequence[Link]
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHits:
    """The hits of each search, best first; ties in key order.

    `names` and `first` (keys of the first nodes of the graph) are there if they were asked for.
    `links` is None if the store reads edges on request only, by `get_links`. `nodes` is the number
    of nodes of the graph, None for a large graph whose nodes were not counted.
    """

    text: Sequence[Hit] = ()
    name: Sequence[Hit] = ()
    vector: Sequence[Hit] = ()
    name_vector: Sequence[Hit] = ()
    names: Names = field(default_factory=dict[str, Sequence[str]])
    first: Sequence[str] = ()
    links: HitLinks | None = None
    nodes: int | None = None

    @property
    def is_empty(self) -> bool:
        """True if no search found anything."""
        return not (self.text or self.name or self.vector or self.name_vector)

    def by_words(self, name: SearchField) -> Sequence[Hit]:
        """Returns the hits of words in this field."""
        return self.text if name == "content" else self.name

    def by_vector(self, name: SearchField) -> Sequence[Hit]:
        """Returns the hits of the vector in this field."""
        return self.vector if name == "content" else self.name_vector

    def or_first(self, keys: Iterable[str]) -> SearchHits:
        """Returns the hits, with the first nodes of the graph if nothing was found."""
        return replace(self, first=list(keys)) if self.is_empty else self


def keys_to_name(text: Sequence[Hit], name: Sequence[Hit]) -> list[str]:
    """Returns the best hits of words, whose names a question may contain."""
    return list(dict.fromkeys(hit.key for hit in (*name[:NAMED_BY_NAME], *text[:NAMED_BY_TEXT])))


def names_by_key(nodes: Iterable[Node]) -> Names:
    """Returns the names of nodes."""
    return {node.key: names_of(node.key, node.data) for node in nodes}
