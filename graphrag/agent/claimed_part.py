"""Reads the part of a large graph that an answer makes claims about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, final

from datasources.base import GraphDataSource
from datasources.links import Link
from datasources.search import SearchRequest
from datasources.types import Edge, Node
from graphrag.agent.claims import looked_up_part, sentence_pairs
from graphrag.agent.named_graph import NamedGraph

NAMED_ALIKE: Final = 30  # nodes that a name is compared with
MAX_NAMED: Final = 200  # nodes that an answer names
MAX_LINKS: Final = 2_000  # edges of these nodes together
MAX_DEGREE: Final = 500  # edges of one of them, where they have more together
MAX_HUBS: Final = 20  # nodes whose edges are read one node after the other
MAX_WALKED: Final = 1_000  # nodes that may follow one node
MAX_WALKS: Final = 10


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedPart:
    """The checked part of an answer, the named nodes, and nodes with similar texts."""

    answer: str
    named: NamedGraph
    alike: Sequence[Node]


async def read_claimed(source: GraphDataSource, graph_key: str, answer: str) -> ClaimedPart:
    """Reads the nodes and edges that an answer names, by a limited number of searches and keys.

    The part says which nodes were not read because of a limit. Raises: SourceError.
    """
    answer, texts = await asyncio.to_thread(looked_up_part, answer)
    alike, crowded = await _alike(source, graph_key, texts)
    nodes = await asyncio.to_thread(_named_in, texts, alike)
    unread = {node.key for node in nodes[MAX_NAMED:]} | crowded.intersection(
        node.key for node in nodes
    )
    links, hubs = await _linked(source, graph_key, [node.key for node in nodes[:MAX_NAMED]])
    direct = NamedGraph.of(nodes, links)
    pairs = await asyncio.to_thread(sentence_pairs, answer, direct)
    starts = dict.fromkeys(
        key for pair in pairs for name in pair for key in sorted(direct.keys[name])
    )
    edges, cut = await _walked(source, graph_key, list(starts))
    named = NamedGraph.of(nodes, chain(links, edges), unread=unread, cut_off=hubs | cut)
    return ClaimedPart(answer=answer, named=named, alike=alike)


async def _linked(
    source: GraphDataSource, graph_key: str, keys: Sequence[str]
) -> tuple[list[Link], frozenset[str]]:
    """Returns the edges of nodes, and the keys of nodes with more edges."""
    links = await source.get_links(graph_key, keys, limit=MAX_LINKS) if keys else []
    if len(links) < MAX_LINKS:
        return links, frozenset()
    found = list[Link]()
    cut = set(keys[MAX_HUBS:])
    for key in keys[:MAX_HUBS]:
        own = await source.get_links(graph_key, [key], limit=MAX_DEGREE)
        found += own
        if len(own) >= MAX_DEGREE:
            cut.add(key)
    return found, frozenset(cut)


async def _alike(
    source: GraphDataSource, graph_key: str, texts: Sequence[str]
) -> tuple[list[Node], frozenset[str]]:
    """Returns the nodes similar to one of the texts, and the keys of those with unread equals."""
    found = dict[str, None]()
    crowded = set[str]()
    for text in texts:
        hits = await source.search(graph_key, SearchRequest(query=text, limit=NAMED_ALIKE))
        names = hits.name
        if len(names) == NAMED_ALIKE and names[0].score == names[-1].score:
            crowded.update(hit.key for hit in names)
        found |= dict.fromkeys(hit.key for hit in chain(names, hits.text))
    words = (word.strip(".,;:()") for text in texts for word in (text, *text.split()))
    keys = dict.fromkeys(chain(found, words))
    return await source.get_nodes_by_key(graph_key, list(keys)), frozenset(crowded)


def _named_in(texts: Sequence[str], nodes: Iterable[Node]) -> list[Node]:
    """Returns the nodes whose name or key occurs in one of the texts."""
    joined = "\n".join(texts).casefold()
    return [
        node
        for node in nodes
        if any(name.casefold() in joined for name in NamedGraph.of([node], []).names)
    ]


async def _walked(
    source: GraphDataSource, graph_key: str, starts: Sequence[str]
) -> tuple[list[Edge], frozenset[str]]:
    """Returns the edges behind nodes, and the keys of nodes with more edges behind them."""
    edges = list[Edge]()
    cut = set(starts[MAX_WALKS:])
    for key in starts[:MAX_WALKS]:
        part = await source.get_neighborhood(
            graph_key, [key], max_depth=MAX_WALKED, direction="out", limit=MAX_WALKED
        )
        edges += part.edges
        if len(part.nodes) >= MAX_WALKED:
            cut.add(key)
    return edges, frozenset(cut)
