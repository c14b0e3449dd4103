"""Many who decide at once: one decision wins and is carried out once, the others are refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx2
import pytest

from datasources.arango import ArangoDatabase, parse_address
from datasources.base import Database
from datasources.mock import MemoryDatabase
from datasources.types import Mutation
from graphrag.approvals import AlreadyDecided, Approval, Approvals, Approve, Asked, Person, Reject
from graphrag.leases import now_ms
from tests.benchmarks.load_server import serving
from tests.concurrency import workers
from tests.contracts.samples import WORKSPACE, a_node
from tests.datasources.sqlite.helpers import finish, line_of, start
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench
from tests.support.chosen_database import address_in, database_in


@pytest.fixture(params=["memory", "sqlite", pytest.param("arango", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    match request.param:
        case "memory":
            return MemoryDatabase()
        case "sqlite":
            return database_in(tmp_path / "graphs.db")
        case _:
            return ArangoDatabase(parse_address(request.getfixturevalue("arango_address")))


async def _all_decide(bench: Bench, approval_id: str, count: int) -> list[Approval | BaseException]:
    services = [bench.approvals() for _ in range(10)]
    people = [Person(f"r{n % 7}", "reviewer", WORKSPACE) for n in range(count)]
    return await asyncio.gather(
        *(services[n % 10].decide(approval_id, Approve(), by) for n, by in enumerate(people)),
        return_exceptions=True,
    )


@pytest.mark.parametrize("many", [100, pytest.param(1000, marks=pytest.mark.slow)])
async def test_of_many_simultaneous_approvals_one_is_applied(database: Database, many: int) -> None:
    async with database:
        bench = await a_bench(database)
        approval = await bench.propose("create_node", typeKey="task", data={"name": "Once"})
        revision = await bench.revision()
        results = await _all_decide(bench, approval.id, many)
        assert Counter(type(found) for found in results) == {Approval: 1, AlreadyDecided: many - 1}
        (winner,) = [found for found in results if isinstance(found, Approval)]
        assert winner.decision is not None
        assert {found.by for found in results if isinstance(found, AlreadyDecided)} == {
            winner.decision.by
        }
        assert await bench.revision() == revision + 1
        made = [
            node for node in await bench.source.get_nodes(FLOW) if node.data == {"name": "Once"}
        ]
        assert len(made) == 1
        entries = await bench.approvals().audit.entries(approval_id=approval.id)
        assert [entry.facts["event"] for entry in entries] == ["applied"]


async def test_of_two_different_decisions_one_wins_and_the_other_is_refused(
    database: Database,
) -> None:
    async with database:
        bench = await a_bench(database)
        for number in range(10):
            # Each in a conversation of its own: what was rejected is not proposed again
            # in its turn.
            approval = await bench.propose("create_node", thread=f"t{number}", typeKey="task")
            revision = await bench.revision()
            approved, rejected = await asyncio.gather(
                bench.approvals().decide(
                    approval.id, Approve(), Person("ann", "reviewer", WORKSPACE)
                ),
                bench.approvals().decide(
                    approval.id, Reject(), Person("bob", "reviewer", WORKSPACE)
                ),
                return_exceptions=True,
            )
            outcome = {type(approved), type(rejected)}
            assert outcome == {Approval, AlreadyDecided}
            winner, loser = (
                (approved, rejected) if isinstance(approved, Approval) else (rejected, approved)
            )
            assert isinstance(loser, AlreadyDecided)
            assert isinstance(winner, Approval)
            assert winner.decision is not None
            assert loser.by == winner.decision.by
            assert await bench.revision() == revision + (winner.status == "applied")


async def test_many_approvals_decided_at_once_are_each_applied_once(database: Database) -> None:
    async with database:
        bench = await a_bench(database)
        approvals = [
            await bench.propose("create_node", typeKey="task", data={"n": n}) for n in range(12)
        ]
        service = bench.approvals()
        done = await asyncio.gather(*(service.decide(a.id, Approve(), REVIEWER) for a in approvals))
        assert {found.status for found in done} == {"applied"}
        made = [node.data["n"] for node in await bench.source.get_nodes(FLOW) if "n" in node.data]
        assert sorted(made) == list(range(12))
        assert (await service.audit.verify()).is_sound
        revisions = sorted(found.result.revision for found in done if found.result)
        assert revisions == list(range(revisions[0], revisions[0] + 12))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "arango"])
async def test_processes_that_race_apply_each_approval_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = (
        str(tmp_path / "n.db") if kind == "sqlite" else request.getfixturevalue("arango_address")
    )
    async with workers.database_at(where) as database:
        bench = await a_bench(database, clock=now_ms)
        ids = [
            (await bench.propose("create_node", typeKey="task", data={"n": n})).id for n in range(4)
        ]
        before = await bench.revision()
        processes = [
            start(
                workers.decide_with_others, where, f"r{n}", ",".join(ids), "approve,reject,approve"
            )
            for n in range(3)
        ]
        for process in processes:
            assert await line_of(process) == "ready"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        outcomes = Counter[str]()
        for process in processes:
            outcomes.update((await asyncio.to_thread(finish, process)).split())
        assert outcomes["AlreadyDecided"] == 3 * 3 * 4 - 4
        assert outcomes["applied"] + outcomes["rejected"] == 4
        assert await bench.revision() == before + outcomes["applied"]
        assert (await bench.approvals().audit.verify()).is_sound
        assert len(await bench.approvals().audit.entries()) == 4


class Counting:
    """A source or a store of records that counts what is asked of it."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.asked = inner, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self._inner, name)


