"""Records in ArangoDB keep their contracts, alone and within the transaction of a mutation."""

from __future__ import annotations

from typing import Self

import pytest

from datasources.arango import ArangoDatabase, parse_address
from tests.contracts.base import Factory
from tests.contracts.records import JoinedRecordsContract, RecordQueryContract, RecordStoreContract
from tests.contracts.test_arango import OnArango
from tests.contracts.writing import MutationContract


class TestArangoRecords(OnArango, RecordStoreContract):
    pass


class TestArangoRecordQueries(OnArango, RecordQueryContract):
    pass


class TestArangoJoinedRecords(OnArango, JoinedRecordsContract):
    pass


class InParts(ArangoDatabase):
    """Takes its server for a cluster, where a commit may be cut in half."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.engine.connection.is_sharded = True
        return self


class _InParts:
    @pytest.fixture
    def factory(self, arango_address: str) -> Factory:
        return lambda: InParts(parse_address(arango_address))


@pytest.mark.slow
class TestArangoRecordsInParts(_InParts, JoinedRecordsContract):
    pass


@pytest.mark.slow
class TestArangoMutationsInParts(_InParts, MutationContract):
    pass
