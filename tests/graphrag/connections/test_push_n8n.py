"""What is changed here is written to n8n: those fields, and nothing else of a workflow."""

import copy
import json
from pathlib import Path

import pytest

from graphrag.approvals import NotAllowed
from graphrag.connections.errors import ConnectionRefused, PushDecided
from graphrag.connections.stored_push import PUSH_KIND
from tests.graphrag.connections.conftest import (
    ADMIN,
    EDITOR,
    REVIEWER,
    Setting,
    a_setting,
    new,
    workflow,
)
from tests.graphrag.connections.n8n_pushes import (
    SECRETS,
    connected,
    differences,
    puts,
    with_secrets,
)
from tests.support.data_files import workflow_batches
from tests.support.server_fronts import PAGE
from tests.support.workflow_servers import WRITE_SCOPES, N8nDouble, n8n_double


async def test_one_parameter_is_written_and_the_rest_of_the_workflow_stays(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a", note="x", **SECRETS))
    await connected(setting, writable)
    before = copy.deepcopy(writable.workflows[workflow_id])
    await setting.change("order", "Check", mode="b")
    push = await setting.pushed("order")
    assert push.state == "verified", push.reason
    assert [change.place for change in push.changes] == ["nodes › Check › parameters › mode"]
    after = writable.workflows[workflow_id]
    assert set(differences(before, after)) == {
        ".nodes[1].parameters.mode",
        ".versionId",
        ".versionCounter",
        ".updatedAt",
    }
    assert await setting.changes() == {"Order": "unchanged"}
    assert await setting.pushes.plan("shop", "order", EDITOR) is None


async def test_no_stored_record_of_a_push_holds_a_secret(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.put(workflow("Order", "Check", mode="a", **SECRETS))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    await setting.pushed("order")
    records = setting.database.records("default")
    stored = [str(one.data) for one in await records.query(PUSH_KIND, {}, limit=10)]
    stored += [str(one.data) for one in await records.query("audit", {}, limit=100)]
    found = [
        secret
        for secret in ("correct-horse", "pass-in-address", "ghp_0123", "abcdefghijklmnop")
        if any(secret in each for each in stored)
    ]
    assert found == []


async def test_a_changed_field_that_holds_a_placeholder_is_refused_by_its_place(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", **SECRETS))
    await connected(setting, writable)
    before = copy.deepcopy(writable.workflows[workflow_id])
    await setting.change("order", "Check", password="(secret left out)!")
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    assert push.state == "refused"
    assert [each.code for each in push.problems] == ["push_secret"]
    assert "Check › parameters › password" in push.problems[0].facts["place"]
    with pytest.raises(PushDecided):
        await setting.pushes.approve(push.key, REVIEWER)
    assert writable.workflows[workflow_id] == before


async def test_what_changed_there_and_here_in_other_fields_is_both_kept(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a", note="x"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    writable.put(workflow("Order", "Check", mode="a", note="y"), id=workflow_id)
    push = await setting.pushed("order")
    assert push.state == "verified", push.reason
    parameters = writable.workflows[workflow_id]["nodes"][1]["parameters"]
    assert parameters == {"mode": "b", "note": "y"}
    assert await setting.changes() == {"Order": "unchanged"}


async def test_the_same_field_changed_there_and_here_is_a_conflict_and_not_written(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    writable.put(workflow("Order", "Check", mode="c"), id=workflow_id)
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    assert push.state == "refused"
    assert push.problems[0].code == "push_conflict"
    assert await setting.approvals.get(push.problems[0].facts["approval"], ADMIN)
    assert puts(writable) == []


async def test_a_key_that_may_only_read_leaves_the_workflow_and_names_the_refusal(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.scopes = WRITE_SCOPES[:2]
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    before = copy.deepcopy(writable.workflows[workflow_id])
    await setting.change("order", "Check", mode="b")
    push = await setting.pushed("order")
    assert push.state == "failed"
    assert push.reason is not None
    assert push.reason.code == "push_read_only"
    assert writable.workflows[workflow_id] == before


async def test_a_page_of_a_proxy_that_stops_a_write_is_not_told_as_a_key_that_may_only_read(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    writable.api.answers[f"PUT /api/v1/workflows/{workflow_id}"] = (403, PAGE)
    push = await setting.pushed("order")
    assert push.state == "failed"
    assert push.reason is not None
    assert (push.reason.code, push.reason.facts) == ("push_refused", {"reason": "HTTP 403"})


async def test_a_version_that_no_workflow_there_uses_is_refused_before(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.replace("order", "Check", type_version=999)
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    assert [each.code for each in push.problems] == ["push_version_unknown"]
    assert puts(writable) == []


async def test_a_node_of_a_type_that_n8n_does_not_have_is_refused_before(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.copy("order", "Check", key="new", type="community.unknown")
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    assert [each.code for each in push.problems] == ["push_left_out"]
    assert puts(writable) == []


async def test_a_secret_that_is_typed_here_is_written_and_not_stored_with_the_push(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", **SECRETS))
    await connected(setting, writable)
    await setting.change("order", "Check", password="a-new-secret-4711")
    push = await setting.pushed("order")
    assert push.state == "verified", push.reason
    parameters = writable.workflows[workflow_id]["nodes"][1]["parameters"]
    assert parameters == {**SECRETS, "password": "a-new-secret-4711"}
    assert "4711" not in push.model_dump_json()


async def test_an_undo_gives_the_server_and_the_graph_what_they_had(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a", **SECRETS))
    await connected(setting, writable)
    before = copy.deepcopy(writable.workflows[workflow_id]["nodes"])
    await setting.change("order", "Check", mode="b")
    push = await setting.pushed("order")
    undo = await setting.pushes.plan_undo(push.key, EDITOR)
    assert undo is not None
    assert (await setting.pushes.approve(undo.key, REVIEWER)).state == "verified"
    assert writable.workflows[workflow_id]["nodes"] == before
    nodes = await setting.source.get_nodes("order")
    modes = [(node.data or {}).get("parameters", {}).get("mode") for node in nodes]
    assert "a" in modes
    assert "b" not in modes


async def test_an_undo_is_refused_where_the_field_was_changed_since(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    push = await setting.pushed("order")
    writable.put(workflow("Order", "Check", mode="c"), id=workflow_id)
    undo = await setting.pushes.plan_undo(push.key, EDITOR)
    assert undo is not None
    assert undo.state == "refused"
    assert undo.problems[0].code == "push_undo_conflict"


async def test_a_connection_only_reads_unless_it_was_made_to_write(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.put(workflow("Order", "Check", mode="a"))
    await setting.connections.add(new(writable.address), ADMIN)
    await setting.changes()
    await setting.change("order", "Check", mode="b")
    with pytest.raises(ConnectionRefused) as caught:
        await setting.pushes.plan("shop", "order", EDITOR)
    assert caught.value.code == "push_never"


async def test_four_eyes_and_reviewers_hold_for_pushes(n8n: N8nDouble) -> None:
    async with a_setting(four_eyes=True) as setting:
        n8n.scopes = WRITE_SCOPES
        n8n.put(workflow("Order", "Check", mode="a"))
        await setting.connections.add(new(n8n.address, push="approval"), ADMIN)
        await setting.changes()
        await setting.change("order", "Check", mode="b")
        push = await setting.pushes.plan("shop", "order", REVIEWER)
        assert push is not None
        for person in (EDITOR, REVIEWER):
            with pytest.raises(NotAllowed):
                await setting.pushes.approve(push.key, person)
        assert puts(n8n) == []
        assert (await setting.pushes.approve(push.key, ADMIN)).state == "verified"


async def test_a_push_that_was_planned_for_another_change_is_not_sent(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    await setting.change("order", "Check", mode="z")
    ended = await setting.pushes.approve(push.key, REVIEWER)
    assert (ended.state, ended.reason and ended.reason.code) == ("failed", "push_stale")
    assert puts(writable) == []


@pytest.mark.parametrize("files", workflow_batches("n8n-*.json"))
async def test_a_field_beside_a_secret_is_written_alone_to_every_workflow(
    files: list[Path],
) -> None:
    for file in files:
        document, step = with_secrets(json.loads(file.read_bytes()))
        async with a_setting() as setting, n8n_double() as n8n:
            n8n.scopes = WRITE_SCOPES
            workflow_id = n8n.put(document)
            await connected(setting, n8n)
            before = copy.deepcopy(n8n.workflows[workflow_id])
            [link] = await setting.connections.links(await setting.connections.get("shop"))
            assert await setting.pushes.plan("shop", link.graph_key, EDITOR) is None, file.name
            await setting.change_note(link.graph_key, step)
            push = await setting.pushed(link.graph_key)
            places = set(differences(before, n8n.workflows[workflow_id]))
            changed = places - {".versionId", ".versionCounter", ".updatedAt"}
            if push.state == "failed":  # n8n does not accept the workflow as it is
                assert push.reason is not None
                assert (push.reason.code, changed) == ("push_refused", set()), file.name
            else:
                assert push.state == "verified", (file.name, push.reason)
                [place] = changed
                assert place.endswith(".parameters.note"), file.name


async def test_new_nodes_are_written_also_those_that_n8n_completes(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.copy("order", "Webhook", key="second")
    push = await setting.pushed("order")
    assert push.state == "verified", push.reason
    nodes = writable.workflows[workflow_id]["nodes"]
    assert [node["name"] for node in nodes] == ["Webhook", "Check", "Webhook 2"]
    assert nodes[2]["webhookId"] != nodes[0]["webhookId"]
    assert set((await setting.changes()).values()) == {"unchanged"}
    undo = await setting.pushes.plan_undo(push.key, EDITOR)
    assert undo is not None
    assert (await setting.pushes.approve(undo.key, REVIEWER)).state == "verified"
    assert len(writable.workflows[workflow_id]["nodes"]) == 2
