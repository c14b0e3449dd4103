"""Measures connections with workflow servers: `python -m tests.benchmarks.connections`.

An n8n of 250 workflows (a double of its API, with published workflows) is read for the first time
and again; deployments of a real Node-RED are timed until they are a new revision here.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from graphrag.connections.following import Pace
from tests.graphrag.connections.conftest import ADMIN, new
from tests.graphrag.connections.test_following import a_server, revision
from tests.graphrag.connections.test_node_red import flow, to
from tests.support.data_files import published
from tests.support.workflow_servers import n8n_double, node_red

WORKFLOWS = 250
DEPLOYMENTS = 20


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


async def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for figures in (await rounds(folder / "n8n.db"), await deployments(folder)):
            print(", ".join(f"{name} {value:,.4g}" for name, value in figures.items()))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
