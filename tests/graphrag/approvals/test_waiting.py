"""Several proposals of one turn: decided in any order, each on its own; dependent ones know it."""

import itertools
import random
from typing import Any

import pytest

from graphrag.approvals import (
    CHAT_SESSION,
    AlreadyProposed,
    Approval,
    Approve,
    ApproveEdited,
    ProposalRefused,
    ProposingSession,
    Reject,
    RejectedBefore,
    outcome_text,
)
from graphrag.approvals.errors import ProposalWaits
from graphrag.approvals.proposing import proposal_hash
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench
from tests.support.agents import an_ask
from tools.base import ToolContext
from tools.proposals import parse_action
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS


async def _pair(bench: Bench) -> tuple[str, str, str]:
    """Propose a node called $1 and an edge to it; return both ids and the node's key."""
    first = await bench.propose("create_node", typeKey="task", key="$1", data={"name": "New"})
    second = await bench.propose(
        "create_edge", sourceKey="a", sourceHandle="0", targetKey="$1", targetHandle="0"
    )
    (node,) = first.preview["nodesAdded"]
    assert second.depends_on == (first.id,)
    return first.id, second.id, node["_key"]


async def test_a_dependent_proposal_waits_for_the_other_and_says_for_which(bench: Bench) -> None:
    first, second, key = await _pair(bench)
    before = await bench.state()
    with pytest.raises(ProposalWaits, match=first):
        await bench.approvals().decide(second, Approve(), EDITOR)
    assert await bench.state() == before
    assert first in outcome_text(await bench.approvals().get(second, EDITOR))
    for one in (first, second):
        assert (await bench.approvals().decide(one, Approve(), EDITOR)).status == "applied"
    (edge,) = [e for e in await bench.source.get_edges(FLOW) if e.target == key]
    assert edge.source == "a"


async def test_a_dependent_proposal_is_stale_when_the_other_is_rejected(bench: Bench) -> None:
    first, second, _ = await _pair(bench)
    await bench.approvals().decide(first, Reject(), EDITOR)
    before = await bench.state()
    stale = await bench.approvals().decide(second, Approve(), EDITOR)
    assert stale.status == "stale"
    assert first in outcome_text(stale)
    assert await bench.state() == before


async def test_an_edit_of_the_first_that_the_second_cannot_live_with_makes_it_stale(
    bench: Bench,
) -> None:
    first, second, _ = await _pair(bench)
    edit = {"type": "create_node", "payload": {"typeKey": "task", "sheet": "1"}}
    assert (await bench.approvals().decide(first, ApproveEdited(edit), EDITOR)).status == "applied"
    assert (await bench.approvals().decide(second, Approve(), EDITOR)).status == "stale"


@pytest.mark.parametrize("order", [*list(itertools.permutations(range(3)))])
async def test_independent_proposals_of_a_turn_are_applied_in_any_order(
    order: tuple[int, ...],
) -> None:
    bench = await a_bench()
    proposals = [
        await bench.propose("update_node", nodeKey="b", changes={"data.name": "One"}),
        await bench.propose("create_node", typeKey="task", data={"name": "Two"}),
        await bench.propose("delete_edge", edgeKey="bd"),
    ]
    for index in order:
        done = await bench.approvals().decide(proposals[index].id, Approve(), EDITOR)
        assert done.status == "applied"
    names = {str(node.data) for node in await bench.source.get_nodes(FLOW)}
    assert {"{'name': 'One'}", "{'name': 'Two'}"} <= names
    assert "bd" not in {edge.key for edge in await bench.source.get_edges(FLOW)}


async def test_new_nodes_of_one_turn_get_places_of_their_own(bench: Bench) -> None:
    places = []
    for number in range(3):
        approval = await bench.propose("create_node", typeKey="task", data={"n": number})
        (node,) = approval.preview["nodesAdded"]
        places.append((node["posX"], node["posY"]))
        assert approval.depends_on == ()
    assert len(set(places)) == 3


async def test_another_thread_cannot_build_on_what_this_one_proposed(bench: Bench) -> None:
    _, _, key = await _pair(bench)
    for target in ("$1", key):
        with pytest.raises(ProposalRefused):
            await bench.propose(
                "create_edge",
                thread="t2",
                sourceKey="a",
                sourceHandle="0",
                targetKey=target,
                targetHandle="0",
            )


async def test_write_tools_see_pending_nodes_by_their_names_and_keys(bench: Bench) -> None:
    _, _, key = await _pair(bench)
    view = await bench.approvals().pending_view(graph_key=FLOW, thread_id="t1")
    (made,) = [edge.key for edge in await view.get_edges(FLOW) if key in (edge.source, edge.target)]
    assert [e.key for e in await view.get_edges_by_key(FLOW, ["da", made, "no"])] == ["da", made]
    for target in ("$1", key):
        call = {
            "sourceKey": "b",
            "sourceHandle": "0",
            "targetKey": target,
            "targetHandle": "0",
            "reason": "x",
        }
        for source, is_error in ((view, False), (bench.source, True)):
            context = ToolContext(source=source, graph_key=FLOW, role="editor")
            result = await ToolBox(WRITE_TOOLS).run("propose_create_edge", call, context)
            assert result.is_error is is_error, result.text


RUN = ProposingSession(kind="automation", automation_id="au_1")
OTHER = ProposingSession(kind="automation", automation_id="au_2")
RENAME = {
    "type": "update_node",
    "payload": {"nodeKey": "b", "changes": {"data.name": "Get invoices"}},
}
DELETE = {"type": "delete_node", "payload": {"nodeKey": "c"}}


