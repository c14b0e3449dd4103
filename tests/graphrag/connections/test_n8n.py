"""Connections with an n8n server."""

import json

import pytest

from datasources.types import Mutation
from graphrag.approvals import Approve, Reject
from graphrag.connections.errors import (
    ConnectionExists,
    ConnectionForbidden,
    ConnectionRefused,
    EditorFault,
    EditorUnreachable,
    WorkflowNotLinked,
)
from graphrag.connections.stored_connection import CONNECTION_KIND, LINK_KIND
from tests.graphrag.connections.conftest import (
    ADMIN,
    EDITOR,
    REVIEWER,
    Setting,
    a_setting,
    new,
    workflow,
)
from tests.support.loopback_api import loopback_api
from tests.support.workflow_servers import N8N_KEY, N8nDouble, n8n_double


async def test_workflows_become_graphs_and_a_quiet_round_reads_the_list_alone(
    setting: Setting, n8n: N8nDouble
) -> None:
    for number in range(5):
        n8n.put(workflow(f"Order {number}", "Check", "Store"))
    n8n.listed = 2  # three pages
    await setting.connections.add(new(n8n.address), ADMIN)
    assert set((await setting.changes()).values()) == {"created"}
    graph = await setting.source.get_graph("order-3")
    assert [node.key for node in await setting.source.get_nodes(graph.key)]
    n8n.api.arrived.clear()
    assert set((await setting.changes()).values()) == {"unchanged"}
    assert {each.what for each in n8n.api.arrived} == {"GET /api/v1/workflows"}


async def test_a_workflow_that_changed_there_changes_its_graph_once(
    setting: Setting, n8n: N8nDouble
) -> None:
    workflow_id = n8n.put(workflow("Order", "Check", mode="a", note="x"))
    await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()
    n8n.put(workflow("Order", "Check", "Store", mode="a", note="x"), id=workflow_id)
    assert await setting.changes() == {"Order": "updated"}
    assert len(await setting.source.get_nodes("order")) == 3
    assert await setting.changes() == {"Order": "unchanged"}


async def test_two_workflows_of_one_name_are_two_graphs_and_stay_so_when_one_is_renamed(
    setting: Setting, n8n: N8nDouble
) -> None:
    first = n8n.put(workflow("Order", "Check"), id="aaaa")
    n8n.put(workflow("Order", "Store"), id="bbbb")
    await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()
    connection = await setting.connections.get("shop")
    graphs = {
        link.workflow_id: link.graph_key for link in await setting.connections.links(connection)
    }
    assert len(set(graphs.values())) == 2
    n8n.put(workflow("Renamed", "Check"), id=first)
    assert (await setting.changes())["Renamed"] == "updated"
    links = await setting.connections.links(connection)
    assert {link.workflow_id: link.graph_key for link in links} == graphs


async def test_what_is_gone_or_archived_there_stays_here(setting: Setting, n8n: N8nDouble) -> None:
    gone = n8n.put(workflow("Gone", "Check"))
    archived = n8n.put(workflow("Archived", "Check"))
    await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()
    del n8n.workflows[gone]
    n8n.workflows[archived]["isArchived"] = True
    for _ in range(2):
        assert await setting.changes() == {"Gone": "gone", "Archived": "archived"}
    assert await setting.source.get_nodes("gone")
    assert await setting.source.get_nodes("archived")


async def test_a_workflow_that_cannot_be_read_is_left_out_and_told_and_others_are_read(
    setting: Setting, n8n: N8nDouble
) -> None:
    bad = n8n.put({"name": "Bad", "nodes": "none", "connections": {}, "settings": {}})
    n8n.put(workflow("Good", "Check"))
    await setting.connections.add(new(n8n.address), ADMIN)
    assert await setting.changes() == {"Bad": "refused", "Good": "created"}
    n8n.put(workflow("Bad", "Check"), id=bad)
    assert await setting.changes() == {"Bad": "created", "Good": "unchanged"}


async def test_only_chosen_workflows_are_read(setting: Setting, n8n: N8nDouble) -> None:
    for name in ("Order in", "Order out", "Secret plan"):
        n8n.put(workflow(name, "Check"))
    await setting.connections.add(new(n8n.address, workflows=("Order*",)), ADMIN)
    assert await setting.changes() == {"Order in": "created", "Order out": "created"}


async def test_no_key_and_no_name_of_an_owner_is_stored_or_shown(
    setting: Setting, n8n: N8nDouble
) -> None:
    n8n.put(workflow("Order", "Check", apiKey="sk-live-0123456789abcdefghij"))
    connection = await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()
    records = setting.database.records("default")
    stored = [
        record.data
        for kind in (CONNECTION_KIND, LINK_KIND, "imports", "audit", "history")
        for record in await records.query(kind, {}, limit=1_000)
    ]
    nodes = [node.to_document() for node in await setting.source.get_nodes("order")]
    graph = (await setting.source.get_graph("order")).to_document()
    everything = json.dumps([stored, nodes, graph, repr(connection)])
    assert "order" in everything
    for secret in (N8N_KEY, "sk-live-0123456789abcdefghij", "owner.example", "Ada Owner"):
        assert secret not in everything


