"""A database in ArangoDB keeps every contract over HTTP, and answers like one in memory."""

import asyncio
from functools import partial

import pytest
from hypothesis import settings

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.search import EXACT_NODES
from datasources.base import Database, RecordStore
from tests.contracts.base import Factory
from tests.contracts.graph_source import DurableContract, GraphSourceContract
from tests.contracts.machine import SourceMachine
from tests.contracts.records import JoinedRecordsContract, RecordQueryContract, RecordStoreContract
from tests.support.arango import ArangoServer, prepare
from tests.support.arango_counting import round_trips_of
from tests.support.arango_synced import SyncedDatabase


class OnArango:
    @pytest.fixture
    def factory(self, arango_address: str) -> Factory:
        return lambda: ArangoDatabase(parse_address(arango_address))


@pytest.mark.slow
class TestArangoSource(OnArango, GraphSourceContract):
    """The quick suite compares the same answers with those of memory: `TestArango`."""


@pytest.mark.slow
class TestArangoSourceOfLargeGraphs(GraphSourceContract):
    """View and vector index answer, else exact cosine."""

    exact_bm25 = False

    @pytest.fixture
    def factory(self, arango_address: str) -> Factory:
        return lambda: SyncedDatabase(parse_address(arango_address), exact_nodes=-1)


class TestArangoDurability(OnArango, DurableContract):
    pass


class TestArangoRecords(OnArango, RecordStoreContract):
    pass


class TestArangoRecordQueries(OnArango, RecordQueryContract):
    async def test_what_is_due_and_the_workspaces_are_a_request_each(
        self, database: Database, records: RecordStore
    ) -> None:
        due = partial(
            records.query, "automation", {"enabled": True}, order_by="nextTime", at_most=5
        )
        for asked in (due, partial(database.workspaces, "automation")):
            assert (await round_trips_of(asked)).requests == 1


class TestArangoJoinedRecords(OnArango, JoinedRecordsContract):
    pass


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
