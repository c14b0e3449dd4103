"""Each end of a proposal is announced once: it hangs on what is stored, not on who stores it."""

from collections.abc import Awaitable, Callable

import pytest

from graphrag.approvals import Approval, Approvals, Approve, Reject
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench

Way = Callable[[Bench, Approvals, Approval], Awaitable[object]]


async def expire(bench: Bench, approvals: Approvals, made: Approval) -> None:
    bench.clock.now = made.expires + 1
    await approvals.expire_due(limit=10)
    await approvals.expire_due(limit=10)


async def delete_graph(bench: Bench, approvals: Approvals, made: Approval) -> None:
    await bench.source.delete_graph(FLOW)
    await approvals.close_for_gone_graph(FLOW)


WAYS: dict[str, Way] = {
    "applied": lambda _, approvals, made: approvals.decide(made.id, Approve(), REVIEWER),
    "rejected": lambda _, approvals, made: approvals.decide(made.id, Reject(), REVIEWER),
    "expired": expire,
    "withdrawn": lambda _, approvals, made: approvals.withdraw(
        graph_key=FLOW, thread_id=made.thread_id or ""
    ),
    "graph gone": delete_graph,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
async def test_every_end_of_a_proposal_is_announced_once(way: Way) -> None:
    bench = await a_bench()
    announced = list[tuple[str, str]]()
    approvals = bench.approvals(on_decided=lambda one: announced.append((one.id, one.status)))
    made = await bench.propose("update_node", nodeKey="b", changes={"data.name": "N"})
    await way(bench, approvals, made)
    after = await approvals.get(made.id, EDITOR)
    assert not after.is_open
    assert announced == [(made.id, after.status)]


async def test_what_a_policy_decided_is_not_announced_again_when_its_step_is_looked_at_again() -> (
    None
):
    bench = await a_bench()
    announced = list[str]()
    approvals = bench.approvals(
        require_validation=frozenset(), on_decided=lambda one: announced.append(one.id)
    )
    made = await bench.propose("update_node", nodeKey="b", changes={"data.name": "N"})
    await approvals.decide(made.id, Approve(), REVIEWER)
    await approvals.decide_by_policy([made.id])
    assert announced == [made.id]
