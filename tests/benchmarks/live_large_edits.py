"""150 live edits of 1.9 MB each, for `health_under_load live-edits`: none is lost, at
the allowed pace.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from mock_data import load_text
from tests.benchmarks.load_server import GRAPH

EDIT_BYTES = 1_900_000
PATIENCE_S = 120.0


async def ask(
    client: ClientConnection, number: int, type_: str, **fields: Any
) -> tuple[dict[str, Any], int]:
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
        text = f"{number} lorem ipsum dolor sit amet ".ljust(50, chr(97 + number % 26)) * (
            EDIT_BYTES // 50
        )
        step = {"i": {"o": 1, "p": ["data", "text"], "v": text}, "sheetId": "0", "nodeId": "large"}
        began = time.perf_counter()
        answer, _ = await ask(client, 2 + number, "applyInstructionToGraph", instructions=[step])
        waits.append((time.perf_counter() - began) * 1000)
        if not answer["_response"]["status"]:
            refused.append(answer["_response"]["message"])
    return waits, refused


async def live_edits(port: int, edits: int = 150) -> None:
    """Edit one node of the sample graph so many times; print how it went, and what a late
    editor is sent.
    """
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
        raw = load_text("nba.json").encode()
        done = await http.post(f"/api/graphs/import?graphKey={GRAPH}", content=raw, timeout=60)
        assert done.status_code == 200, done.text
    address = f"ws://127.0.0.1:{port}/ws"
    options: dict[str, Any] = {"proxy": None, "compression": None, "max_size": None}
    async with connect(address, **options) as client, connect(address, **options) as late:
        await registered(client)
        began = time.perf_counter()
        waits, refused = await edited(client, edits)
        seconds = time.perf_counter() - began
        saving = time.perf_counter()
        status, _ = await ask(client, 10_000, "forceSave")
        saved = "saved" if status["_response"]["status"] else status["_response"]["message"]
        saved_s = time.perf_counter() - saving
        missed = await registered(late, 1)
    p50 = sorted(waits)[len(waits) // 2]
    longest = max(waits)
    print(f"    {edits} edits of {EDIT_BYTES / 1e6} MB in {seconds:.0f} s, {len(refused)} refused")
    print(f"    an edit {p50:.0f} ms, at most {longest:.0f} ms; last save {saved_s:.1f} s: {saved}")
    print(f"    a late editor is sent {missed / 1e6:.1f} MB")
