"""Connections of one workspace in memory, and servers that they connect with."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from datasources.base import Database
from datasources.mock import open_nba
from datasources.types import Mutation, Node, parse_document
from graphrag.approvals import Approvals, Person
from graphrag.connections import Connections, NewConnection, PullReport, RunningSyncs
from graphrag.connections.editors import OpenEditor, open_editor
from graphrag.connections.kept_documents import KeptDocuments
from graphrag.connections.key_store import KeyStore
from graphrag.connections.push_records import PushRecords
from graphrag.connections.push_watch import PushWatch
from graphrag.connections.pushes import Pushes
from graphrag.connections.stored_push import Push
from graphrag.leases import now_ms
from graphrag.roles import Policy
from tests.support.workflow_servers import N8N_KEY, WRITE_SCOPES, N8nDouble, n8n_double

ADMIN = Person("ann", "admin", "default")
EDITOR = Person("ed", "editor", "default")
REVIEWER = Person("rose", "reviewer", "default")
SECRET = "a secret of the service, 32 characters"


@dataclass
class ShiftedClock:
    """The time in milliseconds since 1970, moved ahead by hand."""

    ahead_ms: int = 0

    def __call__(self) -> int:
        return now_ms() + self.ahead_ms


@dataclass
class Setting:
    """The connections under test, the database they write to, and their clock."""

    database: Database
    approvals: Approvals
    connections: Connections
    pushes: Pushes
    syncs: RunningSyncs
    environment: dict[str, str]
    clock: ShiftedClock

    @property
    def source(self) -> Any:
        return self.database.source("default")

    async def change(self, graph_key: str, name: str, **parameters: Any) -> None:
        """Changes parameters of a node by its name, as a person does here."""
        nodes = await self.source.get_nodes(graph_key)
        [data] = [node.data for node in nodes if node.data and node.data.get("name") == name]
        changed = {**(data.get("parameters") or {}), **parameters}
        await self.replace(graph_key, name, data={**data, "parameters": changed})

    async def change_at(self, graph_key: str, origin: str, **parameters: Any) -> None:
        """Changes parameters of the node that has this id on the server."""
        nodes = await self.source.get_nodes(graph_key)
        [node] = [node for node in nodes if (node.model_extra or {})["origin"]["id"] == origin]
        changed = {**((node.data or {}).get("parameters") or {}), **parameters}
        new = node.replace(data={**(node.data or {}), "parameters": changed})
        await self.source.apply(Mutation(graph_key=graph_key, put_nodes=[new]))

    async def change_note(self, graph_key: str, name: str) -> None:
        """Changes the parameter `note` of the first node of this name."""
        nodes = await self.source.get_nodes(graph_key)
        node = next(node for node in nodes if (node.data or {}).get("name") == name)
        data = node.data or {}
        changed = {**data, "parameters": {**data["parameters"], "note": "b"}}
        await self.source.apply(
            Mutation(graph_key=graph_key, put_nodes=[node.replace(data=changed)])
        )

    async def delete(self, graph_key: str, node_key: str) -> None:
        """Deletes a node with its edges."""
        edges = await self.source.get_edges(graph_key)
        gone = [edge.key for edge in edges if node_key in (edge.source, edge.target)]
        await self.source.apply(
            Mutation(graph_key=graph_key, delete_nodes=[node_key], delete_edges=gone)
        )

    async def replace(self, graph_key: str, name: str, **fields: Any) -> None:
        """Replaces fields of a node by its name."""
        nodes = await self.source.get_nodes(graph_key)
        [node] = [node for node in nodes if node.data and node.data.get("name") == name]
        await self.source.apply(Mutation(graph_key=graph_key, put_nodes=[node.replace(**fields)]))

    async def copy(self, graph_key: str, name: str, **fields: Any) -> None:
        """Adds a node like the one of this name, with other fields."""
        nodes = await self.source.get_nodes(graph_key)
        [node] = [node for node in nodes if node.data and node.data.get("name") == name]
        data = {**(node.data or {}), "name": f"{name} 2"}
        document = node.replace(data=data, **fields).to_document()
        document.pop("origin")
        new = parse_document(Node, document, "nodes")
        await self.source.apply(Mutation(graph_key=graph_key, put_nodes=[new]))

    async def pushed(self, graph_key: str, name: str = "shop") -> Push:
        """Plans a push as an editor and approves it as a reviewer."""
        push = await self.pushes.plan(name, graph_key, EDITOR)
        assert push is not None
        assert push.state == "waiting", push.problems
        return await self.pushes.approve(push.key, REVIEWER)

    async def changes(self, name: str = "shop") -> dict[str, str]:
        """Synchronises; returns what was done with each workflow, by its name."""
        report = await self.connections.sync(name, EDITOR)
        return changes_of(report)


def setting_of(
    database: Database,
    approvals: Approvals,
    connections: Connections,
    keys: KeyStore,
    environment: dict[str, str] | None = None,
    clock: ShiftedClock | None = None,
) -> Setting:
    """Returns connections with what writes to their servers."""
    clock = clock or ShiftedClock()
    environment = {} if environment is None else environment
    records = database.records("default")
    stored = PushRecords(records, approvals)
    pushes = Pushes(stored, approvals, connections, KeptDocuments(keys), clock=clock)
    watch = PushWatch(stored, connections, database.source("default"), records, clock=clock)
    syncs = RunningSyncs(connections, pushes, watch)
    return Setting(
        database,
        approvals,
        connections,
        pushes,
        syncs,
        {} if environment is None else environment,
        clock,
    )


def changes_of(report: PullReport) -> dict[str, str]:
    return {workflow.name: workflow.change for workflow in report.workflows}


def new(address: str, **more: Any) -> NewConnection:
    usual: dict[str, Any] = {"name": "shop", "kind": "n8n", "key": N8N_KEY, "allow_private": True}
    return NewConnection(address=address, **{**usual, **more})


@asynccontextmanager
async def a_setting(
    secret: str | None = SECRET,
    *,
    four_eyes: bool = False,
    opens: OpenEditor = open_editor,
) -> AsyncGenerator[Setting]:
    async with open_nba("default") as database:
        records = database.records("default")
        policy = Policy(four_eyes=four_eyes)
        approvals = Approvals(database.source("default"), records, policy=policy)
        environment: dict[str, str] = {}
        keys = KeyStore(secret, environment)
        connections = Connections(records, approvals, keys, opens=opens)
        yield setting_of(database, approvals, connections, keys, environment)


@pytest.fixture
async def setting() -> AsyncGenerator[Setting]:
    async with a_setting() as made:
        yield made


@pytest.fixture
async def n8n() -> AsyncGenerator[N8nDouble]:
    async with n8n_double() as double:
        yield double


@pytest.fixture
def writable(n8n: N8nDouble) -> N8nDouble:
    """A server of n8n with a key that may write drafts."""
    n8n.scopes = WRITE_SCOPES
    return n8n


def workflow(name: str, *steps: str, **parameters: Any) -> dict[str, Any]:
    """Returns a workflow of n8n: a webhook and steps after it, the last with `parameters`."""
    nodes = [
        {
            "id": f"{number}",
            "name": step,
            "type": "n8n-nodes-base.webhook" if number == 0 else "n8n-nodes-base.set",
            "typeVersion": 2,
            "position": [200 * number, 0],
            "parameters": parameters if number == len(steps) else {},
        }
        for number, step in enumerate(("Webhook", *steps))
    ]
    names = ["Webhook", *steps]
    connections = {
        before: {"main": [[{"node": after, "type": "main", "index": 0}]]}
        for before, after in pairwise(names)
    }
    return {"name": name, "nodes": nodes, "connections": connections, "settings": {}}
