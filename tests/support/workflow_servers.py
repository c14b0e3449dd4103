"""Workflow servers for tests of connections: a real Node-RED, and a double of n8n's public API.

The double answers as n8n 2.40.7 was measured to: the fields of its answers, its statuses, its list
in pages by an offset.
"""

from __future__ import annotations

import asyncio
import copy
import json
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2

from tests.support.loopback_api import Arrived, LoopbackApi, loopback_api
from tests.support.n8n_openapi import (
    N8N_FIELDS,
    N8N_NODE_FIELDS,
    N8N_OPENAPI,
    without_publish_if_active,
)
from tests.support.node_packages import node, node_modules

NODE_RED = "node-red@5.0.7"
N8N_KEY = "n8n_api_0123456789abcdef"
READ_SCOPES = ("workflow:list", "workflow:read")
WRITE_SCOPES = (*READ_SCOPES, "workflow:update")
RUN_SCOPES = ("execution:list", "execution:read")


@dataclass(frozen=True, slots=True)
class NodeRed:
    """A Node-RED server that runs. `token`: of its user, "" for an open server."""

    address: str
    process_id: int
    token: str = ""

    @property
    def port(self) -> int:
        return httpx2.URL(self.address).port or 80

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
async def node_red(
    folder: Path, *, password: str | None = None, port: int = 0
) -> AsyncGenerator[NodeRed]:
    """Yields a Node-RED server on loopback, at a free port if none is given; with `password`, one
    with the users `ed`, who may read, and `wes`, who may do all. Its flows stay in the folder.

    Skips where the package cannot be had.
    """
    modules = await asyncio.to_thread(node_modules, NODE_RED)
    if not port:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    auth = ""
    if password is not None:
        hashed = (
            f"require({json.dumps(str(modules / 'bcryptjs'))}).hashSync({json.dumps(password)},4)"
        )
        users = ",".join(
            f'{{username:"{name}",password:{hashed},permissions:"{right}"}}'
            for name, right in (("ed", "read"), ("wes", "*"))
        )
        auth = f'adminAuth:{{type:"credentials",users:[{users}]}},'
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
    server = NodeRed(f"http://127.0.0.1:{port}", process.pid)
    try:
        await server_ready(server.address, "/auth/login", process)
        yield server
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def server_ready(address: str, path: str, process: asyncio.subprocess.Process) -> None:
    """Waits until a server answers."""
    async with asyncio.timeout(180), httpx2.AsyncClient(trust_env=False) as client:
        while True:
            assert process.returncode is None, "the server ended"
            try:
                answer = await client.get(f"{address}{path}")
            except httpx2.TransportError:
                await asyncio.sleep(0.1)
                continue
            if answer.status_code == 200:
                return
            await asyncio.sleep(0.1)


