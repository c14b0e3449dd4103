"""A database in ArangoDB keeps every contract, through python-arango over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from datasources.arango import ArangoDatabase, Limits, parse_address
from tests.contracts.base import Factory
from tests.contracts.graph_source import DurableContract, GraphSourceContract
from tests.support.arango import ArangoServer, arango, arango_double

__all__ = ["arango", "arango_double"]


async def prepare(address: str) -> None:
    async with ArangoDatabase(parse_address(address), prepared=False) as database:
        await database.set_up()


class OnArango:
    @pytest.fixture
    def factory(self, arango: ArangoServer) -> Iterator[Factory]:
        name = arango.fresh()
        address = arango.address(name)
        asyncio.run(prepare(address))
        yield lambda: ArangoDatabase(parse_address(address))
        arango.drop(name)


class TestArangoSource(OnArango, GraphSourceContract):
    pass


class TestArangoSourceOfLargeGraphs(GraphSourceContract):
    """No graph is small: View and vector index answer, else exact cosine."""

    @pytest.fixture
    def factory(self, arango_double: ArangoServer) -> Iterator[Factory]:
        name = arango_double.fresh()  # of a real server the View lags behind what was written
        address = arango_double.address(name)
        asyncio.run(prepare(address))
        limits = Limits(exact=-1, sums_fresh_s=0)
        yield lambda: ArangoDatabase(parse_address(address), limits=limits)
        arango_double.drop(name)


class TestArangoDurability(OnArango, DurableContract):
    pass
