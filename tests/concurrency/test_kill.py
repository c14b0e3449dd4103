"""Killed at any numbered step, an approval is pending, applied once, or ended with its reason."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from graphrag.approvals import Approvals, Approve
from graphrag.leases import now_ms
from tests.concurrency import workers
from tests.datasources.sqlite.helpers import start
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench

pytestmark = pytest.mark.slow

# How many writes a decision gets done before it dies, and what is found: each is one transaction.
STEPS = [
    (what, writes, status if writes else "pending")
    for what, status in (
        ("approve", "applied"),
        ("reject", "rejected"),
        ("stale", "stale"),
        ("expire", "expired"),
    )
    for writes in (0, 1)
]


@pytest.fixture(params=["sqlite", "arango"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a database of one's own is."""
    if request.param == "sqlite":
        return str(tmp_path / "graphs.db")
    return request.getfixturevalue("arango_address")


async def _prepared(where: str, what: str) -> tuple[str, int, bytes]:
    """Store a proposal (for an undo: applied); return its id, the graph's revision and content."""
    async with workers.database_at(where) as database:
        bench = await a_bench(database, clock=now_ms)
        approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Other"})
        if what == "undo":
            await bench.approvals().decide(approval.id, Approve(), EDITOR)
        if what == "stale":
            await bench.rename("b", "Renamed meanwhile")
        return approval.id, await bench.revision(), await bench.stored_bytes()


async def _die(where: str, approval_id: str, what: str, writes: int) -> None:
    process = start(workers.decide_and_die, where, approval_id, what, writes)
    output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode == -9, output
    is_last = writes == 1
    assert output == ("unharmed 0\n" if is_last else "")  # the numbers above are those of the code


async def _events(approvals: Approvals) -> list[str]:
    assert (await approvals.audit.verify()).is_sound
    return [entry.facts["event"] for entry in await approvals.audit.entries()]


@pytest.mark.parametrize(("what", "writes", "status"), STEPS)
async def test_after_a_kill_every_approval_is_where_it_belongs(
    where: str, what: str, writes: int, status: str
) -> None:
    approval_id, revision, content = await _prepared(where, what)
    await _die(where, approval_id, what, writes)
    async with workers.database_at(where) as database:
        bench = Bench(database=database, clock=now_ms)
        approvals = bench.approvals()
        approval = await approvals.get(approval_id, REVIEWER)
        assert approval.status == status
        applied = int(status == "applied")
        assert await bench.revision() == revision + applied
        assert (await bench.stored_bytes() == content) is not bool(applied)
        assert await _events(approvals) == ([] if status == "pending" else [status])
        assert await approvals.expire_due(limit=10) == []
        if status != "pending":
            return
        decided = await approvals.decide(approval_id, Approve(), REVIEWER)
        assert decided.status == ("stale" if what == "stale" else "applied")
        assert await bench.revision() == revision + (what != "stale")
        assert await _events(approvals) == [decided.status]


@pytest.mark.parametrize("writes", [0, 1])
async def test_a_killed_undo_is_done_or_not(where: str, writes: int) -> None:
    approval_id, revision, content = await _prepared(where, "undo")
    await _die(where, approval_id, "undo", writes)
    async with workers.database_at(where) as database:
        bench = Bench(database=database, clock=now_ms)
        approvals = bench.approvals()
        approval = await approvals.get(approval_id, REVIEWER)
        assert (approval.undone_by is not None) is bool(writes)
        assert await bench.revision() == revision + writes
        assert (await bench.stored_bytes() == content) is not bool(writes)
        if not writes:
            await approvals.undo(FLOW, approval_id, by=REVIEWER)
        assert await _events(approvals) == ["undone", "applied"]
