"""The protocol's own conformance suite against our transport and sign-in, in both eras;
and its inspector.
"""

import asyncio
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from server.mcp import session_manager
from server.run import config_of
from tests.server.mcp.conformance_fixtures import FixtureHandlers
from tests.support.node_packages import node, node_modules
from tests.support.served import Served, served
from tests.support.service import GRAPH, token

pytestmark = [
    pytest.mark.slow,
    # The suite asks for what the newer revision of the protocol calls deprecated.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"


async def output(*command: str | Path, cwd: Path) -> tuple[int | None, str]:
    """Run a program of Node.js; return its exit code and what it printed."""
    program = await asyncio.create_subprocess_exec(
        node(),
        *command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    printed, _ = await asyncio.wait_for(program.communicate(), 300)
    return program.returncode, printed.decode()


class WithToken:
    """Sends a person's token with every request: the suite sends none."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.bearer = (b"authorization", f"Bearer {token('ed', 'editor')}".encode())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app({**scope, "headers": [*scope["headers"], self.bearer]}, receive, send)


def with_token(app: FastAPI) -> uvicorn.Config:
    app.add_middleware(WithToken)
    return config_of(app)


@pytest.mark.parametrize("signed_in", [False, True], ids=["local", "signed-in"])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_every_scored_scenario_of_a_revision_passes(
    revision: str, signed_in: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = await asyncio.to_thread(node_modules, SUITE)
    monkeypatch.setattr(session_manager, "McpHandlers", FixtureHandlers)
    given: dict[str, Any] = {} if signed_in else {"auth_secret": None}
    if signed_in:
        monkeypatch.setattr("tests.support.served.config_of", with_token)
    script = suite / "@modelcontextprotocol/conformance/dist/index.js"
    async with served(rate_limit=0, **given) as running:
        address = f"{running.address}/mcp"
        code, printed = await output(
            script, "server", "--url", address, "--requirements", revision, cwd=tmp_path
        )
    scored, _, unscored = printed.partition("=== SUMMARY ===")[2].partition("Not scored")
    named = set(re.findall(r"[\u2713\u2717] ([a-z0-9-]+) \(", unscored))
    if signed_in:  # a scenario of servers on one's own computer that ask nobody to sign in
        named.add("dns-rebinding-protection")
    failed = [name for name in re.findall(r"\u2717 ([a-z0-9-]+):", scored) if name not in named]
    passed = [name for name in re.findall(r"\u2713 ([a-z0-9-]+):", scored) if name not in named]
    assert failed == [], printed
    assert len(passed) >= 29, printed
    assert code == 0 or signed_in, printed


async def test_the_inspector_lists_and_calls(tmp_path: Path) -> None:
    inspector = await asyncio.to_thread(node_modules, INSPECTOR)

    async def asked(running: Served, *more: str) -> Any:
        script = inspector / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        bearer = f"Authorization: Bearer {token('ed', 'editor')}"
        code, printed = await output(
            script,
            *("--cli", f"{running.address}/mcp"),
            *("--transport", "http", "--header", bearer, *more),
            cwd=tmp_path,
        )
        assert code == 0, printed
        return json.loads(printed)

    async with served(rate_limit=0) as running:
        tools = await asked(running, "--method", "tools/list")
        names = {tool["name"] for tool in tools["tools"]}
        called = ("--method", "tools/call", "--tool-name", "search_nodes")
        found = await asked(
            running, *called, "--tool-arg", f"graphKey={GRAPH}", "--tool-arg", "query=fetch players"
        )
    assert {"search_nodes", "propose_update_node"} <= names
    assert "fetch-api" in found["content"][0]["text"]
