"""Very many answers at once: how much later a piece reaches the client than it left the model.

Model, server and clients are three processes on one computer, so the time is
all of theirs together.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.benchmarks.load_server import GRAPH, Loaded, begin_runs, loaded, percentile
from tests.benchmarks.raw_ws import RawClient, connected

RAMP_S = 3.0


class Reader:
    """One client's answer: when each piece came, and whether all of it did."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self.left_at: list[int] = []
        self.text: list[str] = []
        self.asked_at = 0.0
        self.first_ms = 0.0
        self.ended = asyncio.Event()
        self.ending: dict[str, Any] = {}

    def on_message(self, message: dict[str, Any]) -> None:
        if message["type"] == "ai:token":
            now = time.time_ns()
            if not self.late_ms:
                self.first_ms = (time.perf_counter() - self.asked_at) * 1000
            for stamp in message["token"].split():
                self.late_ms.append((now - int(stamp)) / 1e6)
                self.left_at.append(int(stamp))
            self.text.append(message["token"])
        elif message["type"] in ("ai:complete", "ai:error"):
            self.ending = message
            self.ended.set()

    def check(self, pieces: int) -> None:
        """What came must be whole and in order."""
        assert self.ending["type"] == "ai:complete", self.ending
        assert "".join(self.text).strip() == self.ending["fullText"].strip()
        stamps = [int(stamp) for stamp in self.ending["fullText"].split()]
        assert len(stamps) == pieces == len(self.late_ms), (len(stamps), len(self.late_ms))
        assert stamps == sorted(stamps)


async def measure(streams: int, pieces: int, pace_ms: float, *, runs: int = 0) -> dict[str, float]:
    """Return what it took, by name, beside so many runs of automations.
    Units: milliseconds, KiB.
    """
    async with loaded(pieces=pieces, pace_ms=pace_ms) as server:
        await _all(server, 2, pieces)  # the first turns load what the later ones use
        await begin_runs(server, runs)
        before = server.memory_mb()
        readers, peak = await _all(server, streams, pieces)
        for reader in readers:
            reader.check(pieces)
        late = [ms for reader in readers for ms in reader.late_ms]
        first = [reader.first_ms for reader in readers]
        # From the time at which the last had begun until the first had ended, all of them ran.
        since = max(r.left_at[0] for r in readers)
        until = min(r.left_at[-1] for r in readers)
        steady = [
            ms
            for r in readers
            for at, ms in zip(r.left_at, r.late_ms, strict=True)
            if since <= at <= until
        ]
        figures = {"streams": streams, "pieces": pieces, "pace_ms": pace_ms}
        for name, ms in (("added", late), ("steady", steady), ("first", first)):
            if ms:
                figures |= {
                    f"{name}_p50_ms": percentile(ms, 0.5),
                    f"{name}_p95_ms": percentile(ms, 0.95),
                }
        return {**figures, "stream_kib": (peak - before) * 1024 / streams}


def show(figures: dict[str, float]) -> None:
    """Print the figures of one load."""
    streams = figures["streams"]
    pace_ms = figures["pace_ms"]
    print(f"streams {streams:.0f}, pieces of each {figures['pieces']:.0f}, one each {pace_ms:g} ms")
    print(f"pieces on_message a second   {streams * 1000 / pace_ms:8.0f}")
    names = {"added": "added to a piece", "steady": "  while all ran", "first": "until the first"}
    for name, shown in names.items():
        if f"{name}_p50_ms" in figures:
            p50 = figures[f"{name}_p50_ms"]
            p95 = figures[f"{name}_p95_ms"]
            print(f"{shown:<18} p50 {p50:8.1f} ms   p95 {p95:8.1f} ms")
    print(f"memory of a stream     {figures['stream_kib']:8.0f} KiB")


async def _all(server: Loaded, streams: int, pieces: int) -> tuple[list[Reader], float]:
    """Ask so many questions within the ramp; return the answers and the
    server's greatest memory.
    """
    readers = [Reader() for _ in range(streams)]
    clients: list[RawClient] = [
        await connected(server.port, reader.on_message) for reader in readers
    ]
    for number, (reader, client) in enumerate(zip(readers, clients, strict=True)):
        reader.asked_at = time.perf_counter()
        question = f"What does node number {number} do?"
        client.send({"type": "ai:chat", "_id": 1, "graphKey": GRAPH, "message": question})
        await asyncio.sleep(RAMP_S / streams)
    peak = server.memory_mb()
    ends = asyncio.gather(*(reader.ended.wait() for reader in readers))
    async with asyncio.timeout(300):
        while not ends.done():
            await asyncio.wait({ends}, timeout=0.2)
            peak = max(peak, server.memory_mb())
    for client in clients:
        client.close()
    return readers, peak
