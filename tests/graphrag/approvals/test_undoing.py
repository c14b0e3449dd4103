"""Taking changes back: byte for byte, audited, and never over what was built on them since."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.types import Mutation
from graphrag.approvals import ApprovalNotFound, Approvals, Approve, ProposalRefused, outcome_text
from graphrag.approvals.errors import NothingToUndo, UndoRefused
from tests.contracts.samples import a_graph, a_node, a_vector, an_edge
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench
from tests.tools.proposing import actions, make_graph


async def _applied(bench: Bench, kind: str, **payload: Any) -> str:
    approval = await bench.propose(kind, **payload)
    done = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert done.status == "applied"
    return approval.id


@given(st.lists(actions, min_size=1, max_size=6))
@pytest.mark.slow
async def test_a_turn_of_random_changes_is_undone_and_redone_in_one_step(
    raws: list[dict[str, Any]],
) -> None:
    bench = Bench(database=await make_graph())
    before = await bench.stored_bytes()
    made = 0
    for raw in raws:
        try:
            approval = await bench.propose(raw["type"], **raw["payload"])
        except ProposalRefused:
            continue
        made += (await bench.approvals().decide(approval.id, Approve(), EDITOR)).status == "applied"
    if not made:
        return
    left = await bench.stored_bytes()
    undo = await bench.approvals().undo(FLOW, by=EDITOR, turn=True)
    assert await bench.stored_bytes() == before
    assert len([undo.undoes, *undo.undoes_also]) == made
    redo = await bench.approvals().undo(FLOW, undo.id, by=EDITOR)
    assert await bench.stored_bytes() == left
    await bench.approvals().undo(FLOW, redo.id, by=EDITOR)
    assert await bench.stored_bytes() == before
    with pytest.raises(NothingToUndo):
        await bench.approvals().undo(FLOW, by=EDITOR)
    assert len(await bench.approvals().audit.entries()) == made + 3
    assert (await bench.approvals().audit.verify()).is_sound


@given(st.lists(actions, min_size=1, max_size=6))
async def test_random_changes_are_undone_and_redone_byte_for_byte(
    raws: list[dict[str, Any]],
) -> None:
    bench = Bench(database=await make_graph())
    states = [await bench.stored_bytes()]
    for raw in raws:
        try:
            approval = await bench.propose(raw["type"], **raw["payload"])
        except ProposalRefused:
            assert await bench.stored_bytes() == states[-1]
            continue
        await bench.approvals().decide(approval.id, Approve(), EDITOR)
        states.append(await bench.stored_bytes())
    undone: list[str] = []
    for expected in reversed(states[:-1]):
        undone.append((await bench.approvals().undo(FLOW, by=EDITOR)).id)
        assert await bench.stored_bytes() == expected
    for expected in states[1:]:
        await bench.approvals().undo(FLOW, undone.pop(), by=EDITOR)
        assert await bench.stored_bytes() == expected
    assert (await bench.approvals().audit.verify()).is_sound
    entries = await bench.approvals().audit.entries()
    assert len(entries) == 3 * (len(states) - 1)


async def test_an_undo_brings_back_the_vectors_of_what_was_changed_and_deleted(
    bench: Bench,
) -> None:
    before = await bench.stored_bytes()
    changed = await _applied(bench, "update_node", nodeKey="b", changes={"data.name": "Other"})
    deleted = await _applied(bench, "delete_node", nodeKey="d")
    await bench.source.put_embeddings(FLOW, [a_vector("b", 9.0, 9.0, hash="other")])
    await bench.approvals().undo(FLOW, deleted, by=EDITOR)
    await bench.approvals().undo(FLOW, changed, by=EDITOR)
    assert await bench.stored_bytes() == before


async def test_an_undone_change_is_not_undone_twice_but_again_after_its_redo(bench: Bench) -> None:
    before = await bench.stored_bytes()
    change = await _applied(bench, "delete_node", nodeKey="d")
    undo = await bench.approvals().undo(FLOW, change, by=EDITOR)
    with pytest.raises(NothingToUndo):
        await bench.approvals().undo(FLOW, change, by=EDITOR)
    redo = await bench.approvals().undo(FLOW, undo.id, by=EDITOR)
    assert redo.undoes == undo.id
    assert (await bench.approvals().undo(FLOW, by=EDITOR)).undoes == change
    assert await bench.stored_bytes() == before
    events = [entry.facts["event"] for entry in await bench.approvals().audit.entries()]
    assert events == ["undone", "redone", "undone", "applied"]


async def test_what_was_said_of_an_undone_change_is_no_longer_that_it_stands(bench: Bench) -> None:
    change = await _applied(bench, "delete_node", nodeKey="d")
    undo = await bench.approvals().undo(FLOW, by=REVIEWER)
    assert outcome_text(await bench.approvals().get(change, EDITOR)).startswith(
        "APPLIED, BUT UNDONE"
    )
    assert outcome_text(undo).startswith("UNDONE: delete “Écrire le journal”. By rita.")


async def test_the_undo_of_a_turn_keeps_what_others_changed_between_its_changes(
    bench: Bench,
) -> None:
    first = await _applied(bench, "update_node", nodeKey="b", changes={"data.name": "One"})
    await bench.rename("b", "One", posX=77.0)
    await _applied(bench, "update_node", nodeKey="b", changes={"data.level": "two"})
    other = await bench.propose("delete_node", thread="t2", nodeKey="d")
    await bench.approvals().decide(other.id, Approve(), EDITOR)
    undo = await bench.approvals().undo(FLOW, first, by=REVIEWER, turn=True)
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert (node.data, node.pos_x) == ({"name": "Fetch invoices"}, 77.0)
    assert not await bench.source.get_nodes_by_key(FLOW, ["d"])
    assert outcome_text(undo).startswith(
        "UNDONE: 2 changes: rename “Fetch invoices” to “One”; change level of “Fetch invoices”"
    )
    (entry, *_) = await bench.approvals().audit.entries()
    assert entry.facts["event"] == "undone"
    assert [entry.facts["undoes"], *entry.facts["undoesAlso"]][-1] == first


async def test_the_undo_of_a_turn_is_refused_whole_when_one_change_is_rested_upon(
    bench: Bench,
) -> None:
    await _applied(bench, "update_node", nodeKey="b", changes={"data.name": "One"})
    await _applied(bench, "delete_node", nodeKey="d")
    await bench.rename("b", "Two")
    before = await bench.stored_bytes()
    with pytest.raises(UndoRefused, match=r"node/b: data\.name"):
        await bench.approvals().undo(FLOW, by=EDITOR, turn=True)
    assert await bench.stored_bytes() == before


async def _refused(bench: Bench, change: str, says: str) -> None:
    before = await bench.stored_bytes()
    revision = await bench.revision()
    with pytest.raises(UndoRefused) as caught:
        await bench.approvals().undo(FLOW, change, by=EDITOR)
    assert any(says in found for found in caught.value.changed), caught.value.changed
    assert "changements ultérieurs" in caught.value.text("fr")
    assert await bench.stored_bytes() == before
    assert await bench.revision() == revision
    assert (await bench.approvals().get(change, EDITOR)).undone_by is None


IN_THE_WAY: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("delete_edge", {"edgeKey": "bd"}, {"delete_nodes": ["d"]}, "edge/bd: node d is gone"),
    (
        "delete_edge",
        {"edgeKey": "bd"},
        {"put_edges": [an_edge("again", "b", "d")]},
        "edge/again: connects the same",
    ),
    (
        "delete_node",
        {"nodeKey": "d"},
        {"put_nodes": [a_node("d", data="mine")]},
        "node/d: is there again",
    ),
]


@pytest.mark.parametrize(("kind", "payload", "meanwhile", "says"), [*IN_THE_WAY])
async def test_what_was_deleted_does_not_come_back_where_something_is_in_the_way(
    kind: str, payload: dict[str, Any], meanwhile: dict[str, Any], says: str
) -> None:
    bench = await a_bench()
    change = await _applied(bench, kind, **payload)
    await bench.source.apply(Mutation(graph_key=FLOW, **meanwhile))
    await _refused(bench, change, says)


async def test_an_undo_is_refused_when_a_later_edge_hangs_on_the_new_node(bench: Bench) -> None:
    change = await _applied(bench, "create_node", typeKey="task")
    (key,) = (await bench.approvals().get(change, EDITOR)).result.keys["nodesCreated"]  # type: ignore[union-attr]
    await bench.source.apply(Mutation(graph_key=FLOW, put_edges=[an_edge("late", "a", key)]))
    await _refused(bench, change, "edge/late")


async def test_an_undo_is_refused_when_the_new_node_got_content_of_its_own(bench: Bench) -> None:
    change = await _applied(bench, "create_node", typeKey="task", data={"name": "New"})
    (key,) = (await bench.approvals().get(change, EDITOR)).result.keys["nodesCreated"]  # type: ignore[union-attr]
    await bench.rename(key, "Work put into it")
    await _refused(bench, change, f"node/{key}: data.name")


async def test_a_new_node_that_only_moved_can_be_taken_back(bench: Bench) -> None:
    before = await bench.stored_bytes()
    change = await _applied(bench, "create_node", typeKey="task", data={"name": "New"})
    (key,) = (await bench.approvals().get(change, EDITOR)).result.keys["nodesCreated"]  # type: ignore[union-attr]
    await bench.rename(key, "New", pos_x=999)
    await bench.approvals().undo(FLOW, change, by=EDITOR)
    assert await bench.stored_bytes() == before


@pytest.mark.parametrize("edge", ["bc1", "cc"])
async def test_an_edge_that_never_fitted_the_rules_comes_back_all_the_same(edge: str) -> None:
    bench = await a_bench()
    before = await bench.stored_bytes()
    await _applied(bench, "delete_edge", edgeKey=edge)
    await bench.approvals().undo(FLOW, by=EDITOR)
    assert await bench.stored_bytes() == before


async def test_an_undo_is_refused_when_another_graph_uses_the_new_type(bench: Bench) -> None:
    change = await _applied(
        bench, "configure_node_type", mode="create", typeKey="made", displayName="Made"
    )
    await bench.source.create_graph(a_graph("other"))
    await bench.source.apply(
        Mutation(graph_key="other", put_nodes=[a_node("n", "other", type="made")])
    )
    await _refused(bench, change, "type/made: 1 nodes of graph other")


async def test_an_undo_is_refused_when_its_sheet_was_deleted(bench: Bench) -> None:
    change = await _applied(bench, "delete_node", nodeKey="apart")
    graph = await bench.source.get_graph(FLOW)
    await bench.source.apply(
        Mutation(
            graph_key=FLOW, delete_edges=["cc"], graph=graph.replace(sheets_list={"0": "main"})
        )
    )
    await _refused(bench, change, "sheet")


async def test_what_is_not_applied_or_of_another_graph_cannot_be_undone(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="d")
    with pytest.raises(NothingToUndo):
        await bench.approvals().undo(FLOW, approval.id, by=EDITOR)
    await bench.source.create_graph(a_graph("other"))
    with pytest.raises(ApprovalNotFound):
        await bench.approvals().undo("other", approval.id, by=EDITOR)


async def test_of_many_simultaneous_undos_one_happens(bench: Bench) -> None:
    before = await bench.stored_bytes()
    change = await _applied(bench, "delete_node", nodeKey="d")
    services: list[Approvals] = [bench.approvals() for _ in range(20)]
    results = await asyncio.gather(
        *(service.undo(FLOW, change, by=EDITOR) for service in services), return_exceptions=True
    )
    assert [type(found) for found in results].count(NothingToUndo) == 19
    assert await bench.stored_bytes() == before
