"""Trials of automations over REST: what a run would report and propose; nothing of it is stored."""

import asyncio
from typing import Any

import httpx2

from graphrag.agent.thread_store import SESSION_KIND
from tests.support.automations import finish, move
from tests.support.scripted_provider import Says, ScriptedProvider
from tests.support.service import GRAPH, Service, answered, error_of, service
from tests.support.waiting import until

NODE = "fetch-api"


async def made(client: httpx2.AsyncClient, **fields: Any) -> str:
    draft = {"graphKey": GRAPH, "name": "Nightly", "message": "Tidy it.", "mode": "propose"}
    answer = await client.post("/api/automations", json={**draft, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def tokens(client: httpx2.AsyncClient) -> int:
    [limit] = (await client.get("/api/usage")).json()["limits"]
    return limit["usedTokens"]


async def stored(running: Service, client: httpx2.AsyncClient, automation: str) -> list[Any]:
    """Returns everything that a run stores or changes."""
    records = running.state.backend.shared.database.records("default")
    runs = await records.query(SESSION_KIND, {"automationId": automation})
    entries = await records.query("audit")
    return [
        [run.key for run in runs],
        (await client.get("/api/approvals")).json(),
        [entry.key for entry in entries],
        (await client.get(f"/api/automations/{automation}")).json(),
        (await client.get(f"/api/graphs/{GRAPH}")).json(),
    ]


async def test_a_trial_says_what_a_run_would_propose_and_stores_only_what_it_used() -> None:
    proposing = Says(text="This one stands apart.", calls=[move(NODE)])
    # The settings ask nobody about changes of such a kind.
    async with answered(proposing, require_validation=(), max_person_tokens=50_000) as (
        ed,
        running,
        _,
    ):
        automation = await made(ed, requireValidation=False)
        await ed.post(f"/api/automations/{automation}/pause")
        before = await stored(running, ed, automation)
        used = await tokens(ed)
        answer = await ed.post(f"/api/automations/{automation}/trial")
        assert answer.status_code == 200, answer.text
        trial = answer.json()
        [proposal] = trial["proposals"]
        assert proposal["action"]["type"] == "move_node"
        assert proposal["preview"]["nodesMoved"]
        assert (proposal["status"], proposal["title"] != "") == ("pending", True)
        assert trial["run"]["phase"] == "waiting_validation"
        assert trial["run"]["usage"]["prompt"] > 0
        assert "This one stands apart." in str(trial["messages"])
        assert await stored(running, ed, automation) == before
        assert await tokens(ed) > used
        missing = await ed.get(f"/api/approvals/{proposal['id']}")
        assert error_of(missing)["code"] == "not_found"


async def test_a_trial_of_a_run_that_only_reports_ends_with_its_report() -> None:
    async with answered(finish("findings", "Node a has no error output.")) as (ed, _, model):
        automation = await made(ed, mode="report")
        trial = (await ed.post(f"/api/automations/{automation}/trial")).json()
        assert trial["run"]["report"]["outcome"] == "findings"
        assert (trial["run"]["endReason"], trial["proposals"]) == ("COMPLETED", [])
        assert not [
            tool
            for tool in model.requests[0].tools
            if tool["function"]["name"].startswith("propose_")
        ]


async def test_a_person_tries_one_at_a_time_and_stops_it_by_leaving() -> None:
    async with (
        ScriptedProvider(Says(held=asyncio.Event()), finish()) as model,
        service(model) as running,
        running.as_() as ed,
    ):
        automation = await made(ed)
        path = f"/api/automations/{automation}/trial"
        first = asyncio.create_task(ed.post(path))
        await until(lambda: model.requests)
        refused = await ed.post(path)
        assert error_of(refused)["code"] == "conflict"
        first.cancel()
        await asyncio.wait([first])
        answer = await ed.post(path)
        assert answer.status_code == 200, answer.text


async def test_only_its_owner_and_admins_try_an_automation() -> None:
    async with answered(finish()) as (ed, running, _):
        automation = await made(ed)
        path = f"/api/automations/{automation}/trial"
        async with (
            running.as_("other") as other,
            running.as_("al", "viewer") as viewer,
            running.as_("boss", "admin") as admin,
        ):
            for client in (other, viewer):
                assert (await client.post(path)).status_code == 403
            assert (await admin.post(path)).status_code == 200
        gone = await ed.post("/api/automations/au_nowhere/trial")
        assert error_of(gone)["code"] == "not_found"
