"""How registries and programs find the MCP server: `server.json`, and the bundle that
`make mcpb` packs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import uvicorn
from mcp import Client, StdioServerParameters

from cli.command_table import COMMANDS
from graphrag.config import setting_fields
from tests.deployment.containers import ROOT
from tests.deployment.wheels import installed
from tests.support.databases import nba_file
from tests.support.node_packages import node, node_modules
from tests.support.scripted_claude import SAID, ClaudeCode, ToolCallingModel
from tests.support.served import Served, served
from tests.support.service import GRAPH, SECRET, service, token

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
PACKER = re.search(r"@anthropic-ai/mcpb@[\d.]+", (ROOT / "Makefile").read_text(encoding="utf-8"))
MOST_CHARS = 100
"""Of a description in the registry."""


def read(name: str) -> Any:
    return json.loads((ROOT / name).read_text(encoding="utf-8"))


def test_the_registrys_entry_names_this_version_and_settings_that_there_are() -> None:
    entry = read("packaging/server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert len(entry["description"]) <= MOST_CHARS
    assert entry["version"] == PROJECT["version"]
    (package,) = entry["packages"]
    assert (package["registryType"], package["identifier"], package["version"]) == (
        "pypi",
        PROJECT["name"],
        PROJECT["version"],
    )
    assert PROJECT["scripts"][package["identifier"]], "uvx runs the program of the package's name"
    assert {given["value"] for given in package["packageArguments"]} <= COMMANDS.keys()
    for variable in package["environmentVariables"]:
        name = variable["name"].removeprefix("NODIUS_").lower()
        assert setting_fields()[name].default == variable["default"]
    (remote,) = entry["remotes"]
    assert set(re.findall(r"\{(\w+)\}", remote["url"])) == set(remote["variables"])
    for header in remote["headers"]:
        assert set(re.findall(r"\{(\w+)\}", header["value"])) == set(header["variables"])


def test_the_bundles_manifest_names_this_version_and_its_own_files() -> None:
    manifest = read("packaging/mcpb/manifest.json")
    project = (ROOT / "packaging/mcpb/pyproject.toml").read_text(encoding="utf-8")
    bundle = tomllib.loads(project)
    name = PROJECT["name"]
    version = PROJECT["version"]
    assert (manifest["name"], manifest["version"]) == (name, version)
    assert bundle["project"]["dependencies"] == [f"{name}=={version}"]
    wheel = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    assert bundle["tool"]["uv"]["sources"] == {name: {"path": wheel}}
    assert bundle["project"]["requires-python"] == PROJECT["requires-python"]
    assert (ROOT / "packaging/mcpb" / manifest["server"]["entry_point"]).is_file()
    config = manifest["server"]["mcp_config"]
    asked = set(re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(config)))
    assert asked == set(manifest["user_config"])
    for variable in config["env"]:
        assert variable.removeprefix("NODIUS_").lower() in setting_fields()


@pytest.mark.slow
async def test_the_bundle_packs_with_its_own_tool_and_serves_what_it_holds(
    wheel: Path, tmp_path: Path
) -> None:
    assert PACKER is not None, "`make mcpb` packs it"
    tool = node_modules(PACKER[0]) / "@anthropic-ai/mcpb/dist/cli/cli.js"
    shutil.copytree(ROOT / "packaging/mcpb", tmp_path / "bundle")
    shutil.copy(wheel, tmp_path / "bundle")
    packed = tmp_path / "nodius.mcpb"
    pack = [str(node()), str(tool), "pack", str(tmp_path / "bundle"), str(packed)]
    run = partial(subprocess.run, pack, capture_output=True, text=True, timeout=120, check=False)
    done = await asyncio.to_thread(run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Manifest schema validation passes" in done.stdout
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(packed) as opened:
        assert set(opened.namelist()) == {"manifest.json", "main.py", "pyproject.toml", wheel.name}
        opened.extractall(unpacked)
    python = await asyncio.to_thread(installed, tmp_path / "environment", unpacked / wheel.name)
    database = await nba_file(tmp_path)
    given = {
        "NODIUS_DB": f"sqlite:{database}",
        "NODIUS_WORKSPACE": "default",
        "HOME": str(tmp_path),
    }
    started = StdioServerParameters(
        command=str(python / "python"), args=[str(unpacked / "main.py")], env=given, cwd=tmp_path
    )
    async with Client(started) as client:
        found = await client.call_tool("read_graph_overview", {"graphKey": GRAPH})
    assert not found.is_error
    assert "NBA Stats Pipeline" in str(found.content)


DOCUMENT = (ROOT / "docs/connect.md").read_text(encoding="utf-8")
URL = "http://127.0.0.1:8426"


def block(heading: str, language: str) -> str:
    """Return the first block of a language under a heading."""
    found = re.search(
        rf"^## {heading}\n.*?^```{language}\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL
    )
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
        claude = ClaudeCode(
            tmp_path, model_url, NODIUS_DB=f"sqlite:{database}", NODIUS_EMBEDDINGS="none"
        )
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
        names: dict[str, Any] = {
            "url": running.address,
            "token": token(),
            "question": "What fails?",
        }
        source = f"from openai import OpenAI\n{block('OpenAI clients', 'python')}"
        await asyncio.to_thread(exec, source, names)
        names["client"].close()
    assert "error-handler" in names["answer"].choices[0].message.content


@pytest.mark.slow
async def test_the_settings_of_open_webui_list_the_models(tmp_path: Path) -> None:
    database = await nba_file(tmp_path)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {
        "PATH": path,
        "NODIUS_URL": URL,
        "NODIUS_DB": f"sqlite:{database}",
        "HOME": str(tmp_path),
    }
    script = [
        "bash",
        "-ec",
        f"{block('Open WebUI', 'sh')}echo $OPENAI_API_BASE_URL $OPENAI_API_KEY",
    ]
    run = partial(subprocess.check_output, script, env=given, text=True, timeout=60, cwd=tmp_path)
    base, key = (await asyncio.to_thread(run)).split()
    assert base == f"{URL}/v1"
    async with served(db=f"sqlite:{database}") as running:
        client = openai.AsyncOpenAI(base_url=base.replace(URL, running.address), api_key=key)
        async with client:
            assert f"graph:{GRAPH}" in [model.id async for model in client.models.list()]
