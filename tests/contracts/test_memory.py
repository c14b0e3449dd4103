"""The in-memory database keeps every contract."""

import pytest

from datasources.mock import MemoryDatabase
from tests.contracts.base import Factory
from tests.contracts.graph_source import GraphSourceContract
from tests.contracts.records import JoinedRecordsContract, RecordQueryContract, RecordStoreContract


class _Memory:
    @pytest.fixture
    def factory(self) -> Factory:
        database = MemoryDatabase()
        return lambda: database


class TestMemorySource(_Memory, GraphSourceContract):
    pass


class TestMemoryRecords(_Memory, RecordStoreContract):
    pass


class TestMemoryRecordQueries(_Memory, RecordQueryContract):
    pass


class TestMemoryJoinedRecords(_Memory, JoinedRecordsContract):
    pass
