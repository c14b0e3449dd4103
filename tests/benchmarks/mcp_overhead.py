"""What MCP adds to a read tool: the same call by function, by HTTP, and by a client, in turn.

Run: `make bench-mcp`, or `python -m tests.benchmarks.mcp_overhead --help`. Server and client are
two processes on one computer.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from server.mcp.tool_answers import answer_call
from server.workspaces import WorkspaceResolver
from tests.benchmarks.load_server import percentile
from tests.support.databases import nba_file
from tests.support.service import GRAPH, Service, service, token

TOOL = "read_node_detail"
ARGUMENTS = {"graphKey": GRAPH, "nodeKey": "fetch-api"}
MODERN = "2026-07-28"
Call = Callable[[], Awaitable[Any]]


def direct(running: Service) -> Call:
    """Return the call of the tool itself, guard, log and limits included."""
    identity = running.state.authentication.authenticator

    async def call() -> None:
        who = await identity.authenticate(token("ed", "editor"), "mcp")
        found = await answer_call(
            WorkspaceResolver(running.state.backend.workspaces, who),
            TOOL,
            ARGUMENTS,
            default_graph=None,
            language="en",
        )
        assert not found.is_error

    return call


def posted(http: httpx2.AsyncClient) -> Call:
    """Return the call as one POST of the newer revision."""
    numbers = itertools.count(1)
    about = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": TOOL,
    }

    async def call() -> None:
        params = {"name": TOOL, "arguments": ARGUMENTS, "_meta": about}
        body = {"jsonrpc": "2.0", "id": next(numbers), "method": "tools/call", "params": params}
        answer = await http.post("/mcp", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert "Fetch NBA players" in answer.text

    return call


def through(client: Client) -> Call:
    """Return the call by the client of the package."""

    async def call() -> None:
        found = await client.call_tool(TOOL, ARGUMENTS)
        assert not found.is_error

    return call


async def measure(address: str, calls: int) -> dict[str, list[float]]:
    """Return the times of each way, the ways in turn. Units: milliseconds."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        database = f"sqlite:{await nba_file(Path(folder))}"
        running = await stack.enter_async_context(service(rate_limit=0, db=database))
        headers = {"Authorization": f"Bearer {token('ed', 'editor')}"}
        ways: dict[str, Call] = {"the tool itself": direct(running)}
        options: dict[str, Any] = {"headers": headers, "trust_env": False, "timeout": 30}
        http = await stack.enter_async_context(httpx2.AsyncClient(base_url=address, **options))
        ways["one POST"] = posted(http)
        for name, mode in (("client, 2026-07-28", MODERN), ("client, 2025-11-25", "legacy")):
            own = await stack.enter_async_context(httpx2.AsyncClient(**options))
            transport = streamable_http_client(f"{address}/mcp", http_client=own)
            info = types.Implementation(name="bench", version="1")
            given: Any = {"mode": mode, "client_info": info}
            ways[name] = through(await stack.enter_async_context(Client(transport, **given)))
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(calls + 20):
            for name, call in ways.items():
                began = time.perf_counter()
                await call()
                if number >= 20:  # the first ones load what the later ones use
                    times[name].append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000, help="of each way")
    calls = parser.parse_args().calls
    address = os.environ.get("NODIUS_URL")
    if address is None:  # once more, with a server beside it
        again = [sys.executable, "-m", "tests.support.serving", sys.executable, "-m", __spec__.name]
        raise SystemExit(subprocess.call([*again, "--calls", str(calls)]))
    times = asyncio.run(measure(address, calls))
    own = times["the tool itself"]
    print(f"{'':22}{'p50 ms':>9}{'p95 ms':>9}{'p50 more':>10}{'p95 more':>10}")
    for name, found in times.items():
        p50 = percentile(found, 0.5)
        p95 = percentile(found, 0.95)
        more = (p50 - percentile(own, 0.5), p95 - percentile(own, 0.95))
        print(f"{name:22}{p50:9.2f}{p95:9.2f}{more[0]:10.2f}{more[1]:10.2f}")


if __name__ == "__main__":
    main()