@dataclass
class N8nDouble:
    """The public API of n8n: the workflows of one server, by id.

    `scopes`: those of the key. `listed`: how many workflows a page has at most. `known_types`: the
    types of nodes that it can run. `keeps_published`: whether it knows `publishIfActive`. `between`
    is called while an update is carried out, as if somebody else wrote at that moment.
    """

    api: LoopbackApi
    workflows: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    versions: dict[str, list[dict[str, Any]]] = field(
        default_factory=dict[str, list[dict[str, Any]]]
    )
    scopes: Sequence[str] = READ_SCOPES
    listed: int = 250
    known_types: Sequence[str] = ("n8n-nodes-base.",)
    keeps_published: bool = True
    between: Callable[[], object] | None = None
    went_live: list[str] = field(default_factory=list[str])
    """The ids of workflows of which another version began to run."""
    runs_kept: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Failed runs with their data, newest first."""
    key: str = N8N_KEY

    @property
    def address(self) -> str:
        return self.api.url

    def put(self, document: Mapping[str, Any], *, id: str | None = None) -> str:
        """Stores a workflow as its editor does; returns its id."""
        workflow_id = id or secrets.token_hex(8)
        kept = {name: document.get(name) for name in ("name", "nodes", "connections", "settings")}
        self._keep_webhook_ids(workflow_id, kept["nodes"])
        self._store(workflow_id, kept)
        path = f"/api/v1/workflows/{workflow_id}"
        self.api.answers |= {
            f"GET {path}": self._one,
            f"PUT {path}": self._update,
            f"GET {path}/history": self._history,
            f"POST {path}/publish": self._publish,
        }
        return workflow_id

    def _keep_webhook_ids(self, workflow_id: str, nodes: Any) -> None:
        """Gives nodes the ids of their webhooks, which the editor sends back."""
        old = self.workflows.get(workflow_id, {}).get("nodes", ())
        ids = {each["id"]: each["webhookId"] for each in old if "webhookId" in each}
        for entry in nodes if isinstance(nodes, list) else ():
            if entry.get("id") in ids:
                entry.setdefault("webhookId", ids[entry["id"]])

    def run_published(self, workflow_id: str) -> None:
        """Publishes the draft, as a person does on the page."""
        workflow = self.workflows[workflow_id]
        workflow["activeVersionId"] = workflow["versionId"]
        workflow["active"] = True

    def runs(self, workflow_id: str) -> list[Any]:
        """Returns the nodes of the version that runs."""
        live = self.workflows[workflow_id]["activeVersionId"]
        return next(v["nodes"] for v in self.versions[workflow_id] if v["versionId"] == live)

    def fail(self, workflow_id: str) -> None:
        """Runs the published version, which fails at its node that stops with an error.

        As in n8n, the run names the version of the draft, and its parameters have their defaults.
        """
        nodes = copy.deepcopy(self.runs(workflow_id))
        for each in nodes:
            each["parameters"]["options"] = {}
        [stop] = [each for each in nodes if each["type"].endswith("stopAndError")]
        run_id = str(len(self.runs_kept) + 1)
        error = {"message": stop["parameters"]["errorMessage"], "node": stop, "stack": "at …"}
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        run = {
            "id": run_id,
            "status": "error",
            "startedAt": now,
            "workflowId": workflow_id,
            "workflowVersionId": self.workflows[workflow_id]["versionId"],
            "workflowData": {"id": workflow_id, "nodes": nodes},
            "data": {"resultData": {"error": error, "lastNodeExecuted": stop["name"]}},
        }
        self.runs_kept.insert(0, run)
        self.api.answers |= {
            "GET /api/v1/executions": self._failed_runs,
            f"GET /api/v1/executions/{run_id}": self._failed_run,
        }

    def _failed_runs(self, request: Arrived) -> Any:
        query = httpx2.URL(f"http://x{request.line.partition(' ')[2]}").params
        of_one = [run for run in self.runs_kept if run["workflowId"] == query["workflowId"]]
        hidden = ("data", "workflowData", "workflowVersionId")
        data = [{k: v for k, v in run.items() if k not in hidden} for run in of_one]
        return self._refused(request, "execution:list") or {"data": data, "nextCursor": None}

    def _failed_run(self, request: Arrived) -> Any:
        [run] = [each for each in self.runs_kept if request.what.endswith(f"/{each['id']}")]
        return self._refused(request, "execution:read") or run

    def _store(self, workflow_id: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Stores fields of a workflow, with what the server adds."""
        old = self.workflows.get(workflow_id, {})
        new = copy.deepcopy({**old, **fields})
        for entry in new["nodes"] if isinstance(new["nodes"], list) else ():
            entry.setdefault("id", secrets.token_hex(8))
            if "webhook" in entry["type"].lower():
                entry.setdefault("webhookId", secrets.token_hex(8))
        counter = int(old.get("versionCounter", 0)) + 1
        graph = ("nodes", "connections")
        is_new_version = any(new.get(name) != old.get(name) for name in graph)
        if is_new_version:
            new["versionId"] = secrets.token_hex(8)
            version = {name: copy.deepcopy(new[name]) for name in (*graph, "versionId")}
            self.versions.setdefault(workflow_id, []).insert(0, version)
            path = f"/api/v1/workflows/{workflow_id}/versions/{new['versionId']}"
            self.api.answers[f"GET {path}"] = self._version
        usual = {"active": False, "activeVersionId": None, "isArchived": False, "tags": []}
        self.workflows[workflow_id] = {
            **usual,
            **new,
            "id": workflow_id,
            "versionCounter": counter,
            "updatedAt": f"2026-01-01T00:{counter // 60:02}:{counter % 60:02}.000Z",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "shared": [{"project": {"name": "Ada Owner <ada@owner.example>", "type": "personal"}}],
        }
        return self.workflows[workflow_id]

    def answer_all(self) -> None:
        """Answers every request of the API."""
        self.api.answers |= {
            "GET /api/v1/discover": self._discover,
            "GET /api/v1/workflows": self._list,
            "POST /api/v1/workflows": self._create,
            "GET /api/v1/openapi.yml": self._openapi,
            "GET /api/v1/executions": self._failed_runs,
        }

    def _refused(self, request: Arrived, scope: str | None) -> tuple[int, Any] | None:
        if request.headers.get("x-n8n-api-key") != N8N_KEY:
            return 401, {"message": "Unauthorized"}
        if scope is not None and scope not in self.scopes:
            return 403, {"message": "Forbidden"}
        return None

    def _openapi(self, _request: Arrived) -> Any:
        text = N8N_OPENAPI
        return text.encode() if self.keeps_published else without_publish_if_active(text).encode()

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

    def _history(self, request: Arrived) -> Any:
        versions = self.versions[request.what.split("/")[4]]
        data = [{"versionId": version["versionId"], "authors": "Ada"} for version in versions]
        return self._refused(request, "workflow:read") or {"data": data, "nextCursor": None}

    def _version(self, request: Arrived) -> Any:
        parts = request.what.split("/")
        found = [v for v in self.versions[parts[4]] if v["versionId"] == parts[6]]
        return self._refused(request, "workflow:read") or found[0]

    def _update(self, request: Arrived) -> Any:
        workflow_id = request.what.rpartition("/")[2]
        query = httpx2.URL(f"http://x{request.line.partition(' ')[2]}").params
        refused = self._refused(request, "workflow:update")
        if refused is not None:
            return refused
        if "publishIfActive" in query and not self.keeps_published:
            return 400, {"message": "Unknown query parameter 'publishIfActive'"}
        body = json.loads(request.body)
        fault = _body_fault(body)
        if fault is not None:
            return 400, {"message": f"request/body {fault}"}
        if self.workflows[workflow_id]["isArchived"]:
            return 400, {"message": "Cannot update an archived workflow."}
        if self.between is not None:
            self.between()
        settings = {**self.workflows[workflow_id]["settings"], **body["settings"]}
        stored = self._store(workflow_id, {**body, "settings": settings})
        if stored["activeVersionId"] is None:
            return stored
        if query.get("publishIfActive") == "false":
            return stored
        return self._made_live(stored)

    def _create(self, request: Arrived) -> Any:
        refused = self._refused(request, "workflow:create")
        if refused is not None:
            return refused
        body = json.loads(request.body)
        fault = _body_fault(body)
        if fault is not None:
            return 400, {"message": f"request/body {fault}"}
        return self.workflows[self.put(body)]

    def _publish(self, request: Arrived) -> Any:
        workflow_id = request.what.split("/")[4]
        refused = self._refused(request, "workflow:activate")
        return refused or self._made_live(self.workflows[workflow_id])

    def _made_live(self, workflow: dict[str, Any]) -> Any:
        """Publishes a draft that is stored already; it may be refused all the same."""
        names = [node["type"] for node in workflow["nodes"]]
        unknown = [name for name in names if not name.startswith(tuple(self.known_types))]
        if unknown:
            return 400, {"message": f"Unrecognized node type: {unknown[0]}"}
        if not any("webhook" in name or "rigger" in name for name in names):
            return 400, {"message": "it has no trigger node"}
        workflow["activeVersionId"] = workflow["versionId"]
        workflow["active"] = True
        self.went_live.append(workflow["id"])
        return workflow


