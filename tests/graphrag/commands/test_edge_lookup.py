"""One edge is found by its key, and few others are read for it."""

from __future__ import annotations

from typing import Any

from datasources.base import MutableGraphDataSource
from datasources.mock import MemoryDatabase
from datasources.types import Edge, Mutation
from graphrag.commands.data_commands import edge_by_key
from tests.contracts.samples import FLOW, a_graph, a_node, an_edge
from tests.support.each_row import each_row

KEYS = [f"e{number}" for number in range(1_200)] + ["é", "e", "e-1", "Z"]


class Counting:
    """Says how many edges were read of a source."""

    def __init__(self, source: MutableGraphDataSource) -> None:
        self._source, self.read = source, 0

    async def get_edges(self, *args: Any, **more: Any) -> list[Edge]:
        found = await self._source.get_edges(*args, **more)
        self.read += len(found)
        return found


@each_row("key", ["e0", "e1", "e119", "e1199", "e999", "é", "e", "e-1", "Z", "no", "", "e1200"])
async def test_an_edge_is_found_among_many(key: str) -> None:
    async with MemoryDatabase() as database:
        source = database.source("w")
        nodes = [a_node(name) for name in ("a", "b")]
        edges = [an_edge(name, "a", "b") for name in KEYS]
        mutation = Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges)
        await source.create_graph(a_graph(workspace="w"), mutation)
        counting: Any = Counting(source)
        found = await edge_by_key(counting, FLOW, key)
        assert (found.key if found else None) == (key if key in KEYS else None)
        assert counting.read <= 100 or len(key) < 2