async def test_a_key_in_the_environment_is_read_each_time_and_never_stored(n8n: N8nDouble) -> None:
    async with a_setting(secret=None) as setting:
        n8n.put(workflow("Order", "Check"))
        by_variable = new(n8n.address, key=None, key_variable="SHOP_KEY")
        with pytest.raises(ConnectionRefused, match="SHOP_KEY"):
            await setting.connections.add(by_variable, ADMIN)
        setting.environment["SHOP_KEY"] = N8N_KEY
        await setting.connections.add(by_variable, ADMIN)
        assert await setting.changes() == {"Order": "created"}
        with pytest.raises(ConnectionRefused, match="NODIUS_AUTH_SECRET"):
            await setting.connections.add(new(n8n.address, name="other"), ADMIN)


async def test_a_refused_key_is_tried_once_and_another_key_repairs_the_connection(
    setting: Setting, n8n: N8nDouble
) -> None:
    n8n.put(workflow("Order", "Check"))
    await setting.connections.add(new(n8n.address), ADMIN)
    n8n.api.answers["GET /api/v1/workflows"] = (401, {"message": "Unauthorized"})
    n8n.api.arrived.clear()
    for _ in range(3):
        with pytest.raises(EditorFault) as caught:
            await setting.connections.sync("shop", EDITOR)
        assert caught.value.code == "editor_key_refused"
    assert len(n8n.api.arrived) == 1
    n8n.answer_all()
    await setting.connections.add(new(n8n.address), ADMIN)
    assert await setting.changes() == {"Order": "created"}


async def test_each_wrong_address_and_key_has_a_sentence_of_its_own(
    setting: Setting, n8n: N8nDouble
) -> None:
    async with loopback_api() as other:
        other.answers["GET /api/v1/discover"] = (302, None)
        n8n.scopes = ()
        wrong = {
            "not an address": new("n8n.example.com"),
            "private": new(n8n.address, allow_private=False),
            "credentials of the computer": new("http://169.254.169.254"),
            "nothing there": new("http://127.0.0.1:1"),
            "another service": new(f"{other.url}/elsewhere"),
            "no key": new(n8n.address, key=None),
            "wrong key": new(n8n.address, key="wrong-key-0123456789"),
        }
        said: dict[str, str] = {}
        for name, each in wrong.items():
            with pytest.raises((EditorFault, ConnectionRefused)) as caught:
                await setting.connections.add(each, ADMIN)
            said[name] = str(caught.value)
    assert len(set(said.values())) == len(wrong)
    assert not any(N8N_KEY in text or "wrong-key" in text for text in said.values())
    assert await setting.connections.list() == []


async def test_a_key_that_lacks_a_right_is_connected_and_the_right_named(
    setting: Setting, n8n: N8nDouble
) -> None:
    n8n.scopes = ("workflow:list",)
    connection = await setting.connections.add(new(n8n.address), ADMIN)
    assert connection.missing_rights == ("workflow:read",)
    n8n.put(workflow("Order", "Check"))
    with pytest.raises(EditorFault, match="workflow:read"):
        await setting.connections.sync("shop", EDITOR)


async def test_connections_are_made_by_admins_and_a_name_means_one_server(
    setting: Setting, n8n: N8nDouble
) -> None:
    with pytest.raises(ConnectionForbidden):
        await setting.connections.add(new(n8n.address), EDITOR)
    await setting.connections.add(new(n8n.address), ADMIN)
    with pytest.raises(ConnectionExists):
        await setting.connections.add(new("http://127.0.0.1:1"), ADMIN)
    with pytest.raises(ConnectionForbidden):
        await setting.connections.remove("shop", EDITOR)
    await setting.changes()
    await setting.connections.remove("shop", ADMIN)
    assert await setting.connections.list() == []


async def test_a_field_changed_here_and_there_is_proposed_and_other_fields_are_taken(
    setting: Setting, n8n: N8nDouble
) -> None:
    workflow_id = n8n.put(workflow("Order", "Check", text="as it was", limit=1))
    await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()
    await _set_parameter(setting, "text", "changed here")
    n8n.put(workflow("Order", "Check", text="changed there", limit=2), id=workflow_id)
    assert await setting.changes() == {"Order": "conflict"}
    check = next(node for node in await setting.source.get_nodes("order") if node.key == "check")
    assert check.data["parameters"] == {"text": "changed here", "limit": 2}
    connection = await setting.connections.get("shop")
    (link,) = await setting.connections.links(connection)
    assert link.approval is not None
    assert await setting.changes() == {"Order": "conflict"}  # until somebody decides
    assert await standing(setting) == "conflict"
    await setting.approvals.decide(link.approval, Approve(), REVIEWER)
    assert await standing(setting) == "in_step"
    assert await setting.changes() == {"Order": "unchanged"}
    assert await standing(setting) == "in_step"
    (check,) = [node for node in await setting.source.get_nodes("order") if node.key == "check"]
    assert check.data["parameters"] == {"text": "changed there", "limit": 2}


