"""What no level demands a person for is decided by policy; with the usual settings nothing is."""

import asyncio
from itertools import product
from typing import Any

import pytest

from datasources.base import Record
from datasources.types import Mutation
from graphrag.approvals import (
    Approval,
    ApprovalNotFound,
    Approve,
    ApproveEdited,
    Asked,
    NotAllowed,
    ProposalRefused,
    ProposingSession,
)
from graphrag.approvals.errors import TypeNotFound
from graphrag.approvals.imported_changes import FileChange
from graphrag.approvals.validation import CLASSES, FLOOR, ActionClass
from graphrag.roles import Policy
from tests.graphrag.approvals.helpers import (
    ADMIN,
    EDITOR,
    FLOW,
    REVIEWER,
    STRANGER,
    VIEWER,
    Bench,
    a_bench,
)
from tools.proposal_parts import ImportFile
from tools.proposals import parse_action
from tools.write_tools import Snapshot

RUN = ProposingSession(kind="automation", automation_id="au_1", scheduled_time=5, seed_version=2)
MOVE = {"type": "move_node", "payload": {"nodeKey": "b", "posX": 7, "posY": 8}}
ACTIONS: dict[ActionClass, dict[str, Any]] = {
    "layout": MOVE,
    "content": {
        "type": "update_node",
        "payload": {"nodeKey": "b", "changes": {"data.name": "New"}},
    },
    "structure": {"type": "create_node", "payload": {"typeKey": "task"}},
    "delete": {"type": "delete_node", "payload": {"nodeKey": "c"}},
    "code": {
        "type": "update_node",
        "payload": {"nodeKey": "b", "changes": {"process": "return 1"}},
    },
    "types": {
        "type": "configure_node_type",
        "payload": {"mode": "update", "typeKey": "task", "icon": "x"},
    },
}
FREE: frozenset[ActionClass] = frozenset()


async def propose(
    bench: Bench, action: Any, *, free: frozenset[ActionClass] = CLASSES, **more: Any
) -> Approval:
    asked = {
        "graph_key": FLOW,
        "thread_id": "t1",
        "turn": 1,
        "tool_call_id": f"c{next(bench.calls)}",
    }
    approvals = bench.approvals(require_validation=CLASSES - free)
    return await approvals.propose(action, Asked(**asked | more, asker=EDITOR, model="m"))


async def with_demand(bench: Bench, level: str, asked: list[str]) -> None:
    """Have a level demand a person for classes."""
    source: Any = bench.source
    if level == "workspace":
        await bench.records.put(
            Record(kind="policy", key="workspace", data={"classes": asked}), expected_version=None
        )
    elif level == "graph":
        graph = await source.get_graph(FLOW)
        await source.apply(
            Mutation(graph_key=FLOW, graph=graph.replace(metadata={"validation": asked}))
        )
    else:
        config = next(c for c in await source.get_node_configs() if c.type == "task")
        changed = config.model_validate(
            {**config.to_document(), "validation": asked}, by_alias=True
        )
        await source.apply(Mutation(graph_key=FLOW, put_configs=[changed]))


@pytest.mark.parametrize(
    ("name", "level"),
    [
        *product(sorted(CLASSES), ["application", "workspace", "graph", "nodeType"]),
        *[("every class", "session"), ("every class", "request")],
    ],
)
async def test_a_person_is_needed_when_one_level_demands_a_class_of_the_action(
    name: Any, level: str
) -> None:
    bench = await a_bench()
    free = CLASSES
    more = {}
    if level == "application":
        free = CLASSES - {name}
    elif level == "session":
        more = {"session": ProposingSession(require_validation=True)}
    elif level == "request":
        more = {"ask_first": True}
    else:
        await with_demand(bench, level, [name])
    for kind, action in ACTIONS.items():
        approval = await propose(bench, action, free=free, **more)
        asked = level in ("session", "request") or kind == name
        assert approval.needs_person is asked is bool(approval.reasons), kind
        assert all(one.level == level for one in approval.reasons)
        found = await bench.approvals(require_validation=CLASSES - free).decide_by_policy(
            [approval.id]
        )
        assert [one.status for one in found] == ["pending" if asked else "applied"], kind
        if not asked:
            await bench.approvals().undo(FLOW, approval.id, by=EDITOR)


