"""Many editors of one graph at once: how soon an edit is acknowledged, and how soon the
others see it.

Server and editors are two processes on one computer. Every editor must see every edit
of the others once, in order.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.benchmarks.load_server import GRAPH, Loaded, loaded, percentile
from tests.benchmarks.raw_ws import RawClient, connected

PATIENCE_S = 60.0


class Editor:
    """One editor, who moves one node of their own; `sent` and `seen` are by editor and number."""

    def __init__(self, number: int, sent: list[list[float]]) -> None:
        self.number = number
        self.sent = sent
        self.client: RawClient
        self.seen: list[list[int]] = [[] for _ in sent]
        self.acknowledged: list[int] = []
        self.ack_ms: list[float] = []
        self.seen_ms: list[float] = []
        self.registered = asyncio.Event()
        self.refused: list[dict[str, Any]] = []

    def on_message(self, message: dict[str, Any]) -> None:
        now = time.perf_counter()
        kind = message["type"]
        if kind == "registerUserOnGraph":
            self.registered.set()
        if "_response" in message and not message["_response"]["status"]:
            self.refused.append(message)
        if kind != "applyInstructionToGraph":
            return
        [asked] = message["instructions"]
        editor = int(asked["nodeId"].removeprefix("moved"))
        number = int(asked["i"]["v"])
        ms = (now - self.sent[editor][number]) * 1000
        if "_response" in message:
            self.acknowledged.append(number)
            self.ack_ms.append(ms)
        else:
            self.seen[editor].append(number)
            self.seen_ms.append(ms)

    def join(self) -> None:
        fields = {"name": "e", "sheetId": "0", "graphKey": GRAPH, "fromTimestamp": 10**14}
        self.client.send({"type": "registerUserOnGraph", "_id": 1, **fields})

    async def edit(self, edits: int, pace_s: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + pace_s * self.number / len(self.sent)
        for number in range(edits):
            due += pace_s
            await asyncio.sleep(due - loop.time())
            step = {"o": 1, "p": ["posX"], "v": number}
            asked = {"i": step, "sheetId": "0", "nodeId": f"moved{self.number}"}
            self.sent[self.number].append(time.perf_counter())
            self.client.send(
                {"type": "applyInstructionToGraph", "_id": number, "instructions": [asked]}
            )

    def has_all(self, edits: int) -> bool:
        others = sum(len(seen) for seen in self.seen)
        return len(self.acknowledged) == edits and others >= edits * (len(self.sent) - 1)

    def check(self, edits: int) -> None:
        """Nothing was lost, doubled or sent out of order."""
        assert not self.refused, self.refused[:3]
        assert self.acknowledged == list(range(edits))
        for number, seen in enumerate(self.seen):
            assert seen == ([] if number == self.number else list(range(edits))), (
                self.number,
                number,
            )


async def measure(editors: int, edits_s: float, seconds: float) -> dict[str, float]:
    """Return what it took, by name. Units: milliseconds, MiB."""
    edits = int(edits_s * seconds)
    sent: list[list[float]] = [[] for _ in range(editors)]
    people = [Editor(number, sent) for number in range(editors)]
    async with loaded() as server:
        for person in people:
            person.client = await connected(server.port, person.on_message)
            person.join()
            await person.registered.wait()
        await _prepare(people[0], editors)
        before = server.memory_mb()
        await asyncio.gather(*(person.edit(edits, 1 / edits_s) for person in people))
        async with asyncio.timeout(PATIENCE_S):
            while not all(person.has_all(edits) for person in people):
                assert not any(person.client.is_lost for person in people), (
                    "the server let an editor go"
                )
                await asyncio.sleep(0.05)
        for person in people:
            person.check(edits)
        await _check_stored(server, editors, edits)
        seen = [ms for person in people for ms in person.seen_ms]
        acks = [ms for person in people for ms in person.ack_ms]
        grown = server.memory_mb() - before
        for person in people:
            person.client.close()
        return {
            "editors": editors,
            "edits_s": edits_s,
            "seconds": seconds,
            "edits": len(acks),
            "seen": len(seen),
            "ack_p50_ms": percentile(acks, 0.5),
            "ack_p95_ms": percentile(acks, 0.95),
            "seen_p50_ms": percentile(seen, 0.5),
            "seen_p95_ms": percentile(seen, 0.95),
            "memory_mib": grown,
        }


async def _prepare(person: Editor, editors: int) -> None:
    """Make a node for each editor, and wait until it is there."""
    nodes = [
        {
            "_key": f"moved{number}",
            "graphKey": GRAPH,
            "sheet": "0",
            "type": "log-node",
            "typeVersion": 1,
            "posX": -1,
            "posY": number,
            "size": {"width": 10, "height": 10},
            "handles": {},
        }
        for number in range(editors)
    ]
    answered = asyncio.Event()
    usual = person.client.on_message
    person.client.on_message = lambda message: (
        answered.set() if "nodes" in message else usual(message)
    )
    person.client.send(
        {"type": "batchCreateElements", "_id": 2, "sheetId": "0", "nodes": nodes, "edges": []}
    )
    await answered.wait()
    person.client.on_message = usual


async def _check_stored(server: Loaded, editors: int, edits: int) -> None:
    """Ask the server for the nodes as anybody else would."""
    async with server.client() as client:
        nodes = (await client.get(f"/api/graphs/{GRAPH}/nodes")).json()["nodes"]
    where = {node["_key"]: node["posX"] for node in nodes}
    assert all(where[f"moved{number}"] == edits - 1 for number in range(editors))
