"""Who sets for which changes people are asked, and that others cannot."""

from __future__ import annotations

from typing import Any

import pytest

from datasources.types import Mutation
from graphrag.approvals import ApprovalNotFound, Approve, ApproveEdited, NotAllowed
from graphrag.approvals.errors import TypeNotFound
from graphrag.approvals.imported_changes import FileChange
from graphrag.approvals.validation import CLASSES
from tests.graphrag.approvals.helpers import ADMIN, EDITOR, FLOW, REVIEWER, STRANGER, VIEWER, a_bench
from tests.graphrag.approvals.test_policy import ACTIONS, propose
from tools.proposal_parts import ImportFile
from tools.write_tools import Snapshot


async def test_each_level_is_set_by_its_role_audited_and_then_asks() -> None:
    bench = await a_bench()
    approvals = bench.approvals(require_validation=frozenset())
    assert not (await propose(bench, ACTIONS["layout"])).needs_person
    await approvals.set_policy(["code"], ADMIN)
    await approvals.set_policy(["delete", "layout"], REVIEWER, graph_key=FLOW)
    view = await approvals.set_policy(["types"], REVIEWER, graph_key=FLOW, type_name="task")
    assert (view.application, view.workspace, view.graph) == ([], ["code"], ["delete", "layout"])
    assert view.node_types == {"task": ["types"]}
    assert (await approvals.policy(VIEWER)).graph is None
    asked = {
        kind: (await propose(bench, ACTIONS[kind])).needs_person for kind in ("code", "delete", "content")
    }
    assert asked == {"code": True, "delete": True, "content": False}
    entries = await approvals.audit.entries()
    assert [(e.facts["event"], e.facts["level"]) for e in reversed(entries)] == [
        ("policy_set", "workspace"),
        ("policy_set", "graph"),
        ("policy_set", "nodeType"),
    ]
    assert (await approvals.audit.verify()).is_sound


async def test_others_and_other_workspaces_set_nothing() -> None:
    bench = await a_bench()
    approvals, before = bench.approvals(), await bench.stored_bytes()
    with pytest.raises(NotAllowed):
        await approvals.set_policy([], REVIEWER)
    for graph in ({"graph_key": FLOW}, {"graph_key": FLOW, "type_name": "task"}):
        with pytest.raises(NotAllowed):
            await approvals.set_policy([], EDITOR, **graph)
        with pytest.raises(ApprovalNotFound):
            await approvals.set_policy([], STRANGER, **graph)
    with pytest.raises(TypeNotFound):
        await approvals.set_policy([], REVIEWER, graph_key=FLOW, type_name="starter2")
    with pytest.raises(ApprovalNotFound):
        await approvals.policy(STRANGER, FLOW)
    assert await bench.stored_bytes() == before


async def test_a_file_of_an_editor_leaves_what_people_are_asked_for() -> None:
    for by, left in ((EDITOR, ["delete"]), (REVIEWER, [])):
        bench = await a_bench()
        await bench.approvals().set_policy(["delete"], ADMIN, graph_key=FLOW)
        graph = await bench.source.get_graph(FLOW)
        mutation = Mutation(graph_key=FLOW, graph=graph.replace(name="New", metadata={"validation": []}))
        change = FileChange(
            file="f.json", before=Snapshot(graph=graph), mutation=mutation, proposed=ImportFile(file="f.json")
        )
        await bench.approvals().store_file(change, by)
        now = await bench.source.get_graph(FLOW)
        assert (now.name, now.metadata["validation"]) == ("New", left)


async def test_an_editor_can_neither_edit_a_proposal_into_it_nor_undo_a_reviewers() -> None:
    bench = await a_bench()
    approvals: Any = bench.approvals()
    await approvals.set_policy(["delete"], ADMIN, graph_key=FLOW)
    approval = await propose(bench, ACTIONS["layout"], free=CLASSES)
    edit = {"type": "import_file", "payload": {"file": "f", "putGraph": {"metadata": {"validation": []}}}}
    with pytest.raises(NotAllowed):
        await approvals.decide(approval.id, ApproveEdited(edit), EDITOR)
    assert (await approvals.get(approval.id, EDITOR)).is_open
    done = await approvals.decide(approval.id, ApproveEdited(edit), REVIEWER)
    assert done.status == "applied"
    with pytest.raises(NotAllowed):
        await approvals.undo(FLOW, done.id, by=EDITOR)
    await approvals.undo(FLOW, done.id, by=REVIEWER)
    assert (await bench.source.get_graph(FLOW)).metadata["validation"] == ["delete"]
    assert (await approvals.decide((await propose(bench, ACTIONS["content"])).id, Approve(), EDITOR)).result
