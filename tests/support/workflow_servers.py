"""Workflow servers for tests of connections: a real Node-RED, and a double of n8n's public API.

The double answers as n8n 2.40.7 was measured to: the fields of its answers, its statuses, its list
in pages by an offset.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.support.loopback_api import Arrived, LoopbackApi, loopback_api
from tests.support.node_packages import node, node_modules

NODE_RED = "node-red@5.0.7"
N8N_KEY = "n8n_api_0123456789abcdef"
READ_SCOPES = ("workflow:list", "workflow:read")


@dataclass(frozen=True, slots=True)
class NodeRed:
    """A Node-RED server that runs. `token`: of its user, "" for an open server."""

    address: str
    token: str = ""

    async def deploy(self, flows: Sequence[Any]) -> str:
        """Deploys flows as its editor does; returns their revision."""
        headers = {"Node-RED-API-Version": "v2"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.post(
                f"{self.address}/flows", json={"flows": list(flows)}, headers=headers, timeout=60
            )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["rev"])

    async def flows(self) -> list[Any]:
        return list((await self._content())["flows"])

    async def revision(self) -> str:
        return str((await self._content())["rev"])

    async def _content(self) -> dict[str, Any]:
        headers = {"Node-RED-API-Version": "v2"}
        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"{self.address}/flows", headers=headers, timeout=60)
        return dict(answer.json())


@asynccontextmanager
async def node_red(folder: Path, *, password: str | None = None) -> AsyncGenerator[NodeRed]:
    """Yields a Node-RED server on loopback; with `password`, one with the user `ed`.

    Skips where the package cannot be had.
    """
    modules = await asyncio.to_thread(node_modules, NODE_RED)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    auth = ""
    if password is not None:
        hashed = (
            f"require({json.dumps(str(modules / 'bcryptjs'))}).hashSync({json.dumps(password)},4)"
        )
        users = f'[{{username:"ed",password:{hashed},permissions:"read"}}]'
        auth = f'adminAuth:{{type:"credentials",users:{users}}},'
    settings = (
        f'module.exports={{uiHost:"127.0.0.1",uiPort:{port},flowFile:"flows.json",{auth}'
        'credentialSecret:"for tests",telemetry:{enabled:false},runtimeState:{enabled:true}}'
    )
    await asyncio.to_thread((folder / "settings.js").write_text, settings)
    process = await asyncio.create_subprocess_exec(
        str(node()),
        str(modules / "node-red" / "red.js"),
        "--userDir",
        str(folder),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    server = NodeRed(f"http://127.0.0.1:{port}")
    try:
        await _ready(server, process)
        yield server
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _ready(server: NodeRed, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(120), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            assert process.returncode is None, "Node-RED ended"
            try:
                answer = await client.get(f"{server.address}/auth/login")
            except httpx2.TransportError:
                await asyncio.sleep(0.1)
                continue
            if answer.status_code == 200:
                return


@dataclass
class N8nDouble:
    """The public API of n8n: the workflows of one server, by id.

    `scopes`: those of the key. `listed`: how many workflows a page has at most.
    """

    api: LoopbackApi
    workflows: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    scopes: Sequence[str] = READ_SCOPES
    listed: int = 250

    @property
    def address(self) -> str:
        return self.api.url

    def put(self, document: Mapping[str, Any], *, id: str | None = None) -> str:
        """Stores a workflow as its editor does; returns its id."""
        workflow_id = id or secrets.token_hex(8)
        old = self.workflows.get(workflow_id, {})
        counter = int(old.get("versionCounter", 0)) + 1
        kept = {name: document.get(name) for name in ("name", "nodes", "connections", "settings")}
        self.workflows[workflow_id] = {
            **old,
            **kept,
            "id": workflow_id,
            "active": False,
            "activeVersionId": old.get("activeVersionId"),
            "versionId": secrets.token_hex(8),
            "versionCounter": counter,
            "updatedAt": f"2026-01-01T00:00:{counter:02}.000Z",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "isArchived": False,
            "tags": [],
            "shared": [{"project": {"name": "Ada Owner <ada@owner.example>", "type": "personal"}}],
        }
        self.api.answers[f"GET /api/v1/workflows/{workflow_id}"] = self._one
        return workflow_id

    def answer_all(self) -> None:
        """Answers every request of the API."""
        self.api.answers |= {
            "GET /api/v1/discover": self._discover,
            "GET /api/v1/workflows": self._list,
        }

    def _refused(self, request: Arrived, scope: str | None) -> tuple[int, Any] | None:
        if request.headers.get("x-n8n-api-key") != N8N_KEY:
            return 401, {"message": "Unauthorized"}
        if scope is not None and scope not in self.scopes:
            return 403, {"message": "Forbidden"}
        return None

    def _discover(self, request: Arrived) -> Any:
        data: dict[str, Any] = {
            "scopes": list(self.scopes),
            "resources": {},
            "specUrl": "/api/v1/openapi.yml",
        }
        return self._refused(request, None) or {"data": data}

    def _list(self, request: Arrived) -> Any:
        refused = self._refused(request, "workflow:list")
        if refused is not None:
            return refused
        query = httpx2.URL(f"http://x{request.line.partition(' ')[2]}").params
        begin = int(query.get("cursor") or 0)
        size = min(int(query.get("limit") or 100), self.listed)
        found = [self.workflows[key] for key in sorted(self.workflows)]
        end = begin + size
        page = [{k: v for k, v in one.items() if k != "shared"} for one in found[begin:end]]
        return {"data": page, "nextCursor": str(end) if end < len(found) else None}

    def _one(self, request: Arrived) -> Any:
        workflow = self.workflows.get(request.what.rpartition("/")[2])
        refused = self._refused(request, "workflow:read")
        return refused or workflow or (404, {"message": "Not Found"})


@asynccontextmanager
async def n8n_double(port: int = 0) -> AsyncGenerator[N8nDouble]:
    """Yields a double of n8n's public API on loopback, at a free port if none is given."""
    async with loopback_api(port) as api:
        double = N8nDouble(api)
        double.answer_all()
        yield double
