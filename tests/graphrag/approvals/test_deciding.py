"""What a decision does: once, what was shown, or nothing with the reason."""

from typing import Any

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
from graphrag.approvals.conflicts import MAX_CONFLICTS, conflicts_of
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench


async def test_an_approved_proposal_is_applied_recorded_and_audited_together(bench: Bench) -> None:
    approval = await bench.propose(
        "update_node", nodeKey="b", changes={"data.name": "Get invoices"}
    )
    applied = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert node.data == {"name": "Get invoices"}
    assert applied.status == "applied"
    assert applied.result.revision == await bench.revision()
    (entry,) = await bench.approvals().audit.entries(approval_id=approval.id)
    assert entry.facts["event"] == "applied"
    assert entry.facts["changes"] == {"nodesChanged": ["b"]}
    assert entry.facts["asker"] == entry.facts["userId"] == "ed"
    assert entry.facts["model"] == "a-model"


async def test_an_applied_change_and_its_undo_are_changes_of_the_graph_at_their_time(
    bench: Bench,
) -> None:
    approval = await bench.propose(
        "update_node", nodeKey="b", changes={"data.name": "Get invoices"}
    )
    bench.clock.now += 5_000
    await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert (await bench.source.get_graph(FLOW)).last_updated_time == bench.clock.now
    bench.clock.now += 5_000
    await bench.approvals().undo(FLOW, approval.id, by=EDITOR)
    assert (await bench.source.get_graph(FLOW)).last_updated_time == bench.clock.now


async def test_a_rejected_proposal_leaves_the_graph_and_its_revision_unchanged(
    bench: Bench,
) -> None:
    before = await bench.state()
    revision = await bench.revision()
    approval = await bench.propose("delete_node", nodeKey="b")
    rejected = await bench.approvals().decide(approval.id, Reject("keep it \ud800"), REVIEWER)
    assert rejected.status == "rejected"
    assert "keep it ?" in outcome_text(rejected)
    assert await bench.state() == before
    assert await bench.revision() == revision
    (entry,) = await bench.approvals().audit.entries(approval_id=approval.id)
    assert (entry.facts["event"], entry.facts["feedback"]) == ("rejected", "keep it ?")


EDIT = {
    "type": "update_node",
    "payload": {"nodeKey": "b", "changes": {"data.name": "Load invoices"}},
}


@pytest.mark.parametrize(
    "decision", [Approve("well seen"), ApproveEdited(EDIT, "well seen"), Reject("well seen")]
)
async def test_feedback_on_any_decision_is_stored_audited_and_in_the_outcome(
    decision: Decision,
) -> None:
    bench = await a_bench()
    approval = await bench.propose(
        "update_node", nodeKey="b", changes={"data.name": "Get invoices"}
    )
    await bench.approvals().decide(approval.id, decision, REVIEWER)
    done = await bench.approvals().get(approval.id, EDITOR)
    assert done.decision.feedback == "well seen"
    assert outcome_text(done).endswith(" Feedback: well seen")
    assert outcome_text(done, "fr").endswith(" Commentaire : well seen")
    (entry,) = await bench.approvals().audit.entries(approval_id=approval.id)
    assert entry.facts["feedback"] == "well seen"


async def test_a_second_decision_says_who_decided_what(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="b")
    await bench.approvals().decide(approval.id, Reject(), REVIEWER)
    with pytest.raises(AlreadyDecided, match="rita has rejected") as caught:
        await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert (caught.value.status, caught.value.by) == ("rejected", "rita")
    assert "a déjà rejeté" in caught.value.text("fr")


async def test_an_edited_action_is_carried_out_and_both_are_kept(bench: Bench) -> None:
    approval = await bench.propose(
        "update_node", nodeKey="b", changes={"data.name": "Get invoices"}
    )
    edit = {
        "type": "update_node",
        "payload": {"nodeKey": "b", "changes": {"data.name": "Load invoices"}},
    }
    applied = await bench.approvals().decide(approval.id, ApproveEdited(edit), REVIEWER)
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert node.data == {"name": "Load invoices"}
    assert applied.action == approval.action
    assert applied.decision.action_hash not in (None, applied.action_hash)
    assert "APPLIED WITH CHANGES: rita" in outcome_text(applied)
    (entry,) = await bench.approvals().audit.entries(approval_id=approval.id)
    assert entry.facts["editedActionHash"] == applied.decision.action_hash


async def test_an_edit_that_edits_nothing_is_a_plain_approval(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="b")
    applied = await bench.approvals().decide(approval.id, ApproveEdited(approval.action), REVIEWER)
    assert (applied.decision.verdict, applied.decision.action) == ("approve", None)


async def test_a_disjoint_change_is_rebased(bench: Bench) -> None:
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.limit": 5})
    await bench.rename("c", "Something else")
    await bench.rename("b", "Renamed meanwhile", pos_x=70)
    applied = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert applied.status == "applied"
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["b"])
    assert node.data == {"name": "Renamed meanwhile", "limit": 5}
    assert node.pos_x == 70


