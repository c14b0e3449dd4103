"""What the model reads: the truth, in French and English."""

from __future__ import annotations

from graphrag.approvals import Approve, Reject, outcome_text
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, a_bench


async def test_what_was_applied_is_named_with_the_keys_it_got() -> None:
    bench = await a_bench()
    approval = await bench.propose("create_node", typeKey="task")
    assert outcome_text(approval).startswith("NOT DECIDED YET: create a node of type “Task”")
    applied = await bench.approvals().decide(approval.id, Approve(), REVIEWER)
    assert applied.result is not None
    (key,) = applied.result.keys["nodesCreated"]
    assert await bench.source.get_nodes_by_key(FLOW, [key])
    assert f"Approved by rita. new nodes: {key}. The graph is at revision 3." in outcome_text(applied)
    assert f"Approuvé par rita. nœuds créés: {key}. Le graphe est à la révision 3." in outcome_text(
        applied, "fr"
    )


async def test_a_deletion_is_named_with_the_edges_that_went() -> None:
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="d")
    applied = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert "deleted nodes: d; deleted edges: bd, da" in outcome_text(applied)


async def test_braces_in_feedback_are_text() -> None:
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="d")
    rejected = await bench.approvals().decide(approval.id, Reject("{by} {0} {"), EDITOR)
    assert "Nothing has changed. Feedback: {by} {0} {" in outcome_text(rejected)
