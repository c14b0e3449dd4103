"""Measures connections with workflow servers: `python -m tests.benchmarks.connections`.

An n8n of 250 workflows (a double of its API, with published workflows) is read for the first time
and again; deployments of a real Node-RED are timed until they are a new revision here. Then the CPU
time of a real Node-RED is compared while nobody follows it and while a connection does; the same
of a real n8n, where NODIUS_TEST_N8N names the folder `node_modules` that has it.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from graphrag.connections.following import Pace
from tests.benchmarks.process_cpu import share_of_cpu
from tests.graphrag.connections.conftest import ADMIN, new
from tests.graphrag.connections.n8n_pushes import with_secrets
from tests.graphrag.connections.test_following import a_server, revision
from tests.graphrag.connections.test_node_red import flow, to
from tests.support.data_files import published
from tests.support.faulty_proxy import faulty_proxy
from tests.support.real_n8n import RealN8n, real_n8n
from tests.support.workflow_servers import NodeRed, n8n_double, node_red

WORKFLOWS = 250
DEPLOYMENTS = 20
SETTLE_S = 20.0  # after a start or a first synchronisation, before CPU time is compared
WATCHED_S = 60.0
DEPLOYED_EVERY_S = 10.0
N8N_WATCHED_S = 240.0  # four looks at an interval of one minute


async def rounds(file: Path) -> dict[str, float]:
    """Returns how long the first and later synchronisations took, in seconds."""
    documents: list[dict[str, Any]] = [
        json.loads(path.read_bytes()) for path in published("workflows", "n8n-*.json")
    ]
    async with n8n_double() as n8n, a_server(file, Pace()) as (connections, _):
        nodes = 0
        for number, document in enumerate(islice(cycle(documents), WORKFLOWS)):
            kept: dict[str, Any] = {"connections": {}, "settings": {}}
            kept |= {**document, "name": f"Workflow {number}"}
            nodes += len(kept["nodes"])
            n8n.put(kept)
        await connections.add(new(n8n.address, interval_s=0), ADMIN)
        took: list[float] = []
        for _ in range(4):
            n8n.api.arrived.clear()
            began = time.monotonic()
            await connections.sync("shop", ADMIN)
            took.append(time.monotonic() - began)
        requests = len(n8n.api.arrived)
    figures = {"workflows": WORKFLOWS, "nodes": nodes, "first_s": took[0]}
    return {**figures, "quiet_s": max(took[1:]), "quiet_requests": requests}


async def deployments(folder: Path) -> dict[str, float]:
    """Returns how soon deployments, one right after the other, were here; in seconds."""
    (folder / "red").mkdir()
    async with (
        node_red(folder / "red") as server,
        a_server(folder / "red.db", Pace()) as (connections, following),
    ):
        await server.deploy(flow("return msg;"))
        await connections.add(to(server), ADMIN)
        await following.tick()
        known = await revision(connections)
        took: list[float] = []
        for number in range(DEPLOYMENTS):
            await server.deploy(flow(f"return {number};"))
            began = time.monotonic()
            known = await revision(connections, above=known)
            took.append(time.monotonic() - began)
    return {"deployments": DEPLOYMENTS, "median_s": statistics.median(took), "worst_s": max(took)}


async def node_red_cpu(folder: Path) -> dict[str, float]:
    """Returns the CPU share of a Node-RED with published flows, alone and followed, in percent."""
    (folder / "red-cpu").mkdir()
    flows = unique(
        entry
        for path in published("workflows", "nodered-*.json")
        for entry in json.loads(path.read_bytes())
    )
    async with (
        node_red(folder / "red-cpu") as server,
        a_server(folder / "red-cpu.db", Pace()) as (connections, following),
    ):
        await server.deploy(flows)
        await asyncio.sleep(SETTLE_S)
        figures: dict[str, float] = {"node_red_entries": len(flows)}
        figures["alone_percent"] = await share_of_cpu(server.process_id, WATCHED_S)
        figures["alone_deployed_percent"] = await share_while_deployed(server, flows)
        await connections.add(to(server), ADMIN)
        await following.tick()
        await revision(connections)
        await asyncio.sleep(SETTLE_S)
        figures["followed_percent"] = await share_of_cpu(server.process_id, WATCHED_S)
        figures["followed_deployed_percent"] = await share_while_deployed(server, flows)
    return figures


async def share_while_deployed(server: NodeRed, flows: list[Any]) -> float:
    """Returns the CPU share while somebody deploys the flows, now and then with a change."""

    async def deploy() -> None:
        for number in range(round(WATCHED_S / DEPLOYED_EVERY_S)):
            tab = {"id": "bench", "type": "tab", "label": f"Deployment {number}"}
            await server.deploy([*flows, tab])
            await asyncio.sleep(DEPLOYED_EVERY_S)

    share, _ = await asyncio.gather(share_of_cpu(server.process_id, WATCHED_S), deploy())
    return share


def unique(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the entries without those of an id that came before."""
    return list({entry["id"]: entry for entry in entries}.values())


async def n8n_cpu(modules: Path, folder: Path) -> dict[str, float]:
    """Returns the CPU share of an n8n with published workflows, alone and followed, in percent."""
    (folder / "n8n").mkdir()
    async with (
        real_n8n(modules, folder / "n8n") as server,
        faulty_proxy(server.address) as proxy,
        a_server(folder / "n8n-cpu.db", Pace()) as (connections, following),
    ):
        stored = 0
        for path in published("workflows", "n8n-*.json"):
            document, _ = with_secrets(json.loads(path.read_bytes()))
            with suppress(AssertionError):  # n8n refuses some as they are
                RealN8n(server, proxy).put({**document, "name": path.stem, "settings": {}})
                stored += 1
        await asyncio.sleep(SETTLE_S)
        figures: dict[str, float] = {"n8n_workflows": stored}
        figures["alone_percent"] = await share_of_cpu(server.process_id, N8N_WATCHED_S)
        await connections.add(new(server.address, key=server.read_key), ADMIN)
        await connections.sync("shop", ADMIN)
        await following.tick()
        await asyncio.sleep(SETTLE_S)
        figures["followed_percent"] = await share_of_cpu(server.process_id, N8N_WATCHED_S)
    return figures


async def main() -> int:
    modules = os.environ.get("NODIUS_TEST_N8N")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        show(await rounds(folder / "n8n.db"))
        show(await deployments(folder))
        show(await node_red_cpu(folder))
        if modules:
            show(await n8n_cpu(Path(modules), folder))
        else:
            print("NODIUS_TEST_N8N names no folder with n8n: its CPU share is not measured")
    return 0


def show(figures: Mapping[str, float]) -> None:
    print(", ".join(f"{name} {value:,.4g}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
