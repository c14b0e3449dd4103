"""The morning view over REST: what happened since a person last looked, each with its address."""

from typing import Any
from urllib.parse import parse_qs

import httpx2

from tests.support.automations import finish
from tests.support.scripted_provider import ScriptedProvider
from tests.support.service import GRAPH, Service, service

FIRST = "Two things:\n- Node **fetch-api** has no error output (error)\n- The log is never read"
SECOND = "1. Node fetch-api has no error output. It was applied.\n2. A new thing is *wrong*"


async def made(client: httpx2.AsyncClient, name: str = "Nightly") -> str:
    draft = {"graphKey": GRAPH, "name": name, "message": "Check", "onlyIfChanged": False}
    return (await client.post("/api/automations", json=draft)).json()["id"]


async def ran(running: Service, client: httpx2.AsyncClient, automation: str) -> str:
    """Runs an automation to its end; returns the run's id."""
    began = await client.post(f"/api/automations/{automation}/run")
    run = began.json()["sessionId"]
    # The service's own look may have taken the run up before.
    while (await client.get(f"/api/sessions/{run}")).json()["phase"] != "completed":
        await running.state.backend.scheduler.run_due()
    return run


async def asked(client: httpx2.AsyncClient, text: str) -> None:
    answer = await client.post("/api/ai/chat", json={"graphKey": GRAPH, "message": text})
    assert answer.status_code == 200, answer.text


async def told(client: httpx2.AsyncClient, **params: Any) -> dict[str, Any]:
    answer = await client.get("/api/today", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def opened(row: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, [value] in parse_qs(row["address"].removeprefix("#")).items()}


async def test_findings_are_told_as_new_the_same_and_gone_beside_what_was_seen() -> None:
    nights = ScriptedProvider(
        finish("findings", FIRST), finish("findings", SECOND), finish("ok", "All is well.")
    )
    async with service(nights) as running, running.as_() as ed:
        automation = await made(ed)
        await ran(running, ed, automation)
        [first] = (await told(ed))["findings"]
        assert (first["isCompared"], first["counts"]) == (False, {"new": 2, "same": 0, "gone": 0})
        await ed.post("/api/today/seen", json={"time": (await told(ed))["now"]})
        assert (await told(ed))["findings"] == []
        run = await ran(running, ed, automation)
        [second] = (await told(ed))["findings"]
        assert second["counts"] == {"new": 1, "same": 1, "gone": 1}
        assert (second["new"], second["gone"]) == (
            ["A new thing is *wrong*"],
            ["The log is never read"],
        )
        assert opened(second) == {"graph": GRAPH, "panel": "automations", "run": run}
        await ran(running, ed, automation)  # beside the run that was seen, not the one between
        [third] = (await told(ed))["findings"]
        assert third["counts"] == {"new": 0, "same": 0, "gone": 2}


async def test_a_run_that_failed_and_what_it_cost_are_told_to_who_may_see_runs() -> None:
    failing = ScriptedProvider(finish("failed", "The model was wrong."))
    async with service(failing) as running, running.as_() as ed, running.as_("vi", "viewer") as vi:
        run = await ran(running, ed, await made(ed))
        [failed] = (await told(ed))["runs"]
        [cost] = (await told(ed))["costs"]
        assert (await told(vi))["runs"] == []
    assert (failed["state"], failed["reason"], opened(failed)["run"]) == ("failed", "REPORTED", run)
    assert (cost["name"], cost["runs"], cost["maxRuns"]) == ("Nightly", 1, 48)


async def test_a_proposal_waits_for_who_may_decide_it_and_its_decision_is_told_to_others() -> None:
    async with service() as running, running.as_() as ed, running.as_("rev", "reviewer") as rev:
        async with running.as_("vi", "viewer") as vi:
            await asked(ed, "add a log-node named Active players after filter-active")
            [row] = (await told(rev))["proposals"]
            assert (await told(vi))["proposals"] == []
        assert opened(row) == {"graph": GRAPH, "panel": "review", "approval": row["approvalId"]}
        where = f"/api/approvals/{row['approvalId']}/decision"
        await rev.post(where, json={"verdict": "approve"})
        seen = await told(ed)
        assert (seen["proposals"], [one["by"] for one in seen["decisions"]]) == ([], ["rev"])
        assert (await told(rev))["decisions"] == []


async def test_a_workspace_that_is_none_of_theirs_is_refused_or_empty() -> None:
    async with service() as running, running.as_() as ed:
        noted = await ed.post("/api/today/seen", params={"workspace": "other"}, json={"time": 1})
        assert (noted.status_code, noted.json()["error"]["code"]) == (422, "invalid_message")
        assert (await told(ed, workspace="other"))["costs"] == []


async def test_the_view_is_bounded_and_says_how_much_more_there_is() -> None:
    async with service() as running, running.as_() as ed:
        for name in ("Ada", "Bob", "Cid"):
            command = f"add a log-node named {name} after filter-active"
            await asked(ed, command)
        seen = await told(ed, limit=2)
        assert (len(seen["proposals"]), seen["more"]) == (2, {"proposals": 1})
        long_ago = await told(ed, since=0)
        assert long_ago["now"] - long_ago["since"] == 31 * 86_400_000
