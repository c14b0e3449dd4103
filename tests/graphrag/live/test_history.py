"""What editors did is kept and can be taken back, whatever it was."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from datasources.base import Record
from graphrag.live import EditRefused, LiveElsewhere, LiveGraph, LiveGraphs, LiveOptions
from graphrag.live.edit_history import edits_newest_first
from graphrag.live.edits import (
    create_elements,
    create_sheet,
    delete_elements,
    delete_sheet,
    rename_sheet,
)
from graphrag.live.instruction_batch import apply_instructions
from tests.contracts.samples import FLOW, WORKSPACE, make_flow
from tests.datasources.sqlite.helpers import line_of, start
from tests.graphrag.live import workers
from tests.graphrag.live.helpers import (
    Bench,
    a_bench,
    a_raw_edge,
    a_raw_node,
    heard,
    instruct,
    plain,
    plain_stored,
    put,
    rename,
)
from tests.support.chosen_database import database_in, fresh_database


async def _latest(bench: Bench) -> str:
    edit = await anext(edits_newest_first(bench.database.records(WORKSPACE), FLOW, ()))
    return edit.id


APPENDED = instruct("b", 10, ["process"], v="\U0001f525")
MOVED = instruct("c", 1, ["posX"], v=5)
SHORTENED = instruct("d", 14, ["handles", "L", "point"], i=0)
Ask = Callable[[LiveGraph], Any]
EDITS: list[Ask] = [
    lambda live: live.edit("u", None, apply_instructions, [rename("b", "x"), APPENDED]),
    lambda live: live.edit("u", None, apply_instructions, [instruct("b", 2, ["process"]), MOVED]),
    lambda live: live.edit("u", None, apply_instructions, [SHORTENED]),
    lambda live: live.edit("u", None, create_elements, "0", [a_raw_node("n")], [a_raw_edge("e", "n", "a")]),
    lambda live: live.edit("u", None, delete_elements, "0", ["b"], ["da"]),
    lambda live: live.edit("u", None, delete_elements, "1", ["apart"], ["cc"]),
    lambda live: live.edit("u", None, create_sheet, "new"),
    lambda live: live.edit("u", None, rename_sheet, "1", "other"),
    lambda live: live.edit("u", None, delete_sheet, "1"),
]  # fmt: skip


@pytest.mark.parametrize("edit", [*EDITS])
async def test_what_was_done_is_undone_and_sent_to_the_others(edit: Ask) -> None:
    async with a_bench() as bench:
        before = plain(bench.live)
        await edit(bench.live)
        await bench.live.save()
        assert plain(bench.live) != before
        members = [
            bench.live.join("bob", sheet)
            for sheet in ("0", "1")
            if sheet in plain(bench.live)["sheets"]
        ]
        await bench.live.undo_edit(await _latest(bench), "ann")
        assert plain(bench.live) == before
        assert all(
            m["userId"] == "ann" for member in members for m in heard(member) if "userId" in m
        )
        await bench.live.save()
        assert await plain_stored(bench.stored) == before
        await bench.live.undo_edit(await _latest(bench), "ann")  # and back again
        assert plain(bench.live) != before


async def test_own_edits_are_undone_one_by_one_and_redone_after_a_restart() -> None:
    database = await fresh_database()
    async with a_bench(database) as bench:
        states = [plain(bench.live)]
        for number, edit in enumerate((*EDITS[:5], *EDITS[6:])):
            await edit(bench.live)
            states.append(plain(bench.live))
            if number == 3:
                await bench.live.save()
    for state in reversed(states[:-1]):
        async with a_bench(database) as bench:  # another server each time
            assert await bench.live.undo("u") is not None
            assert plain(bench.live) == state
    for state in states[1:]:
        async with a_bench(database) as bench:
            assert await bench.live.undo("u", redo=True) is not None
            assert plain(bench.live) == state
    async with a_bench(database) as bench:
        assert await bench.live.undo("u", redo=True) is None


async def test_an_undo_takes_back_own_edits_alone_and_a_new_edit_ends_what_can_be_redone() -> None:
    async with a_bench() as bench:
        live, x = bench.live, lambda: next(n.pos_x for n in bench.live.nodes if n.key == "b")
        first = x()
        other = instruct("c", 1, ["posX"], v=77)
        for value in (1, 2, 3):
            await live.edit("ann", None, apply_instructions, [instruct("b", 1, ["posX"], v=value)])
        await live.edit("bob", None, apply_instructions, [other])
        await live.undo("ann")
        await live.undo("ann")
        assert x() == 1
        await live.undo("ann", redo=True)
        assert x() == 2
        await live.undo("ann")
        await live.edit("ann", None, apply_instructions, [instruct("b", 1, ["posX"], v=9)])
        assert await live.undo("ann", redo=True) is None
        await live.undo("ann")
        await live.undo("ann")
        assert x() == first
        assert await live.undo("ann") is None
        assert next(n.pos_x for n in live.nodes if n.key == "c") == 77


async def test_what_another_took_back_is_not_undone_again(bench: Bench) -> None:
    before = plain(bench.live)
    one = await bench.live.edit("ann", None, apply_instructions, [MOVED])
    two = await bench.rename("b", "x")
    await bench.live.undo_edit(str(two.timestamp), "bob")
    undone = await bench.live.undo("ann")
    assert undone[0].id == str(one.timestamp)
    assert plain(bench.live) == before
    assert await bench.live.undo("ann") is None


async def test_a_sheet_that_was_deleted_comes_back_to_all_with_what_was_on_it(bench: Bench) -> None:
    on_first = bench.live.join("bob", "0")
    await bench.live.edit("ann", None, delete_sheet, "1")
    heard(on_first)
    await bench.live.undo("ann")
    sent = [m for m in heard(on_first) if "timestamp" in m]
    assert [m["type"] for m in sent][:2] == ["createSheet", "batchCreateElements"]
    assert [n["_key"] for m in sent for n in m.get("nodes", ()) if n["sheet"] == "1"] == ["apart"]


async def test_a_large_value_is_kept_once_and_an_edit_of_it_is_taken_back_where_it_still_stands() -> (
    None
):
    async with a_bench() as bench:
        texts = [str(n) * 50_000 for n in range(3)]
        for text in texts:
            await bench.rename("b", text)
        await bench.live.save()
        [record] = await bench.database.records(WORKSPACE).query("history")
        assert (
            len(orjson.dumps(record.data)) < 2 * 50_000 + 2_000
        )  # what is there now is in the node
        await bench.live.undo("ann")
        await bench.live.undo("ann")
        assert plain(bench.live)["nodes"]["b"]["data"]["name"] == texts[0]
        await bench.live.undo("ann", redo=True)
        await bench.live.edit("bob", None, apply_instructions, [rename("b", "other" * 9_000)])
        with pytest.raises(EditRefused, match="changed since"):
            await bench.live.undo("ann")


async def test_no_more_history_is_stored_than_its_limit() -> None:
    options = LiveOptions(tick_ms=3_600_000, history_bytes=200_000)
    async with a_bench(options=options) as bench:
        stored = bench.database.records(WORKSPACE)
        foreign = {"graphKey": FLOW, "timestamp": 1, "type": "WF", "history": []}
        await stored.put(Record(kind="history", key="theirs", data=foreign), expected_version=None)
        for number in range(12):
            await bench.rename("b", f"{number}" * 40_000)
            await bench.live.save()
        theirs, *records = await stored.query("history", order_by="timestamp")
        assert theirs.key == "theirs"
        assert sum(len(orjson.dumps(record.data)) for record in records) < 300_000
        assert len(records) >= 3
        assert await bench.live.undo("ann") is not None


async def test_history_tells_who_did_what_when(bench: Bench) -> None:
    done = await bench.rename("b", "new")
    await bench.live.save()
    [record] = await bench.database.records(WORKSPACE).query("history", {"graphKey": FLOW})
    assert (record.data["graphKey"], record.data["type"]) == (FLOW, "WF")
    (entry,) = record.data["history"]
    assert entry["userId"] == "ann"
    assert entry["timestamp"] == record.data["timestamp"] == done.timestamp
    assert entry["reversedInstruction"] == [{"o": 1, "p": ["data", "name"], "v": "Fetch invoices"}]


@pytest.mark.parametrize(
    ("edit", "meanwhile"),
    [
        (EDITS[3], lambda live: live.edit("u", None, delete_elements, "0", ["n"], [])),
        (
            EDITS[3],
            lambda live: live.edit(
                "u", None, create_elements, "0", [], [a_raw_edge("e2", "a", "n")]
            ),
        ),
        (EDITS[4], lambda live: live.edit("u", None, create_elements, "0", [a_raw_node("b")], [])),
        (EDITS[0], lambda live: live.edit("u", None, delete_elements, "0", ["b"], [])),
        (
            EDITS[6],
            lambda live: live.edit(
                "u", None, create_elements, "2", [a_raw_node("m", sheet="2")], []
            ),
        ),
    ],
)
async def test_what_a_later_change_rests_on_is_not_undone_at_all(edit: Ask, meanwhile: Ask) -> None:
    async with a_bench() as bench:
        await edit(bench.live)
        await bench.live.save()
        key = await _latest(bench)
        await meanwhile(bench.live)
        before = plain(bench.live)
        with pytest.raises(EditRefused, match="history"):
            await bench.live.undo_edit(key, "ann")
        assert plain(bench.live) == before


@pytest.mark.slow
@pytest.mark.parametrize(("save_every_ms", "lines"), [(30_000, 400), (40, 1500), (5, 600)])
async def test_after_a_kill_every_acknowledged_edit_is_there(
    tmp_path: Path, save_every_ms: int, lines: int
) -> None:
    path = tmp_path / "graphs.db"
    async with database_in(path) as database:
        await make_flow(database)
    process = start(workers.edit_until_killed, path, save_every_ms)
    printed = [await line_of(process) for _ in range(lines)]
    process.kill()
    # Not communicate(): it passes over what is already buffered, and may begin in the middle
    # of a line.
    rest = await asyncio.to_thread(process.stdout.read)
    process.communicate()
    assert process.returncode == -9
    whole = rest.rpartition("\n")[0].splitlines()  # the last line may be cut
    acknowledged = [line.split() for line in [*printed, *whole]]
    async with (
        database_in(path) as database,
        LiveGraphs(database.source, database.records) as graphs,
    ):
        await graphs.recover(WORKSPACE)
        nodes = {node.key: node for node in await database.source(WORKSPACE).get_nodes(FLOW)}
        assert await database.records(WORKSPACE).query("journal") == []
    for number in {number for number, _ in acknowledged}:
        counts = [
            int(word) for editor, word in acknowledged if editor == number and "+" not in word
        ]
        stored = cast(dict[str, str], nodes[f"node-{number}"].data)
        # One may be kept and not answered yet, and of one before it the answer's line may be cut.
        assert 0 <= int(stored["name"]) - max(counts) <= 2
        made = {word[1:] for editor, word in acknowledged if editor == number and "+" in word}
        assert all(f"node-{number}-{count}" in nodes for count in made)


LATE = 3_600_000


async def test_a_late_owner_saves_nothing_whatever_its_clock_says() -> None:
    database = await fresh_database()
    async with a_bench(database) as late:
        await late.rename("b", "late")
        async with a_bench(
            database, later_ms=LATE
        ) as owner:  # its journal had the edit, and it has it now
            before = (await owner.stored.get_graph("flow")).revision
            with pytest.raises(LiveElsewhere):
                await late.live.save()  # by its own clock it still holds the graph
            assert late.live.is_closed
            assert (await owner.stored.get_graph("flow")).revision == before
            await owner.live.save()
            assert (await owner.stored_node("b")).data == {"name": "late"}


async def test_a_renewal_at_the_same_time_stops_no_save(bench: Bench) -> None:
    await bench.rename("b", "once")
    (lease,) = await bench.database.records(WORKSPACE).query("lease")
    await bench.database.records(WORKSPACE).put(lease, expected_version=lease.version)
    await bench.live.save()
    assert (await bench.stored_node("b")).data == {"name": "once"}
    await bench.rename("b", "twice")
    bench.clock.now += 10_000
    await bench.graphs.tick()  # renews what a save has written
    await bench.live.save()
    assert (await bench.stored_node("b")).data == {"name": "twice"}


async def test_a_save_whose_answer_was_lost_is_made_up_for(bench: Bench) -> None:
    await bench.rename("b", "kept")
    (journalled,) = await bench.journal()
    node = next(node for node in bench.live.nodes if node.key == "b")
    await bench.stored.apply(put(node))
    await bench.database.records(WORKSPACE).delete(
        "journal", journalled.key, expected_version=str(journalled.version)
    )
    await bench.live.save()
    assert not bench.live.is_closed
    assert (await bench.stored_node("b")).data == {"name": "kept"}
    assert not bench.live.has_unsaved
