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
from graphrag.approvals import Approvals, Person
from graphrag.connections import Connections, NewConnection, PullReport
from graphrag.connections.key_store import KeyStore
from tests.support.workflow_servers import N8N_KEY, N8nDouble, n8n_double

ADMIN = Person("ann", "admin", "default")
EDITOR = Person("ed", "editor", "default")
REVIEWER = Person("rose", "reviewer", "default")
SECRET = "a secret of the service, 32 characters"


@dataclass
class Setting:
    """The connections under test and the database they write to."""

    database: Database
    approvals: Approvals
    connections: Connections
    environment: dict[str, str]

    @property
    def source(self) -> Any:
        return self.database.source("default")

    async def changes(self, name: str = "shop") -> dict[str, str]:
        """Synchronises; returns what was done with each workflow, by its name."""
        report = await self.connections.sync(name, EDITOR)
        return changes_of(report)


def changes_of(report: PullReport) -> dict[str, str]:
    return {workflow.name: workflow.change for workflow in report.workflows}


def new(address: str, **more: Any) -> NewConnection:
    usual: dict[str, Any] = {"name": "shop", "kind": "n8n", "key": N8N_KEY, "allow_private": True}
    return NewConnection(address=address, **{**usual, **more})


@asynccontextmanager
async def a_setting(secret: str | None = SECRET) -> AsyncGenerator[Setting]:
    async with open_nba("default") as database:
        records = database.records("default")
        approvals = Approvals(database.source("default"), records)
        environment: dict[str, str] = {}
        keys = KeyStore(secret, environment)
        yield Setting(database, approvals, Connections(records, approvals, keys), environment)


@pytest.fixture
async def setting() -> AsyncGenerator[Setting]:
    async with a_setting() as made:
        yield made


@pytest.fixture
async def n8n() -> AsyncGenerator[N8nDouble]:
    async with n8n_double() as double:
        yield double


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
