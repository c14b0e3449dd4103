"""Records in ArangoDB keep their contracts, alone and within the transaction of a mutation."""

from __future__ import annotations

from tests.contracts.records import JoinedRecordsContract, RecordQueryContract, RecordStoreContract
from tests.contracts.test_arango import OnArango


class TestArangoRecords(OnArango, RecordStoreContract):
    pass


class TestArangoRecordQueries(OnArango, RecordQueryContract):
    pass


class TestArangoJoinedRecords(OnArango, JoinedRecordsContract):
    pass
