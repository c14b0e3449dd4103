"""What editors did is kept and can be taken back, whatever it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphrag.live import EditRefused, LiveGraph
from tests.contracts.samples import FLOW, WORKSPACE
from tests.graphrag.live.helpers import (
    Bench,
    a_bench,
    a_raw_edge,
    a_raw_node,
    instruct,
    plain,
    plain_stored,
    rename,
)


async def _latest(bench: Bench) -> str:
    records = await bench.database.records(WORKSPACE).query(
        "history", {"graphKey": FLOW}, order_by="timestamp", descending=True, limit=1
    )
    return records[0].key


APPENDED = instruct("b", 10, ["process"], v="\U0001f525")
MOVED = instruct("c", 1, ["posX"], v=5)
Ask = Callable[[LiveGraph], Any]
DEEDS: list[Ask] = [
    lambda live: live.apply_instructions([rename("b", "x"), APPENDED], "u"),
    lambda live: live.apply_instructions([instruct("b", 2, ["process"]), MOVED], "u"),
    lambda live: live.apply_instructions([instruct("d", 14, ["handles", "L", "point"], i=0)], "u"),
    lambda live: live.create_elements("0", [a_raw_node("n")], [a_raw_edge("e", "n", "a")], "u"),
    lambda live: live.delete_elements("0", ["b"], ["da"], "u"),
    lambda live: live.delete_elements("1", ["apart"], ["cc"], "u"),
    lambda live: live.create_sheet("new", "u"),
    lambda live: live.rename_sheet("1", "other", "u"),
    lambda live: live.delete_sheet("1", "u"),
]  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS)
async def test_what_was_done_is_taken_back_and_told_to_the_others(deed: Ask) -> None:
    async with a_bench() as bench:
        before = plain(bench.live)
        await deed(bench.live)
        await bench.live.save()
        assert plain(bench.live) != before
        members = [
            bench.live.join("bob", sheet) for sheet in ("0", "1") if sheet in plain(bench.live)["sheets"]
        ]
        await bench.live.take_back(await _latest(bench), "ann")
        assert plain(bench.live) == before
        assert all(m["userId"] == "ann" for member in members for m in member.waiting() if "userId" in m)
        await bench.live.save()
        assert await plain_stored(bench.stored) == before
        await bench.live.take_back(await _latest(bench), "ann")  # and back again
        assert plain(bench.live) != before


async def test_many_deeds_of_one_save_are_taken_back_together() -> None:
    async with a_bench() as bench:
        before = plain(bench.live)
        for deed in (*DEEDS[:5], *DEEDS[6:]):
            await deed(bench.live)
        await bench.live.save()
        await bench.live.take_back(await _latest(bench), "ann")
        assert plain(bench.live) == before


async def test_history_tells_who_did_what_when() -> None:
    async with a_bench() as bench:
        done = await bench.live.apply_instructions([rename("b", "new")], "ann")
        await bench.live.save()
        record = await bench.database.records(WORKSPACE).get("history", await _latest(bench))
        assert record is not None
        assert (record.data["graphKey"], record.data["type"]) == (FLOW, "WF")
        (entry,) = record.data["history"]
        assert entry["userId"] == "ann"
        assert entry["timestamp"] == record.data["timestamp"] == done.timestamp
        assert entry["reversedInstruction"] == [{"o": 1, "p": ["data", "name"], "v": "Fetch invoices"}]


@pytest.mark.parametrize(
    ("deed", "meanwhile"),
    [
        (DEEDS[3], lambda live: live.delete_elements("0", ["n"], [], "u")),
        (DEEDS[3], lambda live: live.create_elements("0", [], [a_raw_edge("e2", "a", "n")], "u")),
        (DEEDS[4], lambda live: live.create_elements("0", [a_raw_node("b")], [], "u")),
        (DEEDS[0], lambda live: live.delete_elements("0", ["b"], [], "u")),
        (DEEDS[6], lambda live: live.create_elements("2", [a_raw_node("m", sheet="2")], [], "u")),
    ],
)
async def test_what_a_later_change_x_not_taken_back_at_all(deed: Ask, meanwhile: Ask) -> None:
    async with a_bench() as bench:
        await deed(bench.live)
        await bench.live.save()
        key = await _latest(bench)
        await meanwhile(bench.live)
        before = plain(bench.live)
        with pytest.raises(EditRefused, match="history"):
            await bench.live.take_back(key, "ann")
        assert plain(bench.live) == before


async def test_history_of_another_graph_is_not_there() -> None:
    async with a_bench() as bench:
        for key in ("nobody", "other/000001"):
            with pytest.raises(EditRefused):
                await bench.live.take_back(key, "ann")
