"""A store that fails, a graph that never rests, a caller that goes away: no approval is left in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from datasources.errors import InvalidMutation, SourceTimeout
from datasources.types import Mutation
from graphrag.approvals import ApprovalBusy, Approvals, Approve, Reject, deciding, outcome_text
from graphrag.approvals.desk import CLAIM_MS
from tests.contracts.samples import a_node
from tests.graphrag.approvals.helpers import EDITOR, FLOW, Bench, a_bench

Apply = Callable[..., Awaitable[int]]


class Around:
    """A source whose `apply` goes through a function of the test."""

    def __init__(self, inner: Any, around: Callable[[Apply], Apply]) -> None:
        self._inner = inner
        self.apply = around(inner.apply)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def service(bench: Bench, around: Callable[[Apply], Apply]) -> Approvals:
    source: Any = Around(bench.source, around)
    return Approvals(source, bench.records, clock=bench.clock)


async def test_a_store_that_fails_before_applying_leaves_the_approval_pending() -> None:
    def failing(_: Apply) -> Apply:
        async def apply(*_args: Any, **_more: Any) -> int:
            raise SourceTimeout(source="the store", seconds=1)

        return apply

    bench = await a_bench()
    approval, before = await bench.propose("delete_node", nodeKey="b"), await bench.state()
    with pytest.raises(SourceTimeout):
        await service(bench, failing).decide(approval.id, Approve(), EDITOR)
    assert (await bench.approvals().get(approval.id, EDITOR)).status == "pending"
    assert await bench.state() == before
    assert (await bench.approvals().decide(approval.id, Approve(), EDITOR)).status == "applied"


async def test_a_store_whose_answer_is_lost_after_applying_is_believed_by_its_records() -> None:
    def mute(apply: Apply) -> Apply:
        async def applied(*args: Any, **more: Any) -> int:
            await apply(*args, **more)
            raise SourceTimeout(source="the store", seconds=1)

        return applied

    bench = await a_bench()
    approval, revision = await bench.propose("delete_node", nodeKey="b"), await bench.revision()
    assert (await service(bench, mute).decide(approval.id, Approve(), EDITOR)).status == "applied"
    assert await bench.revision() == revision + 1


async def test_a_store_that_refuses_the_change_fails_the_approval_with_the_reason() -> None:
    def refusing(_: Apply) -> Apply:
        async def apply(*_args: Any, **_more: Any) -> int:
            raise InvalidMutation(graph_key=FLOW, reason="no more room", keys=["b"])

        return apply

    bench = await a_bench()
    approval = await bench.propose("delete_node", nodeKey="b")
    failed = await service(bench, refusing).decide(approval.id, Approve(), EDITOR)
    assert failed.status == "failed"
    assert "no more room" in outcome_text(failed)


async def test_a_graph_that_changes_each_time_gives_the_approval_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deciding, "ATTEMPTS", 3)
    bench = await a_bench()
    tries: list[int] = []

    def racing(apply: Apply) -> Apply:
        async def late(*args: Any, **more: Any) -> int:
            tries.append(1)
            await bench.source.apply(Mutation(graph_key=FLOW, put_nodes=[a_node(f"other{len(tries)}")]))
            return await apply(*args, **more)

        return late

    approval = await bench.propose("delete_node", nodeKey="b")
    with pytest.raises(ApprovalBusy):
        await service(bench, racing).decide(approval.id, Approve(), EDITOR)
    assert len(tries) == 3
    assert (await bench.approvals().get(approval.id, EDITOR)).status == "pending"
    assert await bench.source.get_nodes_by_key(FLOW, ["b"])


async def test_a_decision_is_carried_out_when_the_one_who_decided_goes_away() -> None:
    bench = await a_bench()
    entered, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def slow(apply: Apply) -> Apply:
        async def held(*args: Any, **more: Any) -> int:
            entered.set()
            await go_on.wait()
            revision = await apply(*args, **more)
            done.set()
            return revision

        return held

    approval = await bench.propose("delete_node", nodeKey="b")
    deciding_task = asyncio.create_task(service(bench, slow).decide(approval.id, Approve(), EDITOR))
    await entered.wait()
    deciding_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding_task
    go_on.set()
    await done.wait()
    assert (await bench.approvals().get(approval.id, EDITOR)).status == "applied"


async def _claimed(bench: Bench) -> str:
    """Return an approval whose decision was interrupted after its claim."""
    approval = await bench.propose("delete_node", nodeKey="b")

    def dying(_: Apply) -> Apply:
        async def apply(*_args: Any, **_more: Any) -> int:
            raise asyncio.CancelledError

        return apply

    with pytest.raises(asyncio.CancelledError):
        await service(bench, dying).decide(approval.id, Approve(), EDITOR)
    assert (await bench.approvals().get(approval.id, EDITOR)).status == "claimed"
    return approval.id


async def test_a_claim_is_left_alone_while_it_may_be_at_work() -> None:
    bench = await a_bench()
    approval_id = await _claimed(bench)
    bench.clock.now += CLAIM_MS - 1
    assert await bench.approvals().recover() == []
    assert (await bench.approvals().get(approval_id, EDITOR)).status == "claimed"


async def test_an_old_claim_is_given_back_by_whoever_looks_first() -> None:
    bench = await a_bench()
    approval_id = await _claimed(bench)
    bench.clock.now += CLAIM_MS
    assert (await bench.approvals().get(approval_id, EDITOR)).status == "pending"
    assert (await bench.approvals().decide(approval_id, Reject(), EDITOR)).status == "rejected"
