"""A primary killed under load, and its replica promoted: what clients of two servers see, and what
is left of what they were told.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from datasources.base import Database
from datasources.postgres import PostgresDatabase, parse_address
from datasources.types import Mutation
from graphrag.leases import now_ms
from tests.benchmarks.load_server import Loaded, process, said, serving
from tests.benchmarks.raw_ws import RawClient, connected
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node
from tests.graphrag.approvals.helpers import Bench, a_bench
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

Servers = Callable[..., PostgresServer]
EDITORS, APPROVALS, AUTOMATIONS = 20, 10, 5
PROMOTED_AFTER_S = 1.5
NORMAL_WITHIN_S = 10.0
ROOMS = ("room0", "room1")  # each is edited at a server of its own
# Pieces of an answer of the model, and milliseconds between them. A run takes 20 answers, 12 s: it
# goes on during the failover.
PACE = ("30", "20")


@dataclass
class Seen:
    """What clients of one kind saw: how often, and the longest wait in seconds."""

    counts: Counter[str] = field(default_factory=Counter[str])
    longest: float = 0.0
    last_time: float = 0.0  # of the last acknowledgement

    def note(self, what: str, began: float) -> None:
        now = time.perf_counter()
        self.counts[what] += 1
        if what == "acknowledged":
            self.longest = max(self.longest, now - began)
            self.last_time = now


class Editor:
    """Appends its numbers to the text of a node of its own, each once, as long as the test runs."""

    def __init__(self, number: int, seen: Seen) -> None:
        self.number = number
        self.room = ROOMS[number % 2]
        self.seen = seen
        self.sent = 0
        self.acknowledged: list[int] = []
        self.client: RawClient
        self._answer: asyncio.Future[dict[str, Any]]

    def on_message(self, message: dict[str, Any]) -> None:
        if "_id" in message and not self._answer.done():
            self._answer.set_result(message)

    async def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self._answer = asyncio.get_running_loop().create_future()
        self.client.send(message)
        async with asyncio.timeout(60):
            return await self._answer

    async def join(self, server: Loaded) -> None:
        self.client = await connected(server.port, self.on_message)
        fields = {"name": "e", "sheetId": "0", "graphKey": self.room, "fromTimestamp": 10**14}
        await self._ask({"type": "registerUserOnGraph", "_id": 1, **fields})

    async def edit(self, finished: asyncio.Event) -> None:
        while not finished.is_set():
            number = self.sent
            self.sent += 1
            step = {"o": 10, "p": ["data", "log"], "v": f"{number},"}
            asked = {"i": step, "sheetId": "0", "nodeId": f"n{self.number}"}
            began = time.perf_counter()
            answer = await self._ask(
                {"type": "applyInstructionToGraph", "_id": number + 2, "instructions": [asked]}
            )
            if answer["_response"]["status"]:
                self.acknowledged.append(number)
                self.seen.note("acknowledged", began)
            else:
                self.seen.note(f"refused: {answer['_response'].get('code', 'retryable')}", began)
            await asyncio.sleep(0.1)


async def approve(client: httpx2.AsyncClient, approval_id: str, seen: Seen) -> None:
    """Repeats a decision as clients do until it is acknowledged."""
    while True:
        began = time.perf_counter()
        answer = await client.post(
            f"/api/approvals/{approval_id}/decision", json={"verdict": "approve"}
        )
        if answer.is_success:
            seen.note("acknowledged", began)
            return
        error = answer.json()["error"]
        if answer.status_code == 409:
            seen.note("decided by the request before", began)
            return
        assert error["retryable"], answer.text
        seen.note(f"retryable {answer.status_code}", began)


async def ended_runs(client: httpx2.AsyncClient, automations: list[str]) -> Counter[str]:
    """Waits until every run has ended; each is begun once. Returns their phases."""
    async with asyncio.timeout(120):
        while True:
            found: Counter[str] = Counter()
            for key in automations:
                answer = await client.get(f"/api/automations/{key}/sessions")
                assert answer.is_success, answer.text
                runs = answer.json()["sessions"]
                assert len(runs) == 1
                found[runs[0]["phase"]] += 1
            if found.keys() == {"completed"}:
                return found
            await asyncio.sleep(0.5)


@dataclass
class Cluster:
    primary: PostgresServer
    replica: PostgresServer
    name: str
    servers: list[Loaded]

    async def fail_over(self) -> float:
        """Kills the primary and promotes the replica later; returns when it was promoted."""
        self.primary.kill()
        await asyncio.sleep(PROMOTED_AFTER_S)
        self.replica.promote()
        return time.perf_counter()


@asynccontextmanager
async def a_cluster(servers: Servers, *, synchronous: bool) -> AsyncGenerator[Cluster]:
    primary = servers(fsync=True)
    name = primary.create_database()
    replica = primary.replica(synchronous=synchronous)
    address = parse_address(primary.url(name))
    async with PostgresDatabase(address, prepared=False) as database:
        await database.set_up()
        await _fill(await a_bench(database, clock=now_ms))
    both = primary.url(name).replace(
        f":{primary.port}/", f":{primary.port},127.0.0.1:{replica.port}/"
    )
    async with AsyncExitStack() as stack:
        arguments = ("-m", "tests.benchmarks.paced_model", *PACE)
        model = await stack.enter_async_context(process(arguments))
        settings: Any = {
            "NODIUS_WORKSPACE": WORKSPACE,
            "NODIUS_EMBEDDINGS": "none",
            "NODIUS_PROVIDER": "compatible",
            "NODIUS_LLM_BASE_URL": f"http://127.0.0.1:{int(await said(model))}/v1",
            "NODIUS_MODEL": "paced",
            "NODIUS_AUTOMATIONS_AT_ONCE": "8",
        }
        running = [await stack.enter_async_context(serving(both, **settings)) for _ in range(2)]
        yield Cluster(primary, replica, name, running)


def _bench(database: Database) -> Bench:
    options: Any = {"clock": now_ms}
    return Bench(database, **options)


async def _fill(bench: Bench) -> None:
    """Stores a room for each server with a node for each of its editors."""
    for place, room in enumerate(ROOMS):
        numbers = range(place, EDITORS, 2)
        nodes = [a_node(f"n{n}", graph=room, data={"log": ""}, sheet="0") for n in numbers]
        await bench.source.create_graph(a_graph(room))
        await bench.source.apply(Mutation(graph_key=room, put_nodes=nodes))


async def automation_on(client: httpx2.AsyncClient, number: int) -> str:
    body = {"graphKey": FLOW, "name": f"check {number}", "message": "Look at it."}
    made = await client.post("/api/automations", json=body)
    assert made.status_code == 201, made.text
    begun = await client.post(f"/api/automations/{made.json()['id']}/run")
    assert begun.is_success, begun.text
    return made.json()["id"]


@pytest.mark.slow
@pytest.mark.parametrize("synchronous", [True, False], ids=["synchronous", "asynchronous"])
async def test_a_failover_under_load_loses_and_doubles_nothing_that_a_replica_confirmed(
    postgres_servers: Servers, synchronous: bool
) -> None:
    edits, decisions = Seen(), Seen()
    async with (
        a_cluster(postgres_servers, synchronous=synchronous) as cluster,
        cluster.servers[0].client() as first,
        cluster.servers[1].client() as second,
    ):
        async with PostgresDatabase(parse_address(cluster.primary.url(cluster.name))) as database:
            bench = _bench(database)
            proposals = [
                (
                    await bench.propose(
                        "create_node", thread=f"t{n}", typeKey="task", data={"n": n}
                    )
                ).id
                for n in range(APPROVALS)
            ]
            before = await bench.revision()
        editors = [Editor(number, edits) for number in range(EDITORS)]
        for editor in editors:
            await editor.join(cluster.servers[editor.number % 2])
        automations = [await automation_on((first, second)[n % 2], n) for n in range(AUTOMATIONS)]
        finished = asyncio.Event()
        editing = [asyncio.create_task(editor.edit(finished)) for editor in editors]
        await asyncio.sleep(1)
        # Half of the decisions are under way when the primary dies, half come meanwhile.
        deciding = [
            asyncio.create_task(approve((first, second)[n % 2], one, decisions))
            for n, one in enumerate(proposals[: APPROVALS // 2])
        ]
        failing = asyncio.create_task(cluster.fail_over())
        await asyncio.sleep(0.5)
        deciding += [
            asyncio.create_task(approve((first, second)[n % 2], one, decisions))
            for n, one in enumerate(proposals[APPROVALS // 2 :])
        ]
        promoted = await failing
        await asyncio.gather(*deciding)
        known = [len(editor.acknowledged) for editor in editors]
        await until(
            lambda: all(len(e.acknowledged) >= k + 3 for e, k in zip(editors, known, strict=True))
        )
        normal_s = time.perf_counter() - promoted
        finished.set()
        await asyncio.gather(*editing)
        runs = await ended_runs(first, automations)
        lost, doubled = await _edits_missing(first, editors)
        for editor in editors:
            editor.client.close()
    async with PostgresDatabase(parse_address(cluster.replica.url(cluster.name))) as database:
        bench = _bench(database)
        applied = await _applied(bench, proposals)
        revision = await bench.revision() - before
        assert (await bench.approvals().audit.verify()).is_sound
    kind = "synchronous" if synchronous else "asynchronous"
    print(
        f"\n{kind} replica, promoted {PROMOTED_AFTER_S} s after the kill; normal {normal_s:.1f} s later\n"
        f"{EDITORS} editors: {dict(edits.counts)}, waited up to {edits.longest:.1f} s, "
        f"{lost} lost, {doubled} doubled\n"
        f"{APPROVALS} approvals: {dict(decisions.counts)}, waited up to {decisions.longest:.1f} s, "
        f"{applied} applied once, revision + {revision}\n"
        f"{AUTOMATIONS} automations: {dict(runs)}"
    )
    assert doubled == 0
    assert normal_s <= NORMAL_WITHIN_S
    assert applied == revision
    if synchronous:
        assert lost == 0
        assert applied == APPROVALS


async def _edits_missing(client: httpx2.AsyncClient, editors: list[Editor]) -> tuple[int, int]:
    """Returns how many acknowledged edits are not stored, and how many are stored twice."""
    lost = doubled = 0
    for editor in editors:
        answer = await client.get(f"/api/graphs/{editor.room}/nodes")
        nodes = {node["_key"]: node for node in answer.json()["nodes"]}
        stored: Counter[str] = Counter(nodes[f"n{editor.number}"]["data"]["log"].split(",")[:-1])
        lost += sum(str(number) not in stored for number in editor.acknowledged)
        doubled += sum(count > 1 for count in stored.values())
    return lost, doubled


async def _applied(bench: Bench, proposals: list[str]) -> int:
    """Returns how many proposals were applied. Fails if one was so twice, or in part."""
    nodes = await bench.source.get_nodes(FLOW)
    applied = 0
    for number, one in enumerate(proposals):
        made = sum(node.data == {"n": number} for node in nodes)
        entries = await bench.approvals().audit.entries(approval_id=one)
        assert (made, len(entries)) in ((0, 0), (1, 1))
        applied += made
    return applied
