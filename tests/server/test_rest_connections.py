"""Connections with workflow servers over REST: their whole life, errors in place, roles."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.rest_connections import ConnectionDetail, GraphConnections, WorkflowComparison
from tests.graphrag.connections.conftest import ADMIN, new, workflow
from tests.graphrag.connections.test_node_red import flow
from tests.server.test_ws_sync import LATE
from tests.support.chosen_database import address_in
from tests.support.databases import nba_file
from tests.support.service import GRAPH, Service, error_of, service
from tests.support.workflow_servers import N8N_KEY, N8nDouble, n8n_double, node_red
from tests.support.ws_server import token, ws_server


@pytest.fixture
async def running() -> AsyncIterator[Service]:
    """A service that looks at no server by itself."""
    async with service() as made:
        yield made


@pytest.fixture
async def n8n() -> AsyncIterator[N8nDouble]:
    async with n8n_double() as double:
        yield double


def to(n8n: N8nDouble, **more: Any) -> dict[str, Any]:
    usual = {"name": "shop", "kind": "n8n", "address": n8n.address, "key": N8N_KEY}
    return {**usual, "allowPrivate": True, "intervalS": 0, **more}


async def connected(
    running: Service, client: httpx2.AsyncClient, body: dict[str, Any]
) -> ConnectionDetail:
    """Connects, and returns the connection once its workflows were read."""
    answer = await client.post("/api/connections", json=body)
    assert answer.status_code == 201, answer.text
    return await settled(running, client)


async def settled(running: Service, client: httpx2.AsyncClient) -> ConnectionDetail:
    """Returns the connection after the synchronisation that was begun."""
    await (await running.state.workspace("default")).syncs.idle()
    answer = await client.get("/api/connections/shop")
    return ConnectionDetail.model_validate(answer.json())


async def test_a_connection_is_made_read_compared_synchronised_and_removed(
    running: Service, n8n: N8nDouble
) -> None:
    workflow_id = n8n.put(workflow("Order", "Check", limit=1))
    async with running.as_("ann", "admin") as ann, running.as_() as ed:
        detail = await connected(running, ann, to(n8n))
        assert (detail.last_changes, detail.states) == ({"created": 1}, {"in_step": 1})
        (linked,) = detail.workflows
        assert (linked.graph, linked.page) == ("order", f"{n8n.address}/workflow/{workflow_id}")
        n8n.put(workflow("Order", "Check", limit=2), id=workflow_id)
        where = {"workflow": workflow_id}
        found = await ed.get("/api/connections/shop/difference", params=where)
        compared = WorkflowComparison.model_validate(found.json())
        assert (compared.state, compared.here) == ("changed_there", {})
        assert compared.there is not None
        assert list(compared.there) == ["nodesChanged"]
        assert (await ed.post("/api/connections/shop/sync")).status_code == 202
        assert (await settled(running, ed)).last_changes == {"updated": 1}
        of_graph = (await ed.get("/api/graphs/order/connections")).json()
        (badge,) = GraphConnections.model_validate(of_graph).workflows
        assert (badge.connection, badge.kind, badge.state) == ("shop", "n8n", "in_step")
        assert (await ed.get(f"/api/graphs/{GRAPH}/connections")).json() == {"workflows": []}
        assert (await ann.delete("/api/connections/shop")).json() == {"success": True}
        assert (await ed.get("/api/connections")).json() == {"connections": []}
        assert (await ed.get("/api/graphs/order/connections")).json() == {"workflows": []}


async def test_no_answer_holds_a_key(running: Service, n8n: N8nDouble) -> None:
    n8n.put(workflow("Order", "Check"))
    async with running.as_("ann", "admin") as ann:
        await connected(running, ann, to(n8n))
        answers = [
            (await ann.get(path)).json()
            for path in (
                "/api/connections",
                "/api/connections/shop",
                "/api/graphs/order/connections",
            )
        ]
        wrong = await ann.post("/api/connections", json=to(n8n, key="wrong-key-0123456789"))
    assert wrong.status_code == 422
    everything = json.dumps([answers, wrong.json()])
    assert "shop" in everything
    assert N8N_KEY not in everything
    assert "wrong-key" not in everything


async def test_admins_connect_editors_synchronise_and_viewers_read(
    running: Service, n8n: N8nDouble
) -> None:
    n8n.put(workflow("Order", "Check"))
    async with (
        running.as_("ann", "admin") as ann,
        running.as_() as ed,
        running.as_("vic", "viewer") as vic,
        running.as_("eve", "admin", "elsewhere") as eve,
    ):
        assert error_of(await ed.post("/api/connections", json=to(n8n)))["code"] == "forbidden"
        await connected(running, ann, to(n8n))
        assert error_of(await vic.post("/api/connections/shop/sync"))["code"] == "forbidden"
        assert error_of(await ed.delete("/api/connections/shop"))["code"] == "forbidden"
        assert len((await vic.get("/api/connections")).json()["connections"]) == 1
        assert (await eve.get("/api/connections")).json() == {"connections": []}
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/sync")):
            answer = await eve.request(method, f"/api/connections/shop{path}")
            assert error_of(answer)["code"] == "not_found"
        unknown = await ed.get("/api/connections/shop/difference", params={"workflow": "none"})
        assert error_of(unknown)["code"] == "not_found"


async def test_what_is_wrong_is_said_in_both_languages_beside_its_field(
    running: Service, n8n: N8nDouble
) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"name": "No Name"}, "name"),
        ({"address": "n8n.example.com"}, "address"),
        ({"address": "http://127.0.0.1:1"}, "address"),
        ({"allowPrivate": False}, "allowPrivate"),
        ({"key": "wrong-key-0123456789"}, "key"),
        ({"key": None}, "key"),
        ({"intervalS": 3}, "intervalS"),
        ({"workflows": ["a"] * 60}, "workflows"),
    ]
    async with running.as_("ann", "admin") as ann:
        for changes, field in rows:
            said = set[str]()
            for language in ("en", "fr"):
                headers = {"Accept-Language": language}
                answer = await ann.post(
                    "/api/connections", json=to(n8n, **changes), headers=headers
                )
                (detail,) = error_of(answer)["details"]
                assert detail["where"] == field, changes
                said.add(detail["what"])
            assert len(said) == 2, changes
        assert (await ann.get("/api/connections")).json() == {"connections": []}


async def test_a_server_that_is_away_is_told_in_the_language_of_the_reader(
    running: Service,
) -> None:
    async with n8n_double() as n8n:
        n8n.put(workflow("Order", "Check"))
        async with running.as_("ann", "admin") as ann:
            await connected(running, ann, to(n8n))
    async with running.as_() as ed:
        assert (await ed.post("/api/connections/shop/sync")).status_code == 202
        detail = await settled(running, ed)
        french = await ed.get("/api/connections/shop", headers={"Accept-Language": "fr"})
    assert detail.unreachable_since is not None
    assert detail.states == {"unreachable": 1}
    assert (detail.last_error or "").startswith("Nothing answers at")
    assert french.json()["lastError"] != detail.last_error


@pytest.mark.slow
async def test_a_server_that_starts_again_follows_its_connections(tmp_path: Path) -> None:
    db = address_in(await nba_file(tmp_path))
    (tmp_path / "red").mkdir()
    async with node_red(tmp_path / "red") as server:
        await server.deploy(flow("return msg;"))
        body = {"name": "shop", "kind": "node-red", "address": server.address, "allowPrivate": True}
        async with service(db=db) as first, first.as_("ann", "admin") as ann:
            detail = await connected(first, ann, body)
            (linked,) = detail.workflows
        async with service(db=db) as second:
            source = (await second.state.services("default")).source
            for text in ("return 1;", "return 2;"):
                before = (await source.get_graph(linked.graph or "")).revision
                await server.deploy(flow(text))
                async with asyncio.timeout(60):
                    while (await source.get_graph(linked.graph or "")).revision == before:  # noqa: ASYNC110 - no event tells it
                        await asyncio.sleep(0.01)


async def test_what_one_server_pulls_joins_what_people_edit_at_another(
    tmp_path: Path, n8n: N8nDouble
) -> None:
    db = address_in(await nba_file(tmp_path))
    order = n8n.put(workflow("Order", "Check", limit=1))
    async with ws_server(db=db) as a, ws_server(db=db) as b, a.client(token()) as client:
        at_a = await a.state.workspace("default")
        at_b = await b.state.workspace("default")
        await at_b.connections.add(new(n8n.address, interval_s=0), ADMIN)
        await at_b.syncs.run("shop", ADMIN)
        opened = await client.ask(
            "registerUserOnGraph",
            _id=1,
            name="Ed",
            sheetId="0",
            graphKey="order",
            fromTimestamp=LATE,
        )
        assert opened["_response"]["status"]
        moved = {"i": {"o": 1, "p": ["posX"], "v": 777}, "sheetId": "0", "nodeId": "check"}
        edited = await client.ask("applyInstructionToGraph", _id=2, instructions=[moved])
        assert edited["_response"]["status"]
        for limit, puller in ((2, at_b), (3, at_a)):
            n8n.put(workflow("Order", "Check", limit=limit), id=order)
            await puller.syncs.run("shop", ADMIN)
            async with asyncio.timeout(60):
                while True:  # no event tells another server of a change
                    nodes = {
                        node.key: node for node in await at_a.services.source.get_nodes("order")
                    }
                    if nodes["check"].data["parameters"] == {"limit": limit}:
                        break
                    await asyncio.sleep(0.01)
            assert nodes["check"].pos_x == 777
