"""A database in ArangoDB keeps every contract, through python-arango over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from datasources.arango import ArangoDatabase, parse_address
from tests.contracts.base import Factory
from tests.contracts.graph_source import DurableContract, GraphSourceContract
from tests.support.arango import ArangoServer, arango

__all__ = ["arango"]


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


class TestArangoDurability(OnArango, DurableContract):
    pass