async def test_a_rejected_conflict_leaves_a_graph_that_is_changed_here(
    setting: Setting, n8n: N8nDouble
) -> None:
    workflow_id = n8n.put(workflow("Order", "Check", text="as it was"))
    await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()
    await _set_parameter(setting, "text", "changed here")
    n8n.put(workflow("Order", "Check", text="changed there"), id=workflow_id)
    await setting.changes()
    connection = await setting.connections.get("shop")
    (link,) = await setting.connections.links(connection)
    assert link.approval is not None
    await setting.approvals.decide(link.approval, Reject(), REVIEWER)
    for _ in range(2):
        assert await standing(setting) == "changed_here"
        assert await setting.changes() == {"Order": "unchanged"}
    await _set_parameter(setting, "text", "changed there")
    await setting.changes()
    assert await standing(setting) == "in_step"


async def test_a_change_here_is_told_until_it_is_taken_back_also_after_a_merge(
    setting: Setting, n8n: N8nDouble
) -> None:
    workflow_id = n8n.put(workflow("Order", "Check", text="as it was", limit=1))
    await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()
    assert await standing(setting) == "in_step"
    await _set_parameter(setting, "text", "changed here")
    assert await standing(setting) == "changed_here"
    n8n.put(workflow("Order", "Check", text="as it was", limit=2), id=workflow_id)
    assert await setting.changes() == {"Order": "updated"}
    assert await standing(setting) == "changed_here"
    await _set_parameter(setting, "text", "as it was")
    await setting.changes()
    assert await standing(setting) == "in_step"


async def test_both_sides_are_compared_with_the_last_synchronised_document(
    setting: Setting, n8n: N8nDouble
) -> None:
    workflow_id = n8n.put(workflow("Order", "Check", text="as it was", limit=1))
    await setting.connections.add(new(n8n.address), ADMIN)
    await setting.changes()
    same = await setting.connections.compare("shop", workflow_id, EDITOR)
    assert (same.graph.standing, same.differences and same.differences.here) == ("in_step", {})
    await _set_parameter(setting, "text", "changed here")
    n8n.put(workflow("Order", "Check", text="as it was", limit=2), id=workflow_id)
    both = await setting.connections.compare("shop", workflow_id, EDITOR)
    assert both.graph.standing == "changed_both"
    assert both.graph.page == f"{n8n.address}/workflow/{workflow_id}"
    assert both.differences is not None
    paths = [
        [".".join(field["path"]) for node in side["nodesChanged"] for field in node["fields"]]
        for side in (both.differences.here, both.differences.there)
    ]
    assert paths == [["data.parameters.text"], ["data.parameters.limit"]]
    assert await setting.changes() == {"Order": "updated"}  # nothing was stored by comparing
    with pytest.raises(WorkflowNotLinked):
        await setting.connections.compare("shop", "unknown", EDITOR)


async def test_a_server_that_is_away_is_told_with_the_time_until_it_answers(
    setting: Setting,
) -> None:
    async with n8n_double() as n8n:
        workflow_id = n8n.put(workflow("Order", "Check"))
        workflows = dict(n8n.workflows)
        await setting.connections.add(new(n8n.address), ADMIN)
        await setting.changes()
    since: set[int | None] = set()
    for _ in range(2):
        with pytest.raises(EditorUnreachable):
            await setting.changes()
        since.add((await setting.connections.get("shop")).unreachable_since_time)
    assert len(since) == 1
    assert None not in since
    assert await standing(setting) == "unreachable"
    async with n8n_double(n8n.api.port) as again:
        again.put(workflows[workflow_id], id=workflow_id)
        await setting.changes()
        assert await standing(setting) == "in_step"


async def standing(setting: Setting) -> str:
    """Returns where the only workflow of `shop` and its graph stand."""
    connection = await setting.connections.get("shop")
    (graph,) = await setting.connections.graphs(connection, EDITOR)
    return graph.standing


async def _set_parameter(setting: Setting, name: str, value: str) -> None:
    """Changes a parameter of the node `check`, as somebody does who edits the graph here."""
    graph = await setting.source.get_graph("order")
    check = next(node for node in await setting.source.get_nodes("order") if node.key == "check")
    parameters = {**check.data["parameters"], name: value}
    changed = check.replace(data={**check.data, "parameters": parameters})
    mutation = Mutation(graph_key="order", put_nodes=[changed])
    await setting.source.apply(mutation, expected_revision=graph.revision)
