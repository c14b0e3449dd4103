"""Automations with a model of their own: runs ask it, and say why it cannot be asked."""

import json
from dataclasses import replace
from typing import Any

from graphrag.automations.automation import KIND
from server.app import create_app, running
from tests.graphrag.llm.wire import call_delta, delta, sse, streamed, usage_chunk
from tests.support.scripted_http import ScriptedServer
from tests.support.service import GRAPH, Service, error_of, service, settings_of

REPORT = json.dumps({"outcome": "ok", "report": "All is well."})
FINISHES = sse(
    call_delta(0, "call_1", "finish_automation", REPORT), delta("tool_calls"), usage_chunk(5, 2)
)


async def ran(here: Service, client: Any, automation: str) -> dict[str, Any]:
    began = await client.post(f"/api/automations/{automation}/run")
    run = began.json()["sessionId"]
    while (found := (await client.get(f"/api/sessions/{run}")).json())["phase"] != "completed":
        await here.state.backend.scheduler.run_due()
    return found


def draft(**fields: Any) -> dict[str, Any]:
    message = {"graphKey": GRAPH, "name": "Nightly", "message": "Check.", "onlyIfChanged": False}
    return {**message, **fields}


async def test_runs_ask_the_model_that_their_automation_names() -> None:
    with ScriptedServer() as server:
        own = {"provider": "compatible", "llm_base_url": f"{server.url}/v1"}
        app = create_app(settings_of(**own, model="usual", llm_api_key="k"))
        async with running(app):
            here = Service(app)
            async with here.as_() as ed:
                for name, model in (("One", None), ("Two", "cheap-1")):
                    server.play(streamed(FINISHES))
                    made = await ed.post("/api/automations", json=draft(name=name, model=model))
                    assert made.status_code == 201, made.text
                    run = await ran(here, ed, made.json()["id"])
                    assert (run["endReason"], run["model"]) == ("COMPLETED", model or "usual")
        assert [each.json["model"] for each in server.requests] == ["usual", "cheap-1"]


async def test_a_model_that_cannot_be_used_is_refused_when_it_is_saved() -> None:
    async with service() as here, here.as_() as ed:
        for named in ({"provider": "nobody"}, {"provider": "openai", "model": "gpt-5-mini"}):
            refused = await ed.post("/api/automations", json=draft(**named))
            assert refused.status_code == 422, refused.text
            [where] = error_of(refused)["details"]
            assert where["where"] == "model"


async def test_a_model_that_is_gone_later_ends_a_run_with_the_reason() -> None:
    async with service() as here, here.as_() as ed:
        made = (await ed.post("/api/automations", json=draft())).json()
        records = here.state.backend.shared.database.records("default")
        record = await records.get(KIND, made["id"])
        assert record is not None
        data = {**record.data, "provider": "openai", "model": "gpt-5-mini"}
        await records.put(replace(record, data=data), expected_version=record.version)
        run = await ran(here, ed, made["id"])
        assert run["endReason"] == "ERROR"
        assert "openai_api_key" in run["report"]["text"]
