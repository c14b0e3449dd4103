"""Approvals of one graph by clients of two servers: SQLite and PostgreSQL, the same proposals.

Run: `python -m tests.benchmarks.decisions [PROPOSALS]`. Each must be applied once.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx2
import psutil

from datasources.base import Database
from datasources.postgres import PostgresDatabase, parse_address
from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from graphrag.leases import now_ms
from tests.benchmarks.load_server import Loaded, percentile, serving
from tests.contracts.samples import FLOW, WORKSPACE, a_node
from tests.graphrag.approvals.helpers import Bench, a_bench
from tests.support.postgres import PostgresServer, installed_programs, new_server

NODES, CLIENTS, SERVERS = 2_000, 8, 2


async def proposed(database: Database, count: int) -> tuple[list[str], int]:
    """Returns the ids of new proposals on one graph, and the revision of the graph."""
    bench = await a_bench(database, clock=now_ms)
    nodes = [a_node(f"n{i}", data={"name": f"Node {i}"}) for i in range(NODES)]
    await bench.source.apply(Mutation(graph_key=FLOW, put_nodes=nodes))
    made = [
        await bench.propose(
            "update_node", thread=f"t{i}", nodeKey=f"n{i % NODES}", changes={f"data.field{i}": i}
        )
        for i in range(count)
    ]
    return [one.id for one in made], await bench.revision()


async def approved(ports: Sequence[int], ids: Sequence[str]) -> tuple[Counter[str], list[float]]:
    """Approves proposals, each client at one of the servers; returns the answers and their ms."""
    rest = iter(ids)
    answers: Counter[str] = Counter()
    times: list[float] = []

    async def decide(client: httpx2.AsyncClient, port: int) -> None:
        for one in rest:
            began = time.perf_counter()
            address = f"http://127.0.0.1:{port}/api/approvals/{one}/decision"
            answer = await client.post(address, json={"verdict": "approve"})
            times.append((time.perf_counter() - began) * 1e3)
            answers[f"{answer.status_code} {answer.json().get('status', '')}"] += 1

    async with httpx2.AsyncClient(trust_env=False, timeout=300) as client:
        places = cycle(ports)
        await asyncio.gather(*(decide(client, next(places)) for _ in range(CLIENTS)))
    return answers, times


def cpu_s(servers: Sequence[Loaded]) -> float:
    """Returns the seconds of CPU that servers have used."""
    used = [psutil.Process(server.pid).cpu_times() for server in servers]
    return sum(one.user + one.system for one in used)


def ended(server: PostgresServer, database: str) -> tuple[int, int]:
    """Returns the numbers of transactions that were committed and rolled back."""
    [(commits, rollbacks)] = server.execute(
        "SELECT pg_stat_get_db_xact_commit(oid), pg_stat_get_db_xact_rollback(oid)"
        f" FROM pg_database WHERE datname = '{database}'"
    )
    return commits, rollbacks


async def measure(name: str, url: str, database: Database, count: int) -> float:
    """Prints what it took; returns the approvals per second."""
    async with database:
        ids, before = await proposed(database, count)
    async with AsyncExitStack() as stack:
        settings: Any = {"NODIUS_WORKSPACE": WORKSPACE, "NODIUS_EMBEDDINGS": "none"}
        running = [
            await stack.enter_async_context(serving(url, **settings)) for _ in range(SERVERS)
        ]
        began, cpu_before = time.perf_counter(), cpu_s(running)
        answers, times = await approved([server.port for server in running], ids)
        seconds, cpu = time.perf_counter() - began, cpu_s(running) - cpu_before
    async with database:
        bench = Bench(database)
        verified = await bench.approvals().audit.verify()
        assert answers == {"200 applied": count}, answers
        assert await bench.revision() == before + count
        assert (verified.is_sound, verified.entries) == (True, count)
    rate = count / seconds
    p50, p95 = (percentile(times, share) for share in (0.5, 0.95))
    print(
        f"{name}: {count} approvals applied once in {seconds:.1f} s, {rate:.0f}/s,"
        f" {p50:.0f} ms (p50), {p95:.0f} ms (p95); {cpu * 1e3 / count:.1f} ms of the services' CPU each",
        flush=True,
    )
    return rate


async def main(count: int) -> None:
    server = new_server(installed_programs(), fsync=True)
    try:
        name = server.create_database()
        url = server.url(name)
        async with PostgresDatabase(parse_address(url), prepared=False) as database:
            await database.set_up()
        on_server = await measure("PostgreSQL", url, PostgresDatabase(parse_address(url)), count)
        commits, rollbacks = ended(server, name)
        print(
            f"PostgreSQL, with the proposals: {commits / count:.1f} transactions committed and"
            f" {rollbacks / count:.2f} rolled back for each approval",
            flush=True,
        )
    finally:
        server.remove()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graphs.db")
        in_file = await measure("SQLite", f"sqlite:{path}", SqliteDatabase(path), count)
    print(f"PostgreSQL / SQLite: {on_server / in_file:.2f} times the approvals per second")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))
