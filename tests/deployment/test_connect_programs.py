"""docs/connect.md: each block is run by its program, or is of the form that this program reads."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import uvicorn

from tests.deployment.containers import ROOT
from tests.support.databases import nba_file
from tests.support.scripted_claude import SAID, ClaudeCode, ToolCallingModel
from tests.support.served import Served, served
from tests.support.service import GRAPH, SECRET, service, token

DOCUMENT = (ROOT / "docs/connect.md").read_text(encoding="utf-8")
URL = "http://127.0.0.1:8426"


def block(heading: str, language: str) -> str:
    """Return the first block of a language under a heading."""
    found = re.search(rf"^## {heading}\n.*?^```{language}\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """Serve an application on loopback; yield its address."""
    config = uvicorn.Config(app, lifespan="off", log_level="error", access_log=False)
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as opened:
        await server.startup([opened])
        try:
            yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        finally:
            server.should_exit = True
            await server.shutdown([opened])


async def approvals(running: Served) -> list[dict[str, Any]]:
    """Return the proposals as a reviewer sees them."""
    headers = {"Authorization": f"Bearer {token('al', 'reviewer')}"}
    async with httpx2.AsyncClient(base_url=running.address, headers=headers) as client:
        return (await client.get("/api/approvals")).json()["approvals"]


@pytest.mark.slow
async def test_the_token_of_the_first_lines_signs_in() -> None:
    lines = DOCUMENT.partition("```sh\n")[2].partition("```")[0]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {"PATH": path, "USER": "ann", "NODIUS_AUTH_SECRET": SECRET}
    script = ["bash", "-ec", f"{lines}echo $NODIUS_URL $NODIUS_TOKEN"]
    run = partial(subprocess.check_output, script, env=given, text=True, timeout=60)
    url, bearer = (await asyncio.to_thread(run)).split()
    assert url == URL
    async with service() as running, running.client(bearer) as client:
        assert (await client.get("/api/me")).json()["userId"] == "ann"


@pytest.mark.slow
async def test_claude_code_connects_and_proposes_what_a_person_decides(tmp_path: Path) -> None:
    change = {"graphKey": GRAPH, "nodeKey": "error-handler", "changes": {"data.level": "warning"}}
    model = ToolCallingModel("mcp__nodius__propose_update_node", {**change, "reason": "asked for"})
    async with served(rate_limit=0) as running, listening(model) as model_url:
        given = {"NODIUS_URL": running.address, "NODIUS_TOKEN": token()}
        claude = ClaudeCode(tmp_path, model_url, **given)
        lines = block("Claude Code", "sh")
        assert len(lines.splitlines()) == 2
        listed = await asyncio.to_thread(claude.run, lines)
        assert re.search(rf"nodius: {running.address}/mcp \(HTTP\) - \S Connected", listed)
        asked = f"claude -p 'Make it a warning' --allowedTools {model.tool}"
        assert SAID in await asyncio.to_thread(claude.run, asked)
        (found,) = await approvals(running)
    assert (found["status"], found["client"]["channel"]) == ("pending", "mcp")
    assert "claude" in found["client"]["name"].lower()
    assert f"approval={found['id']}" in model.results[0]


@pytest.mark.slow
async def test_claude_code_starts_the_server_of_this_computer(tmp_path: Path) -> None:
    line = re.search(r"`(claude mcp add nodius -- .*?)`", DOCUMENT)
    assert line is not None
    database = await nba_file(tmp_path)
    model = ToolCallingModel("mcp__nodius__list_graphs", {})
    async with listening(model) as model_url:
        claude = ClaudeCode(tmp_path, model_url, NODIUS_DB=f"sqlite:{database}", NODIUS_EMBEDDINGS="none")
        listed = await asyncio.to_thread(claude.run, f"{line[1]}\nclaude mcp list")
    assert re.search(r"nodius: nodius mcp - \S Connected", listed)


def test_cursor_reads_its_block() -> None:
    server = json.loads(block("Cursor", "json"))["mcpServers"]["nodius"]
    assert server == {
        "url": "${env:NODIUS_URL}/mcp",
        "headers": {"Authorization": "Bearer ${env:NODIUS_TOKEN}"},
    }


async def test_n8n_reads_its_block_from_the_clipboard() -> None:
    """The form of what is copied in n8n, as our own importer of it reads that."""
    text = block("n8n", "json")
    (node,) = json.loads(text)["nodes"]
    parameters = {
        "endpointUrl": f"{URL}/mcp",
        "serverTransport": "httpStreamable",
        "authentication": "bearerAuth",
    }
    assert node["parameters"] == parameters
    async with served() as running:
        headers = {"Authorization": f"Bearer {token()}"}
        async with httpx2.AsyncClient(base_url=running.address, headers=headers) as client:
            body = {"text": text, "sheet": "0", "x": 0, "y": 0}
            answer = await client.post(f"/api/graphs/{GRAPH}/paste", json=body)
    assert answer.status_code == 200, answer.text


async def test_an_openai_client_asks_a_graph() -> None:
    async with served(rate_limit=0) as running:
        names: dict[str, Any] = {"url": running.address, "token": token(), "question": "What fails?"}
        source = f"from openai import OpenAI\n{block('OpenAI clients', 'python')}"
        await asyncio.to_thread(exec, source, names)
        names["client"].close()
    assert "error-handler" in names["answer"].choices[0].message.content


@pytest.mark.slow
async def test_the_settings_of_open_webui_list_the_models(tmp_path: Path) -> None:
    database = await nba_file(tmp_path)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {"PATH": path, "NODIUS_URL": URL, "NODIUS_DB": f"sqlite:{database}", "HOME": str(tmp_path)}
    script = ["bash", "-ec", f"{block('Open WebUI', 'sh')}echo $OPENAI_API_BASE_URL $OPENAI_API_KEY"]
    run = partial(subprocess.check_output, script, env=given, text=True, timeout=60, cwd=tmp_path)
    base, key = (await asyncio.to_thread(run)).split()
    assert base == f"{URL}/v1"
    async with served(db=f"sqlite:{database}") as running:
        client = openai.AsyncOpenAI(base_url=base.replace(URL, running.address), api_key=key)
        async with client:
            assert f"graph:{GRAPH}" in [model.id async for model in client.models.list()]
