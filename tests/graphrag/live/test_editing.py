"""Editors' requests: checked whole, done whole or not at all, announced in order to
the editors concerned.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from datasources.types import Mutation
from graphrag.live import EditRefused, LiveGraphClosed, LiveOptions, members
from graphrag.live.edits import (
    create_elements,
    create_sheet,
    delete_elements,
    delete_sheet,
    rename_sheet,
)
from graphrag.live.instruction_batch import apply_instructions
from graphrag.live.live_graph import LiveGraph
from tests.contracts.samples import FLOW
from tests.graphrag.live.helpers import (
    Bench,
    a_bench,
    a_raw_edge,
    a_raw_node,
    heard,
    instruct,
    plain,
    plain_stored,
    rename,
)


async def test_a_batch_with_one_wrong_instruction_changes_nothing(bench: Bench) -> None:
    before = plain(bench.live)
    other = bench.live.join("bob", "0")
    with pytest.raises(EditRefused, match=r"instructions\.1.*BOOL_TOG") as refused:
        await bench.live.edit(
            "ann",
            None,
            apply_instructions,
            [rename("b", "Other"), instruct("c", 13, ["data", "name"])],
        )
    assert refused.value.where == "instructions.1"
    assert plain(bench.live) == before
    assert await bench.journal() == []
    assert heard(other) == []


WRONG: list[tuple[str, Any]] = [
    ("instructions", []),
    ("instructions", [rename("b", "x")] * 4_001),
    ("instructions.0.nodeId", [rename("nobody", "x")]),
    ("instructions.0.nodeId", [rename("b", "x", sheet="1")]),
    ("instructions.0.sheetId", [rename("b", "x", sheet="9")]),
    ("instructions.0", [instruct("b", 1, ["_key"], v="c")]),
    ("instructions.0", [instruct("b", 1, ["graphKey"], v="other")]),
    ("instructions.0", [instruct("b", 1, ["sheet"], v="1")]),
    ("instructions.0", [instruct("b", 1, [], v={"_key": "c"})]),
    ("instructions.0", [instruct("b", 1, ["data", "__proto__"], v=1)]),
    ("instructions.0", [instruct("b", 1, ["nowhere", "x"], v=1)]),
    ("instructions.0.posX.int", [instruct("b", 1, ["posX"], v="left")]),
    ("instructions.0.type", [instruct("b", 2, ["type"])]),
    ("instructions.0", [instruct("b", 1, ["data", "name"], v="\ud800")]),
    ("instructions.0", [instruct("b", 1, ["data", "name"], v="x" * 2_000_001)]),
    ("instructions.0", [instruct("b", 6, ["process"], s="c", r="c" * 2_000_000)]),
    ("instructions.0.targetedIdentifier", [instruct("b", 1, ["type"], v="x", targetedIdentifier="q")]),
]  # fmt: skip


@pytest.mark.parametrize(("where", "instructions"), [*WRONG])
async def test_a_wrong_instruction_is_refused_by_its_place(where: str, instructions: Any) -> None:
    async with a_bench() as bench:
        before = plain(bench.live)
        with pytest.raises(EditRefused) as refused:
            await bench.live.edit("ann", None, apply_instructions, instructions)
        assert refused.value.where == where
        assert plain(bench.live) == before


async def test_the_targeted_identifier_is_that_of_the_object_around_the_place(bench: Bench) -> None:
    page = {"identifier": "0", "content": [{"identifier": "k", "text": "old"}]}
    await bench.live.edit("ann", None, apply_instructions, [instruct("b", 1, ["data"], v=page)])
    path = ["data", "content", "0", "text"]
    right = instruct("b", 1, path, v="new", targetedIdentifier="k")
    await bench.live.edit("ann", None, apply_instructions, [right])
    inserted = instruct("b", 3, ["data", "content"], v={"identifier": "x"}, targetedIdentifier="0")
    await bench.live.edit("ann", None, apply_instructions, [inserted])
    for wrong in ("0", "x", ""):
        with pytest.raises(EditRefused, match="another object"):
            await bench.live.edit(
                "ann",
                None,
                apply_instructions,
                [instruct("b", 1, path, v="bad", targetedIdentifier=wrong)],
            )


async def test_what_is_inserted_gets_identifiers_of_its_own(bench: Bench) -> None:
    other = bench.live.join("bob", "0")
    copy = {"identifier": "a", "content": [{"identifier": "a"}, {"text": "identifier"}]}
    asked = instruct("b", 1, ["data"], v=copy, applyUniqIdentifier="identifier")
    applied = await bench.live.edit("ann", None, apply_instructions, [asked])
    value = applied.message["instructions"][0]["i"]["v"]
    assert plain(bench.live)["nodes"]["b"]["data"] == value
    assert len({value["identifier"], value["content"][0]["identifier"], "a"}) == 3
    assert value["content"][1] == {"text": "identifier"}
    assert heard(other)[0] == applied.message


async def test_an_edge_cannot_be_led_to_a_node_that_is_not_there(bench: Bench) -> None:
    asked = instruct("b", 1, ["target"], v="nobody").model_copy(
        update={"node_id": None, "edge_id": "ab"}
    )
    with pytest.raises(EditRefused, match="nobody"):
        await bench.live.edit("ann", None, apply_instructions, [asked])


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ([], []),
        ([a_raw_node("a")], []),
        ([a_raw_node("n"), a_raw_node("n")], []),
        ([{**a_raw_node("n"), "graphKey": "other"}], []),
        ([a_raw_node("n", sheet="1")], []),
        ([{"_key": "n", "graphKey": FLOW, "sheet": "0"}], []),
        ([{**a_raw_node("n"), "data": float("nan")}], []),
        ([{**a_raw_node("n"), "_key": "a\x00b"}], []),
        ([a_raw_node("n")], [a_raw_edge("e", "n", "nobody")]),
        ([], [a_raw_edge("ab", "a", "b")]),
        ([], [{**a_raw_edge("e", "a", "b"), "graphKey": "other"}]),
    ],
)
async def test_wrong_elements_are_refused_with_all_the_others(nodes: Any, edges: Any) -> None:
    async with a_bench() as bench:
        before = plain(bench.live)
        with pytest.raises(EditRefused):
            await bench.live.edit(
                "x",
                None,
                create_elements,
                "0",
                [a_raw_node("fine"), *nodes] if nodes or edges else [],
                edges,
            )
        assert plain(bench.live) == before


async def test_deleting_a_node_takes_its_edges_along_and_says_so(bench: Bench) -> None:
    other = bench.live.join("bob", "1")
    applied = await bench.live.edit("ann", None, delete_elements, "0", ["c"], ["ab"])
    assert applied.message["edgeKeys"] == ["ab", "bc1", "bc2", "cc"]
    assert heard(other)  # an edge of that sheet went too
    await bench.live.save()
    assert plain(bench.live) == await plain_stored(bench.stored)


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [([], []), (["nobody"], []), (["apart"], []), (["a", "a"], []), ([], ["cc"])],
)
async def test_deleting_what_the_sheet_has_not_is_refused(
    nodes: list[str], edges: list[str]
) -> None:
    async with a_bench() as bench:
        before = plain(bench.live)
        with pytest.raises(EditRefused):
            await bench.live.edit("ann", None, delete_elements, "0", nodes, edges)
        assert plain(bench.live) == before


async def test_sheets_are_made_renamed_and_deleted_with_what_is_on_them(bench: Bench) -> None:
    made = await bench.live.edit("ann", None, create_sheet, "Third")
    assert made.message["key"] == "2"
    await bench.live.edit("ann", None, rename_sheet, "2", "Drei")
    await bench.live.edit("ann", None, create_elements, "2", [a_raw_node("n", sheet="2")], [])
    await bench.live.save()
    assert (await bench.stored.get_graph(FLOW)).sheets_list == {
        "0": "main",
        "1": "side",
        "2": "Drei",
    }
    await bench.live.edit("ann", None, delete_sheet, "1")
    await bench.live.edit("ann", None, delete_sheet, "2")
    await bench.live.save()
    assert plain(bench.live) == await plain_stored(bench.stored)
    assert plain(bench.live)["nodes"].keys() == {"a", "b", "c", "d"}
    with pytest.raises(EditRefused, match="at least one"):
        await bench.live.edit("ann", None, delete_sheet, "0")


@pytest.mark.parametrize(
    "ask",
    [
        lambda live: live.edit("ann", None, create_sheet, "x", key="0"),
        lambda live: live.edit("ann", None, create_sheet, "x", key="one"),
        lambda live: live.edit("ann", None, create_sheet, "x", key="007"),
        lambda live: live.edit("ann", None, create_sheet, " "),
        lambda live: live.edit("ann", None, create_sheet, "x" * 300),
        lambda live: live.edit("ann", None, rename_sheet, "9", "x"),
        lambda live: live.edit("ann", None, delete_sheet, "9"),
    ],
)
async def test_wrong_sheets_are_refused(ask: Callable[[LiveGraph], Any]) -> None:
    async with a_bench() as bench:
        with pytest.raises(EditRefused):
            await ask(bench.live)


async def test_a_graph_of_one_sheet_keeps_it(bench: Bench) -> None:
    graph = await bench.stored.get_graph(FLOW)
    changed = graph.replace(metadata={"noMultipleSheet": True})
    await bench.stored.apply(Mutation(graph_key=FLOW, graph=changed))
    await bench.live.refresh()
    for ask in (
        bench.live.edit("ann", None, create_sheet, "x"),
        bench.live.edit("ann", None, rename_sheet, "0", "x"),
        bench.live.edit("ann", None, delete_sheet, "1"),
    ):
        with pytest.raises(EditRefused, match="one sheet"):
            await ask


async def test_who_comes_back_gets_what_was_missed_also_when_the_clock_went_back(
    bench: Bench,
) -> None:
    first = await bench.rename("b", "one")
    bench.clock.now -= 60_000
    await bench.rename("apart", "two", sheet="1")
    await bench.rename("b", "three")
    back = bench.live.join("bob", "0", first.timestamp)
    assert [m.message["instructions"][0]["i"]["v"] for m in back.missed] == ["three"]
    assert back.is_complete
    assert heard(back) == []
    assert bench.live.join("bob", "0", back.timestamp).missed == ()
    assert len(bench.live.join("bob", "0", 0).missed) == 2


async def test_who_was_away_for_too_long_has_to_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MEMBER_LIMITS", replace(members.MEMBER_LIMITS, remembered=3))
    async with a_bench() as bench:
        assert bench.live.join("bob", "0", bench.live.join("ann", "0").timestamp).is_complete
        done = [await bench.rename("b", str(i)) for i in range(6)]
        assert not bench.live.join("bob", "0", done[1].timestamp).is_complete
        assert bench.live.join("bob", "0", done[2].timestamp).is_complete


async def test_what_waits_for_a_member_and_for_who_was_away_is_bounded_in_bytes(
    bench: Bench,
) -> None:
    slow = bench.live.join("bob", "0")
    seen = slow.timestamp
    for number in range(30):
        await bench.rename("b", str(number % 10) * 500_000)
    assert slow.is_gone
    with pytest.raises(LiveGraphClosed) as closed:
        await slow.next()
    assert "keep up" in closed.value.reason
    late = bench.live.join("cyd", "0", seen)
    assert not late.is_complete
    assert 0 < sum(len(missed.text) for missed in late.missed) <= 4_000_000


async def test_the_time_of_a_look_is_never_that_of_a_change_it_does_not_show(bench: Bench) -> None:
    stored = asyncio.Event()
    write = bench.records.write

    async def slow_write(*args: Any, **more: Any) -> Any:
        stored.set()
        for _ in range(20):
            await asyncio.sleep(0)
        return await write(*args, **more)

    bench.records.write = slow_write
    before = bench.live.timestamp
    edit = asyncio.create_task(bench.rename("b", "new"))
    await stored.wait()
    assert plain(bench.live)["nodes"]["b"]["data"] == {"name": "Fetch invoices"}
    assert bench.live.timestamp == before
    assert bench.live.timestamp < (await edit).timestamp == bench.live.timestamp


async def test_many_instructions_are_one_edit_and_are_sent_in_messages_of_twenty(
    bench: Bench,
) -> None:
    other = bench.live.join("bob", "0")
    asked = [instruct("b", 1, ["posX"], v=value) for value in range(50)]
    done = await bench.live.edit("ann", None, apply_instructions, asked)
    assert len(done.message["instructions"]) == 50
    sent = [m["instructions"] for m in heard(other) if "instructions" in m]
    assert [len(part) for part in sent] == [20, 20, 10]
    before = plain(bench.live)
    await bench.live.undo("ann")
    assert plain(bench.live) != before
    assert await bench.live.undo("ann") is None


async def test_what_happened_before_a_graph_was_opened_is_not_called_complete() -> None:
    """Neither the time of a stored graph nor a clock that goes back tells what
    others stored meanwhile.
    """
    async with a_bench() as bench:
        stored_time = (await bench.stored.get_graph(FLOW)).last_updated_time
        assert not bench.live.join("bob", "0", stored_time).is_complete
        seen = bench.live.join("bob", "0").timestamp
        assert bench.live.join("bob", "0", seen).is_complete
        assert not bench.live.join("bob", "0", seen - 1).is_complete
        bench.clock.now -= 60_000
        done = await bench.rename("b", "one")
        assert done.timestamp > seen
        back = bench.live.join("bob", "0", seen)
        assert (len(back.missed), back.is_complete) == (1, True)


async def test_a_slow_member_is_let_go_and_the_others_go_on() -> None:
    async with a_bench(options=LiveOptions(tick_ms=3_600_000, queued=5)) as bench:
        slow = bench.live.join("slow", "0")
        quick = bench.live.join("quick", "0")
        seen: list[Any] = []
        for i in range(10):
            await bench.rename("b", str(i))
            seen += heard(quick)
        assert len(seen) == 11
        with pytest.raises(LiveGraphClosed) as closed:
            await slow.next()
        assert "keep up" in closed.value.reason
        assert bench.live.members == [quick]


async def test_a_refused_request_does_not_hinder_those_beside_it(bench: Bench) -> None:
    asked = [bench.rename(key, "x") for key in ("b", "nobody", "c")]
    first, wrong, last = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(wrong, EditRefused)
    assert not isinstance(first, BaseException)
    assert not isinstance(last, BaseException)


async def test_closing_ends_every_member_and_refuses_more() -> None:
    async with a_bench() as bench:
        member = bench.live.join("bob", "0")
        live = bench.live
        await live.edit("ann", None, apply_instructions, [rename("b", "kept")])
    assert [m["type"] for m in heard(member)] == [
        "applyInstructionToGraph",
        "saveStatus",
        "saveStatus",
    ]
    with pytest.raises(LiveGraphClosed) as closed:
        await member.next()
    assert "stops" in closed.value.reason
    with pytest.raises(LiveGraphClosed):
        await live.edit("ann", None, apply_instructions, [rename("b", "late")])
    assert (await bench.stored_node("b")).data == {"name": "kept"}
