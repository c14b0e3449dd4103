"""PostgreSQL keeps every contract: graphs held in memory, searched by SQL, and with pgvector."""

import pytest

from datasources.postgres import PostgresDatabase, parse_address
from datasources.postgres.source import HoldingLimits
from tests.contracts.base import Factory
from tests.contracts.graph_source import DurableContract, GraphSourceContract
from tests.contracts.records import JoinedRecordsContract, RecordQueryContract, RecordStoreContract

pytestmark = pytest.mark.slow

NOTHING_IS_SMALL = HoldingLimits(held=-1)


class _Held:
    @pytest.fixture
    def factory(self, postgres_url: str) -> Factory:
        return lambda: PostgresDatabase(parse_address(postgres_url))


class _Large:
    @pytest.fixture
    def factory(self, postgres_url: str) -> Factory:
        return lambda: PostgresDatabase(parse_address(postgres_url), limits=NOTHING_IS_SMALL)


class _Vectors:
    @pytest.fixture
    def factory(self, pgvector_url: str) -> Factory:
        return lambda: PostgresDatabase(parse_address(pgvector_url), limits=NOTHING_IS_SMALL)


class TestPostgresSource(_Held, GraphSourceContract):
    pass


class TestPostgresSourceOfLargeGraphs(_Large, GraphSourceContract):
    pass


class TestPostgresSourceWithPgvector(_Vectors, GraphSourceContract):
    pass


class TestPostgresRecords(_Held, RecordStoreContract):
    pass


class TestPostgresRecordQueries(_Held, RecordQueryContract):
    pass


class TestPostgresJoinedRecords(_Held, JoinedRecordsContract):
    pass


class TestPostgresDurability(_Held, DurableContract):
    pass


class TestPostgresDurabilityOfLargeGraphs(_Large, DurableContract):
    pass
