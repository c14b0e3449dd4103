"""A change of many documents is written in several statements, and is one change all the same."""

from __future__ import annotations

import pytest

from datasources.arango import applying
from datasources.errors import SourceError
from datasources.types import Mutation
from tests.contracts.samples import FLOW, WORKSPACE, a_node, a_vector, an_edge, make_flow
from tests.datasources.arango.kit import opened, revision
from tests.support.arango import ArangoServer

KEYS = [f"many{number}" for number in range(7)]


@pytest.fixture
async def address(arango_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    async with opened(arango_address) as database:
        await make_flow(database)
    monkeypatch.setattr(applying, "PART", 3)
    return arango_address


def a_large_change() -> Mutation:
    return Mutation(
        graph_key=FLOW,
        put_nodes=[a_node(key) for key in KEYS],
        put_edges=[an_edge(f"to {key}", "a", key) for key in KEYS],
        put_vectors=[a_vector(key, 1, 0) for key in KEYS],
    )


def cursors(server: ArangoServer) -> int:
    return sum(count for path, count in server.count().items() if path.endswith("/_api/cursor"))


async def test_all_of_it_is_there_after_one_revision(address: str, arango_faults: ArangoServer) -> None:
    async with opened(address) as database:
        source, before = database.source(WORKSPACE), await revision(database)
        arango_faults.forget_counts()
        assert await source.apply(a_large_change()) == before + 1
        assert cursors(arango_faults) == 1 + 3 * 3 + 1  # look; nodes, edges, vectors in three each; graph
        assert {node.key for node in await source.get_nodes_by_key(FLOW, KEYS)} == set(KEYS)
        edges = {edge.key for edge in await source.get_edges(FLOW)}
        assert edges >= {f"to {key}" for key in KEYS}


async def test_nothing_of_it_is_there_where_a_later_part_fails(
    address: str, arango_faults: ArangoServer
) -> None:
    async with opened(address) as database:
        source, before = database.source(WORKSPACE), await revision(database)
        arango_faults.inject("_api/cursor", "delay:0", 6)
        arango_faults.inject("_api/cursor", "error:1501")
        with pytest.raises(SourceError):
            await source.apply(a_large_change())
        assert await source.get_nodes_by_key(FLOW, KEYS) == []
        assert await revision(database) == before
