"""What is read of a graph for an action: of a large one little, whatever the action names."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from datasources.base import MutableGraphDataSource
from datasources.mock import MemoryDatabase
from datasources.types import Edge, Mutation
from tests.contracts.samples import FLOW, a_graph, a_node, an_edge
from tools.proposals import parse_action
from tools.write_tools.graph_reads import load_near


class Counting:
    """Says how many edges were read of a source one after the other."""

    def __init__(self, source: MutableGraphDataSource) -> None:
        self._source = source
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def get_edges(self, *args: Any, **more: Any) -> list[Edge]:
        found = await self._source.get_edges(*args, **more)
        self.read += len(found)
        return found


@pytest.fixture
async def counting() -> AsyncIterator[Any]:
    """A graph whose edges all connect the nodes `a` and `b`; `c` and `d` have none."""
    async with MemoryDatabase() as database:
        source = database.source("w")
        nodes = [a_node(name) for name in ("a", "b", "c", "d")]
        edges = [an_edge(f"e{number}", "a", "b") for number in range(1_200)]
        mutation = Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges)
        await source.create_graph(a_graph(workspace="w"), mutation)
        yield Counting(source)


def connecting(*keys: str) -> dict[str, Any]:
    ends = {"sourceKey": "c", "sourceHandle": "out", "targetKey": "d", "targetHandle": "in"}
    actions = [{"type": "create_edge", "payload": {"key": key, **ends}} for key in keys]
    return {"type": "batch", "payload": {"actions": actions}}


@pytest.mark.parametrize(
    ("action", "found"),
    [
        (connecting("e700", "new"), {"e700"}),
        ({"type": "delete_edge", "payload": {"edgeKey": "e700"}}, {"e700"}),
        ({"type": "delete_edge", "payload": {"edgeKey": "e1200"}}, set[str]()),
    ],
)
async def test_an_edge_that_an_action_names_or_would_replace_is_found_anywhere(
    counting: Any, action: dict[str, Any], found: set[str]
) -> None:
    near = await load_near(counting, FLOW, parse_action(action))
    assert near.edges.keys() == found
    assert not counting.read
