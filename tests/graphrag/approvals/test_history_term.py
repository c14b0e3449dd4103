"""What undoes changes has a term in days and megabytes; what was changed, and by whom, stays."""

import orjson
import pytest

from datasources.base import Database, Record
from graphrag.app.history_term import DAY_MS, Compacted, compact_history
from graphrag.approvals import Approve
from graphrag.approvals.errors import UndoGone
from graphrag.approvals.stored_parts import UNDO, with_undo
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench


async def changed(bench: Bench, name: str) -> str:
    made = await bench.propose("update_node", nodeKey="b", changes={"data.name": name})
    await bench.approvals().decide(made.id, Approve(), REVIEWER)
    return made.id


async def test_what_undoes_a_change_goes_when_its_days_are_over_and_the_change_stays_listed(
    database: Database,
) -> None:
    bench = await a_bench(database)
    old = await changed(bench, "Old")
    bench.clock.now += 10 * DAY_MS
    new = await changed(bench, "New")
    done = await compact_history(bench.records, now=int(bench.clock.now), days=5, max_mb=100)
    assert done == Compacted(moved=0, removed=1)
    listed = await bench.approvals().list(by=EDITOR)
    assert [one.id for one in listed] == [new, old]
    await bench.approvals().undo(FLOW, by=REVIEWER)
    with pytest.raises(UndoGone):
        await bench.approvals().undo(FLOW, old, by=REVIEWER)
    assert (await bench.approvals().audit.verify()).is_sound


async def test_beyond_its_size_the_oldest_goes_first(database: Database) -> None:
    bench = await a_bench(database)
    ids: list[str] = []
    for number in range(4):
        bench.clock.now += 1_000
        ids.append(await changed(bench, f"Name {number}"))
    sizes = {record.key: record.data["bytes"] for record in await bench.records.query(UNDO)}
    for one in ids[:2]:  # as if they were of a large file: together more than a megabyte
        record = await bench.records.get("approval", one)
        data = {**record.data, "apartBytes": 600_000}
        await bench.records.put(
            Record(kind="approval", key=one, data=data), expected_version=record.version
        )
    await compact_history(bench.records, now=int(bench.clock.now), days=100, max_mb=1)
    left = {record.key for record in await bench.records.query(UNDO)}
    assert left == {*ids[1:]}
    assert sizes.keys() == {*ids}


async def test_an_approval_of_an_older_version_is_compressed_and_still_undone(
    database: Database,
) -> None:
    bench = await a_bench(database)
    before = await bench.state()
    approval = await bench.approvals().get(await changed(bench, "Other"), EDITOR)
    whole = (await with_undo(bench.records, approval)).changed(apart=(), apart_bytes=0)
    for kind in approval.apart:
        part = await bench.records.get(kind, approval.id)
        await bench.records.delete(kind, approval.id, expected_version=part.version)
    record = await bench.records.get("approval", approval.id)
    inside = Record(
        kind="approval", key=approval.id, data=orjson.loads(orjson.dumps(whole.to_document()))
    )
    await bench.records.put(inside, expected_version=record.version)
    for moved in (1, 0):
        done = await compact_history(
            bench.records, now=int(bench.clock.now) + DAY_MS, days=5, max_mb=100, move=True
        )
        assert done == Compacted(moved=moved, removed=0)
    stored = await bench.records.get("approval", approval.id)
    assert "inverse" not in stored.data["result"]
    await bench.approvals().undo(FLOW, by=REVIEWER)
    assert await bench.state() == before
