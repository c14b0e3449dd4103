"""What is acknowledged is kept: the journal, saves and their failures, what
others store meanwhile.
"""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RevisionConflict, SourceBusy, SourceUnavailable
from datasources.types import Mutation
from graphrag.live import LiveElsewhere, LiveGraphClosed, LiveGraphs, LiveOptions
from graphrag.live.edits import create_elements, delete_elements
from graphrag.live.errors import EditNotKept
from graphrag.live.instruction_batch import apply_instructions
from graphrag.live.journal import journalled_graphs
from graphrag.live.working_copy import LIVE_STEP
from tests.contracts.samples import FLOW, WORKSPACE, a_node, an_edge
from tests.graphrag.live.helpers import (
    Bench,
    a_bench,
    a_raw_node,
    heard,
    plain,
    plain_stored,
    put,
    rename,
)
from tests.support.chosen_database import fresh_database

LONG = 100_000


async def test_an_edit_is_journalled_before_it_is_answered_and_the_save_clears_the_journal() -> (
    None
):
    async with a_bench() as bench:
        await bench.rename("b", "kept")
        (record,) = await bench.journal()
        assert record.data["changes"][0]["userId"] == "ann"
        status = await bench.live.save()
        assert await bench.journal() == []
        assert not status.has_unsaved_changes
        assert (await bench.stored.get_graph(FLOW)).revision == 2


async def test_an_edit_whose_journal_fails_is_refused_and_leaves_nothing(bench: Bench) -> None:
    before = plain(bench.live)
    bench.records.fails["write"] = 1
    with pytest.raises(EditNotKept):
        await bench.rename("b", "lost")
    assert plain(bench.live) == before
    await bench.rename("b", "kept")
    assert plain(bench.live)["nodes"]["b"]["data"] == {"name": "kept"}


async def test_an_edit_that_was_refused_but_written_is_taken_out_of_the_journal(
    bench: Bench,
) -> None:
    write = bench.records.write

    async def written_without_answer(*args: Any, **more: Any) -> Any:
        await write(*args, **more)
        raise SourceUnavailable(source="test", reason="the answer was lost")

    bench.records.write = written_without_answer
    with pytest.raises(EditNotKept):
        await bench.rename("b", "refused")
    del bench.records.write
    await bench.rename("c", "kept")
    assert [r.data["changes"][0]["changes"]["nodes"].keys() for r in await bench.journal()] == [
        {"c"}
    ]


async def test_many_edits_at_once_share_a_write_to_the_journal(bench: Bench) -> None:
    await asyncio.gather(*(bench.rename("b", str(i)) for i in range(100)))
    assert sum(len(record.data["changes"]) for record in await bench.journal()) == 100
    assert len(await bench.journal()) < 10


async def test_it_saves_by_itself_when_the_time_has_come(bench: Bench) -> None:
    await bench.rename("b", "kept")
    bench.clock.now += 29_999
    await bench.graphs.tick()
    assert bench.live.has_unsaved
    bench.clock.now += 1
    await bench.graphs.tick()
    assert not bench.live.has_unsaved
    assert (await bench.stored_node("b")).data == {"name": "kept"}


async def test_without_autosave_it_saves_when_asked_or_when_very_much_is_unsaved() -> None:
    async with a_bench(options=LiveOptions(tick_ms=3_600_000, unsaved=5)) as bench:
        member = bench.live.join("bob", "0")
        bench.live.set_auto_save(False)
        assert heard(member)[0]["autoSaveEnabled"] is False
        for i in range(4):
            await bench.rename("b", str(i))
        bench.clock.now += 10_000_000
        await bench.graphs.tick()
        assert bench.live.has_unsaved
        await bench.rename("b", "fifth")
        await bench.graphs.tick()
        assert not bench.live.has_unsaved


async def test_it_saves_when_many_bytes_are_unsaved_and_a_save_writes_the_last_state_alone() -> (
    None
):
    async with a_bench(options=LiveOptions(tick_ms=3_600_000, unsaved_bytes=1_000_000)) as bench:
        largest = 0
        for number in range(30):
            await bench.rename("b", str(number % 10) * 100_000)
            largest = max(largest, sum(len(orjson.dumps(r.data)) for r in await bench.journal()))
        assert largest < 2_000_000
        assert (await bench.stored.get_graph(FLOW)).revision < 10  # a save takes in many edits
        await bench.live.save()
        assert (await bench.stored_node("b")).data == {"name": "9" * 100_000}


