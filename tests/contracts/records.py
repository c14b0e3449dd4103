"""Contract of a record store: compare-and-set, queries by declared fields, writes that
join a mutation.
"""

import asyncio
from dataclasses import asdict
from functools import partial
from typing import Any

import pytest

from datasources.base import Database, MutableGraphDataSource, Record, RecordStore, RecordWrite
from datasources.errors import BadDocument, RecordConflict, UnknownIndexField
from datasources.record_kinds import RECORD_INDEXES
from datasources.types import Mutation
from graphrag.agent.thread_messages import from_stored, to_stored
from tests.contracts.base import Contract
from tests.contracts.samples import FLOW, WORKSPACE, a_node, keys_of
from tests.contracts.writing import HOSTILE_KEYS
from tests.support.every_message import every_message


def a_record(key: str, kind: str = "approval", **data: Any) -> Record:
    return Record(kind=kind, key=key, data=data)


def a_write(key: str, version: str | None, data: dict[str, Any] | None) -> RecordWrite:
    return RecordWrite(kind="approval", key=key, data=data, expected_version=version)


class RecordStoreContract(Contract):
    @pytest.fixture
    async def records(self, database: Database) -> RecordStore:
        return database.records(WORKSPACE)

    async def test_an_absent_record_is_none(self, records: RecordStore) -> None:
        assert await records.get("approval", "nobody") is None

    async def test_a_record_comes_back_as_it_went_in(self, records: RecordStore) -> None:
        data = {
            "status": "pending",
            "deep": {"list": [1, 2.5, None, True, "é\n\u2028"], "": {}},
            "n": 2**53,
        }
        stored = await records.put(a_record("k", **data), expected_version=None)
        assert (stored.kind, stored.key, stored.data) == ("approval", "k", data)
        assert stored.version
        assert await records.get("approval", "k") == stored

    async def test_every_field_of_a_message_comes_back(self, records: RecordStore) -> None:
        said = every_message()
        await records.put(
            a_record("t", "thread", conversationHistory=to_stored(said)), expected_version=None
        )
        found = await records.get("thread", "t")
        again = from_stored(found.data["conversationHistory"])
        assert [(type(one), asdict(one)) for one in again] == [
            (type(one), asdict(one)) for one in said
        ]

    async def test_several_records_are_written_all_or_none(self, records: RecordStore) -> None:
        first = await records.put(a_record("a", n=1), expected_version=None)
        await records.put(a_record("l", "lease", n=1), expected_version=None)
        new = a_write("b", None, {"n": 1})
        changed = a_write("a", first.version, {"n": 2})
        stale = RecordWrite(
            kind="lease", key="l", data={"n": 2}, expected_version=first.version + "x"
        )  # type: ignore[operator]
        for writes in ([new, changed, stale], [stale, new, changed], [changed, new, new]):
            with pytest.raises(RecordConflict):
                await records.write(writes)
            assert await records.get("approval", "a") == first
            assert await records.get("approval", "b") is None
        lease = await records.get("lease", "l")
        right = RecordWrite(kind="lease", key="l", data=lease.data, expected_version=lease.version)
        written = await records.write([new, right, changed])
        found = [
            await records.get(*name)
            for name in (("approval", "b"), ("lease", "l"), ("approval", "a"))
        ]
        assert [record and record.data for record in found] == [{"n": 1}, {"n": 1}, {"n": 2}]
        assert found[1].version != lease.version
        assert written == found
        gone = RecordWrite(kind="lease", key="l", data=None, expected_version=written[1].version)
        again = a_write("b", written[0].version, {"n": 3})
        assert await records.write([gone, again]) == [None, await records.get("approval", "b")]
        assert await records.write([]) == []

    async def test_a_new_record_must_be_absent(self, records: RecordStore) -> None:
        stored = await records.put(a_record("k", status="a"), expected_version=None)
        with pytest.raises(RecordConflict) as refused:
            await records.put(a_record("k", status="b"), expected_version=None)
        assert (refused.value.kind, refused.value.key, refused.value.expected) == (
            "approval",
            "k",
            None,
        )
        assert await records.get("approval", "k") == stored

    async def test_only_the_current_version_is_replaced(self, records: RecordStore) -> None:
        first = await records.put(a_record("k", status="a"), expected_version=None)
        second = await records.put(a_record("k", status="b"), expected_version=first.version)
        assert second.version != first.version
        for stale in (first.version, "", "nonsense"):
            with pytest.raises(RecordConflict):
                await records.put(a_record("k", status="c"), expected_version=stale)
        assert await records.get("approval", "k") == second

    async def test_an_equal_record_still_gets_a_new_version(self, records: RecordStore) -> None:
        first = await records.put(a_record("k", status="a"), expected_version=None)
        second = await records.put(a_record("k", status="a"), expected_version=first.version)
        with pytest.raises(RecordConflict):
            await records.put(a_record("k", status="a"), expected_version=first.version)
        assert await records.get("approval", "k") == second

    async def test_a_version_expected_of_an_absent_record_conflicts(
        self, records: RecordStore
    ) -> None:
        with pytest.raises(RecordConflict):
            await records.put(a_record("k"), expected_version="1")
        assert await records.get("approval", "k") is None

    async def test_a_deleted_record_does_not_get_its_old_version_again(
        self, records: RecordStore
    ) -> None:
        first = await records.put(a_record("k"), expected_version=None)
        assert first.version
        await records.delete("approval", "k", expected_version=first.version)
        assert await records.get("approval", "k") is None
        again = await records.put(a_record("k"), expected_version=None)
        assert again.version != first.version

    async def test_only_the_current_version_is_deleted(self, records: RecordStore) -> None:
        first = await records.put(a_record("k"), expected_version=None)
        second = await records.put(a_record("k"), expected_version=first.version)
        with pytest.raises(RecordConflict):
            await records.delete("approval", "k", expected_version=first.version or "")
        with pytest.raises(RecordConflict):
            await records.delete("approval", "absent", expected_version="1")
        assert await records.get("approval", "k") == second

    async def test_of_concurrent_claims_one_wins(self, records: RecordStore) -> None:
        stored = await records.put(a_record("k", status="pending"), expected_version=None)

        async def claim(who: int) -> bool:
            try:
                await records.put(
                    a_record("k", status=f"by {who}"), expected_version=stored.version
                )
            except RecordConflict:
                return False
            return True

        claims = await asyncio.gather(*(claim(who) for who in range(8)))
        assert sum(claims) == 1
        current = await records.get("approval", "k")
        assert current.data["status"] == f"by {claims.index(True)}"

    async def test_kinds_are_apart(self, records: RecordStore) -> None:
        await records.put(a_record("k", "thread", userId="ann"), expected_version=None)
        assert await records.get("approval", "k") is None
        assert await records.query("approval") == []
        assert keys_of(await records.query("thread")) == ["k"]

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    async def test_any_key_and_value_works(self, records: RecordStore, key: str) -> None:
        await records.put(a_record("other", status="x"), expected_version=None)
        stored = await records.put(a_record(key, status=key), expected_version=None)
        assert await records.get("approval", key) == stored
        assert await records.query("approval", {"status": key}) == [stored]

    async def test_what_the_caller_changes_later_is_not_stored(self, records: RecordStore) -> None:
        data: dict[str, Any] = {"list": [1]}
        await records.put(Record(kind="approval", key="k", data=data), expected_version=None)
        data["list"].append(2)
        stored = await records.get("approval", "k")
        assert stored.data == {"list": [1]}

    async def test_what_json_cannot_hold_is_refused(self, records: RecordStore) -> None:
        with pytest.raises(BadDocument) as refused:
            await records.put(a_record("k", status=object()), expected_version=None)
        assert refused.value.key == "k"
        assert await records.get("approval", "k") is None


