"""A database in ArangoDB answers like the in-memory one whatever was done to both."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings

from datasources.arango import ArangoDatabase, parse_address
from datasources.base import Database
from tests.contracts.machine import SourceMachine
from tests.contracts.test_arango import prepare
from tests.support.arango import ArangoServer, arango

__all__ = ["arango"]


class ArangoMachine(SourceMachine):
    server: ArangoServer

    def __init__(self) -> None:
        self.name = self.server.fresh()
        asyncio.run(prepare(self.server.address(self.name)))
        super().__init__()

    def open_tested(self) -> Database:
        return ArangoDatabase(parse_address(self.server.address(self.name)))

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.server.drop(self.name)


class TestArango(ArangoMachine.TestCase):
    settings = settings(settings.get_profile("default"), max_examples=6, stateful_step_count=15)

    @pytest.fixture(autouse=True)
    def server(self, arango: ArangoServer) -> None:
        ArangoMachine.server = arango
