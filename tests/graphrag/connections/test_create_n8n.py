"""A graph becomes a new workflow of n8n exactly once, and never beside one of somebody else."""

import asyncio
import json
from typing import Any

import pytest

from graphrag.approvals import Reject
from graphrag.connections.errors import ConnectionRefused
from graphrag.connections.push_run import CARRIED_OUT_MS
from graphrag.connections.stored_push import Push
from graphrag.importers.exchange import import_bytes
from tests.graphrag.connections.conftest import ADMIN, EDITOR, REVIEWER, Setting, new, workflow
from tests.support.faulty_proxy import FaultyProxy, faulty_proxy
from tests.support.waiting import until
from tests.support.workflow_servers import WRITE_SCOPES, N8nDouble


@pytest.mark.parametrize("fault", [None, ("after", "closed"), ("before", "closed")])
async def test_a_graph_becomes_a_workflow_there_exactly_once(
    setting: Setting, writable: N8nDouble, fault: Any
) -> None:
    writable.scopes = (*WRITE_SCOPES, "workflow:create")
    await import_bytes(
        setting.approvals,
        json.dumps(workflow("Return", "Check", mode="a")).encode(),
        ADMIN,
        file_name="return.json",
    )
    async with faulty_proxy(writable.address) as proxy:
        await setting.connections.add(new(proxy.address, key=writable.key, push="ask"), ADMIN)
        push = await setting.pushes.plan_create("shop", "return", EDITOR)
        assert push is not None
        assert push.state == "waiting", push.problems
        assert list(writable.workflows) == []
        proxy.fault = fault
        ended = await setting.pushes.approve(push.key, REVIEWER)
        if fault == ("after", "closed"):
            assert len(writable.workflows.values()) == 1
        if ended.state == "failed":
            await setting.copy(
                "return", "Check", key="added"
            )  # its nodes are not the same any more
            push = await setting.pushes.plan_create("shop", "return", EDITOR)
            assert push is not None
            ended = await setting.pushes.approve(push.key, REVIEWER)
        assert ended.state == "verified", ended.reason
        [created] = writable.workflows.values()
        assert (created["name"], created["active"]) == ("Return", False)
        assert set((await setting.changes()).values()) == {"unchanged"}
        await setting.change("return", "Check", mode="b")
        assert (await setting.pushed("return")).state == "verified"
        assert created["id"] in writable.workflows
        with pytest.raises(ConnectionRefused):
            await setting.pushes.plan_create("shop", "return", EDITOR)


async def test_nothing_is_created_beside_a_workflow_of_somebody_else_with_the_same_nodes(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.scopes = (*WRITE_SCOPES, "workflow:create")
    writable.put(workflow("Theirs", "Check", mode="a"))
    content = json.dumps(workflow("Return", "Check", mode="a")).encode()
    await import_bytes(setting.approvals, content, ADMIN, file_name="return.json")
    chosen = new(writable.address, key=writable.key, push="ask", workflows=("None of them",))
    await setting.connections.add(chosen, ADMIN)
    push = await setting.pushes.plan_create("shop", "return", EDITOR)
    assert push is not None
    ended = await setting.pushes.approve(push.key, REVIEWER)
    assert (ended.state, ended.reason and ended.reason.code) == ("failed", "push_exists_there")
    assert [each["name"] for each in writable.workflows.values()] == ["Theirs"]


async def interrupted(setting: Setting, n8n: N8nDouble, proxy: FaultyProxy) -> Push:
    """Sends a creation and stops at the moment in which the server gets it."""
    n8n.scopes = (*WRITE_SCOPES, "workflow:create")
    content = json.dumps(workflow("Return", "Check", mode="a")).encode()
    await import_bytes(setting.approvals, content, ADMIN, file_name="return.json")
    await setting.connections.add(new(proxy.address, key=n8n.key, push="ask"), ADMIN)
    push = await setting.pushes.plan_create("shop", "return", EDITOR)
    assert push is not None
    sending = asyncio.create_task(setting.pushes.approve(push.key, REVIEWER))
    proxy.before = sending.cancel
    with pytest.raises(asyncio.CancelledError):
        await sending
    proxy.before = None
    await until(lambda: bool(list(n8n.workflows)))
    assert (await setting.pushes.get(push.key)).state == "sent"
    setting.clock.ahead_ms = CARRIED_OUT_MS
    return push


async def test_an_interrupted_creation_is_found_though_every_node_was_replaced_here_since(
    setting: Setting, writable: N8nDouble
) -> None:
    async with faulty_proxy(writable.address) as proxy:
        push = await interrupted(setting, writable, proxy)
        await setting.copy("return", "Check", key="added")
        for node in await setting.source.get_nodes("return"):
            if node.key != "added":
                await setting.delete("return", node.key)
        await setting.syncs.run("shop", EDITOR)
        [created] = writable.workflows.values()
        ended = await setting.pushes.get(push.key)
        assert (ended.state, ended.workflow_id) == ("verified", created["id"])
        assert [node.key for node in await setting.source.get_nodes("return")] == ["added"]
        [graph] = await setting.connections.graphs(await setting.connections.get("shop"), EDITOR)
        assert (graph.link.graph_key, graph.standing) == ("return", "conflict")
        with pytest.raises(ConnectionRefused):
            await setting.pushes.plan_create("shop", "return", EDITOR)
        assert graph.link.approval is not None  # n8n added an address to a node deleted here
        await setting.approvals.decide(graph.link.approval, Reject(), REVIEWER)
        assert (await setting.pushed("return")).state == "verified"
        [created] = writable.workflows.values()
        assert [node["name"] for node in created["nodes"]] == ["Check 2"]


async def test_an_interrupted_creation_is_linked_and_what_was_changed_here_since_is_pushed(
    setting: Setting, writable: N8nDouble
) -> None:
    async with faulty_proxy(writable.address) as proxy:
        await interrupted(setting, writable, proxy)
        await setting.change("return", "Check", mode="b")
        await setting.copy("return", "Check", key="added")
        await setting.syncs.run("shop", EDITOR)
        [graph] = await setting.connections.graphs(await setting.connections.get("shop"), EDITOR)
        assert (graph.link.graph_key, graph.standing) == ("return", "changed_here")
        assert (await setting.pushed("return")).state == "verified"
        [created] = writable.workflows.values()
        modes = {node["name"]: node["parameters"].get("mode") for node in created["nodes"]}
        assert modes == {"Webhook": None, "Check": "b", "Check 2": "b"}


async def test_an_interrupted_creation_of_a_graph_that_was_deleted_since_is_there_once(
    setting: Setting, writable: N8nDouble
) -> None:
    async with faulty_proxy(writable.address) as proxy:
        push = await interrupted(setting, writable, proxy)
        await setting.source.delete_graph("return")
        await setting.syncs.run("shop", EDITOR)
        [created] = writable.workflows.values()
        ended = await setting.pushes.get(push.key)
        assert (ended.state, ended.workflow_id) == ("verified", created["id"])
        assert ended.reason is not None
        assert ended.reason.code == "push_graph_gone"


async def test_a_second_try_after_an_interrupted_creation_that_a_secret_stops_creates_no_second(
    setting: Setting, writable: N8nDouble
) -> None:
    async with faulty_proxy(writable.address) as proxy:
        push = await interrupted(setting, writable, proxy)
        await setting.change("return", "Check", password="(secret left out)")
        with pytest.raises(ConnectionRefused):
            await setting.pushes.plan_create("shop", "return", EDITOR)
        assert (await setting.pushes.get(push.key)).state == "verified"
        assert len(writable.workflows.values()) == 1