async def test_what_the_operator_freed_is_applied_by_policy_audited_and_undone_byte_for_byte() -> (
    None
):
    bench = await a_bench()
    before = await bench.stored_bytes()
    approval = await propose(bench, MOVE, free=frozenset({"layout"}), session=RUN)
    (done,) = await bench.approvals(require_validation=CLASSES - {"layout"}).decide_by_policy(
        [approval.id]
    )
    assert (done.status, done.decision.by, done.decision.role) == ("applied", "policy", "system")
    assert done.decision.levels == {
        "application": sorted(CLASSES - {"layout"}),
        "workspace": [],
        "graph": [],
    }
    assert await bench.stored_bytes() != before
    (entry,) = await bench.approvals().audit.entries(approval_id=approval.id)
    facts = {
        "userId": "policy",
        "role": "system",
        "automationId": "au_1",
        "scheduledTime": 5,
        "seedVersion": 2,
    }
    assert facts.items() <= entry.facts.items()
    assert entry.facts["levels"] == done.decision.levels
    undone = await bench.approvals().undo(FLOW, by=EDITOR)
    assert (undone.status, undone.undoes) == ("applied", approval.id)
    assert await bench.stored_bytes() == before
    assert (await bench.approvals().audit.verify()).is_sound


async def test_with_the_usual_settings_policy_decides_nothing(bench: Bench) -> None:
    before = await bench.stored_bytes()
    made = [await propose(bench, action, free=FREE) for action in ACTIONS.values()]
    assert {
        one.status for one in await bench.approvals().decide_by_policy([a.id for a in made])
    } == {"pending"}
    assert await bench.stored_bytes() == before


@pytest.mark.parametrize("kind", [*sorted(CLASSES)])
async def test_the_floor_of_a_run_cannot_be_set_away(kind: Any) -> None:
    bench = await a_bench()
    approval = await propose(bench, ACTIONS[kind], session=RUN)
    assert approval.needs_person is (kind in FLOOR)
    assert {one.level for one in approval.reasons} <= {"floor"}


async def test_under_four_eyes_every_change_needs_a_person() -> None:
    bench = await a_bench(policy=Policy(four_eyes=True))
    for action in ACTIONS.values():
        assert (await propose(bench, action)).needs_person


async def test_a_step_is_looked_at_as_a_whole_and_again_when_it_is_applied(bench: Bench) -> None:
    free = bench.approvals(require_validation=FREE)
    asked = [await propose(bench, MOVE), await propose(bench, ACTIONS["content"], ask_first=True)]
    assert [one.status for one in await free.decide_by_policy([a.id for a in asked])] == [
        "pending",
        "pending",
    ]
    other = await propose(bench, ACTIONS["structure"])
    await with_demand(bench, "graph", ["structure"])
    (now,) = await free.decide_by_policy([other.id])
    assert (now.status, now.needs_person, now.reasons[0].level) == ("pending", True, "graph")


async def test_what_builds_on_a_proposal_that_waits_for_a_person_waits_too(bench: Bench) -> None:
    free = bench.approvals(require_validation=FREE)
    new = {"type": "create_node", "payload": {"typeKey": "task", "key": "$1"}}
    edge = {"sourceKey": "b", "sourceHandle": "0", "targetKey": "$1", "targetHandle": "0"}
    first = await propose(bench, new, ask_first=True)
    second = await propose(bench, {"type": "create_edge", "payload": edge})
    assert second.depends_on == (first.id,)
    assert [one.status for one in await free.decide_by_policy([second.id])] == ["pending"]
    await free.decide(first.id, Approve(), EDITOR)
    assert [one.status for one in await free.decide_by_policy([second.id])] == ["applied"]


async def test_two_at_once_apply_it_once_and_a_fence_that_is_down_lets_nothing_through(
    bench: Bench,
) -> None:
    approval = await propose(bench, MOVE)

    class Down:
        def fence(self) -> Any:
            raise AssertionError

        async def read(self) -> None:
            raise PermissionError

    with pytest.raises(PermissionError):
        await bench.approvals(require_validation=FREE).decide_by_policy([approval.id], fence=Down())
    assert (await bench.approvals().get(approval.id, EDITOR)).is_open
    both = [
        bench.approvals(require_validation=FREE).decide_by_policy([approval.id]) for _ in range(2)
    ]
    assert [found.status for (found,) in await asyncio.gather(*both)] == ["applied", "applied"]
    assert len(await bench.approvals().audit.entries(approval_id=approval.id)) == 1


