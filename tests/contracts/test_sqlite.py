"""The embedded database keeps every contract: held in memory, and by SQL and vector index alone."""

from pathlib import Path

import pytest

from datasources.sqlite import Limits, SqliteDatabase
from tests.contracts.base import Factory
from tests.contracts.graph_source import DurableContract, GraphSourceContract
from tests.contracts.records import JoinedRecordsContract, RecordQueryContract, RecordStoreContract

NOTHING_IS_SMALL = Limits(held=-1)


class _Held:
    @pytest.fixture
    def factory(self, tmp_path: Path) -> Factory:
        return lambda: SqliteDatabase(tmp_path / "graphs.db")


class _Large:
    @pytest.fixture
    def factory(self, tmp_path: Path) -> Factory:
        return lambda: SqliteDatabase(tmp_path / "graphs.db", limits=NOTHING_IS_SMALL)


class TestSqliteSource(_Held, GraphSourceContract):
    pass


@pytest.mark.slow
class TestSqliteSourceOfLargeGraphs(_Large, GraphSourceContract):
    """The quick suite compares the same answers with those of memory: TestLarge in test_machine."""

    scored_together = False


class TestSqliteRecords(_Held, RecordStoreContract):
    pass


class TestSqliteRecordQueries(_Held, RecordQueryContract):
    pass


class TestSqliteJoinedRecords(_Held, JoinedRecordsContract):
    pass


class TestSqliteDurability(_Held, DurableContract):
    pass


class TestSqliteDurabilityOfLargeGraphs(_Large, DurableContract):
    pass
