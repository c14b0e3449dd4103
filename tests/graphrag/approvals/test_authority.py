"""Who may decide: everybody else is refused, and nothing changes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.types import Graph
from graphrag.approvals import (
    AlreadyDecided,
    ApprovalNotFound,
    Approve,
    NotAllowed,
    Person,
    Policy,
    ProposalExpired,
    Reject,
    outcome_text,
)
from graphrag.approvals.policies import demands_of
from graphrag.approvals.validation import (
    CLASSES,
    FLOOR,
    Demand,
    Levels,
    classes_named,
    required,
)
from tests.graphrag.approvals.helpers import (
    ADMIN,
    EDITOR,
    FLOW,
    OTHER_EDITOR,
    REVIEWER,
    STRANGER,
    VIEWER,
    Bench,
    a_bench,
)
from tools.proposals import parse_action, single_actions
from tools.write_tools import Snapshot

OPEN = Policy.of("asker")
REVIEWED = Policy.of("reviewer")
STRICT = Policy.of("four-eyes")

ALLOWED = [
    (OPEN, EDITOR),
    (OPEN, REVIEWER),
    (OPEN, ADMIN),
    (STRICT, REVIEWER),
    (STRICT, ADMIN),
    (REVIEWED, ADMIN),
]
REFUSED = [
    (OPEN, VIEWER, "deciding_needs_editor"),
    (OPEN, OTHER_EDITOR, "deciding_needs_reviewer"),
    (OPEN, Person("ed", "viewer", "acme"), "deciding_needs_editor"),
    (STRICT, EDITOR, "four_eyes"),
    (STRICT, Person("ed", "admin", "acme"), "four_eyes"),
    (STRICT, OTHER_EDITOR, "deciding_needs_reviewer"),
    (REVIEWED, EDITOR, "deciding_needs_reviewer"),
]
DECISIONS = [Approve(), Reject("no")]


@pytest.mark.parametrize(("policy", "by"), [*ALLOWED])
async def test_who_may_decide_decides(policy: Policy, by: Person) -> None:
    bench = await a_bench(policy=policy)
    approval = await bench.propose("delete_node", nodeKey="b")
    assert (await bench.approvals().decide(approval.id, Approve(), by)).status == "applied"


@pytest.mark.parametrize("decision", [*DECISIONS])
@pytest.mark.parametrize(("policy", "by", "code"), [*REFUSED])
async def test_who_may_not_decide_is_refused(
    policy: Policy, by: Person, code: str, decision: object
) -> None:
    bench = await a_bench(policy=policy)
    approval = await bench.propose("delete_node", nodeKey="b")
    before = await bench.state()
    with pytest.raises(NotAllowed) as caught:
        await bench.approvals().decide(approval.id, decision, by)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert by.user_id in caught.value.text("fr")
    await _still_pending(bench, approval.id, before)


async def _still_pending(bench: Bench, approval_id: str, before: object) -> None:
    assert await bench.state() == before
    assert (await bench.approvals().get(approval_id, REVIEWER)).status == "pending"
    assert await bench.approvals().audit.entries() == []


@pytest.mark.parametrize("decision", [*DECISIONS])
async def test_a_forged_id_does_not_exist(decision: object) -> None:
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    before = await bench.state()
    for forged in (approval.id[:-1], approval.id.upper(), "", "../" + approval.id, "\x00"):
        with pytest.raises(ApprovalNotFound):
            await bench.approvals().decide(forged, decision, ADMIN)  # type: ignore[arg-type]
    await _still_pending(bench, approval.id, before)


async def test_another_workspace_sees_and_decides_nothing(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="b")
    before = await bench.state()
    approvals = bench.approvals()
    for attempt in (
        approvals.decide(approval.id, Approve(), STRANGER),
        approvals.get(approval.id, STRANGER),
        approvals.undo(FLOW, by=STRANGER),
    ):
        with pytest.raises(ApprovalNotFound):
            await attempt
    assert await approvals.list(by=STRANGER) == []
    await _still_pending(bench, approval.id, before)


async def test_an_approval_of_another_thread_does_not_exist_for_this_one(bench: Bench) -> None:
    approval = await bench.propose("delete_node", nodeKey="b")
    before = await bench.state()
    with pytest.raises(ApprovalNotFound):
        await bench.approvals().decide(approval.id, Approve(), EDITOR, thread_id="t2")
    await _still_pending(bench, approval.id, before)
    assert (
        await bench.approvals().decide(approval.id, Approve(), EDITOR, thread_id="t1")
    ).status == "applied"


async def test_a_viewer_cannot_propose(bench: Bench) -> None:
    with pytest.raises(NotAllowed, match="only an editor"):
        await bench.propose("delete_node", by=VIEWER, nodeKey="b")
    with pytest.raises(ApprovalNotFound):
        await bench.propose("delete_node", by=STRANGER, nodeKey="b")
    assert await bench.approvals().list(by=ADMIN) == []


async def test_a_proposal_expires_after_a_day_and_not_before(bench: Bench) -> None:
    early = await bench.propose("delete_node", nodeKey="b")
    late = await bench.propose("delete_node", nodeKey="d")
    bench.clock.now += 24 * 3600 * 1000 - 1
    assert (await bench.approvals().decide(early.id, Approve(), EDITOR)).status == "applied"
    before = await bench.state()
    bench.clock.now += 1
    with pytest.raises(ProposalExpired, match="expired"):
        await bench.approvals().decide(late.id, Approve(), EDITOR)
    assert await bench.state() == before
    expired = await bench.approvals().get(late.id, EDITOR)
    assert expired.status == "expired"
    assert outcome_text(expired).startswith("EXPIRED")
    with pytest.raises(AlreadyDecided):
        await bench.approvals().decide(late.id, Approve(), EDITOR)


async def test_what_expired_is_listed_so_and_stored_and_audited_by_the_background_task_alone() -> (
    None
):
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    bench.clock.now += 24 * 3600 * 1000
    before = await bench.database.records("test").query("approval")

    async def check() -> None:
        assert await bench.approvals().list(status="pending", by=VIEWER) == []
        assert [a.id for a in await bench.approvals().list(status="expired", by=VIEWER)] == [
            approval.id
        ]
        assert [a.status for a in await bench.approvals().list(by=VIEWER)] == ["expired"]
        assert (await bench.approvals().get(approval.id, VIEWER)).status == "expired"

    await check()
    assert await bench.database.records("test").query("approval") == before
    assert [a.id for a in await bench.approvals().expire_due(limit=10)] == [approval.id]
    await check()
    (entry,) = await bench.approvals().audit.entries(graph_key=FLOW)
    assert (entry.facts["event"], entry.facts["userId"]) == ("expired", "system")


@pytest.mark.parametrize("by", [VIEWER, OTHER_EDITOR])
async def test_who_may_not_decide_may_not_undo_either(by: Person) -> None:
    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    await bench.approvals().decide(approval.id, Approve(), EDITOR)
    before = await bench.state()
    with pytest.raises(NotAllowed):
        await bench.approvals().undo(FLOW, approval.id, by=by)
    assert await bench.state() == before


EXAMPLES: list[tuple[dict[str, Any], set[str]]] = [
    ({"type": "move_node", "payload": {"nodeKey": "a", "posX": 1, "posY": 2}}, {"layout"}),
    ({"type": "reorganize_layout", "payload": {"nodeKeys": ["a"]}}, {"layout"}),
    ({"type": "delete_node", "payload": {"nodeKey": "a"}}, {"delete"}),
    ({"type": "delete_edge", "payload": {"edgeKey": "e"}}, {"delete"}),
    ({"type": "configure_node_type", "payload": {"mode": "create", "typeKey": "t"}}, {"types"}),
    ({"type": "create_node", "payload": {"typeKey": "t"}}, {"structure"}),
    ({"type": "create_node", "payload": {"typeKey": "t", "process": "x"}}, {"structure", "code"}),
    (
        {"type": "update_node", "payload": {"nodeKey": "a", "changes": {"data.name": "n"}}},
        {"content"},
    ),
    ({"type": "update_node", "payload": {"nodeKey": "a", "changes": {"process": "n"}}}, {"code"}),
    (
        {
            "type": "update_node",
            "payload": {"nodeKey": "a", "changes": {"posX": 1, "handles.R": {}}},
        },
        {"layout", "structure"},
    ),
    (
        {
            "type": "update_node",
            "payload": {"nodeKey": "a", "patches": [{"search": "a", "replace": "b"}]},
        },
        {"code"},
    ),
]
ACTIONS = [parse_action(raw) for raw, _ in EXAMPLES]
SOME = st.frozensets(st.sampled_from(sorted(CLASSES)))


@pytest.mark.parametrize(("raw", "classes"), [*EXAMPLES])
def test_an_action_has_the_classes_of_what_it_changes(
    raw: dict[str, Any], classes: set[str]
) -> None:
    action: Any = parse_action(raw)
    assert action.classes() == classes


def test_with_the_usual_settings_every_change_needs_a_person() -> None:
    for action in ACTIONS:
        for _, single in single_actions(action):
            asked = required(single, "", (), Levels(node_types={}))
            assert [one.level for one in asked] == ["application"]


@given(
    st.sampled_from(ACTIONS), SOME, SOME, SOME, SOME, st.booleans(), st.booleans(), st.booleans()
)
def test_a_person_is_asked_when_any_level_demands_any_class(
    action: Any,
    application: Any,
    workspace: Any,
    graph: Any,
    kind: Any,
    session: bool,
    request: bool,
    alone: bool,
) -> None:
    levels = Levels(
        application=application,
        workspace=workspace,
        graph=graph,
        node_types={"t": kind},
        session=session,
        request=request,
        unattended=alone,
    )
    demanded = application | workspace | graph | kind | (CLASSES if session or request else set())
    demanded |= FLOOR if alone else set()
    reasons = required(action, "", ("t",), levels)
    assert bool(reasons) == bool(action.classes() & demanded)
    assert all(set(reason.classes) <= action.classes() for reason in reasons)


def test_each_part_of_a_batch_keeps_its_own_reasons() -> None:
    batch = parse_action(
        {"type": "batch", "payload": {"actions": [EXAMPLES[0][0], EXAMPLES[2][0]]}}
    )
    levels = Levels(
        application=frozenset(), graph=frozenset({"delete"}), node_types={}, unattended=True
    )
    snapshot = Snapshot(graph=Graph(key="flow", name="One", workspace="acme"))
    assert list(demands_of(batch, levels, snapshot)) == [
        Demand(level="graph", classes=("delete",), where="actions.1"),
        Demand(level="floor", classes=("delete",), where="actions.1"),
    ]


def test_a_stored_list_of_another_form_demands_nothing() -> None:
    assert classes_named(["delete", "all", 7]) == {"delete"}
    assert classes_named("delete") == classes_named(None) == frozenset()
