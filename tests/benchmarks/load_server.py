"""Starts what a load is put on: a model's server and `nodius serve`, each in a process of its own."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A server that runs on the sample graph."""

    port: int
    pid: int
    folder: Path

    @property
    def cpu_s(self) -> float:
        """How long the server has computed so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mb(self) -> float:
        """What the server holds of the machine's memory now, without the pages of files it has mapped."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("the system does not tell")


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
    async with asyncio.timeout(60):
        line = (await process.stdout.readline()).decode()
    assert line, "the process ended at its start"
    return line


@asynccontextmanager
async def loaded(*, pieces: int = 1, pace_ms: float = 1.0) -> AsyncIterator[Loaded]:
    """Serve the sample graph, answered by a model of that pace."""
    model_args = ("-m", "tests.benchmarks.paced_model", str(pieces), str(pace_ms))
    with TemporaryDirectory() as folder:
        async with process(model_args) as model:
            address = f"http://127.0.0.1:{int(await said(model))}/v1"
            settings = {
                "NODIUS_PROVIDER": "compatible",
                "NODIUS_LLM_BASE_URL": address,
                "NODIUS_MODEL": "paced",
                "NODIUS_RATE_LIMIT": "0",
                "NODIUS_AUTOMATIONS_AT_ONCE": "8",
            }
            serve = ("serve", "--port", "0", "--db", f"sqlite:{folder}/load.db")
            async with process(("-c", "from cli.main import run; run()", *serve), **settings) as server:
                port = int((await said(server)).split("127.0.0.1:")[1].split()[0].rstrip("/"))
                async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                    raw = load_text("nba.json").encode()
                    done = await client.post(f"/api/graphs/import?graphKey={GRAPH}", content=raw, timeout=60)
                    assert done.status_code == 200, done.text
                yield Loaded(port=port, pid=server.pid, folder=Path(folder))


def rest_of(server: Loaded) -> httpx2.AsyncClient:
    """Return a client of the server's REST, not yet opened."""
    return httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=60)


async def automation_on(client: httpx2.AsyncClient, graph_key: str) -> str:
    """Make an automation of a graph, and return its id."""
    body = {"graphKey": graph_key, "name": "check", "message": "Look at it."}
    done = await client.post("/api/automations", json=body)
    assert done.status_code == 201, done.text
    return done.json()["id"]


async def begin_runs(server: Loaded, runs: int) -> None:
    """Begin so many runs of automations, each on a graph of its own; the model answers them as anybody."""
    made: list[str] = []
    async with rest_of(server) as client:
        for number in range(runs):
            key, raw = f"watched-{number}", load_text("nba.json").encode()
            done = await client.post(f"/api/graphs/import?graphKey={key}", content=raw)
            assert done.is_success, done.text
            made.append(await automation_on(client, key))
        await asyncio.sleep(EMBEDDED_IN_S if runs else 0)
        for key in made:
            begun = await client.post(f"/api/automations/{key}/run")
            assert begun.is_success, begun.text


@asynccontextmanager
async def serving(db: str, **settings: str) -> AsyncIterator[Loaded]:
    """Serve a database that is there."""
    serve = ("serve", "--port", "0", "--db", db)
    given = {"NODIUS_RATE_LIMIT": "0", "NODIUS_EMBEDDINGS": "none", **settings}
    async with process(("-c", "from cli.main import run; run()", *serve), **given) as server:
        port = int((await said(server)).split("127.0.0.1:")[1].split()[0].rstrip("/"))
        yield Loaded(port=port, pid=server.pid, folder=Path(db.removeprefix("sqlite:")).parent)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which such a share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
