"""What takes a change back is a record of its own: lists are light, and old approvals can
still be undone.
"""

import itertools
from typing import Any

import orjson
import pytest

from datasources.base import Database, Record
from datasources.types import Mutation
from graphrag.approvals import Approve, Reject
from graphrag.approvals.errors import RejectedBefore, UndoGone
from graphrag.approvals.stored_parts import INLINE_BYTES, LISTED_KEYS, SHOWN, UNDO, with_undo
from graphrag.approvals.wording import outcome_text
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench, a_node
from tests.graphrag.importers.helpers import Workbench, n8n, n8n_node

MANY = 300


def numbered(number: int) -> dict[str, Any]:
    nodes = [
        n8n_node(f"Node {i}", parameters={"text": "word " * 30, "n": number}) for i in range(MANY)
    ]
    return n8n(nodes)


async def stored_bytes(records: Any) -> int:
    kinds = ("approval", "audit", UNDO, SHOWN)
    found = [await records.query(kind, limit=10_000) for kind in kinds]
    return sum(len(orjson.dumps(record.data)) for record in itertools.chain(*found))


async def test_an_import_again_stores_less_than_its_file_and_is_undone(database: Database) -> None:
    bench = Workbench(database)
    records = bench.database.records(bench.workspace)
    graph = (await bench.take(numbered(0))).graph_key
    before = await stored_bytes(records)
    for number in (1, 2, 3):
        assert (await bench.take(numbered(number))).action == "updated"
    grown = await stored_bytes(records) - before
    assert grown / 3 < len(orjson.dumps(numbered(3)))
    for number in (2, 1):
        await bench.approvals.undo(graph, by=bench.person)
        nodes = (await bench.content(graph)).nodes.values()
        assert {node.data["parameters"]["n"] for node in nodes} == {number}


async def test_a_list_has_the_words_and_counts_of_a_large_change_and_the_approval_has_all_of_it() -> (
    None
):
    bench = Workbench()
    records = bench.database.records(bench.workspace)
    graph = (await bench.take(numbered(0))).graph_key
    await bench.take(numbered(1))
    (listed,) = await bench.approvals.list(by=bench.person, graph_key=graph)
    whole = await bench.approvals.get(listed.id, bench.person)
    assert set(listed.apart) == {UNDO, SHOWN}
    assert len(orjson.dumps(listed.to_document())) < 3 * INLINE_BYTES
    assert listed.preview == {}
    assert len(whole.preview["nodesChanged"]) == MANY
    assert listed.result is not None
    assert whole.result is not None
    assert len(listed.result.keys["nodesChanged"]) == LISTED_KEYS
    assert len(whole.result.keys["nodesChanged"]) == MANY
    assert outcome_text(listed) == outcome_text(whole)
    undoable = await with_undo(records, whole)
    assert undoable.result is not None
    assert undoable.result.inverse is not None
    assert whole.result.inverse is None


async def inline(bench: Bench, approval_id: str) -> None:
    """Store an approval as programs did that kept all of it in one record."""
    approval = await bench.approvals().get(approval_id, EDITOR)
    whole = (await with_undo(bench.records, approval)).changed(apart=())
    record = await bench.records.get("approval", approval_id)
    await bench.records.put(
        Record(kind="approval", key=approval_id, data=whole.to_document()),
        expected_version=record.version,
    )
    for kind in approval.apart:
        part = await bench.records.get(kind, approval_id)
        await bench.records.delete(kind, approval_id, expected_version=part.version)


async def test_an_approval_that_was_stored_with_its_inverse_inside_is_undone_and_redone(
    database: Database,
) -> None:
    bench = await a_bench(database)
    before = await bench.state()
    approval = await bench.propose("delete_node", nodeKey="b")
    await bench.approvals().decide(approval.id, Approve(), REVIEWER)
    after = await bench.state()
    await inline(bench, approval.id)
    undone = await bench.approvals().undo(FLOW, by=REVIEWER)
    assert await bench.state() == before
    await bench.approvals().undo(FLOW, undone.id, by=REVIEWER)
    assert await bench.state() == after
    await bench.approvals().undo(FLOW, by=REVIEWER)
    assert await bench.state() == before


async def test_a_change_whose_undo_data_was_removed_says_so_and_changes_nothing(
    database: Database,
) -> None:
    bench = await a_bench(database)
    await bench.source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("e")]))
    approval = await bench.propose("delete_node", nodeKey="b")
    await bench.approvals().decide(approval.id, Approve(), REVIEWER)
    after = await bench.state()
    part = await bench.records.get(UNDO, approval.id)
    await bench.records.delete(UNDO, approval.id, expected_version=part.version)
    with pytest.raises(UndoGone, match="can no longer be undone"):
        await bench.approvals().undo(FLOW, by=REVIEWER)
    assert await bench.state() == after


async def test_a_large_proposal_that_was_rejected_may_be_made_again_once_the_graph_has_changed() -> (
    None
):
    bench = await a_bench()
    text = {"data.text": "word " * INLINE_BYTES}
    first = await bench.propose("update_node", nodeKey="b", changes=text)
    await bench.approvals().decide(first.id, Reject(), REVIEWER)
    with pytest.raises(RejectedBefore):
        await bench.propose("update_node", nodeKey="b", changes=text)
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    changed = node.replace(data={**node.data, "text": "other"})
    await bench.source.apply(Mutation(graph_key=FLOW, put_nodes=[changed]))
    assert (await bench.propose("update_node", nodeKey="b", changes=text)).is_open