async def test_what_was_touched_meanwhile_makes_a_proposal_stale_and_changes_nothing(
    bench: Bench,
) -> None:
    approval = await bench.propose(
        "update_node", nodeKey="b", changes={"data.name": "Get invoices"}
    )
    await bench.rename("b", "Renamed meanwhile")
    before = await bench.state()
    revision = await bench.revision()
    stale = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert stale.status == "stale"
    assert "field/b/data.name" in outcome_text(stale)
    assert outcome_text(stale, "fr").startswith("PÉRIMÉ")
    assert await bench.state() == before
    assert await bench.revision() == revision


async def test_a_deletion_is_stale_when_an_edge_was_added_that_would_go_too(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="d")
    other = await bench.propose(
        "create_edge", thread="t2", sourceKey="d", sourceHandle="0", targetKey="c", targetHandle="0"
    )
    await bench.approvals().decide(other.id, Approve(), EDITOR)
    stale = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert stale.status == "stale"


async def test_a_proposal_on_a_graph_that_is_gone_fails_with_the_reason(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="d")
    await bench.source.delete_graph(FLOW)
    failed = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert failed.status == "failed"
    assert "no longer exists" in outcome_text(failed)


async def test_a_proposal_that_cannot_be_carried_out_is_refused_with_its_problems(
    bench: Bench,
) -> None:
    with pytest.raises(ProposalRefused) as caught:
        await bench.propose("delete_node", nodeKey="nowhere")
    assert caught.value.problems[0].unknown_node == "nowhere"
    assert await bench.approvals().list(by=EDITOR) == []


async def test_what_was_applied_is_named_with_the_keys_it_got(bench: Bench) -> None:
    approval = await bench.propose("create_node", typeKey="task")
    assert outcome_text(approval).startswith("NOT DECIDED YET: create a node of type “Task”")
    applied = await bench.approvals().decide(approval.id, Approve(), REVIEWER)
    (key,) = applied.result.keys["nodesCreated"]
    assert await bench.source.get_nodes_by_key(FLOW, [key])
    assert f"Approved by rita. new nodes: {key}. The graph is at revision 3." in outcome_text(
        applied
    )
    assert f"Approuvé par rita. nœuds créés: {key}. Le graphe est à la révision 3." in outcome_text(
        applied, "fr"
    )


async def test_a_deletion_is_named_with_the_edges_that_went(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="d")
    applied = await bench.approvals().decide(approval.id, Approve(), EDITOR)
    assert "deleted nodes: d; deleted edges: bd, da" in outcome_text(applied)


async def test_braces_in_feedback_are_text(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="d")
    rejected = await bench.approvals().decide(approval.id, Reject("{by} {0} {"), EDITOR)
    assert "Nothing has changed. Feedback: {by} {0} {" in outcome_text(rejected)


NAME = ("update_node", {"nodeKey": "a", "changes": {"data.name": "New"}})
CASES = [
    (NAME, ("update_node", {"nodeKey": "a", "changes": {"data.name": "Other"}}), ["data.name"]),
    (
        NAME,
        ("update_node", {"nodeKey": "a", "changes": {"data": {"name": "Whole"}}}),
        ["data.name"],
    ),
    (NAME, ("update_node", {"nodeKey": "a", "changes": {"data.note": "Other"}}), []),
    (NAME, ("update_node", {"nodeKey": "b", "changes": {"data.name": "Other"}}), []),
    (NAME, ("delete_node", {"nodeKey": "a"}), [""]),
    (NAME, ("move_node", {"nodeKey": "a", "posX": 5, "posY": 5}), []),
    (
        ("move_node", {"nodeKey": "a", "posX": 5, "posY": 5}),
        ("move_node", {"nodeKey": "a", "posX": 9, "posY": 9}),
        ["position"],
    ),
    (("delete_node", {"nodeKey": "a"}), ("delete_node", {"nodeKey": "b"}), [""]),
]


@pytest.mark.parametrize(("one", "other", "fields"), [*CASES])
async def test_what_excludes_what(one: Any, other: Any, fields: list[str]) -> None:
    bench = await a_bench()
    made = [
        await bench.propose(kind, thread=kind + str(i), **p)
        for i, (kind, p) in enumerate((one, other))
    ]
    for both in (made, made[::-1]):
        assert [conflict.field for conflict in conflicts_of(both)] == fields


async def test_what_builds_on_another_is_no_conflict_and_many_are_counted_to_a_bound(
    bench: Bench,
) -> None:
    made = await bench.propose("create_node", typeKey="task", key="new", data={"name": "New"})
    [key] = made.names.values()
    builds = await bench.propose("update_node", nodeKey=key, changes={"data.name": "Newer"})
    assert builds.depends_on == (made.id,)
    assert conflicts_of([made, builds]) == []
    change = await bench.propose(
        "update_node", thread="t2", nodeKey="a", changes={"data.name": "N"}
    )
    many = [change.changed(id=f"ap_{i}") for i in range(400)]
    assert len(conflicts_of(many)) == MAX_CONFLICTS