def new(name: str) -> dict[str, Any]:
    return {
        "type": "create_node",
        "payload": {"typeKey": "task", "key": name, "data": {"name": "Log"}},
    }


def edge(target: str) -> dict[str, Any]:
    ends = {"sourceKey": "b", "sourceHandle": "0", "targetKey": target, "targetHandle": "0"}
    return {"type": "create_edge", "payload": ends}


def batch(*actions: dict[str, Any]) -> dict[str, Any]:
    return {"type": "batch", "payload": {"actions": list(actions)}}


async def ask(
    bench: Bench,
    action: Any,
    session: ProposingSession = RUN,
    *,
    thread: str = "run1",
    turn: int = 1,
) -> Approval:
    return await bench.approvals().propose(
        action,
        an_ask(
            FLOW,
            EDITOR,
            thread_id=thread,
            turn=turn,
            tool_call_id=f"c{next(bench.calls)}",
            session=session,
        ),
    )


async def count(bench: Bench) -> int:
    return len(await bench.approvals().list(by=EDITOR))


@pytest.mark.parametrize("action", [RENAME, DELETE, new("$1"), batch(new("$1"), edge("$1"))])
async def test_the_next_run_is_answered_with_what_waits_already_and_nothing_is_stored(
    action: Any,
) -> None:
    bench = await a_bench()
    first = await ask(bench, action)
    with pytest.raises(AlreadyProposed) as refused:
        await ask(bench, action, thread="run2")
    assert (refused.value.approval_id, await count(bench)) == (first.id, 1)
    await ask(bench, action, OTHER, thread="run3")  # another automation may


async def test_a_rejection_holds_while_what_it_touches_is_as_it_was(bench: Bench) -> None:
    first = await ask(bench, RENAME)
    await bench.approvals().decide(first.id, Reject("the name is right"), REVIEWER)
    await bench.rename("c", "Something else")  # not what it touches
    with pytest.raises(RejectedBefore, match="the name is right") as refused:
        await ask(bench, RENAME, thread="run2")
    assert (refused.value.approval_id, await count(bench)) == (first.id, 1)
    await bench.rename("b", "Fetch bills")
    second = await ask(bench, RENAME, thread="run3")
    await bench.approvals().decide(second.id, Reject(), REVIEWER)
    await bench.rename("b", "Fetch invoices")  # as it was when the first was rejected
    with pytest.raises(RejectedBefore):
        await ask(bench, RENAME, thread="run4")


async def test_what_was_applied_and_undone_may_be_asked_again(bench: Bench) -> None:
    first = await ask(bench, DELETE)
    await bench.approvals().decide(first.id, Approve(), REVIEWER)
    await bench.approvals().undo(FLOW, by=REVIEWER)
    assert (await ask(bench, DELETE, thread="run2")).is_open


async def test_a_rejected_change_that_was_made_and_undone_is_not_asked_again(bench: Bench) -> None:
    rejected = await ask(bench, RENAME)
    await bench.approvals().decide(rejected.id, Reject(), REVIEWER)
    other = {
        "type": "update_node",
        "payload": {"nodeKey": "b", "changes": {"data.name": "Another"}},
    }
    changed = await ask(bench, other)
    await bench.approvals().decide(changed.id, Approve(), REVIEWER)
    await bench.approvals().undo(FLOW, by=REVIEWER)
    with pytest.raises(RejectedBefore):
        await ask(bench, RENAME, thread="run2")


async def test_what_expired_may_be_asked_again(bench: Bench) -> None:
    short = ProposingSession(kind="automation", automation_id="au_1", ttl_ms=1_000)
    first = await ask(bench, RENAME, short)
    assert first.expires - first.created == 1_000
    bench.clock.now += 1_001
    assert (await ask(bench, RENAME, thread="run2")).is_open


async def test_a_conversation_is_answered_within_its_thread_and_a_new_message_may_ask_again() -> (
    None
):
    bench = await a_bench()
    first = await ask(bench, RENAME, CHAT_SESSION, thread="t1")
    with pytest.raises(AlreadyProposed):
        await ask(bench, RENAME, CHAT_SESSION, thread="t1", turn=2)
    await ask(bench, RENAME, CHAT_SESSION, thread="t2")
    await bench.approvals().decide(first.id, Reject(), REVIEWER)
    with pytest.raises(RejectedBefore):
        await ask(bench, RENAME, CHAT_SESSION, thread="t1")
    assert (await ask(bench, RENAME, CHAT_SESSION, thread="t1", turn=2)).is_open


async def test_the_order_of_a_batch_and_its_own_names_do_not_make_another_change(
    bench: Bench,
) -> None:
    first = await ask(bench, batch(new("$1"), edge("$1"), RENAME))
    await bench.approvals().decide(first.id, Reject(), REVIEWER)
    chance = random.Random(3)
    for name in ("$1", "$new", "log"):
        parts = [new(name), edge(name), RENAME]
        chance.shuffle(parts)
        with pytest.raises(RejectedBefore):
            await ask(bench, batch(*parts), thread=name)
    assert (await ask(bench, batch(new("$1"), edge("$1")))).is_open


def test_other_changes_have_other_hashes_and_a_batch_of_one_is_what_is_in_it() -> None:
    actions = [
        RENAME,
        DELETE,
        new("$1"),
        edge("c"),
        edge("d"),
        batch(RENAME, DELETE),
        batch(new("$1"), edge("$1")),
    ]
    hashes = {proposal_hash(parse_action(action)) for action in actions}
    assert len(hashes) == len(actions)
    assert proposal_hash(parse_action(batch(DELETE))) == proposal_hash(parse_action(DELETE))
