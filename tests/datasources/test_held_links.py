"""Edges of graphs in memory are found by node; the contract suite compares what
the reads return.
"""

from collections.abc import Iterator, Mapping

from datasources.links import LinkWalk
from datasources.memory_overlay import LiveView
from datasources.mock import MemoryDatabase
from datasources.types import Edge
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, an_edge


class CountedEdges(Mapping[str, Edge]):
    """Counts how often all edges are read."""

    def __init__(self, edges: dict[str, Edge]) -> None:
        self._edges = edges
        self.reads = 0

    def __getitem__(self, key: str) -> Edge:
        return self._edges[key]

    def __len__(self) -> int:
        return len(self._edges)

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        return iter(self._edges)


async def test_all_edges_are_read_once_a_revision_however_many_walks_follow() -> None:
    edges = CountedEdges({f"e{i}": an_edge(f"e{i}", f"n{i}", f"n{i + 1}") for i in range(9)})
    live = LiveView(
        stored=MemoryDatabase().source(WORKSPACE),
        graph=a_graph(),
        nodes={f"n{i}": a_node(f"n{i}") for i in range(10)},
        edges=edges,
    )
    for _ in range(2):
        walk = LinkWalk(keys=["n4"], steps=2, limit=100, max_degree=50)
        assert [link.source for link in await live.get_typed_links(FLOW, walk)] == [
            "n3",
            "n4",
            "n2",
            "n5",
        ]
        assert [link.target for link in await live.get_links(FLOW, ["n4"])] == ["n4", "n5"]
        around = await live.get_neighborhood(FLOW, ["n4"], max_depth=1, direction="in", limit=9)
        assert [node.key for node in around.nodes] == ["n4", "n3"]
        assert [edge.key for edge in await live.get_edges_of(FLOW, ["n0"])] == ["e0"]
    assert edges.reads == 1