class RecordQueryContract(Contract):
    @pytest.fixture
    async def records(self, database: Database) -> RecordStore:
        records = database.records(WORKSPACE)
        rows: list[dict[str, Any]] = [
            {"key": "c", "status": "pending", "createdTime": 30, "userId": "ann"},
            {"key": "a", "status": "pending", "createdTime": 10, "userId": "bob"},
            {"key": "d", "status": "applied", "createdTime": 20, "userId": "ann"},
            {"key": "b", "status": "pending", "createdTime": 10, "userId": "ann"},
            {"key": "e", "userId": "ann"},
        ]
        for row in rows:
            await records.put(a_record(**row), expected_version=None)
        return records

    async def test_without_order_they_come_by_key(self, records: RecordStore) -> None:
        assert keys_of(await records.query("approval")) == ["a", "b", "c", "d", "e"]
        assert keys_of(await records.query("approval", descending=True)) == [
            "e",
            "d",
            "c",
            "b",
            "a",
        ]
        assert keys_of(await records.query("approval", {})) == ["a", "b", "c", "d", "e"]

    async def test_all_conditions_must_hold(self, records: RecordStore) -> None:
        assert keys_of(await records.query("approval", {"status": "pending"})) == ["a", "b", "c"]
        both: dict[str, str | int | bool] = {"status": "pending", "userId": "ann"}
        assert keys_of(await records.query("approval", both)) == ["b", "c"]
        assert keys_of(await records.query("approval", {"createdTime": 10})) == ["a", "b"]
        assert await records.query("approval", {"createdTime": "10"}) == []
        assert await records.query("approval", {"status": "PENDING"}) == []
        assert await records.query("approval", {"status": "%"}) == []

    async def test_order_by_a_field_missing_first_ties_by_key(self, records: RecordStore) -> None:
        ordered = await records.query("approval", order_by="createdTime")
        assert keys_of(ordered) == ["e", "a", "b", "d", "c"]
        backwards = await records.query("approval", order_by="createdTime", descending=True)
        assert keys_of(backwards) == ["c", "d", "a", "b", "e"]

    async def test_numbers_are_ordered_as_numbers(self, records: RecordStore) -> None:
        for key, time in (("big", 1_700_000_000_000), ("nine", 9), ("half", 9.5)):
            await records.put(
                a_record(key, createdTime=time, status="timed"), expected_version=None
            )
        found = await records.query("approval", {"status": "timed"}, order_by="createdTime")
        assert keys_of(found) == ["nine", "half", "big"]

    async def test_the_limit_keeps_the_first(self, records: RecordStore) -> None:
        found = await records.query("approval", order_by="createdTime", descending=True, limit=2)
        assert keys_of(found) == ["c", "d"]
        assert await records.query("approval", limit=0) == []

    async def test_the_default_limit_is_a_hundred(self, records: RecordStore) -> None:
        for number in range(101):
            await records.put(a_record(f"{number:03}", "lease", owner="me"), expected_version=None)
        assert len(await records.query("lease")) == 100
        assert len(await records.query("lease", {"owner": "me"}, limit=500)) == 101

    async def test_bounds_keep_the_numbers_within_them_both_ends_included(
        self, records: RecordStore
    ) -> None:
        for key, time in (
            ("text", "20"),
            ("none", None),
            ("list", [20]),
            ("big", 2**53),
            ("below", -1.5),
        ):
            await records.put(a_record(key, createdTime=time, userId="ann"), expected_version=None)
        asked = partial(records.query, "approval", order_by="createdTime")
        assert keys_of(await asked(at_most=20)) == ["below", "a", "b", "d"]
        assert keys_of(await asked(at_least=20)) == ["d", "c", "big"]
        assert keys_of(await asked(at_least=10, at_most=20)) == ["a", "b", "d"]
        assert keys_of(await asked(at_least=21, at_most=20)) == []
        assert keys_of(await asked(at_least=11, at_most=30, descending=True)) == ["c", "d"]
        assert keys_of(await asked({"userId": "ann"}, at_least=0, at_most=30)) == ["b", "d", "c"]
        assert keys_of(
            await asked({"userId": "ann", "status": "pending"}, at_least=0, limit=1)
        ) == ["b"]
        assert keys_of(await asked({"createdTime": 10}, at_most=10, descending=True)) == ["a", "b"]
        assert keys_of(await asked(at_least=-(2**70), at_most=2**70)) == [
            "below",
            "a",
            "b",
            "d",
            "c",
            "big",
        ]

    async def test_what_is_bounded_must_be_declared(self, records: RecordStore) -> None:
        for order in (None, "", "secret"):
            with pytest.raises(UnknownIndexField):
                await records.query("approval", order_by=order, at_most=5)

    async def test_of_many_automations_those_due_are_found(self, records: RecordStore) -> None:
        writes = [
            RecordWrite(
                kind="automation",
                key=f"{number:04}",
                data={
                    "enabled": number % 2 == 0,
                    "nextTime": 1_000 - number if number % 5 else None,
                },
                expected_version=None,
            )
            for number in range(300)
        ]
        await records.write(writes)
        due = await records.query("automation", {"enabled": True}, order_by="nextTime", at_most=704)
        assert keys_of(due) == ["0298", "0296"]

    async def test_changed_and_deleted_records_leave_their_old_place(
        self, records: RecordStore
    ) -> None:
        (stored,) = await records.query("approval", {"status": "applied"})
        await records.put(a_record("d", status="stale"), expected_version=stored.version)
        assert await records.query("approval", {"status": "applied"}) == []
        (changed,) = await records.query("approval", {"status": "stale"})
        await records.delete("approval", "d", expected_version=changed.version or "")
        assert await records.query("approval", {"status": "stale"}) == []

    async def test_an_undeclared_field_is_refused(self, records: RecordStore) -> None:
        for kind in (*RECORD_INDEXES, "no such kind"):
            for field in ("secret", "status' OR 1=1 --", "", "$.status"):
                with pytest.raises(UnknownIndexField) as refused:
                    await records.query(kind, {field: "x"})
                assert (refused.value.kind, refused.value.field) == (kind, field)
                assert refused.value.known == RECORD_INDEXES.get(kind, ())
            with pytest.raises(UnknownIndexField):
                await records.query(kind, order_by="secret")

    async def test_a_query_finds_records_of_its_kind_alone(self, records: RecordStore) -> None:
        kinds = ("agent", "agent_list", "agent_version", "delivery", "policy")
        for kind in kinds:
            await records.put(a_record("one", kind, agentId="x"), expected_version=None)
        for kind in kinds:
            assert [found.kind for found in await records.query(kind)] == [kind]

    async def test_pages_by_key_hold_every_record_of_the_kind_once(
        self, records: RecordStore
    ) -> None:
        keys = sorted(
            ["Z", "a", "é", "文", "\U0001f525", "a/b", "100%", " ", "'", *map(str, range(250))]
        )
        for kind in ("trace", "imports"):
            writes = [
                RecordWrite(kind=kind, key=key, data={"of": key}, expected_version=None)
                for key in keys
            ]
            await records.write(writes)
            read = list[Record]()
            while page := await records.get_page(
                kind, after=read[-1].key if read else None, limit=7
            ):
                assert len(page) <= 7
                read += page
            assert sorted(keys_of(read)) == keys
            assert all(record.kind == kind and record.data == {"of": record.key} for record in read)
            assert read[0] == await records.get(kind, read[0].key)
            assert await records.get_page(kind, after=read[-1].key, limit=7) == []
            assert await records.get_page(kind, limit=0) == []
            assert keys_of(await records.get_page(kind, limit=1000)) == keys_of(read)
        assert keys_of(await records.get_page("approval", after="b", limit=2)) == ["c", "d"]
        assert await records.get_page("no such kind", limit=7) == []

    async def test_every_declared_field_is_queried(self, records: RecordStore) -> None:
        for kind, fields in RECORD_INDEXES.items():
            await records.put(
                a_record("sevens", kind, **dict.fromkeys(fields, 7)), expected_version=None
            )
            for field in fields:
                found = keys_of(await records.query(kind, {field: 7}, order_by=field))
                assert (kind, field, found) == (kind, field, ["sevens"])
                within = keys_of(await records.query(kind, order_by=field, at_least=7, at_most=7))
                assert (kind, field, within) == (kind, field, ["sevens"])


