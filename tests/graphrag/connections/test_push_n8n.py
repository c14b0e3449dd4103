"""What is changed here is written to n8n: those fields, once, and nothing goes live by it."""

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from graphrag.approvals import NotAllowed, Person
from graphrag.connections.errors import ConnectionRefused, PushDecided
from graphrag.connections.stored_push import PUSH_KIND, Push
from graphrag.importers.exchange import import_bytes
from tests.graphrag.connections.conftest import (
    ADMIN,
    EDITOR,
    REVIEWER,
    Setting,
    a_setting,
    new,
    workflow,
)
from tests.support.data_files import workflow_batches
from tests.support.faulty_proxy import faulty_proxy
from tests.support.workflow_servers import N8N_NODE_FIELDS, WRITE_SCOPES, N8nDouble, n8n_double

SECRETS = {
    "password": "correct-horse-battery-1",
    "url": "https://ann:pass-in-address-77@api.example.org/orders?api_key=sk_live_0123456789abcdefABCD",
    "headers": {
        "parameters": [
            {"name": "Authorization", "value": "Bearer abcdefghijklmnopqrstuvwxyz0123456789"},
            {"name": "X-Api-Key", "value": "k-0123456789abcdef0123456789abcdef"},
            {"name": "Accept", "value": "application/json"},
        ]
    },
    "jsCode": "const token = 'ghp_0123456789abcdefghijABCDEFGHIJ0123';\nreturn items;",
}


@pytest.fixture
async def writable(setting: Setting, n8n: N8nDouble) -> N8nDouble:
    n8n.scopes = WRITE_SCOPES
    return n8n


async def connected(setting: Setting, n8n: N8nDouble, **more: Any) -> None:
    await setting.connections.add(new(n8n.address, push="ask", key=n8n.key, **more), ADMIN)
    await setting.changes()


def puts(n8n: N8nDouble) -> list[str]:
    """Returns the request lines of updates; none of a running n8n, which keeps no list."""
    if not isinstance(n8n, N8nDouble):
        return []
    return [each.line for each in n8n.api.arrived if each.line.startswith("PUT ")]


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Returns the places at which two documents differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            place
            for name in one.keys() | other.keys()
            for place in differences(one.get(name), other.get(name), f"{path}.{name}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            place
            for number, (left, right) in enumerate(zip(one, other, strict=True))
            for place in differences(left, right, f"{path}[{number}]")
        ]
    return [] if one == other else [path]


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


@pytest.mark.parametrize("theirs", ["same field", "another field"])
async def test_a_version_written_while_ours_is_written_is_not_lost(
    setting: Setting, writable: N8nDouble, theirs: str
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a", note="x"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    fields = {"mode": "c", "note": "x"} if theirs == "same field" else {"mode": "a", "note": "y"}

    def write() -> None:
        writable.between = None
        writable.put(workflow("Order", "Check", **fields), id=workflow_id)

    writable.between = write
    push = await setting.pushed("order")
    parameters = writable.workflows[workflow_id]["nodes"][1]["parameters"]
    if theirs == "same field":
        assert push.state == "failed"
        assert push.reason is not None
        assert push.reason.code == "push_overlap"
        assert parameters == fields
        assert await setting.changes() == {"Order": "conflict"}
    else:
        assert push.state == "verified", push.reason
        assert parameters == {"mode": "b", "note": "y"}


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


def with_secrets(document: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Returns a workflow with a secret and a note in each node, and the name of a step."""
    nodes = [
        {name: value for name, value in node.items() if name in N8N_NODE_FIELDS}
        for node in document["nodes"]
    ]
    for number, node in enumerate(nodes):
        parameters = node.get("parameters") or {}
        secret = {"password": f"correct-horse-battery-{number}", "note": "a"}
        node["parameters"] = {**parameters, **secret}
    steps = [node["name"] for node in nodes if "stickyNote" not in node["type"]]
    settings = document.get("settings") or {}
    return {**document, "nodes": nodes, "settings": settings}, steps[-1]


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


@pytest.mark.slow
async def test_of_versions_written_while_ours_are_written_none_is_lost(
    setting: Setting, writable: N8nDouble
) -> None:
    rounds = 50
    workflow_id = writable.put(workflow("Order", "Check", mode="0", note="0"))
    await connected(setting, writable)
    for number in range(1, rounds):
        note = str(number) if number % 3 else None

        def write(note: str | None = note) -> None:
            writable.between = None
            nodes = copy.deepcopy(writable.workflows[workflow_id]["nodes"])
            if note is not None:
                nodes[1]["parameters"]["note"] = note
                document = {**writable.workflows[workflow_id], "nodes": nodes}
                writable.put(document, id=workflow_id)

        old = writable.workflows[workflow_id]["nodes"][1]["parameters"]["note"]
        writable.between = write
        await setting.change("order", "Check", mode=str(number))
        push = await setting.pushed("order")
        assert push.state == "verified", push.reason
        there = writable.workflows[workflow_id]["nodes"][1]["parameters"]
        assert (there["mode"], there["note"]) == (str(number), note or old)


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


async def test_a_page_that_is_saved_over_a_push_is_noticed(
    setting: Setting, writable: N8nDouble
) -> None:
    old = workflow("Order", "Check", mode="a", note="x")
    workflow_id = writable.put(old)
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    push = await setting.pushed("order")
    await setting.syncs.run("shop", EDITOR)
    assert (await setting.pushes.get(push.key)).state == "verified"
    writable.put(workflow("Order", "Check", mode="a", note="y"), id=workflow_id)
    await setting.syncs.run("shop", EDITOR)
    assert (await setting.pushes.get(push.key)).state == "undone"
    assert await setting.pushes.plan("shop", "order", EDITOR) is None  # theirs was taken


async def test_pushes_of_many_at_once_are_sent_in_turn_and_all_verified(
    setting: Setting, writable: N8nDouble
) -> None:
    names = [f"Order {number}" for number in range(10)]
    ids = [writable.put(workflow(name, "Check", mode="a")) for name in names]
    await connected(setting, writable)
    people = [Person(f"p{number}", "reviewer", "default") for number in range(5)]
    planned: list[Push] = []
    for number in range(10):
        await setting.change(f"order-{number}", "Check", mode="b")
        push = await setting.pushes.plan("shop", f"order-{number}", EDITOR)
        assert push is not None
        planned.append(push)
    ended = await asyncio.gather(
        *(
            setting.pushes.approve(push.key, people[number % 5])
            for number, push in enumerate(planned)
        )
    )
    assert [push.state for push in ended] == ["verified"] * 10
    assert len(puts(writable)) == 10
    modes = [writable.workflows[one]["nodes"][1]["parameters"]["mode"] for one in ids]
    assert modes == ["b"] * 10


async def test_a_push_is_sent_once_however_many_approve_it(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    outcomes = await asyncio.gather(
        *(setting.pushes.approve(push.key, REVIEWER) for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(each, PushDecided) for each in outcomes) == 4
    assert len(puts(writable)) == 1


async def test_a_push_that_is_rejected_while_it_is_sent_ends_as_it_was_sent(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    outcomes = await asyncio.gather(
        setting.pushes.approve(push.key, REVIEWER),
        *(setting.pushes.reject(push.key, ADMIN) for _ in range(3)),
        return_exceptions=True,
    )
    state = (await setting.pushes.get(push.key)).state
    assert len(puts(writable)) == (state == "verified")
    assert sum(not isinstance(each, BaseException) for each in outcomes) == 1


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
