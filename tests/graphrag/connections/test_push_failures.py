"""Runs that fail on n8n in the minutes after a push are told with it."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from graphrag.connections.push_watch import WATCH_MS
from graphrag.connections.stored_push import Push
from tests.graphrag.connections.conftest import EDITOR, REVIEWER, Setting
from tests.graphrag.connections.n8n_pushes import connected
from tests.support.workflow_servers import RUN_SCOPES, WRITE_SCOPES, N8nDouble

FAILED = {"node": "Stop", "message": "no such order"}


def stopping(message: str) -> dict[str, Any]:
    """Returns a workflow that fails with this message when its address is called."""
    path = secrets.token_hex(8)
    nodes = [
        {
            "id": "0",
            "name": "Webhook",
            "type": "n8n-nodes-base.webhook",
            "typeVersion": 2,
            "position": [0, 0],
            "parameters": {"path": path},
        },
        {
            "id": "1",
            "name": "Stop",
            "type": "n8n-nodes-base.stopAndError",
            "typeVersion": 1,
            "position": [200, 0],
            "parameters": {"errorMessage": message},
        },
    ]
    connections = {"Webhook": {"main": [[{"node": "Stop", "type": "main", "index": 0}]]}}
    return {"name": "Order", "nodes": nodes, "connections": connections, "settings": {}}


async def published(setting: Setting, n8n: N8nDouble, message: str = "no such order") -> Push:
    """Connects with a workflow, writes a message to it and publishes that; returns the
    publication.
    """
    n8n.scopes = (*WRITE_SCOPES, "workflow:activate", *RUN_SCOPES)
    workflow_id = n8n.put(stopping("as it was"))
    n8n.run_published(workflow_id)
    await connected(setting, n8n)
    await setting.change("order", "Stop", errorMessage=message)
    assert (await setting.pushed("order")).state == "verified"
    push = await setting.pushes.plan_publish("shop", "order", EDITOR)
    assert push is not None
    return await setting.pushes.approve(push.key, REVIEWER)


async def failures(setting: Setting, push: Push) -> list[dict[str, str]]:
    """Synchronises; returns what is told with a push."""
    await setting.syncs.run("shop", EDITOR)
    return [each.facts for each in (await setting.pushes.get(push.key)).failures]


async def test_a_run_that_fails_after_a_publication_is_told_with_it_once(
    setting: Setting, writable: N8nDouble
) -> None:
    push = await published(setting, writable)
    assert await failures(setting, push) == []
    for _ in range(2):
        writable.fail(push.workflow_id)
        assert await failures(setting, push) == [FAILED]
    [older] = [each for each in await setting.pushes.list() if each.key != push.key]
    assert older.failures == ()


async def test_a_failure_of_the_version_that_ran_before_is_not_told_with_a_draft(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.scopes = (*WRITE_SCOPES, "workflow:activate", *RUN_SCOPES)
    workflow_id = writable.put(stopping("as it was"))
    writable.run_published(workflow_id)
    await connected(setting, writable)
    await setting.change("order", "Stop", errorMessage="no such order")
    push = await setting.pushed("order")
    writable.fail(workflow_id)
    assert await failures(setting, push) == []
    writable.run_published(workflow_id)  # a person does, on the server's page
    writable.fail(workflow_id)
    assert await failures(setting, push) == [FAILED]


async def test_a_message_with_a_secret_is_told_without_it_and_no_data_of_the_run_is_kept(
    setting: Setting, writable: N8nDouble
) -> None:
    secret = "sk-live-0123456789abcdefghij"
    push = await published(setting, writable, f"refused: Bearer {secret} " + "x" * 5_000)
    writable.runs_kept.clear()
    writable.fail(push.workflow_id)
    [failure] = await failures(setting, push)
    stored = (await setting.pushes.get(push.key)).model_dump_json(exclude={"sealed_documents"})
    assert failure["message"].startswith("refused: ")
    assert len(failure["message"]) <= 300
    assert "at …" not in stored
    assert secret not in failure["message"]


async def test_a_key_that_may_not_read_runs_is_told_once_and_not_asked_again(
    setting: Setting, writable: N8nDouble
) -> None:
    push = await published(setting, writable)
    writable.scopes = WRITE_SCOPES
    for _ in range(2):
        await setting.syncs.run("shop", EDITOR)
        warnings = (await setting.pushes.get(push.key)).warnings
        assert [each.code for each in warnings] == ["push_failures_unread"]
    of_both = [each for each in writable.api.arrived if "executions" in each.line]
    assert len(of_both) == 2  # one each for the push and the publication


async def test_runs_are_read_until_the_minutes_are_over_also_where_nobody_looked_in_them(
    setting: Setting, writable: N8nDouble
) -> None:
    push = await published(setting, writable)
    writable.fail(push.workflow_id)
    setting.clock.ahead_ms = 10 * WATCH_MS
    assert await failures(setting, push) == [FAILED]
    writable.api.arrived.clear()
    await setting.syncs.run("shop", EDITOR)
    assert [each.line for each in writable.api.arrived if "executions" in each.line] == []


@pytest.mark.parametrize("status", [404, 500])
async def test_a_server_that_does_not_tell_its_runs_is_synchronised_all_the_same(
    setting: Setting, writable: N8nDouble, status: int
) -> None:
    push = await published(setting, writable)
    writable.api.answers["GET /api/v1/executions"] = (status, {"message": "no"})
    assert await failures(setting, push) == []
    assert (await setting.connections.get("shop")).last_error is None
