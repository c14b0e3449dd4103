"""Pushes over REST: planned, decided by whom the connection says, read back, taken back."""

from collections.abc import AsyncIterator

import pytest

from datasources.types import Mutation
from server.rest_pushes import PlannedPush, PushAnswer, PushList
from tests.graphrag.connections.conftest import workflow
from tests.server.test_rest_connections import connected, to
from tests.support.service import Service, error_of, service
from tests.support.workflow_servers import WRITE_SCOPES, N8nDouble, n8n_double


@pytest.fixture
async def running() -> AsyncIterator[Service]:
    """A service that looks at no server by itself."""
    async with service() as made:
        yield made


@pytest.fixture
async def n8n() -> AsyncIterator[N8nDouble]:
    async with n8n_double() as double:
        double.scopes = WRITE_SCOPES
        yield double


async def test_a_changed_graph_is_planned_approved_read_back_and_taken_back(
    running: Service, n8n: N8nDouble
) -> None:
    workflow_id = n8n.put(workflow("Order", "Check", limit=1))
    async with (
        running.as_("ann", "admin") as ann,
        running.as_("ed", "editor") as ed,
        running.as_("rose", "reviewer") as rose,
        running.as_("vic", "viewer") as vic,
    ):
        await connected(running, ann, to(n8n, push="approval"))
        nothing = await ed.post("/api/connections/shop/pushes", json={"graph": "order"})
        assert nothing.json() == {}
        await renamed(running, "Check", "Look")
        answer = await ed.post("/api/connections/shop/pushes", json={"graph": "order"})
        push = PlannedPush.model_validate(answer.json()).push
        assert push is not None
        assert (push.state, push.problems) == ("waiting", [])
        assert push.effects[0].text.startswith("The workflow is not published")
        path = f"/api/pushes/{push.id}"
        assert error_of(await ed.post(f"{path}/approve"))["code"] == "forbidden"
        assert error_of(await vic.post(f"{path}/reject"))["code"] == "forbidden"
        sent = PushAnswer.model_validate((await rose.post(f"{path}/approve")).json())
        assert (sent.state, sent.can_be_undone) == ("verified", True)
        assert n8n.workflows[workflow_id]["nodes"][1]["name"] == "Look"
        assert error_of(await rose.post(f"{path}/approve"))["code"] == "conflict"
        undo = PlannedPush.model_validate((await ed.post(f"{path}/undo")).json()).push
        assert undo is not None
        await rose.post(f"/api/pushes/{undo.id}/approve")
        assert n8n.workflows[workflow_id]["nodes"][1]["name"] == "Check"
        listed = PushList.model_validate((await vic.get("/api/pushes")).json())
        assert [(each.action, each.state) for each in listed.pushes] == [
            ("undo", "verified"),
            ("push", "verified"),
        ]
        assert error_of(await vic.get("/api/pushes/none"))["code"] == "not_found"


async def renamed(running: Service, old: str, new: str) -> None:
    """Renames a node of the graph, as somebody does on the page."""
    source = (await running.state.workspace("default")).services.source
    nodes = await source.get_nodes("order")
    [node] = [node for node in nodes if (node.data or {}).get("name") == old]
    changed = node.replace(data={**(node.data or {}), "name": new})
    await source.apply(Mutation(graph_key="order", put_nodes=[changed]))
