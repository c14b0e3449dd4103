"""Files that were made to hold a server up while it reads them; a
scenario of `health_under_load`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from tests.benchmarks.load_server import Loaded

SAMPLE_S = 0.02


def files() -> dict[str, bytes]:
    """Return the files by what is odd about them; the last one is good."""
    node = {
        "name": "A",
        "type": "n8n-nodes-base.code",
        "parameters": {"jsCode": "-eyJ" * 1_000_000},
    }
    nodes = [
        {"name": f"n{i}", "type": "n8n-nodes-base.set", "position": [i, 0]} for i in range(20_000)
    ]
    targets = ((f"n{i}", f"n{i + 1}") for i in range(19_999))
    wires = {a: {"main": [[{"node": b, "type": "main", "index": 0}]]} for a, b in targets}
    tiny = b",".join(b'{"name":"n%012d"}' % i for i in range(400_000))
    return {
        "400,000 tiny nodes": b'{"connections":{},"nodes":[' + tiny + b"]}",
        "5,200,000 empty lists": b"[" + b",".join([b"[]"] * 5_200_000) + b"]",
        "a million beginnings of a token": orjson.dumps({"nodes": [node], "connections": {}}),
        "20,000 good nodes": orjson.dumps({"nodes": nodes, "connections": wires}),
    }


async def imports(target: Loaded) -> None:
    """Post each file, then all of them at once; print the answers and the memory of
    what reads them.
    """
    async with _children(target.pid) as peak_mb, target.client(120) as client:

        async def post(name: str, raw: bytes) -> str:
            began = time.perf_counter()
            answer = await client.post(f"/api/graphs/import?fileName={name}.json", content=raw)
            error = answer.json().get("error", {}).get("message", "")[-90:]
            return f"{answer.status_code} {error} in {time.perf_counter() - began:.1f} s"

        made = files()
        for name, raw in made.items():
            print(f"    {name} ({len(raw) / 1e6:.1f} MB): {await post(name, raw)}")
        print(
            "    all again at once:",
            *await asyncio.gather(*(post(n, r) for n, r in made.items())),
            sep="\n      ",
        )
        print(f"    a process that reads takes at most {peak_mb[0]:.0f} MB")


@asynccontextmanager
async def _children(pid: int) -> AsyncIterator[list[float]]:
    """Watch the most memory that a child of a process held. Units: MB."""
    peak = [0.0]

    async def watch() -> None:
        while True:
            peak[0] = max(peak[0], _largest_child_mb(pid))
            await asyncio.sleep(SAMPLE_S)

    watching = asyncio.create_task(watch())
    try:
        yield peak
    finally:
        watching.cancel()


def _largest_child_mb(pid: int) -> float:
    found = [0.0]
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in listed.read_text().split():
                lines = Path(f"/proc/{child}/status").read_text().splitlines()
                found += [
                    int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")
                ]
    return max(found)
