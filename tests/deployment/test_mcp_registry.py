"""How registries and programs find the MCP server: `server.json`, and the bundle that `make mcpb` packs."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from cli.main import app
from graphrag.config import Settings
from tests.deployment.containers import ROOT
from tests.deployment.wheels import installed
from tests.support.databases import nba_file
from tests.support.node_packages import node, node_modules
from tests.support.service import GRAPH

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKER = re.search(r"@anthropic-ai/mcpb@[\d.]+", (ROOT / "Makefile").read_text(encoding="utf-8"))
MOST_CHARS = 100
"""Of a description in the registry."""


def read(name: str) -> Any:
    return json.loads((ROOT / name).read_text(encoding="utf-8"))


def test_the_registrys_entry_names_this_version_and_settings_that_there_are() -> None:
    entry = read("server.json")
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
    commands = {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    assert {given["value"] for given in package["packageArguments"]} <= commands
    for variable in package["environmentVariables"]:
        name = variable["name"].removeprefix("NODIUS_").lower()
        assert Settings.model_fields[name].default == variable["default"]
    (remote,) = entry["remotes"]
    assert set(re.findall(r"\{(\w+)\}", remote["url"])) == set(remote["variables"])
    for header in remote["headers"]:
        assert set(re.findall(r"\{(\w+)\}", header["value"])) == set(header["variables"])


def test_the_bundles_manifest_names_this_version_and_its_own_files() -> None:
    manifest, project = read("mcpb/manifest.json"), (ROOT / "mcpb/pyproject.toml").read_text(encoding="utf-8")
    bundle = tomllib.loads(project)
    name, version = PROJECT["name"], PROJECT["version"]
    assert (manifest["name"], manifest["version"]) == (name, version)
    assert bundle["project"]["dependencies"] == [f"{name}=={version}"]
    wheel = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    assert bundle["tool"]["uv"]["sources"] == {name: {"path": wheel}}
    assert bundle["project"]["requires-python"] == PROJECT["requires-python"]
    assert (ROOT / "mcpb" / manifest["server"]["entry_point"]).is_file()
    config = manifest["server"]["mcp_config"]
    asked = set(re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(config)))
    assert asked == set(manifest["user_config"])
    for variable in config["env"]:
        assert variable.removeprefix("NODIUS_").lower() in Settings.model_fields


@pytest.mark.slow
async def test_the_bundle_packs_with_its_own_tool_and_serves_what_it_holds(
    wheel: Path, tmp_path: Path
) -> None:
    assert PACKER is not None, "`make mcpb` packs it"
    tool = node_modules(PACKER[0]) / "@anthropic-ai/mcpb/dist/cli/cli.js"
    shutil.copytree(ROOT / "mcpb", tmp_path / "bundle")
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
    given = {"NODIUS_DB": f"sqlite:{database}", "NODIUS_WORKSPACE": "default", "HOME": str(tmp_path)}
    started = StdioServerParameters(
        command=str(python / "python"), args=[str(unpacked / "main.py")], env=given, cwd=tmp_path
    )
    async with Client(started) as client:
        found = await client.call_tool("read_graph_overview", {"graphKey": GRAPH})
    assert not found.is_error
    assert "NBA Stats Pipeline" in str(found.content)