async def test_edits_are_refused_while_very_much_cannot_be_saved_and_taken_again_afterwards() -> (
    None
):
    async with a_bench(options=LiveOptions(tick_ms=3_600_000, unsaved_bytes=300_000)) as bench:
        bench.source.fails["apply"] = 10**6
        asked = [bench.rename("b", f"{n}" * 100_000) for n in range(50)]
        done: list[Any] = []
        for each in asked:
            done += await asyncio.gather(each, return_exceptions=True)
        kept = [one for one in done if not isinstance(one, BaseException)]
        assert 3 < len(kept) < 20
        assert all(
            isinstance(one, EditNotKept) and "could not be saved" in one.reason
            for one in done[len(kept) :]
        )
        bench.source.fails.clear()
        await bench.live.save()
        await bench.rename("b", "again")


async def test_a_failing_save_is_announced_tried_again_and_loses_nothing(bench: Bench) -> None:
    member = bench.live.join("bob", "0")
    await bench.rename("b", "kept")
    bench.source.fails["apply"] = 2
    with pytest.raises(SourceUnavailable):
        await bench.live.save()
    assert bench.live.status().error == "SourceUnavailable"
    assert heard(member)[-1]["error"] == "SourceUnavailable"
    await bench.rename("c", "too")  # editing goes on
    bench.clock.now += 30_000
    await bench.graphs.tick()
    assert bench.live.has_unsaved
    await bench.graphs.tick()  # not before its time
    assert bench.live.has_unsaved
    bench.clock.now = bench.live.status().next_attempt or 0
    await bench.graphs.tick()
    assert bench.live.status().error is None
    assert "error" not in heard(member)[-1]
    assert (await bench.stored_node("c")).data == {"name": "too"}


async def test_an_edit_outlives_a_server_that_died() -> None:
    database = await fresh_database()
    async with a_bench(database) as dead:
        await dead.rename("b", "one")
        await dead.rename("b", "two")
        await dead.live.edit("ann", None, create_elements, "0", [a_raw_node("n")], [])
        last = await dead.live.edit("ann", None, delete_elements, "0", ["c"], [])
        # Another change arrives while no server has the graph.
        node = (await dead.stored_node("b")).replace(pos_x=77)
        await dead.stored.apply(put(node))
        async with a_bench(database, later_ms=LONG) as bench:
            assert bench.live.has_unsaved
            found = plain(bench.live)["nodes"]
            assert (found["b"]["data"], found["b"]["posX"]) == ({"name": "two"}, 77)
            assert "n" in found
            assert "c" not in found
            missed = bench.live.join("bob", "0", last.timestamp - 1).missed
            assert [m.message["type"] for m in missed] == ["batchDeleteElements"]
            await bench.live.save()
            assert plain(bench.live) == await plain_stored(bench.stored)
            assert await bench.journal() == []
            with pytest.raises(LiveElsewhere):
                await dead.live.save()
            assert dead.live.is_closed


async def test_recover_saves_what_dead_servers_left_and_forgets_deleted_graphs() -> None:
    database = await fresh_database()
    async with a_bench(database) as dead:
        await dead.rename("b", "kept")
        for number in (0, 1):
            gone = {"graphKey": "gone", "sequence": number, "changes": []}
            record = Record(kind="journal", key=f"gone/{number:012}", data=gone)
            await dead.database.records(WORKSPACE).put(record, expected_version=None)
        async with a_bench(database, later_ms=LONG) as bench:
            await bench.graphs.recover(WORKSPACE)
            assert bench.live.has_unsaved  # it was open already
            assert [r.data["graphKey"] for r in await bench.journal()] == [FLOW]
            await bench.live.save()
        assert (await dead.stored_node("b")).data == {"name": "kept"}
        assert await database.records(WORKSPACE).query("journal") == []


