"""Whatever a server does to a request, a change is made once or not at all, and its
maker knows which.
"""

import asyncio
import random
from collections.abc import Iterator

import pytest
from arango.database import StandardDatabase, TransactionDatabase

from datasources.arango.layout import GRAPHS
from datasources.arango.transactions import CommitUnknown
from datasources.errors import RecordConflict, SourceError
from datasources.types import Mutation
from tests.contracts.samples import FLOW, WORKSPACE, a_node
from tests.datasources.arango.kit import (
    TOO_LONG_MS,
    a_change,
    a_record,
    applied,
    hit,
    opened,
    revision,
    with_flow,
)
from tests.support.arango import ArangoServer

QUICK = ["drop", "drop-after", "status:503", "error:1200", "error:29", "error:1600"]
TOO_LATE = f"delay:{TOO_LONG_MS}"
FAULTS = [
    "drop-after",
    "error:1200",
    *(
        pytest.param(fault, marks=pytest.mark.slow)
        for fault in ("drop", "status:503", "error:29", "error:1600", TOO_LATE)
    ),
]
REQUESTS = 8
"""More than an apply with a record sends; a fault that nothing meets is none."""


@pytest.fixture
def address(arango_faults: ArangoServer, one_database: str, arango_address: str) -> Iterator[str]:
    yield with_flow(arango_address)
    arango_faults.heal()
    arango_faults.end_transactions(one_database)


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("action", FAULTS)
async def test_a_change_is_applied_once_whichever_request_fails(
    address: str, arango_faults: ArangoServer, action: str, times: int
) -> None:
    late = action == TOO_LATE
    async with opened(address, impatient=late) as database:
        source = database.source(WORKSPACE)
        before = await revision(database)
        for number in range(0, REQUESTS, 3 if late else 1):
            key = f"{action.replace(':', '')}-{times}-{number}"
            mutation, records = a_change(key)
            hit(arango_faults, number, action, times)
            after = await source.apply(mutation, expected_revision=before, records=records)
            arango_faults.heal()
            assert (after, await revision(database)) == (before + 1, before + 1)
            assert await applied(database, key)
            before = after


@pytest.mark.parametrize("action", FAULTS)
async def test_a_record_is_written_and_removed_once_whichever_request_fails(
    address: str, arango_faults: ArangoServer, action: str
) -> None:
    async with opened(address, impatient=action == TOO_LATE) as database:
        records = database.records(WORKSPACE)
        key = f"lease {action}"
        for number in (0, 1):
            hit(arango_faults, number, action, 2)
            made = await records.put(a_record(key, owner="me"), expected_version=None)
            hit(arango_faults, number, action, 2)
            renewed = await records.put(a_record(key, owner="me"), expected_version=made.version)
            arango_faults.heal()
            assert await records.get("lease", key) == renewed
            hit(arango_faults, number, action, 2)
            with pytest.raises(RecordConflict):
                await records.put(a_record(key, owner="another"), expected_version=made.version)
            hit(arango_faults, number, action, 2)
            await records.delete("lease", key, expected_version=renewed.version or "")
            arango_faults.heal()
            assert await records.get("lease", key) is None


@pytest.mark.slow
@pytest.mark.parametrize("action", ["drop", "drop-after", "status:503", "error:1200"])
async def test_a_server_that_always_fails_is_given_up_with_nothing_half_done(
    address: str, arango_faults: ArangoServer, action: str
) -> None:
    async with opened(address) as database:
        before = await revision(database)
        mutation, records = a_change(f"never {action}")
        hit(arango_faults, 2, action, 1_000_000)
        arango_faults.forget_counts()
        with pytest.raises(SourceError) as given_up:
            await database.source(WORKSPACE).apply(
                mutation, expected_revision=before, records=records
            )
        assert sum(arango_faults.count().values()) < 100
        arango_faults.heal()
        assert "arango+http://root@" in str(given_up.value)
        assert "secret" not in str(given_up.value)
        done = await applied(database, f"never {action}")
        assert await revision(database) == before + done


@pytest.mark.slow
async def test_after_a_time_out_the_late_first_try_changes_nothing_more(
    address: str, arango_faults: ArangoServer
) -> None:
    async with opened(address, impatient=True) as database:
        before = await revision(database)
        arango_faults.inject("/_api/transaction/begin", "delay:0")
        arango_faults.inject("/_api/transaction/", f"delay:{TOO_LONG_MS}")  # the commit
        mutation, records = a_change("late")
        await database.source(WORKSPACE).apply(mutation, expected_revision=before, records=records)
        # Whatever is asked next waits in line behind the late request: the double does
        # one at a time.
        assert await applied(database, "late")
        assert await revision(database) == before + 1


@pytest.mark.slow
@pytest.mark.parametrize(("action", "done"), [("drop", False), ("drop-after", True)])
async def test_a_server_that_goes_during_a_commit_leaves_it_open_and_says_so(
    address: str, arango_faults: ArangoServer, action: str, done: bool
) -> None:
    async with opened(address) as database:
        before = await revision(database)
        mutation, records = a_change("unknown")
        # After its begin the first request for a transaction is its commit; then nobody answers.
        arango_faults.inject("/_api/transaction/begin", "delay:0", 1_000_000)
        arango_faults.inject("/_api/transaction/", action)
        arango_faults.inject("/_api/transaction/", "drop", 1_000_000)
        with pytest.raises(CommitUnknown, match="look whether it was made"):
            await database.source(WORKSPACE).apply(
                mutation, expected_revision=before, records=records
            )
        arango_faults.heal()
        assert await applied(database, "unknown") == done
        assert await revision(database) == before + done


@pytest.mark.slow
async def test_writers_amid_faults_lose_and_double_nothing(
    address: str, arango_faults: ArangoServer
) -> None:
    chance = random.Random(7)
    async with opened(address) as database:
        source = database.source(WORKSPACE)
        before = await revision(database)

        async def write(number: int) -> int | None:
            try:
                return await source.apply(
                    Mutation(graph_key=FLOW, put_nodes=[a_node(f"many{number}")])
                )
            except SourceError:
                return None

        for _ in range(60):
            arango_faults.inject("", "delay:0", chance.randrange(1, 8))
            arango_faults.inject("", chance.choice(QUICK))
        revisions = await asyncio.gather(*(write(number) for number in range(40)))
        arango_faults.heal()
        done = [found for found in revisions if found is not None]
        there = await source.get_nodes_by_key(FLOW, [f"many{number}" for number in range(40)])
        assert len(set(done)) == len(done)
        assert {node.key for node in there} >= {
            f"many{n}" for n, at in enumerate(revisions) if at is not None
        }
        assert await revision(database) == before + len(there)


async def test_a_change_waits_for_locks_of_a_dead_process(
    address: str, arango_faults: ArangoServer
) -> None:
    async with opened(address) as database:
        run = database.state.connection.run
        before = await revision(database)

        def lock(server: StandardDatabase) -> TransactionDatabase:
            transaction = server.begin_transaction(write=[GRAPHS])
            transaction.collection(GRAPHS).update({"_key": FLOW, "name": "never committed"})
            return transaction

        left = await run(lock)
        arango_faults.forget_counts()
        mutation, records = a_change("patient")
        waiting = asyncio.create_task(database.source(WORKSPACE).apply(mutation, records=records))
        async with asyncio.timeout(20):
            while sum(n for path, n in arango_faults.count().items() if path.endswith("begin")) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await run(lambda _: left.abort_transaction())  # as the server does a minute later
        assert await waiting == before + 1
        assert (await database.source(WORKSPACE).get_graph(FLOW)).name != "never committed"
