"""A database in ArangoDB answers like the in-memory one whatever was done to both."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.search import EXACT_NODES
from datasources.base import Database
from tests.contracts.machine import SourceMachine
from tests.support.arango import ArangoServer, prepare
from tests.support.arango_synced import SyncedDatabase

DEFAULT = settings.get_profile("default")


class ArangoMachine(SourceMachine):
    server: ArangoServer
    kind = ArangoDatabase
    exact_nodes = EXACT_NODES

    def __init__(self) -> None:
        self.name = self.server.fresh()
        asyncio.run(prepare(self.server.address(self.name)))
        super().__init__()

    def open_tested(self) -> Database:
        # A paused machine is no answer: an error is taken for one here.
        address = self.server.address(self.name, options="?timeout=300")
        return self.kind(parse_address(address), exact_nodes=self.exact_nodes)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.server.drop(self.name)


class LargeArangoMachine(ArangoMachine):
    """No graph is small: the View answers."""

    kind = SyncedDatabase
    exact_nodes = -1
    exact_bm25 = False


@pytest.mark.slow
class TestArango(ArangoMachine.TestCase):
    settings = settings(DEFAULT, max_examples=60, stateful_step_count=30)

    @pytest.fixture(autouse=True)
    def server(self, arango: ArangoServer) -> None:
        ArangoMachine.server = arango


@pytest.mark.slow
class TestLargeArango(LargeArangoMachine.TestCase):
    settings = settings(DEFAULT, max_examples=25, stateful_step_count=20)

    @pytest.fixture(autouse=True)
    def server(self, arango: ArangoServer) -> None:
        ArangoMachine.server = arango
