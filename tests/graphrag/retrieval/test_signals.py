"""The table of signals says which are used, and a retrieval uses no others."""

from dataclasses import replace
from typing import Any

import pytest

from datasources.base import MutableGraphDataSource
from datasources.links import Link
from datasources.mock import MemoryDatabase
from datasources.types import Mutation
from graphrag.embedding.local import LocalEmbedder
from graphrag.embedding.refresh import embed_nodes
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.signals.signal_table import SIGNALS, Conditions, signals_for
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, an_edge

EVERYTHING = Conditions(has_vector=True, walks=True, refers_by_name=True, nodes=None)
ALL = {signal.name for signal in SIGNALS}


@pytest.mark.parametrize(
    ("changed", "off"),
    [
        ({}, set()),
        ({"has_vector": False}, {"vector", "name-vector"}),
        ({"walks": False}, {"edges", "second-step", "references", "paths"}),
        ({"refers_by_name": False}, {"references"}),
        ({"nodes": 99}, {"second-step"}),
        ({"nodes": 100}, set()),
        ({"nodes": 5, "has_vector": False}, {"vector", "name-vector"}),
    ],
)
def test_a_signal_is_off_where_the_table_says_so(changed: Any, off: set[str]) -> None:
    assert signals_for(replace(EVERYTHING, **changed)) == ALL - off


class Counting:
    """A source that counts the reads of edges."""

    def __init__(self, source: MutableGraphDataSource) -> None:
        self._source = source
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def get_links(self, *asked: Any, **how: Any) -> list[Link]:
        self.reads += 1
        return await self._source.get_links(*asked, **how)


@pytest.mark.parametrize(("size", "reads"), [(99, 1), (100, 2)])
async def test_a_second_step_is_read_in_graphs_of_100_nodes_or_more(size: int, reads: int) -> None:
    """Each node has a word of its own, so that the hits are not the whole graph."""
    source = MemoryDatabase().source(WORKSPACE)
    keys = [f"n{i:03}" for i in range(size)]
    nodes = [a_node(key, data={"name": f"thing {key}"}) for key in keys]
    edges = [an_edge(f"e{i:03}", keys[i], keys[i + 1]) for i in range(size - 1)]
    await source.create_graph(a_graph(), Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges))
    await embed_nodes(source, LocalEmbedder())
    counting: Any = Counting(source)
    found = await Retriever(counting, LocalEmbedder()).retrieve(FLOW, "thing n050")
    assert found.nodes[0].node.key == "n050"
    assert counting.reads == reads
