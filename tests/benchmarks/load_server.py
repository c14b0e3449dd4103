"""Starts what a load is put on: a model's server and `nodius serve`, each in a process
of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2

from mock_data import load_text

GRAPH = "testgraph001"
EMBEDDED_IN_S = 10.0
"""By then what was imported is embedded, which is not measured."""
SERVE = "from cli.main import run; run()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A server that runs on the sample graph."""

    port: int
    pid: int

    def memory_mb(self, field: str = "RssAnon") -> float:
        """Return what the server holds of the machine's memory now, without the pages of files
        it has mapped.

        `VmHWM`: the most that it held so far, with them; `VmRSS`: what it holds now, with them.
        """
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the system does not tell")

    def client(self, timeout_s: float = 60) -> httpx2.AsyncClient:
        """Return a client of the server's REST, not yet opened."""
        return httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=timeout_s
        )


@asynccontextmanager
async def process(
    arguments: Sequence[str], *, stderr: int | None = None, **variables: str
) -> AsyncIterator[Process]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NODIUS_")}
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**kept, **variables},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=stderr,
        limit=1 << 20,
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def said(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(180):
        line = (await process.stdout.readline()).decode()
    assert line, "the process ended at its start"
    return line


@asynccontextmanager
async def serving(
    db: str, *, program: str = SERVE, stderr: int | None = None, **settings: str
) -> AsyncIterator[Loaded]:
    """Run `nodius serve` on a database, with these settings beside those of every load."""
    arguments = ("-c", program, "serve", "--port", "0", "--db", db)
    async with process(
        arguments, stderr=stderr, **{"NODIUS_RATE_LIMIT": "0", **settings}
    ) as server:
        port = int((await said(server)).split("127.0.0.1:")[1].split()[0].rstrip("/"))
        yield Loaded(port=port, pid=server.pid)


@asynccontextmanager
async def loaded(
    *, pieces: int = 1, pace_ms: float = 1.0, letter: str = "", **more: str
) -> AsyncIterator[Loaded]:
    """Serve the sample graph, answered by a model of that pace. `letter`: see `paced_model`;
    `more`: further settings.
    """
    model_args = ("-m", "tests.benchmarks.paced_model", str(pieces), str(pace_ms), letter)
    with TemporaryDirectory() as folder:
        async with process(model_args) as model:
            address = f"http://127.0.0.1:{int(await said(model))}/v1"
            settings = {
                "NODIUS_PROVIDER": "compatible",
                "NODIUS_LLM_BASE_URL": address,
                "NODIUS_MODEL": "paced",
                "NODIUS_AUTOMATIONS_AT_ONCE": "8",
                **more,
            }
            async with (
                serving(f"sqlite:{folder}/load.db", **settings) as server,
                server.client() as client,
            ):
                raw = load_text("nba.json").encode()
                done = await client.post(f"/api/graphs/import?graphKey={GRAPH}", content=raw)
                assert done.status_code == 200, done.text
                yield server


async def automation_on(client: httpx2.AsyncClient, graph_key: str) -> str:
    """Make an automation of a graph, and return its id."""
    body = {"graphKey": graph_key, "name": "check", "message": "Look at it."}
    done = await client.post("/api/automations", json=body)
    assert done.status_code == 201, done.text
    return done.json()["id"]


async def begin_runs(server: Loaded, runs: int) -> None:
    """Begin so many runs of automations, each on a graph of its own; the model answers
    them as anybody.
    """
    made: list[str] = []
    async with server.client() as client:
        for number in range(runs):
            key = f"watched-{number}"
            raw = load_text("nba.json").encode()
            done = await client.post(f"/api/graphs/import?graphKey={key}", content=raw)
            assert done.is_success, done.text
            made.append(await automation_on(client, key))
        await asyncio.sleep(EMBEDDED_IN_S if runs else 0)
        for key in made:
            begun = await client.post(f"/api/automations/{key}/run")
            assert begun.is_success, begun.text


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which such a share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
