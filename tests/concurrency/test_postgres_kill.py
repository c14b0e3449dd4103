"""A PostgreSQL server or the service killed at each statement of real work, and answers of COMMIT
lost: what is acknowledged stays, and nothing is applied in part or twice.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2
import orjson
import pytest

from datasources.postgres import PostgresDatabase, parse_address
from graphrag.leases import now_ms
from tests.benchmarks.load_server import serving
from tests.concurrency.import_workers import document
from tests.contracts.samples import FLOW, WORKSPACE
from tests.graphrag.approvals.helpers import Bench, a_bench
from tests.graphrag.importers.helpers import n8n, n8n_node, to
from tests.support.postgres import PostgresServer
from tests.support.postgres_proxy import Fate, PostgresProxy, Statement, postgres_proxy
from tests.support.waiting import until

Servers = Callable[..., PostgresServer]
# Of each work; KILLS=100 makes so many of both. A service takes seconds to start, and `test_kill`
# has more kills of what it does.
KILLS = {"server": 34, "service": 8}
if "KILLS" in os.environ:
    KILLS = dict.fromkeys(KILLS, int(os.environ["KILLS"]))
SETTINGS: Any = {"NODIUS_WORKSPACE": WORKSPACE, "NODIUS_EMBEDDINGS": "none"}


@dataclass
class Faults:
    """Counts the statements of writing transactions, and acts at one of them."""

    proxy: PostgresProxy
    kill: Callable[[], None] | None = None
    at: int = 0
    fate: Fate = "lost"
    wanted: str = ""
    count: int = 0
    hits: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.proxy.fate = self._fate
        self.proxy.answered = self._killed

    def arm(self, at: int, fate: Fate, wanted: str = "") -> None:
        """Acts at the statement of that number, of those that begin with `wanted`."""
        self.at, self.fate, self.wanted = at, fate, wanted
        self.count = 0
        self.hits.clear()

    def _fate(self, statement: Statement) -> Fate:
        if not statement.in_write or not statement.text.startswith(self.wanted):
            return "passed"
        self.count += 1
        if self.count != self.at:
            return "passed"
        self.hits.append(statement.text)
        if self.fate == "lost":
            self._killed()
        return self.fate

    def _killed(self) -> None:
        if self.kill is not None:
            self.kill()


@dataclass
class Setting:
    server: PostgresServer
    bench: Bench
    faults: Faults
    url: str
    client: httpx2.AsyncClient = field(default_factory=httpx2.AsyncClient)
    serial: Any = field(default_factory=lambda: itertools.count(1))
    service_pid: int = 0
    _service: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start_service(self) -> None:
        await self.stop_service()
        service = await self._service.enter_async_context(serving(self.url, **SETTINGS))
        self.client = await self._service.enter_async_context(service.client(60))
        self.service_pid = service.pid

    async def stop_service(self) -> None:
        await self._service.aclose()

    def kill(self, victim: str) -> None:
        if victim == "service":
            os.kill(self.service_pid, signal.SIGKILL)
        else:
            self.server.kill()


class Work(Protocol):
    """One change by REST, again and again. `send` may be repeated until it is acknowledged."""

    async def prepare(self) -> None: ...
    async def send(self) -> httpx2.Response: ...
    async def applied(self) -> bool:
        """Returns whether it is applied. Fails if it is so in part or twice."""
        ...


class Approving:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    async def prepare(self) -> None:
        self.number = next(self.setting.serial)
        self.asked = await self.setting.bench.propose(
            "create_node",
            thread=f"t{self.number}",
            typeKey="task",
            data={"n": self.number},
        )
        self.before = await self.setting.bench.revision()

    async def send(self) -> httpx2.Response:
        path = f"/api/approvals/{self.asked.id}/decision"
        return await self.setting.client.post(path, json={"verdict": "approve"})

    async def applied(self) -> bool:
        approvals = self.setting.bench.approvals()
        entries = await approvals.audit.entries(approval_id=self.asked.id)
        nodes = await self.setting.bench.source.get_nodes(FLOW)
        made = sum(node.data == {"n": self.number} for node in nodes)
        revision = await self.setting.bench.revision()
        assert (made, revision - self.before, len(entries)) in ((0, 0, 0), (1, 1, 1))
        return bool(made)


class Importing:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    async def prepare(self) -> None:
        self.key = f"imported{next(self.setting.serial)}"

    async def send(self) -> httpx2.Response:
        path = f"/api/graphs/import?graphKey={self.key}"
        return await self.setting.client.post(path, content=document(1))

    async def applied(self) -> bool:
        source = self.setting.bench.source
        kept = await self.setting.bench.records.get("imports", self.key)
        if self.key not in [graph.key for graph in await source.list_graphs()]:
            assert kept is None
            return False
        graph = await source.get_graph(self.key)
        nodes = await source.get_nodes(self.key)
        edges = await source.get_edges(self.key)
        assert kept is not None
        assert (graph.revision, len(nodes), len(edges)) == (1, 12, 11)
        return True


class Replacing:
    """A codemod in three graphs."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    async def prepare(self) -> None:
        n = next(self.setting.serial)
        self.old, self.new = f"https://old{n}.example/a", f"https://new{n}.example/a"
        self.keys = [f"code{n}x{place}" for place in range(3)]
        nodes = [
            n8n_node(f"Get {i}", type="n8n-nodes-base.httpRequest", parameters={"url": self.old})
            for i in range(2)
        ]
        content = orjson.dumps(n8n(nodes, {"Get 0": {"main": [[to("Get 1")]]}}))
        for key in self.keys:
            sent = await self.setting.client.post(
                f"/api/graphs/import?graphKey={key}", content=content
            )
            assert sent.is_success, sent.text
        swap = {"old": self.old, "new": self.new}
        made = await self.setting.client.post("/api/codemods", json=swap)
        assert made.is_success, made.text
        self.id = made.json()["codemodId"]
        assert len(made.json()["parts"]) == 3

    async def send(self) -> httpx2.Response:
        path = f"/api/codemods/{self.id}/decision"
        return await self.setting.client.post(path, json={"verdict": "approve"})

    async def applied(self) -> bool:
        source = self.setting.bench.source
        done: list[bool] = []
        for key in self.keys:
            graph = await source.get_graph(key)
            text = [str(node.data) for node in await source.get_nodes(key)]
            old, new = (sum(url in one for one in text) for url in (self.old, self.new))
            assert (graph.revision, old, new) in ((1, 2, 0), (2, 0, 2)), key
            done.append(bool(new))
        entries = await self.setting.bench.approvals().audit.entries(limit=1_000)
        mine = [e for e in entries if e.facts.get("graphKey") in self.keys]
        assert sum(e.facts["event"] == "applied" for e in mine) == sum(done)
        return all(done)