class JoinedRecordsContract(Contract):
    """Records written with a mutation, by `apply`."""

    async def test_records_are_written_with_the_mutation(
        self, database: Database, source: MutableGraphDataSource
    ) -> None:
        records = database.records(WORKSPACE)
        kept = await records.put(a_record("kept", status="claimed"), expected_version=None)
        gone = await records.put(a_record("gone"), expected_version=None)
        writes = [
            a_write("kept", kept.version, {"status": "applied"}),
            a_write("gone", gone.version, None),
            a_write("new", None, {"status": "pending"}),
            a_write("never", None, None),
        ]
        await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n")]), records=writes)
        assert keys_of(await records.query("approval")) == ["kept", "new"]
        assert keys_of(await records.query("approval", {"status": "applied"})) == ["kept"]
        changed = await records.get("approval", "kept")
        assert changed.version != kept.version

    async def test_one_conflict_writes_none_and_no_record_changes_twice(
        self, database: Database, source: MutableGraphDataSource
    ) -> None:
        records = database.records(WORKSPACE)
        stored = await records.put(a_record("k", status="a"), expected_version=None)
        batches = [
            [a_write("new", None, {}), a_write("k", None, {})],
            [a_write("new", None, {}), a_write("k", "stale", {})],
            [a_write("new", None, {}), a_write("absent", stored.version, {})],
            [a_write("new", None, {}), a_write("k", None, None)],
            [a_write("new", None, {}), a_write("new", None, {})],
            *(
                [a_write("k", stored.version, first), a_write("k", stored.version, second)]
                for first in ({"status": "b"}, None)
                for second in ({"status": "c"}, None)
            ),
        ]
        for batch in batches:
            with pytest.raises(RecordConflict):
                await source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("n")]), records=batch)
            assert await records.query("approval") == [stored], batch
        assert (await source.get_graph(FLOW)).revision == 1
