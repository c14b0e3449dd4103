"""A real n8n for tests of connections, asked by its public API as the double is."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.support.faulty_proxy import FaultyProxy
from tests.support.n8n_openapi import N8N_FIELDS
from tests.support.node_packages import node
from tests.support.workflow_servers import READ_SCOPES, RUN_SCOPES, WRITE_SCOPES, server_ready

DRAFT_RIGHT = "workflow:update"


@dataclass(frozen=True, slots=True, kw_only=True)
class N8nServer:
    """A running n8n with three keys: one that may read, one for drafts too, and one for all.

    `process_id`: of its only process.
    """

    address: str
    process_id: int
    read_key: str
    draft_key: str
    full_key: str


@dataclass
class RealN8n:
    """A running n8n, asked by its public API as the double is.

    `proxy` stands in front of it for those under test. `went_live` stays empty: what runs is asked
    of the server.
    """

    server: N8nServer
    proxy: FaultyProxy
    scopes: Sequence[str] = WRITE_SCOPES
    went_live: list[str] = field(default_factory=list[str])

    @property
    def address(self) -> str:
        return self.proxy.address

    @property
    def key(self) -> str:
        if any(right in self.scopes for right in ("workflow:activate", "workflow:create")):
            return self.server.full_key
        return self.server.draft_key if DRAFT_RIGHT in self.scopes else self.server.read_key

    @property
    def between(self) -> Callable[[], object] | None:
        return self.proxy.before

    @between.setter
    def between(self, write: Callable[[], object] | None) -> None:
        self.proxy.before = write

    def empty(self) -> None:
        """Deletes all workflows."""
        self.between = None
        self.scopes = WRITE_SCOPES
        for each in self.ask("GET", "/workflows")["data"]:
            if each["active"]:
                self.ask("POST", f"/workflows/{each['id']}/unpublish", {})
            self._delete(each["id"])

    def _delete(self, workflow_id: str) -> None:
        """Deletes a workflow, which the server refuses while it is being unpublished."""
        for _ in range(100):
            answer = self._answer("DELETE", f"/workflows/{workflow_id}")
            if answer.status_code == 200:
                return
            time.sleep(0.1)
        raise AssertionError(answer.text)

    @property
    def workflows(self) -> RealWorkflows:
        return RealWorkflows(self)

    def put(self, document: Mapping[str, Any], *, id: str | None = None) -> str:
        """Stores a workflow, the draft alone where there is one; returns its id."""
        body = {name: document.get(name) for name in N8N_FIELDS}
        body["settings"] = {
            name: value for name, value in (body["settings"] or {}).items() if name != "binaryMode"
        }
        if id is None:
            return str(self.ask("POST", "/workflows", body)["id"])
        old = {each["id"]: each.get("webhookId") for each in self.workflows[id]["nodes"]}
        for entry in body["nodes"] or ():
            if old.get(entry.get("id")):
                entry.setdefault("webhookId", old[entry["id"]])
        return str(self.ask("PUT", f"/workflows/{id}?publishIfActive=false", body)["id"])

    def run_published(self, workflow_id: str) -> None:
        self.ask("POST", f"/workflows/{workflow_id}/publish", {})

    def runs(self, workflow_id: str) -> list[Any]:
        """Returns the nodes of the version that runs."""
        return list(self.workflows[workflow_id]["activeVersion"]["nodes"])

    def fail(self, workflow_id: str) -> None:
        """Calls the published version by its address until a run of it has failed."""
        trigger, stop = self.runs(workflow_id)
        path = trigger["parameters"]["path"]
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with httpx2.Client(trust_env=False, timeout=60) as client:
                client.get(f"{self.server.address}/webhook/{path}")
            time.sleep(0.1)  # it goes live, and its runs are stored, a moment after the answers
            failed = self.ask("GET", f"/executions?status=error&workflowId={workflow_id}")["data"]
            if failed and self._said_at_end(failed[0]["id"]) == stop["parameters"]["errorMessage"]:
                return
        raise AssertionError("no run failed")

    def _said_at_end(self, run_id: str) -> str:
        run = self.ask("GET", f"/executions/{run_id}?includeData=true")
        return str(run["data"]["resultData"]["error"]["message"])

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._answer(method, path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def _answer(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        headers = {"X-N8N-API-KEY": self.server.full_key}
        with httpx2.Client(trust_env=False, timeout=60) as client:
            return client.request(
                method, f"{self.server.address}/api/v1{path}", json=body, headers=headers
            )


@dataclass(frozen=True)
class RealWorkflows:
    """The workflows of a running n8n by id, as they are at this moment."""

    server: RealN8n

    def __iter__(self) -> Iterator[str]:
        return iter(each["id"] for each in self.server.ask("GET", "/workflows")["data"])

    def values(self) -> list[dict[str, Any]]:
        return [self[each] for each in self]

    def __getitem__(self, workflow_id: str) -> dict[str, Any]:
        workflow: dict[str, Any] = self.server.ask("GET", f"/workflows/{workflow_id}")
        return workflow


@asynccontextmanager
async def real_n8n(modules: Path, folder: Path) -> AsyncGenerator[N8nServer]:
    """Yields an n8n that runs on loopback.

    `modules` is a folder `node_modules` that has n8n.
    """
    ports: list[int] = []
    for _ in range(2):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    names = ("DIAGNOSTICS", "VERSION_NOTIFICATIONS", "TEMPLATES", "PERSONALIZATION")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "N8N_USER_FOLDER": str(folder),
        "N8N_PORT": str(ports[0]),
        "N8N_RUNNERS_BROKER_PORT": str(ports[1]),
        "N8N_LISTEN_ADDRESS": "127.0.0.1",
        "N8N_HOST": "127.0.0.1",
        "N8N_SECURE_COOKIE": "false",
        "N8N_ENCRYPTION_KEY": "for tests",
        "N8N_COMMUNITY_PACKAGES_ENABLED": "false",
        "N8N_DISABLED_MODULES": "mcp-registry",
        **{f"N8N_{name}_ENABLED": "false" for name in names},
    }
    process = await asyncio.create_subprocess_exec(
        str(node()),
        str(modules / "n8n" / "bin" / "n8n"),
        "start",
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{ports[0]}"
    try:
        await server_ready(address, "/healthz/readiness", process)
        read_key, draft_key, full_key = await _n8n_keys(address)
        yield N8nServer(
            address=address,
            process_id=process.pid,
            read_key=read_key,
            draft_key=draft_key,
            full_key=full_key,
        )
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def _n8n_keys(address: str) -> list[str]:
    """Makes the owner of a fresh n8n, and its keys: to read, for drafts, for all."""
    owner = {
        "email": "ada@example.org",
        "firstName": "Ada",
        "lastName": "Owner",
        "password": "For-tests-1",
    }
    headers = {"browser-id": "tests"}
    async with httpx2.AsyncClient(
        base_url=address, trust_env=False, timeout=60, headers=headers
    ) as client:
        made = await client.post("/rest/owner/setup", json=owner)
        assert made.status_code == 200, made.text
        others = ("create", "delete", "activate", "deactivate")
        more = (*(f"workflow:{name}" for name in others), *RUN_SCOPES)
        rights = (*WRITE_SCOPES, *more)
        keys: list[str] = []
        for label, scopes in (("read", READ_SCOPES), ("drafts", WRITE_SCOPES), ("all", rights)):
            body = {"label": label, "scopes": list(scopes), "expiresAt": None}
            answer = await client.post("/rest/api-keys", json=body)
            assert answer.status_code == 200, answer.text
            keys.append(answer.json()["data"]["rawApiKey"])
    return keys
