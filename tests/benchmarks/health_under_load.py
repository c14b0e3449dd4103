"""Asks a server whether it is alive while clients try to hold it up.

    python -m tests.benchmarks.health_under_load [SCENARIO …]

Each scenario has a server of its own. Printed: the slowest answer of 95 %, the longest time without
an answer, and the most memory that the server held. Add a scenario by a function in SCENARIOS.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import DEVNULL
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2

from tests.benchmarks.hostile_imports import imports
from tests.benchmarks.late_loop import Watched, work_on_whole_graphs
from tests.benchmarks.live_large_edits import live_edits
from tests.benchmarks.load_server import Loaded, process, serving
from tests.benchmarks.machine import described
from tests.support.health_probe import HealthProbe

NODES = 20_000
P95_MS, GAP_MS = 100.0, 500.0
PLAY = "--play"
SETTINGS = {"NODIUS_PROVIDER": "offline", "NODIUS_EMBEDDINGS": "none", "NODIUS_RATE_LIMIT": "30"}


async def whole_graphs(target: Loaded) -> None:
    """Somebody works on a large graph as a whole, then four look at it at once and
    four export it.
    """
    async with target.client(300) as client:
        it = Watched(http=client, port=target.port)
        await work_on_whole_graphs(it, NODES, edits=50, fields=1_000)
        for what in ("view", "export"):
            path = f"/api/graphs/large/{what}"
            await it.measure(
                f"four {what}s", lambda path=path: asyncio.gather(*map(client.get, [path] * 4))
            )


async def half_headers(target: Loaded) -> None:
    """A thousand connections send half a header and wait; a good caller comes in between."""
    held = [
        await _half(target.port, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
        for _ in range(1000)
    ]
    good = 0
    async with target.client(120) as client:
        for _ in range(20):
            with suppress(httpx2.HTTPError):
                good += (
                    await client.get("/healthz", headers={"Connection": "close"})
                ).status_code == 200
    await _until_closed(held, seconds=30)
    print(f"    new callers answered meanwhile: {good} of 20")


async def stalled_bodies(target: Loaded) -> None:
    """Sixty connections announce 16 MB to the import, send nearly all of it and wait."""
    head = (
        b"POST /api/graphs/import HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % (target.port, 16 << 20)
    )
    body = b" " * ((16 << 20) - 1)
    held = await asyncio.gather(*(_half(target.port, head) for _ in range(60)))
    await asyncio.gather(*(_push(writer, body) for _, writer in held))
    await _until_closed(list(held), seconds=30)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _half(port: int, sent: bytes) -> Streams | tuple[None, None]:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        await writer.drain()
    except OSError:
        return None, None
    return reader, writer


async def _push(writer: asyncio.StreamWriter | None, body: bytes) -> None:
    if writer is None:
        return
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(20):
            for i in range(0, len(body), 1 << 16):
                writer.write(body[i : i + (1 << 16)])
                await writer.drain()


async def _until_closed(held: list[Streams | tuple[None, None]], *, seconds: float) -> None:
    """Wait until the server has closed what was held, and say how many it had not."""

    async def closed(reader: asyncio.StreamReader | None) -> None:
        with suppress(OSError):
            while reader is not None and await reader.read(1 << 16):
                pass

    began = time.perf_counter()
    waits = [asyncio.ensure_future(closed(reader)) for reader, _ in held]
    _, still = await asyncio.wait(waits, timeout=seconds)
    for wait in still:
        wait.cancel()
    for _, writer in held:
        if writer is not None:
            writer.close()
    print(
        f"    of {len(held)} held connections {len(still)} open after {time.perf_counter() - began:.1f} s"
    )


async def large_edits(target: Loaded) -> None:
    """One editor sends 150 edits of 1.9 MB; one who comes late asks for what was missed."""
    await live_edits(target.port)


SCENARIOS: dict[str, Callable[[Loaded], Awaitable[None]]] = {
    "whole-graphs": whole_graphs,
    "half-headers": half_headers,
    "stalled-bodies": stalled_bodies,
    "live-edits": large_edits,
    "imports": imports,
}


def _size_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


async def run(name: str) -> bool:
    """Run one scenario; return whether the server stayed in time."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "health.db"
        async with serving(f"sqlite:{path}", stderr=DEVNULL, **SETTINGS) as target:
            before = target.memory_mb("VmRSS")
            async with HealthProbe(f"http://127.0.0.1:{target.port}") as probe:
                await probe.answered(10)
                print(f"{name}:")
                play = ("-m", __spec__.name, PLAY, name, str(target.port), str(target.pid))
                async with process(
                    play
                ) as attack:  # the probe must not wait for the attack's interpreter
                    output, _ = await attack.communicate()
                print(output.decode(), end="")
                await probe.answered(10)
            good = probe.p95_ms <= P95_MS and probe.longest_gap_ms <= GAP_MS
            failed = f"{len(probe.failures)} failures, {len(probe.samples)} answers"
            print(
                f"    health p95 {probe.p95_ms:.0f} ms, gap {probe.longest_gap_ms:.0f} ms, {failed}"
            )
            disk = await asyncio.to_thread(_size_mb, Path(folder))
            print(
                f"    memory {before:.0f} MB, at most {target.memory_mb('VmHWM'):.0f} MB; disk {disk:.0f} MB"
            )
            print("    in time" if good else "    TOO SLOW")
            return good


async def main() -> int:
    if sys.argv[1:2] == [PLAY]:
        name, port, pid = sys.argv[2:]
        await SCENARIOS[name](Loaded(port=int(port), pid=int(pid)))
        return 0
    if unknown := sys.argv[1:] and set(sys.argv[1:]) - set(SCENARIOS):
        print(
            f"no scenario {', '.join(sorted(unknown))}; there are: {', '.join(SCENARIOS)}",
            file=sys.stderr,
        )
        return 2
    print(described())
    results = [await run(name) for name in sys.argv[1:] or SCENARIOS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