async def test_a_graph_that_the_database_locks_for_a_dead_server_is_recovered_later() -> None:
    database = await fresh_database()
    locks = {"lease"}

    class LockedRecords:
        def __init__(self, workspace: str) -> None:
            self._records = database.records(workspace)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._records, name)

        async def write(self, writes: Sequence[RecordWrite]) -> Sequence[Record | None]:
            if not locks.isdisjoint(one.kind for one in writes):
                raise SourceBusy(source="arango", reason="write-write conflict")
            return await self._records.write(writes)

    async with a_bench(database) as dead:
        await dead.rename("b", "kept")
        records: Any = LockedRecords
        clock = dead.clock
        graphs = LiveGraphs(database.source, records, clock=lambda: clock() + LONG)
        assert await graphs.recover(WORKSPACE) == []
        await graphs.tick()
        assert len(await dead.journal()) == 1
        locks.clear()
        await graphs.tick()
        assert await dead.journal() == []
        assert (await dead.stored_node("b")).data == {"name": "kept"}
        await graphs.tick()
        await graphs.__aexit__()


async def test_a_graph_whose_dead_server_still_has_its_lease_is_recovered_once_that_has_lapsed() -> (
    None
):
    database = await fresh_database()
    later_ms = 0
    async with a_bench(database) as dead:
        await dead.rename("b", "kept")
        clock = dead.clock
        graphs = LiveGraphs(database.source, database.records, clock=lambda: clock() + later_ms)
        assert await graphs.recover(WORKSPACE) == []
        await graphs.tick()
        assert len(await dead.journal()) == 1
        later_ms = 2 * graphs.options.held_ms
        await graphs.tick()
        assert await dead.journal() == []
        assert (await dead.stored_node("b")).data == {"name": "kept"}
        await graphs.__aexit__()


async def test_graphs_to_recover_are_found_without_reading_their_journals(bench: Bench) -> None:
    for number in range(20):
        await bench.rename("b", f"{number}" * 10_000)
    records = bench.database.records(WORKSPACE)
    read = list[Record]()
    query = records.query

    async def counted(kind: str, *given: Any, **more: Any) -> list[Record]:
        found = await query(kind, *given, **more)
        read.extend(record for record in found if record.kind == "journal")
        return found

    found = await journalled_graphs(cast(RecordStore, SimpleNamespace(query=counted)))
    assert found == [FLOW]
    assert sum(len(orjson.dumps(record.data)) for record in read) < 200


async def test_a_graph_is_live_in_one_server_at_a_time() -> None:
    database = await fresh_database()
    async with a_bench(database) as first:
        with pytest.raises(LiveElsewhere):
            async with a_bench(database):
                pass
        await first.rename("b", "mine")
        first.clock.now += 10_000
        await first.graphs.tick()  # renews
        assert not first.live.is_closed
    async with a_bench(database) as second:
        assert plain(second.live)["nodes"]["b"]["data"] == {"name": "mine"}


async def test_a_server_that_lost_its_hold_acknowledges_nothing_more() -> None:
    database = await fresh_database()
    async with a_bench(database) as first, a_bench(database, later_ms=LONG) as second:
        first.clock.now += LONG  # it slept
        with pytest.raises(LiveElsewhere):
            await first.rename("b", "late")
        assert await second.journal() == []
        with pytest.raises(LiveGraphClosed):
            await first.rename("b", "later")


async def test_what_others_store_appears_below_what_is_unsaved_and_is_sent(bench: Bench) -> None:
    member = bench.live.join("bob", "0")
    await bench.live.edit("ann", member, apply_instructions, [rename("b", "ours")])
    heard(member)
    theirs = (await bench.stored_node("b")).replace(pos_x=50)
    graph = (await bench.stored.get_graph(FLOW)).replace(
        sheets_list={"0": "main", "1": "side", "4": "new"}
    )
    await bench.stored.apply(
        put(
            theirs,
            a_node("n", sheet="4"),
            delete_nodes=["c"],
            graph=graph,
            put_edges=[an_edge("e", "a", "d")],
        )
    )
    await bench.graphs.tick()
    found = plain(bench.live)["nodes"]
    assert (found["b"]["data"], found["b"]["posX"]) == ({"name": "ours"}, 50)
    assert found.keys() == {"a", "apart", "b", "d", "n"}
    sent = [m["type"] for m in heard(member)]
    assert sent == [
        "createSheet",
        "batchDeleteElements",
        "batchCreateElements",
        "batchCreateElements",
        "applyInstructionToGraph",
    ]
    await bench.live.save()
    assert plain(bench.live) == await plain_stored(bench.stored)


