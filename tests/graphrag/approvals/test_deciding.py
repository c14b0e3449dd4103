"""What a decision does: once, what was shown, or nothing with the reason."""

from __future__ import annotations

import pytest

from graphrag.approvals import (
    AlreadyDecided,
    Approve,
    ApproveEdited,
    Decision,
    ProposalRefused,
    Reject,
    outcome_text,
)
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, a_bench
from tests.support.each_row import each_row


async def test_an_approved_proposal_is_applied_recorded_and_audited_together() -> None:
    bench = await a_bench()
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Get invoices"})
    applied = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert node.data == {"name": "Get invoices"}
    assert applied.status == "applied"
    assert applied.result is not None
    assert applied.result.revision == await bench.revision()
    (entry,) = await bench.approvals().audit.entries(approval_id=approval.id)
    assert entry.facts["event"] == "applied"
    assert entry.facts["changes"] == {"nodesChanged": ["b"]}
    assert entry.facts["asker"] == entry.facts["userId"] == "ed"
    assert entry.facts["model"] == "a-model"


async def test_an_applied_change_and_its_undo_are_changes_of_the_graph_at_their_time() -> None:
    bench = await a_bench()
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Get invoices"})
    bench.clock.now += 5_000
    await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert (await bench.source.get_graph(FLOW)).last_updated_time == bench.clock.now
    bench.clock.now += 5_000
    await bench.approvals().undo(FLOW, approval.id, by=EDITOR)
    assert (await bench.source.get_graph(FLOW)).last_updated_time == bench.clock.now


async def test_a_rejected_proposal_leaves_the_graph_and_its_revision_unchanged() -> None:
    bench = await a_bench()
    before, revision = await bench.state(), await bench.revision()
    approval = await bench.propose("delete_node", nodeKey="b")
    rejected = await bench.approvals().decide(approval.id, Reject("keep it \ud800"), REVIEWER)
    assert rejected.status == "rejected"
    assert "keep it ?" in outcome_text(rejected)
    assert await bench.state() == before
    assert await bench.revision() == revision
    (entry,) = await bench.approvals().audit.entries(approval_id=approval.id)
    assert (entry.facts["event"], entry.facts["feedback"]) == ("rejected", "keep it ?")


EDIT = {"type": "update_node", "payload": {"nodeKey": "b", "changes": {"data.name": "Load invoices"}}}


@each_row("decision", [Approve("well seen"), ApproveEdited(EDIT, "well seen"), Reject("well seen")])
async def test_feedback_on_any_decision_is_stored_audited_and_in_the_outcome(decision: Decision) -> None:
    bench = await a_bench()
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Get invoices"})
    await bench.approvals().decide(approval.id, decision, REVIEWER)
    done = await bench.approvals().get(approval.id, EDITOR)
    assert done.decision is not None
    assert done.decision.feedback == "well seen"
    assert outcome_text(done).endswith(" Feedback: well seen")
    assert outcome_text(done, "fr").endswith(" Commentaire : well seen")
    (entry,) = await bench.approvals().audit.entries(approval_id=approval.id)
    assert entry.facts["feedback"] == "well seen"


async def test_a_second_decision_says_who_decided_what() -> None:
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    await bench.approvals().decide(approval.id, Reject(), REVIEWER)
    with pytest.raises(AlreadyDecided, match="rita has rejected") as caught:
        await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert (caught.value.status, caught.value.by) == ("rejected", "rita")
    assert "a déjà rejeté" in caught.value.text("fr")


async def test_an_edited_action_is_carried_out_and_both_are_kept() -> None:
    bench = await a_bench()
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Get invoices"})
    edit = {"type": "update_node", "payload": {"nodeKey": "b", "changes": {"data.name": "Load invoices"}}}
    applied = await bench.approvals().decide(approval.id, ApproveEdited(edit), REVIEWER)
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert node.data == {"name": "Load invoices"}
    assert applied.action == approval.action
    assert applied.decision is not None
    assert applied.decision.action_hash not in (None, applied.action_hash)
    assert "APPLIED WITH CHANGES: rita" in outcome_text(applied)
    (entry,) = await bench.approvals().audit.entries(approval_id=approval.id)
    assert entry.facts["editedActionHash"] == applied.decision.action_hash


async def test_an_edit_that_does_not_fit_leaves_the_proposal_to_be_decided() -> None:
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    edit = {"type": "delete_node", "payload": {"nodeKey": "nowhere"}}
    with pytest.raises(ProposalRefused, match="nowhere"):
        await bench.approvals().decide(approval.id, ApproveEdited(edit), REVIEWER)
    assert (await bench.approvals().get(approval.id, REVIEWER)).status == "pending"


async def test_an_edit_that_edits_nothing_is_a_plain_approval() -> None:
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    applied = await bench.approvals().decide(approval.id, ApproveEdited(approval.action), REVIEWER)
    assert applied.decision is not None
    assert (applied.decision.verdict, applied.decision.action) == ("approve", None)


async def test_a_disjoint_change_is_rebased() -> None:
    bench = await a_bench()
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.limit": 5})
    await bench.rename("c", "Something else")
    await bench.rename("b", "Renamed meanwhile", pos_x=70)
    applied = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert applied.status == "applied"
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert node.data == {"name": "Renamed meanwhile", "limit": 5}
    assert node.pos_x == 70


async def test_what_was_touched_meanwhile_makes_a_proposal_stale_and_changes_nothing() -> None:
    bench = await a_bench()
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Get invoices"})
    await bench.rename("b", "Renamed meanwhile")
    before, revision = await bench.state(), await bench.revision()
    stale = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert stale.status == "stale"
    assert "field/b/data.name" in outcome_text(stale)
    assert outcome_text(stale, "fr").startswith("PÉRIMÉ")
    assert await bench.state() == before
    assert await bench.revision() == revision


async def test_a_deletion_is_stale_when_an_edge_was_added_that_would_go_too() -> None:
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="d")
    other = await bench.propose(
        "create_edge", thread="t2", sourceKey="d", sourceHandle="0", targetKey="c", targetHandle="0"
    )
    await bench.approvals().decide(other.id, Approve(), EDITOR)
    stale = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert stale.status == "stale"


async def test_a_proposal_on_a_graph_that_is_gone_fails_with_the_reason() -> None:
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="d")
    await bench.source.delete_graph(FLOW)
    failed = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert failed.status == "failed"
    assert "no longer exists" in outcome_text(failed)


async def test_a_proposal_that_cannot_be_carried_out_is_refused_with_its_problems() -> None:
    bench = await a_bench()
    with pytest.raises(ProposalRefused) as caught:
        await bench.propose("delete_node", nodeKey="nowhere")
    assert caught.value.problems[0].unknown_node == "nowhere"
    assert await bench.approvals().list(by=EDITOR) == []
