"""Several proposals of one turn: decided in any order, each on its own; dependent ones know it."""

from __future__ import annotations

import itertools

import pytest

from graphrag.approvals import Approve, ApproveEdited, ProposalRefused, Reject, outcome_text
from graphrag.approvals.errors import ProposalWaits
from tests.graphrag.approvals.helpers import EDITOR, FLOW, Bench, a_bench
from tests.support.each_row import each_row
from tools.base import ToolBox, ToolContext
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


async def test_a_dependent_proposal_waits_for_the_other_and_says_for_which() -> None:
    bench = await a_bench()
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


async def test_a_dependent_proposal_is_stale_when_the_other_is_rejected() -> None:
    bench = await a_bench()
    first, second, _ = await _pair(bench)
    await bench.approvals().decide(first, Reject(), EDITOR)
    before = await bench.state()
    stale = await bench.approvals().decide(second, Approve(), EDITOR)
    assert stale.status == "stale"
    assert first in outcome_text(stale)
    assert await bench.state() == before


async def test_an_edit_of_the_first_that_the_second_cannot_live_with_makes_it_stale() -> None:
    bench = await a_bench()
    first, second, _ = await _pair(bench)
    edit = {"type": "create_node", "payload": {"typeKey": "task", "sheet": "1"}}
    assert (await bench.approvals().decide(first, ApproveEdited(edit), EDITOR)).status == "applied"
    assert (await bench.approvals().decide(second, Approve(), EDITOR)).status == "stale"


@each_row("order", list(itertools.permutations(range(3))))
async def test_independent_proposals_of_a_turn_are_applied_in_any_order(order: tuple[int, ...]) -> None:
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


async def test_new_nodes_of_one_turn_get_places_of_their_own() -> None:
    bench = await a_bench()
    places = []
    for number in range(3):
        approval = await bench.propose("create_node", typeKey="task", data={"n": number})
        (node,) = approval.preview["nodesAdded"]
        places.append((node["posX"], node["posY"]))
        assert approval.depends_on == ()
    assert len(set(places)) == 3


async def test_another_thread_cannot_build_on_what_this_one_proposed() -> None:
    bench = await a_bench()
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


async def test_write_tools_see_pending_nodes_by_their_names_and_keys() -> None:
    bench = await a_bench()
    _, _, key = await _pair(bench)
    view = await bench.approvals().pending_view(graph_key=FLOW, thread_id="t1")
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
