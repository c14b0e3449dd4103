"""A service that is killed in the middle of a push: the server gets it once or not at all, and what
is stored says which.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from graphrag.approvals import Approvals
from graphrag.connections import Connections
from graphrag.connections.key_store import KeyStore
from graphrag.importers.exchange import import_bytes
from tests.concurrency.killing import killing, last_write
from tests.graphrag.connections.conftest import (
    ADMIN,
    EDITOR,
    REVIEWER,
    SECRET,
    Setting,
    ShiftedClock,
    new,
    setting_of,
    workflow,
)
from tests.support.chosen_database import database_in
from tests.support.workflow_servers import WRITE_SCOPES, N8nDouble, n8n_double

pytestmark = pytest.mark.slow

LATER_MS = 3_600_000
"""A service that begins so much later finds no lease of the dead one."""


@asynccontextmanager
async def opened(path: Path, *, later_ms: int = 0) -> AsyncGenerator[Setting]:
    async with database_in(path) as database:
        records = database.records("default")
        approvals = Approvals(database.source("default"), records)
        keys = KeyStore(SECRET, {})
        clock = ShiftedClock(later_ms)
        connections = Connections(records, approvals, keys, clock=clock)
        yield setting_of(database, approvals, connections, keys, clock=clock)


async def approve_push(path: Path, push_id: str) -> None:
    async with opened(path) as setting:
        await setting.pushes.approve(push_id, REVIEWER)


async def prepared(folder: Path, n8n: N8nDouble) -> tuple[str, str]:
    """Makes `start.db` with a push that waits; returns the ids of the workflow and the push."""
    n8n.scopes = WRITE_SCOPES
    workflow_id = n8n.put(workflow("Order", "Check", mode="a"))
    async with opened(folder / "start.db") as setting:
        await setting.connections.add(new(n8n.address, push="ask"), ADMIN)
        await setting.changes()
        await setting.change("order", "Check", mode="b")
        push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    return workflow_id, push.key


async def test_a_push_killed_at_any_write_is_there_once_or_not_and_is_known(
    tmp_path: Path,
) -> None:
    async with n8n_double() as n8n:
        workflow_id, push_id = await prepared(tmp_path, n8n)
        before = copy.deepcopy((n8n.workflows, n8n.versions))
        ends: dict[str, int] = {}
        async with killing(approve_push, tmp_path, push_id) as killed_at:

            async def from_the_start(write: int) -> bool:
                n8n.workflows, n8n.versions = copy.deepcopy(before)
                n8n.api.arrived.clear()
                return await killed_at(write)

            last = await last_write(from_the_start)
            assert last >= 15
            for write in range(1, last + 1):
                assert await from_the_start(write)
                state = await checked(tmp_path / f"{write}.db", n8n, workflow_id, push_id)
                ends[state] = ends.get(state, 0) + 1
        assert ends.keys() == {"waiting", "failed", "verified"}, ends


async def checked(path: Path, n8n: N8nDouble, workflow_id: str, push_id: str) -> str:
    """Returns how a push of a dead service stands after another one has looked, and finishes it."""

    def mode() -> str:
        return str(n8n.workflows[workflow_id]["nodes"][1]["parameters"]["mode"])

    async with opened(path, later_ms=LATER_MS) as setting:
        await setting.pushes.settle("shop", ADMIN)
        push = await setting.pushes.get(push_id)
        puts = [each for each in n8n.api.arrived if each.line.startswith("PUT ")]
        assert len(puts) <= 1
        assert (push.state == "verified") == (mode() == "b"), push.reason
        if push.state == "waiting":
            assert (await setting.pushes.approve(push_id, REVIEWER)).state == "verified"
        elif push.state == "failed":
            assert (await setting.pushed("order")).state == "verified"
        assert mode() == "b"
        assert set((await setting.changes()).values()) == {"unchanged"}
        assert await setting.pushes.plan("shop", "order", EDITOR) is None
    return push.state


async def test_a_creation_killed_at_any_write_is_there_once_though_the_graph_was_changed_since(
    tmp_path: Path,
) -> None:
    content = json.dumps(workflow("Return", "Check", mode="a")).encode()
    async with n8n_double() as n8n:
        n8n.scopes = (*WRITE_SCOPES, "workflow:create")
        async with opened(tmp_path / "start.db") as setting:
            await import_bytes(setting.approvals, content, ADMIN, file_name="return.json")
            await setting.connections.add(new(n8n.address, push="ask"), ADMIN)
            push = await setting.pushes.plan_create("shop", "return", EDITOR)
        assert push is not None
        ends: Counter[str] = Counter()
        async with killing(approve_push, tmp_path, push.key) as killed_at:

            async def from_the_start(write: int) -> bool:
                n8n.workflows.clear()
                n8n.versions.clear()
                return await killed_at(write)

            last = await last_write(from_the_start)
            assert last >= 5
            for write in range(1, last + 1):
                assert await from_the_start(write)
                ends[await created_once(tmp_path / f"{write}.db", n8n, push.key)] += 1
        assert ends.keys() == {"waiting", "failed", "verified"}, ends


async def created_once(path: Path, n8n: N8nDouble, push_id: str) -> str:
    """Returns how a creation of a dead service stands, after the graph was changed and another
    service has looked; finishes it.
    """
    async with opened(path, later_ms=LATER_MS) as setting:
        await setting.copy("return", "Check", key="added")
        await setting.pushes.settle("shop", ADMIN)
        push = await setting.pushes.get(push_id)
        assert (push.state == "verified") == (len(n8n.workflows) == 1), push.reason
        if push.state != "verified":
            again = await setting.pushes.plan_create("shop", "return", EDITOR)
            assert again is not None
            assert (await setting.pushes.approve(again.key, REVIEWER)).state == "verified"
        elif await setting.pushes.plan("shop", "return", EDITOR) is not None:
            assert (await setting.pushed("return")).state == "verified"
        [created] = n8n.workflows.values()
        names = sorted(node["name"] for node in created["nodes"])
        assert names == ["Check", "Check 2", "Webhook"]
        assert set((await setting.changes()).values()) == {"unchanged"}
    return push.state
