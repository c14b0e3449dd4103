"""Many who decide at once on one ArangoDB, and processes that die while they decide."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from datasources.arango import ArangoDatabase, parse_address
from graphrag.approvals import Approvals
from graphrag.leases import now_ms
from tests.concurrency import workers
from tests.concurrency.test_decisions import (
    test_many_approvals_decided_at_once_are_each_applied_once,
    test_of_two_different_decisions_one_wins_and_the_other_is_told,
)
from tests.concurrency.test_kill import STEPS
from tests.contracts.samples import WORKSPACE
from tests.datasources.sqlite.helpers import finish, line_of, start
from tests.graphrag.approvals.helpers import REVIEWER, Bench, a_bench

__all__ = [
    "test_many_approvals_decided_at_once_are_each_applied_once",
    "test_of_two_different_decisions_one_wins_and_the_other_is_told",
]

pytestmark = pytest.mark.slow


@pytest.fixture
def database(arango_address: str) -> ArangoDatabase:
    return ArangoDatabase(parse_address(arango_address))


@pytest.fixture
async def bench(database: ArangoDatabase) -> AsyncIterator[Bench]:
    async with database:
        yield await a_bench(database, clock=now_ms)


async def test_processes_that_race_apply_each_approval_once(bench: Bench, arango_address: str) -> None:
    ids = [(await bench.propose("create_node", typeKey="task", data={"n": n})).id for n in range(4)]
    before = await bench.revision()
    decisions = "approve,reject,approve"
    processes = [
        start(workers.decide_with_others, arango_address, f"r{n}", ",".join(ids), decisions) for n in range(3)
    ]
    for process in processes:
        assert await line_of(process) == "ready"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = Counter[str]()
    for process in processes:
        told.update((await asyncio.to_thread(finish, process)).split())
    assert told["AlreadyDecided"] == 3 * 3 * 4 - 4
    assert told["applied"] + told["rejected"] == 4
    assert await bench.revision() == before + told["applied"]
    assert (await bench.approvals().audit.verify()).is_sound
    assert len(await bench.approvals().audit.entries()) == 4


@pytest.mark.parametrize(("what", "writes", "status"), [step for step in STEPS if step[0] != "expire"])
async def test_after_a_kill_every_approval_is_where_it_belongs(
    bench: Bench, arango_address: str, what: str, writes: int, status: str
) -> None:
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Other"})
    if what == "stale":
        await bench.rename("b", "Renamed meanwhile")
    revision, content = await bench.revision(), await bench.stored_bytes()
    process = start(workers.decide_and_die, arango_address, approval.id, what, writes)
    output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode == -9, output
    approvals = Approvals(bench.database.source(WORKSPACE), bench.database.records(WORKSPACE), clock=now_ms)
    await approvals.recover()
    assert (await approvals.get(approval.id, REVIEWER)).status == status
    done = status == "applied"
    assert await bench.revision() == revision + done
    assert (await bench.stored_bytes() != content) == done
    assert (await approvals.audit.verify()).is_sound
    events = [entry.facts["event"] for entry in await approvals.audit.entries()]
    assert events == ([] if status == "pending" else [status])
