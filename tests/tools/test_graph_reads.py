"""What is read of a graph for an action: of a large one little, whatever the action names."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from datasources.base import MutableGraphDataSource
from datasources.mock import MemoryDatabase
from datasources.types import Edge, Mutation
from tests.contracts.samples import FLOW, a_graph, a_node, an_edge
from tests.support.each_row import each_row
from tools.proposals import parse_action
from tools.write_tools.graph_reads import MOST_EDGES, edges_by_key, load_near

KEYS = [f"e{number}" for number in range(1_200)] + ["é", "e", "e-1", "Z"]


class Counting:
    """Says how many edges were read of a source, and how often."""

    def __init__(self, source: MutableGraphDataSource) -> None:
        self._source, self.read, self.times = source, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def get_edges(self, *args: Any, **more: Any) -> list[Edge]:
        found = await self._source.get_edges(*args, **more)
        self.read, self.times = self.read + len(found), self.times + 1
        return found


@pytest.fixture
async def counting() -> AsyncIterator[Any]:
    """A graph whose edges all connect the nodes `a` and `b`; `c` and `d` have none."""
    async with MemoryDatabase() as database:
        source = database.source("w")
        nodes = [a_node(name) for name in ("a", "b", "c", "d")]
        edges = [an_edge(name, "a", "b") for name in KEYS]
        mutation = Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges)
        await source.create_graph(a_graph(workspace="w"), mutation)
        yield Counting(source)


@each_row("key", "e0", "e1", "e119", "e1199", "e999", "é", "e", "e-1", "Z", "no", "", "e1200")
async def test_an_edge_is_found_among_many(counting: Any, key: str) -> None:
    counting.read = 0
    found = await edges_by_key(counting, FLOW, [key])
    assert [edge.key for edge in found] == ([key] if key in KEYS else [])
    assert counting.read <= 250 or len(key) < 2


async def test_many_edges_are_found_and_none_is_read_twice(counting: Any) -> None:
    counting.read = 0
    wanted = {*KEYS[::2], "no", "e1200"}
    found = await edges_by_key(counting, FLOW, wanted)
    assert {edge.key for edge in found} == wanted & {*KEYS}
    assert len(found) <= counting.read <= len(KEYS)


async def test_keys_far_behind_their_beginning_are_found_in_few_reads() -> None:
    async with MemoryDatabase() as database:
        source = database.source("w")
        edges = [an_edge(f"x0{number:05}", "a", "b") for number in range(2 * MOST_EDGES)]
        edges.append(an_edge("x1", "a", "b"))
        mutation = Mutation(graph_key=FLOW, put_nodes=[a_node("a"), a_node("b")], put_edges=edges)
        await source.create_graph(a_graph(workspace="w"), mutation)
        counting: Any = Counting(source)
        assert [edge.key for edge in await edges_by_key(counting, FLOW, ["x1"])] == ["x1"]
        assert counting.times <= 8


def connecting(*keys: str) -> dict[str, Any]:
    ends = {"sourceKey": "c", "sourceHandle": "out", "targetKey": "d", "targetHandle": "in"}
    actions = [{"type": "create_edge", "payload": {"key": key, **ends}} for key in keys]
    return {"type": "batch", "payload": {"actions": actions}}


@each_row(
    "action, found",
    (connecting("e700", "new"), {"e700"}),
    ({"type": "delete_edge", "payload": {"edgeKey": "e700"}}, {"e700"}),
    ({"type": "delete_edge", "payload": {"edgeKey": "e1200"}}, set[str]()),
)
async def test_an_edge_that_an_action_names_or_would_replace_is_found_anywhere(
    counting: Any, action: dict[str, Any], found: set[str]
) -> None:
    counting.read = 0
    near = await load_near(counting, FLOW, parse_action(action))
    assert near.edges.keys() == found
    assert counting.read <= 200