async def test_a_deletion_elsewhere_wins_over_an_edit_and_takes_loose_edges(bench: Bench) -> None:
    await bench.rename("c", "ours")
    edge = {**an_edge("e", "c", "d").to_document()}
    await bench.live.edit("ann", None, create_elements, "0", [], [{**edge, "sheet": "0"}])
    await bench.stored.apply(Mutation(graph_key=FLOW, delete_nodes=["c"]))
    await bench.live.save()
    assert "c" not in plain(bench.live)["nodes"]
    assert "e" not in plain(bench.live)["edges"]
    assert plain(bench.live) == await plain_stored(bench.stored)


async def test_a_graph_deleted_elsewhere_ends_the_editing(bench: Bench) -> None:
    member = bench.live.join("bob", "0")
    await bench.stored.delete_graph(FLOW)
    await bench.graphs.tick()
    with pytest.raises(LiveGraphClosed) as closed:
        await member.next()
    assert "deleted" in closed.value.reason
    assert bench.graphs.get(WORKSPACE, FLOW) is None


async def test_a_mutation_apart_from_what_is_unsaved_leaves_it_unsaved(bench: Bench) -> None:
    member = bench.live.join("bob", "0")
    await bench.rename("apart", "ours", sheet="1")
    heard(member)
    node = (await bench.stored_node("c")).replace(data={"name": "approved"})
    assert await bench.live.apply_mutation(put(node), expected_revision=1) == 2
    assert bench.live.has_unsaved
    assert bench.live.revision == 2 + LIVE_STEP
    found = plain(bench.live)["nodes"]
    assert found["c"]["data"] == {"name": "approved"}
    assert found["apart"]["data"] == {"name": "ours"}
    (message,) = heard(member)
    assert message["instructions"][0]["nodeId"] == "c"
    await bench.live.save()
    assert plain(bench.live) == await plain_stored(bench.stored)


@pytest.mark.parametrize(
    "mutation",
    [
        put(a_node("b", data={"name": "theirs"})),
        put(put_edges=[an_edge("x", "b", "d")]),
        put(delete_nodes=["b"]),
        put(delete_edges=["ab"]),
    ],
)
async def test_a_mutation_of_what_is_unsaved_meets_it_saved_and_unknown(mutation: Mutation) -> None:
    async with a_bench() as bench:
        await bench.rename("b", "ours")
        with pytest.raises(RevisionConflict):
            await bench.live.apply_mutation(mutation, expected_revision=1)
        assert not bench.live.has_unsaved
        assert (await bench.stored_node("b")).data == {"name": "ours"}
        await bench.live.apply_mutation(mutation, expected_revision=2)
        assert plain(bench.live) == await plain_stored(bench.stored)


async def test_a_mutation_for_the_live_revision_is_stored_upon_the_saved_edits(
    bench: Bench,
) -> None:
    await bench.rename("b", "ours")
    seen = bench.live.revision
    await bench.live.apply_mutation(put(a_node("b", data="theirs")), expected_revision=seen)
    assert (await bench.stored_node("b")).data == "theirs"
    await bench.rename("c", "ours")
    with pytest.raises(RevisionConflict):
        await bench.live.apply_mutation(put(a_node("b", data="again")), expected_revision=seen)


async def test_no_two_contents_share_a_live_revision(bench: Bench) -> None:
    seen = [bench.live.revision]
    for i in range(5):
        await bench.rename("b", str(i))
        seen.append(bench.live.revision)
        if i % 2:
            await bench.live.save()
            seen.append(bench.live.revision)
    assert len(set(seen)) == len(seen)
    assert all(revision < 2**53 for revision in seen)


async def test_an_idle_graph_is_closed_and_an_edited_one_is_not(bench: Bench) -> None:
    member = bench.live.join("bob", "0")
    bench.clock.now += 120_000
    await bench.graphs.tick()
    assert bench.graphs.get(WORKSPACE, FLOW) is bench.live
    bench.live.leave(member)
    bench.clock.now += 59_000
    await bench.graphs.tick()
    assert bench.graphs.get(WORKSPACE, FLOW) is bench.live
    bench.clock.now += 1_000
    await bench.graphs.tick()
    assert bench.graphs.get(WORKSPACE, FLOW) is None
    assert await bench.graphs.open(WORKSPACE, FLOW) is not bench.live


async def test_a_request_that_is_given_up_does_not_stop_the_others(bench: Bench) -> None:
    impatient = asyncio.create_task(bench.rename("b", "x"))
    patient = asyncio.create_task(bench.rename("c", "y"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).message
    assert plain(bench.live)["nodes"]["c"]["data"] == {"name": "y"}
