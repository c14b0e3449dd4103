"""The sample agents and the API that `nodius agents demo-api` serves for them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from cli.demo import SAMPLES
from graphrag.agents.demo_api import BLOCKED_PHONE, DEFAULT_PORT, KNOWN_PHONE, DemoApi
from graphrag.agents.document_check import check_document
from mock_data import load_json, load_text
from tests.support.each_row import each_row

AGENTS = ("helpdesk", "incident_intake", "catalogue")


@pytest.fixture
def api() -> DemoApi:
    return DemoApi(lambda: 1736960400000)


@pytest.fixture
async def client(api: DemoApi) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=api.app())
    async with httpx2.AsyncClient(transport=transport, base_url="http://demo") as client:
        yield client


@each_row("name", AGENTS)
def test_sample_has_no_mistake_and_reads_graphs_of_the_demo(name: str) -> None:
    checked = check_document(load_text(f"agents/{name}.json"))
    assert (checked.errors, checked.warnings) == ((), ())
    document = checked.document
    assert document is not None
    assert set(document.graphs) <= set(SAMPLES.values())
    assert document.base_url == f"http://127.0.0.1:{DEFAULT_PORT}"


async def test_declarations_of_the_catalogue_fit_its_document(client: httpx2.AsyncClient) -> None:
    document = load_json("agents/catalogue.json")
    config = (await client.get("/config", params={"phone": KNOWN_PHONE})).json()
    document["session"] = {"mode": "inline", "instructions": config["systemPrompt"], "tools": config["tools"]}
    checked = check_document(document)
    assert (checked.errors, checked.warnings) == ((), ())
    assert config["customer"]["name"]
    assert (await client.get("/config")).json()["customer"] is None
    assert (await client.get("/blocked", params={"phone": BLOCKED_PHONE})).json() == {"blocked": True}


async def test_what_is_sent_is_kept_found_and_changed(api: DemoApi, client: httpx2.AsyncClient) -> None:
    made = await client.post(
        "/orders", json={"customerPhone": KNOWN_PHONE, "total": 9}, headers={"Idempotency-Key": "k"}
    )
    order = made.json()["id"]
    assert (await client.patch("/orders", json={"id": order, "state": "cancelled"})).status_code == 200
    found = (await client.get("/orders", params={"phone": KNOWN_PHONE})).json()["orders"]
    assert [(item["id"], item["state"]) for item in found] == [(order, "cancelled")]
    assert (await client.patch("/orders", json={"id": "none"})).status_code == 404
    assert (await client.post("/orders", content=b"[" * 100_000)).status_code == 422
    assert (await client.get("/services/none")).status_code == 404
    assert api.requests[0]["key"] == "k"


async def test_faults_on_demand_end_by_themselves(client: httpx2.AsyncClient) -> None:
    await client.put("/faults/orders", json={"status": 503, "times": 2})
    statuses = [(await client.get("/orders")).status_code for _ in range(3)]
    assert statuses == [503, 503, 200]
    await client.put("/faults/orders", json={"times": 9})
    await client.delete("/faults")
    assert (await client.get("/orders")).status_code == 200
    assert (await client.put("/faults/orders", json={"delay_s": 1e9})).status_code == 422
