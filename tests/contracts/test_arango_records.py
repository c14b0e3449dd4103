"""Records in ArangoDB keep their contracts, alone and within the transaction of a mutation."""

from __future__ import annotations

from functools import partial

from datasources.base import Database, RecordStore
from tests.contracts.records import JoinedRecordsContract, RecordQueryContract, RecordStoreContract
from tests.contracts.test_arango import OnArango
from tests.support.arango_counting import round_trips_of


class TestArangoRecords(OnArango, RecordStoreContract):
    pass


class TestArangoRecordQueries(OnArango, RecordQueryContract):
    async def test_what_is_due_and_the_workspaces_are_a_request_each(
        self, database: Database, records: RecordStore
    ) -> None:
        due = partial(records.query, "automation", {"enabled": True}, order_by="nextTime", at_most=5)
        for asked in (due, partial(database.workspaces, "automation")):
            assert (await round_trips_of(asked)).requests == 1


class TestArangoJoinedRecords(OnArango, JoinedRecordsContract):
    pass
