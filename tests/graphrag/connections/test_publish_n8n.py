"""What runs on n8n changes by a publication alone, which is decided apart from pushes."""

import copy

import pytest

from tests.graphrag.connections.conftest import EDITOR, REVIEWER, Setting, workflow
from tests.graphrag.connections.n8n_pushes import connected, puts
from tests.support.workflow_servers import WRITE_SCOPES, N8nDouble


@pytest.mark.slow
async def test_what_runs_never_changes_by_a_push(setting: Setting, writable: N8nDouble) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    writable.run_published(workflow_id)
    live = copy.deepcopy(writable.runs(workflow_id))
    await connected(setting, writable)
    for number in range(50):
        await setting.change("order", "Check", mode=f"m{number}")
        push = await setting.pushed("order")
        assert push.state == "verified", push.reason
        assert [each.code for each in push.effects] == ["push_draft_of_live"]
    assert writable.runs(workflow_id) == live
    assert writable.went_live == []
    assert all("publishIfActive=false" in line for line in puts(writable))


async def test_a_published_workflow_of_a_server_that_would_publish_is_only_read(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.keeps_published = False
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    writable.run_published(workflow_id)
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    assert [each.code for each in push.problems] == ["push_published_read_only"]
    assert puts(writable) == []


async def test_a_publication_is_decided_apart_and_says_whose_drafts_go_live(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.scopes = (*WRITE_SCOPES, "workflow:activate")
    workflow_id = writable.put(workflow("Order", "Check", mode="a", note="x"))
    writable.run_published(workflow_id)
    await connected(setting, writable)
    assert await setting.pushes.plan_publish("shop", "order", EDITOR) is None
    await setting.change("order", "Check", mode="b")
    await setting.pushed("order")
    writable.put(workflow("Order", "Check", mode="b", note="y"), id=workflow_id)
    push = await setting.pushes.plan_publish("shop", "order", EDITOR)
    assert push is not None
    assert {change.place for change in push.changes} == {
        "nodes › Check › parameters › mode",
        "nodes › Check › parameters › note",
    }
    releases = next(each for each in push.effects if each.code == "push_releases")
    assert releases.facts == {"own": "1", "others": "1"}
    assert writable.went_live == []
    assert (await setting.pushes.approve(push.key, REVIEWER)).state == "verified"
    assert writable.runs(workflow_id) == writable.workflows[workflow_id]["nodes"]


async def test_a_publication_that_the_server_refuses_leaves_what_runs(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    writable.run_published(workflow_id)
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    await setting.pushed("order")
    push = await setting.pushes.plan_publish("shop", "order", EDITOR)
    assert push is not None
    ended = await setting.pushes.approve(push.key, REVIEWER)
    assert (ended.state, ended.reason and ended.reason.facts) == ("failed", {"reason": "Forbidden"})
    assert writable.went_live == []


async def test_a_draft_that_somebody_saved_since_is_not_published(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.scopes = (*WRITE_SCOPES, "workflow:activate")
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    push = await setting.pushes.plan_publish("shop", "order", EDITOR)
    assert push is not None
    writable.put(workflow("Order", "Check", mode="c"), id=workflow_id)
    ended = await setting.pushes.approve(push.key, REVIEWER)
    assert (ended.state, ended.reason and ended.reason.code) == ("failed", "push_stale")
    assert writable.went_live == []


async def test_a_draft_without_a_trigger_is_not_published_and_the_reason_is_told(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.scopes = (*WRITE_SCOPES, "workflow:activate")
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    writable.run_published(workflow_id)
    live = copy.deepcopy(writable.runs(workflow_id))
    await connected(setting, writable)
    nodes = await setting.source.get_nodes("order")
    [trigger] = [node for node in nodes if (node.data or {}).get("name") == "Webhook"]
    await setting.delete("order", trigger.key)
    assert (await setting.pushed("order")).state == "verified"
    push = await setting.pushes.plan_publish("shop", "order", EDITOR)
    assert push is not None
    ended = await setting.pushes.approve(push.key, REVIEWER)
    assert ended.state == "failed"
    assert ended.reason is not None
    assert "trigger" in ended.reason.facts["reason"]
    assert writable.runs(workflow_id) == live
