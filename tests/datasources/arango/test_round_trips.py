"""Round trips: a retrieval takes three at most, whatever it finds."""

from __future__ import annotations

import pytest

from tests.benchmarks.arango_round_trips import measure
from tests.support.arango import ArangoServer
from tests.support.arango_counting import RoundTrips


@pytest.fixture
async def counted(arango: ArangoServer) -> dict[str, RoundTrips]:
    return await measure(arango)


async def test_operations_take_few_round_trips(counted: dict[str, RoundTrips]) -> None:
    retrievals = {what: j for what, j in counted.items() if what.startswith("retrieval")}
    assert len(retrievals) == 4
    for what, round_trips in retrievals.items():
        assert round_trips.requests <= 3, what
    assert counted["retrieval from the cache"].requests == 1
    assert counted["open a graph"].requests == 4
    assert counted["save 100 changed nodes"].requests <= 8
    assert counted["store 100 embeddings"].requests == 1
