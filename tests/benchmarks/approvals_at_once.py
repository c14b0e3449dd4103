"""Approves many proposals of one graph at once, at one server and at several on one database file.

`python -m tests.benchmarks.approvals_at_once`: 64 at once on 2,000 nodes at one server and at two, then
1,000 by eight clients at two. Every proposal must be applied once; what is refused is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2

from datasources.sqlite import SqliteDatabase
from datasources.types import Edge, Graph, Mutation, Node
from graphrag.approvals import Approvals, Asked, Person
from tests.benchmarks.load_server import percentile, serving
from tests.benchmarks.machine import described

WORKSPACE, GRAPH = "default", "flow"
ASKER = Person("ed", "editor", WORKSPACE)
LONGEST_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What came of the decisions. `answers` counts HTTP status and approval status."""

    seconds: float
    cpu_s: float
    p95_s: float
    answers: Counter[str]
    revisions: int
    audited: int


async def filled(file: Path, nodes: int, proposals: int) -> list[str]:
    """Make a graph and propose to rename so many of its nodes; return the ids."""
    async with SqliteDatabase(file) as database:
        source, records = database.source(WORKSPACE), database.records(WORKSPACE)
        await source.create_graph(
            Graph(key=GRAPH, name="A flow", workspace=WORKSPACE, sheets_list={"0": "main"})
        )
        documents = [
            Node(
                key=f"n{i}",
                graph_key=GRAPH,
                type="html",
                sheet="0",
                pos_x=i * 10.0,
                data={"name": f"Node {i}"},
            )
            for i in range(nodes)
        ]
        edges = [
            Edge(
                key=f"e{i}",
                graph_key=GRAPH,
                sheet="0",
                source=f"n{i}",
                source_handle="0",
                target=f"n{i + 1}",
                target_handle="0",
            )
            for i in range(nodes - 1)
        ]
        await source.apply(Mutation(graph_key=GRAPH, put_nodes=documents, put_edges=edges))
        approvals = Approvals(source, records)
        made = [
            await approvals.propose(
                {
                    "type": "update_node",
                    "payload": {"nodeKey": f"n{i % nodes}", "changes": {f"data.field{i}": i}},
                },
                Asked(
                    graph_key=GRAPH,
                    thread_id=f"t{i}",
                    turn=1,
                    tool_call_id="c1",
                    asker=ASKER,
                    model="a-model",
                ),
            )
            for i in range(proposals)
        ]
        return [approval.id for approval in made]


async def approved(ports: list[int], ids: list[str], clients: int) -> tuple[float, list[float], Counter[str]]:
    """Approve them with so many clients, each at one of the servers; return times and answers."""
    rest, places = iter(ids), cycle(ports)
    answers: Counter[str] = Counter()
    took: list[float] = []

    async def decide(client: httpx2.AsyncClient, port: int, mine: Iterator[str]) -> None:
        for approval_id in mine:
            address = f"http://127.0.0.1:{port}/api/approvals/{approval_id}/decision"
            began = time.perf_counter()
            answer = await client.post(address, json={"verdict": "approve"})
            took.append(time.perf_counter() - began)
            status = answer.json().get("status", "")
            answers[f"{answer.status_code} {status}".strip()] += 1

    async with httpx2.AsyncClient(trust_env=False, timeout=LONGEST_S) as client, asyncio.timeout(LONGEST_S):
        for port in ports:  # what a server does once is not measured
            await client.get(f"http://127.0.0.1:{port}/api/graphs")
        started = time.perf_counter()
        await asyncio.gather(*(decide(client, next(places), rest) for _ in range(clients)))
        return time.perf_counter() - started, took, answers


async def measure(*, nodes: int, proposals: int, clients: int, servers: int) -> Figures:
    """Make the graph, start the servers and approve everything."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "flow.db"
        ids = await filled(file, nodes, proposals)
        async with AsyncExitStack() as stack:
            running = [await stack.enter_async_context(serving(f"sqlite:{file}")) for _ in range(servers)]
            before = sum(server.cpu_s for server in running)
            seconds, took, answers = await approved([server.port for server in running], ids, clients)
            cpu_s = sum(server.cpu_s for server in running) - before
        async with SqliteDatabase(file) as database:
            revision = (await database.source(WORKSPACE).get_graph(GRAPH)).revision
            audit = Approvals(database.source(WORKSPACE), database.records(WORKSPACE)).audit
            verified = await audit.verify()
            assert verified.is_sound, verified.faults
    return Figures(
        seconds=seconds,
        cpu_s=cpu_s,
        p95_s=percentile(took, 0.95),
        answers=answers,
        revisions=revision - 1,
        audited=verified.entries,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--quick", action="store_true", help="only 64 at one server")
    asked = parser.parse_args()
    print(f"{described()}; servers and clients on this one machine, {asked.nodes} nodes\n")
    print("| decisions | clients | servers | s | CPU, s | p95 of one, s | answers | revisions | audited |")
    print("|---:|---:|---:|---:|---:|---:|---|---:|---:|")
    loads = [(64, 64, 1)] if asked.quick else [(64, 64, 1), (64, 64, 2), (1_000, 8, 2)]
    for proposals, clients, servers in loads:
        found = asyncio.run(measure(nodes=asked.nodes, proposals=proposals, clients=clients, servers=servers))
        said = ", ".join(f"{count} × {answer}" for answer, count in sorted(found.answers.items()))
        print(
            f"| {proposals:,} | {clients} | {servers} | {found.seconds:.2f} | {found.cpu_s:.2f}"
            f" | {found.p95_s:.2f} | {said} | {found.revisions:,} | {found.audited:,} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
