"""`nodius mcp`: another agent reads and proposes over standard input and output, as the local user."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import Implementation

from cli.common import EXIT_USAGE
from datasources.sqlite import SqliteDatabase
from graphrag.approvals import Approvals
from graphrag.config import Settings
from graphrag.roles import Person
from mock_data import load_text
from server.mcp import stdio_server
from tests.cli.conftest import invoke
from tests.server.mcp.helpers import said
from tests.support.service import CHANGE, GRAPH

ROOT = Path(__file__).parents[3]
_BEGIN = "from cli.main import run; run()"


def nodius(*arguments: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-c", _BEGIN, *arguments], cwd=ROOT)


async def test_an_agent_proposes_on_this_computer_and_the_queue_has_it(tmp_path: Path) -> None:
    file = tmp_path / "graphs.db"
    (tmp_path / "nba.json").write_text(load_text("nba.json"), encoding="utf-8")
    options = ("import", tmp_path / "nba.json", "--no-embed", "--db", f"sqlite:{file}")
    imported = await asyncio.to_thread(invoke, *options)
    assert imported.exit_code == 0, imported.output
    info = Implementation(name="desk-agent", version="3")
    options = ("mcp", "--db", f"sqlite:{file}", "--graph", GRAPH)
    async with Client(nodius(*options), client_info=info) as client:
        overview = await client.call_tool("read_graph_overview", {})
        assert "NBA" in said(overview)
        made = await client.call_tool("propose_update_node", CHANGE)
        approval_id = made.structured_content["id"]
    async with SqliteDatabase(file) as database:
        approvals = Approvals(database.source("default"), database.records("default"))
        (waiting,) = await approvals.list(by=Person("local", "admin", "default"))
    assert (waiting.id, waiting.status, waiting.program) == (approval_id, "pending", "mcp/desk-agent")


def test_a_role_is_passed_on_and_one_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    roles: list[str] = []

    async def served(settings: Settings, *, role: str, graph: str | None) -> None:
        roles.append(role)

    monkeypatch.setattr(stdio_server, "serve_stdio", served)
    assert invoke("mcp", "--role", "viewer", "--db", "memory:").exit_code == 0
    assert roles == ["viewer"]
    assert invoke("mcp", "--role", "king").exit_code == EXIT_USAGE
