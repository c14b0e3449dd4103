"""A retrieval over a network, in two round trips, finds what one in memory finds."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from datasources.arango import ArangoDatabase, parse_address
from datasources.base import GraphDataSource, MutableGraphDataSource
from datasources.memory_overlay import MemoryOverlay
from datasources.mock import open_nba
from datasources.mock.source import NBA_GRAPH, NBA_WORKSPACE
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.embedding.embedder import AskedText
from graphrag.embedding.local import LocalEmbedder
from graphrag.embedding.refresh import embed_nodes
from graphrag.retrieval.retrieval_result import Retrieval, RetrievalOptions
from graphrag.retrieval.retriever import Retriever

QUESTIONS = ["What happens when fetching fails?", "sort by points", "xyzzy", "", "html table"]
MODES: list[dict[str, Any]] = [
    {"mode": "hybrid"},
    {"mode": "vector"},
    {"mode": "text"},
    {"mode": "hybrid", "exclude_types": ("html", "starter"), "max_nodes": 4},
    {"mode": "vector", "min_cosine": 0.99, "max_depth": 0},
]


@pytest.fixture
async def sources(
    arango_address: str,
) -> AsyncIterator[tuple[GraphDataSource, MutableGraphDataSource]]:
    """The NBA graph with vectors: in memory, and in ArangoDB."""
    memory = open_nba().source(NBA_WORKSPACE)
    async with ArangoDatabase(parse_address(arango_address)) as database:
        distant = database.source(NBA_WORKSPACE)
        await distant.create_graph(await memory.get_graph(NBA_GRAPH))
        for config in await memory.get_node_configs():
            await distant.put_node_config(config)
        nodes = await memory.get_nodes(NBA_GRAPH)
        edges = await memory.get_edges(NBA_GRAPH)
        await distant.apply(Mutation(graph_key=NBA_GRAPH, put_nodes=nodes, put_edges=edges))
        for source in (memory, distant):
            await embed_nodes(source, LocalEmbedder(), graph_keys=[NBA_GRAPH])
        yield memory, distant


def given(found: Retrieval) -> Any:
    nodes = [(s.node.to_document(), round(s.score, 4), s.reasons) for s in found.nodes]
    edges = [edge.to_document() for edge in found.edges]
    types = {name: config.to_document() for name, config in found.configs.items()}
    return nodes, edges, types, found.notes


@pytest.mark.slow
async def test_a_distant_store_finds_what_memory_finds(
    sources: tuple[GraphDataSource, GraphDataSource],
) -> None:
    memory, distant = sources
    near, far = (Retriever(source, LocalEmbedder()) for source in (memory, distant))
    for question in QUESTIONS:
        for mode in MODES:
            options = RetrievalOptions(**mode)
            expected = await near.retrieve(NBA_GRAPH, question, options)
            assert given(await far.retrieve(NBA_GRAPH, question, options)) == given(expected), (
                question,
                mode,
            )


class Unrelated:
    """An embedder to which no question has to do with any node."""

    model = "unrelated"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        asked = [isinstance(text, AskedText) for text in texts]
        return np.array([[1, 0] if one else [0, 1] for one in asked], np.float32)

    async def aclose(self) -> None:
        """Nothing is held open."""


async def test_nodes_that_all_score_nothing_are_replaced_by_the_first_ones(
    sources: tuple[MutableGraphDataSource, MutableGraphDataSource],
) -> None:
    for source in sources:
        await embed_nodes(source, Unrelated(), graph_keys=[NBA_GRAPH], force=True)
        options = RetrievalOptions(max_nodes=2)
        found = await Retriever(source, Unrelated()).retrieve(NBA_GRAPH, "zzzqqq", options)
        first = await source.get_nodes(NBA_GRAPH, limit=2)
        assert [scored.node.key for scored in found.nodes] == [node.key for node in first]
        assert "graph-order" in found.notes


class OneLive:
    """A live copy of the graph in which one node has another name, or none."""

    def __init__(self, source: GraphDataSource) -> None:
        self.source = source
        self.on = False

    def live_keys(self) -> list[str]:
        return []

    async def get_live_graph(self, graph_key: str) -> Graph | None:
        graph = await self.source.get_graph(graph_key)
        return graph.replace(revision=-1) if self.on else None

    async def get_live_nodes(self, graph_key: str) -> list[Node] | None:
        nodes = await self.source.get_nodes(graph_key)
        return [
            node.replace(data={"name": "Quokka"}) if node.key == "sort-stats" else node
            for node in nodes
        ]

    async def get_live_edges(self, graph_key: str) -> list[Edge] | None:
        return await self.source.get_edges(graph_key)


async def test_a_live_graph_over_a_distant_store_shows_unsaved_names(
    sources: tuple[GraphDataSource, GraphDataSource],
) -> None:
    live = OneLive(sources[1])
    overlay = MemoryOverlay(sources[1], live)
    retriever = Retriever(overlay, LocalEmbedder(), cache_ttl_s=0)
    options = RetrievalOptions(mode="text", max_nodes=3)
    stored = await retriever.retrieve(NBA_GRAPH, "quokka", options)
    assert "graph-order" in stored.notes
    live.on = True
    found = await retriever.retrieve(NBA_GRAPH, "quokka", options)
    assert found.nodes[0].node.key == "sort-stats"
    assert "graph-order" not in found.notes