async def test_no_proposal_changes_what_people_must_be_asked_for(bench: Bench) -> None:
    for metadata in ({"validation": []}, {"checks": {}}, {"alwaysSend": ["a"]}):
        file = {"file": "f", "putGraph": {"metadata": metadata}}
        with pytest.raises(ProposalRefused):
            await propose(bench, {"type": "import_file", "payload": file})
    await with_demand(bench, "nodeType", ["types"])
    approval = await propose(bench, ACTIONS["types"], free=CLASSES)
    assert [one.level for one in approval.reasons] == ["nodeType"]
    await bench.approvals().decide(approval.id, Approve(), EDITOR)
    config = next(c for c in await bench.source.get_node_configs() if c.type == "task")
    assert config.to_document()["validation"] == ["types"]


def test_the_examples_are_of_their_class() -> None:
    actions: dict[str, Any] = {kind: parse_action(raw) for kind, raw in ACTIONS.items()}
    assert {kind: action.classes() for kind, action in actions.items()} == {k: {k} for k in actions}


async def test_each_level_is_set_by_its_role_audited_and_then_asks(bench: Bench) -> None:
    approvals = bench.approvals(require_validation=frozenset())
    assert not (await propose(bench, ACTIONS["layout"])).needs_person
    await approvals.set_policy(["code"], ADMIN)
    await approvals.set_policy(["delete", "layout"], REVIEWER, graph_key=FLOW)
    view = await approvals.set_policy(["types"], REVIEWER, graph_key=FLOW, type_name="task")
    assert (view.application, view.workspace, view.graph) == ([], ["code"], ["delete", "layout"])
    assert view.node_types == {"task": ["types"]}
    assert (await approvals.policy(VIEWER)).graph is None
    asked = {
        kind: (await propose(bench, ACTIONS[kind])).needs_person
        for kind in ("code", "delete", "content")
    }
    assert asked == {"code": True, "delete": True, "content": False}
    entries = await approvals.audit.entries()
    assert [(e.facts["event"], e.facts["level"]) for e in reversed(entries)] == [
        ("policy_set", "workspace"),
        ("policy_set", "graph"),
        ("policy_set", "nodeType"),
    ]
    assert (await approvals.audit.verify()).is_sound


async def test_others_and_other_workspaces_set_nothing(bench: Bench) -> None:
    approvals = bench.approvals()
    before = await bench.stored_bytes()
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
        mutation = Mutation(
            graph_key=FLOW, graph=graph.replace(name="New", metadata={"validation": []})
        )
        change = FileChange(
            file="f.json",
            before=Snapshot(graph=graph),
            mutation=mutation,
            proposed=ImportFile(file="f.json"),
        )
        await bench.approvals().store_file(change, by)
        now = await bench.source.get_graph(FLOW)
        assert (now.name, now.metadata["validation"]) == ("New", left)


async def test_an_editor_can_neither_edit_a_proposal_into_it_nor_undo_a_reviewers(
    bench: Bench,
) -> None:
    approvals: Any = bench.approvals()
    await approvals.set_policy(["delete"], ADMIN, graph_key=FLOW)
    approval = await propose(bench, ACTIONS["layout"], free=CLASSES)
    edit = {
        "type": "import_file",
        "payload": {"file": "f", "putGraph": {"metadata": {"validation": []}}},
    }
    with pytest.raises(NotAllowed):
        await approvals.decide(approval.id, ApproveEdited(edit), EDITOR)
    assert (await approvals.get(approval.id, EDITOR)).is_open
    done = await approvals.decide(approval.id, ApproveEdited(edit), REVIEWER)
    assert done.status == "applied"
    with pytest.raises(NotAllowed):
        await approvals.undo(FLOW, done.id, by=EDITOR)
    await approvals.undo(FLOW, done.id, by=REVIEWER)
    assert (await bench.source.get_graph(FLOW)).metadata["validation"] == ["delete"]
    assert (
        await approvals.decide((await propose(bench, ACTIONS["content"])).id, Approve(), EDITOR)
    ).result