WORKS = {"approval": Approving, "import": Importing, "codemod": Replacing}


@asynccontextmanager
async def a_setting(server: PostgresServer) -> AsyncGenerator[Setting]:
    """Yields a running service whose database is behind a proxy."""
    name = server.create_database()
    direct = parse_address(server.url(name))
    async with PostgresDatabase(direct, prepared=False) as database:
        await database.set_up()
        bench = await a_bench(database, clock=now_ms)
        async with postgres_proxy(server.port) as proxy:
            url = server.url(name, "?sslmode=disable").replace(
                f":{server.port}/", f":{proxy.port}/"
            )
            setting = Setting(server, bench, Faults(proxy), url)
            try:
                await setting.start_service()
                yield setting
            finally:
                await setting.stop_service()


def outcome(answer: httpx2.Response) -> str:
    if answer.is_success:
        refused = any("error" in part for part in answer.json().get("parts", ()))
        return "acknowledged in part" if refused else "acknowledged"
    error = answer.json()["error"]
    if answer.status_code == 409:
        return f"409 {error['code']}"
    assert error["retryable"], answer.text
    return f"retryable {answer.status_code}"


async def sent_at(setting: Setting, work: Work, victim: str | None = None) -> tuple[str, float]:
    """Sends it while the fault happens, and starts again what was killed; returns what the client
    saw, and after how many seconds.
    """
    began = time.perf_counter()
    sending = asyncio.create_task(work.send())
    if victim == "server":
        await until(lambda: sending.done() or not setting.server.runs)
        if not setting.server.runs:
            setting.server.start()
    try:
        said = outcome(await sending)
    except httpx2.TransportError:
        said = "connection lost"
    seconds = time.perf_counter() - began
    if victim == "service" and setting.faults.hits:
        await setting.start_service()
    return said, seconds


async def completed(work: Work) -> None:
    """Repeats it as clients do until it is acknowledged, or has been applied before."""
    seen = ""
    for _ in range(20):
        seen = outcome(await work.send())
        if seen == "acknowledged" or seen.startswith("409"):
            return
    raise AssertionError(seen)


@pytest.mark.slow
@pytest.mark.timeout(600 + 30 * max(KILLS.values()))
@pytest.mark.parametrize("victim", ["server", "service"])
@pytest.mark.parametrize("kind", WORKS)
async def test_a_kill_at_any_statement_loses_and_doubles_nothing(
    postgres_servers: Servers, kind: str, victim: str
) -> None:
    async with a_setting(postgres_servers(fsync=True)) as setting:
        faults = setting.faults
        work = WORKS[kind](setting)
        counts: list[int] = []
        for _ in range(3):  # the first takes more, and other work of the service may come between
            await work.prepare()
            faults.arm(0, "lost")
            assert outcome(await work.send()) == "acknowledged"
            counts.append(faults.count)
        statements = min(counts)
        faults.kill = lambda: setting.kill(victim)
        seen: Counter[str] = Counter()
        waits: list[float] = []
        kills = KILLS[victim]
        for number in range(kills):
            await work.prepare()
            # Before the statement, or after its answer, which does not arrive.
            fate: Fate = "unanswered" if number % 2 else "lost"
            faults.arm(1 + number * (statements - 1) // (kills - 1), fate)
            said, seconds = await sent_at(setting, work, victim)
            faults.at = 0
            applied = await work.applied()
            assert applied or said != "acknowledged", f"lost at {faults.hits}"
            if faults.hits:
                seen[f"{said}{'' if applied else ', not applied'}"] += 1
                waits.append(seconds)
            await completed(work)
            assert await work.applied()
        assert (await setting.bench.approvals().audit.verify()).is_sound
        assert len(waits) > kills // 2
        waits.sort()
        print(
            f"\n{kind}: {len(waits)} kills of the {victim} at {statements} statements: {dict(seen)};"
            f" answered after {waits[len(waits) // 2]:.2f} s (median), {waits[-1]:.2f} s (longest)"
        )


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["lost", "unanswered"])
@pytest.mark.parametrize("kind", WORKS)
async def test_a_connection_cut_during_commit_applies_the_work_once(
    postgres_servers: Servers, kind: str, fate: Fate
) -> None:
    async with a_setting(postgres_servers()) as setting:
        work = WORKS[kind](setting)
        for _ in range(10):
            await work.prepare()
            setting.faults.arm(1, fate, "COMMIT")
            said, _ = await sent_at(setting, work)
            assert setting.faults.hits == ["COMMIT"]
            assert said == "acknowledged"
            assert await work.applied()
        print(f"\n{kind}, COMMIT {fate}: 10 of 10 applied once")