def _body_fault(body: Mapping[str, Any]) -> str | None:
    """Returns what n8n objects to in an update: nothing is stored then."""
    accepted = {*N8N_FIELDS, "pinData", "staticData", "nodeGroups", "description"}
    missing = [name for name in N8N_FIELDS if name not in body]
    extra = sorted(body.keys() - accepted)
    if missing or extra:
        return (
            f"must have required property '{missing[0]}'" if missing else f"{extra[0]} is read-only"
        )
    for number, entry in enumerate(body["nodes"]):
        unknown = sorted(entry.keys() - set(N8N_NODE_FIELDS))
        if unknown:
            return f"nodes/{number} Unrecognized key(s): {unknown[0]}"
    names = [node["name"] for node in body["nodes"]]
    if len(set(names)) < len(names):
        return "has two nodes of one name"
    ends = {*body["connections"]} | {
        target["node"]
        for kinds in body["connections"].values()
        for outputs in kinds.values()
        for output in outputs
        for target in output or ()
    }
    dangling = sorted(ends - set(names))
    return f"has a connection with {dangling[0]}, which is no node" if dangling else None


@asynccontextmanager
async def n8n_double(port: int = 0) -> AsyncGenerator[N8nDouble]:
    """Yields a double of n8n's public API on loopback, at a free port if none is given."""
    async with loopback_api(port) as api:
        double = N8nDouble(api)
        double.answer_all()
        yield double