async def test_a_decision_reads_once_what_it_touches_and_never_the_whole_graph() -> None:
    bench = await a_bench()
    payloads = [
        ("update_node", {"nodeKey": "b", "changes": {"data.name": "Other"}}),
        ("move_node", {"nodeKey": "b", "posX": 7, "posY": 7}),
        ("delete_node", {"nodeKey": "d"}),
        ("delete_edge", {"edgeKey": "ab"}),
        ("create_node", {"typeKey": "task"}),
        ("reorganize_layout", {"nodeKeys": ["a", "c"], "strategy": "left_to_right"}),
    ]
    for kind, payload in payloads:
        approval = await bench.propose(kind, **payload)
        source = Counting(bench.source)
        records = Counting(bench.records)
        given: tuple[Any, Any] = source, records
        done = await Approvals(*given, clock=bench.clock).decide(approval.id, Approve(), EDITOR)
        assert done.status == "applied", kind
        assert not {"get_nodes", "get_edges"} & source.asked.keys(), kind
        assert {times for name, times in source.asked.items() if name.startswith("get_")} == {1}, (
            kind
        )
        assert records.asked == {"get": 2}, kind  # the proposal, and the head of the audit log


async def test_a_proposal_reads_the_whole_graph_once_to_place_something_and_else_never() -> None:
    bench = await a_bench()
    for payload, times in (
        (
            {"type": "update_node", "payload": {"nodeKey": "b", "changes": {"data.name": "Other"}}},
            0,
        ),
        ({"type": "delete_node", "payload": {"nodeKey": "d"}}, 0),
        ({"type": "create_node", "payload": {"typeKey": "task"}}, 1),
    ):
        source: Any = Counting(bench.source)
        await Approvals(source, bench.records, clock=bench.clock).propose(
            payload,
            Asked(
                graph_key=FLOW,
                thread_id="t1",
                turn=1,
                tool_call_id="c1",
                asker=EDITOR,
                model="a-model",
            ),
        )
        assert source.asked["get_nodes"] == times, payload


async def _proposed(file: Path, nodes: int, count: int) -> tuple[list[str], int]:
    """Make a graph of so many nodes and propose so many changes; return their ids
    and the revision.
    """
    async with database_in(file) as database:
        bench = await a_bench(database, clock=now_ms)
        more = [a_node(f"n{i}", data={"name": f"Node {i}"}) for i in range(nodes)]
        await bench.source.apply(Mutation(graph_key=FLOW, put_nodes=more))
        changes = ((f"n{i % nodes}", {f"data.field{i}": i}) for i in range(count))
        made = [
            await bench.propose("update_node", thread=f"t{key}", nodeKey=key, changes=change)
            for key, change in changes
        ]
        return [approval.id for approval in made], await bench.revision()


async def _approved(ports: list[int], ids: list[str], clients: int) -> Counter[str]:
    """Approve them with so many clients, each at one of the servers; count the answers."""
    rest = iter(ids)
    places = cycle(ports)
    answers: Counter[str] = Counter()

    async def decide(client: httpx2.AsyncClient, port: int) -> None:
        for approval_id in rest:
            address = f"http://127.0.0.1:{port}/api/approvals/{approval_id}/decision"
            answer = await client.post(address, json={"verdict": "approve"})
            answers[f"{answer.status_code} {answer.json().get('status', '')}"] += 1

    async with httpx2.AsyncClient(trust_env=False, timeout=300) as client:
        await asyncio.gather(*(decide(client, next(places)) for _ in range(clients)))
    return answers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("proposals", "clients", "servers"), [(64, 64, 1), (64, 64, 2), (200, 8, 2)]
)
async def test_every_approval_of_one_graph_is_applied_once(
    tmp_path: Path, proposals: int, clients: int, servers: int
) -> None:
    file = tmp_path / "graphs.db"
    ids, before = await _proposed(file, 2_000, proposals)
    async with AsyncExitStack() as stack:
        settings = {"NODIUS_WORKSPACE": WORKSPACE, "NODIUS_EMBEDDINGS": "none"}
        starting = [serving(address_in(file), **settings) for _ in range(servers)]
        running = [await stack.enter_async_context(server) for server in starting]
        answers = await _approved([server.port for server in running], ids, clients)
    assert answers == {"200 applied": proposals}
    async with database_in(file) as database:
        bench = Bench(database)
        assert await bench.revision() == before + proposals
        verified = await bench.approvals().audit.verify()
        assert verified.is_sound, verified.faults
        assert verified.entries == proposals
