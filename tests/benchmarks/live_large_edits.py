"""150 live edits of 1.9 MB each: does the server still answer others, and what do they leave behind?

Run: `python -m tests.benchmarks.live_large_edits`. Server and clients are two processes on one computer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.benchmarks.load_server import GRAPH, Loaded, loaded
from tests.support.health_probe import HealthProbe

EDIT_BYTES = 1_900_000
PATIENCE_S = 120.0


async def ask(client: ClientConnection, number: int, type_: str, **fields: Any) -> tuple[dict[str, Any], int]:
    """Return what answers a request, and the characters that came until then."""
    await client.send(json.dumps({"type": type_, "_id": number, **fields}))
    chars = 0
    while True:
        async with asyncio.timeout(PATIENCE_S):
            text = await client.recv()
        chars += len(text)
        message = json.loads(text)
        if message.get("_id") == number:
            return message, chars


async def registered(client: ClientConnection, since: int = 10**14) -> int:
    """Join the sample graph; return the characters of the answer."""
    fields = {"name": "e", "sheetId": "0", "graphKey": GRAPH, "fromTimestamp": since}
    message, chars = await ask(client, 0, "registerUserOnGraph", **fields)
    assert message["_response"]["status"], message
    return chars


async def edited(client: ClientConnection, edits: int) -> tuple[list[float], list[str]]:
    """Edit one node again and again; return the time to each answer in ms, and what was refused."""
    node = {"_key": "large", "graphKey": GRAPH, "type": "note", "sheet": "0", "posX": 0, "posY": 0}
    size = {"width": 10, "height": 10, "dynamic": False}
    made = {**node, "size": size, "handles": {}, "data": {"text": ""}}
    answer, _ = await ask(client, 1, "batchCreateElements", sheetId="0", nodes=[made], edges=[])
    assert answer["_response"]["status"], answer
    waits: list[float] = []
    refused: list[str] = []
    for number in range(edits):
        text = f"{number} lorem ipsum dolor sit amet ".ljust(50, chr(97 + number % 26)) * (EDIT_BYTES // 50)
        step = {"i": {"o": 1, "p": ["data", "text"], "v": text}, "sheetId": "0", "nodeId": "large"}
        began = time.perf_counter()
        answer, _ = await ask(client, 2 + number, "applyInstructionToGraph", instructions=[step])
        waits.append((time.perf_counter() - began) * 1000)
        if not answer["_response"]["status"]:
            refused.append(answer["_response"]["message"])
    return waits, refused


async def measured(server: Loaded, edits: int) -> dict[str, Any]:
    address = f"ws://127.0.0.1:{server.port}/ws"
    memory = [server.memory_mb]
    options: dict[str, Any] = {"proxy": None, "compression": None, "max_size": None}
    url = f"http://127.0.0.1:{server.port}"
    async with HealthProbe(url) as rest:
        await rest.answered(250)
    async with connect(address, **options) as client, connect(address, **options) as late:
        await registered(client)
        began = time.perf_counter()
        async with HealthProbe(url) as health:
            work = asyncio.create_task(edited(client, edits))
            while not work.done():
                await asyncio.wait([work], timeout=0.2)
                memory.append(server.memory_mb)
            waits, refused = work.result()
            seconds = time.perf_counter() - began
            saving = time.perf_counter()
            status, _ = await ask(client, 10_000, "forceSave")
            saved_s = time.perf_counter() - saving
            missed = await registered(late, 1)
        disk = sum(file.stat().st_size for file in server.folder.iterdir())
    return {
        "edits": edits,
        "refused": len(refused),
        "seconds": round(seconds, 1),
        "edit p50 / longest ms": [round(sorted(waits)[len(waits) // 2]), round(max(waits))],
        "health p95 ms at rest": round(rest.p95_ms),
        "health p95 ms": round(health.p95_ms),
        "health longest gap ms": round(health.longest_gap_ms),
        "health failures": len(health.failures),
        "memory MB at first / at most / at the end": [round(m) for m in (memory[0], max(memory), memory[-1])],
        "disk MB at the end": round(disk / 1e6),
        "last save s": [round(saved_s, 1), status["_response"]["status"]],
        "late joiner MB": round(missed / 1e6, 1),
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=150)
    asked = parser.parse_args()
    async with loaded() as server:
        for name, value in (await measured(server, asked.edits)).items():
            print(f"{name}: {value}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
