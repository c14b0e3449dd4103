"""Automations and their runs over REST: the whole life of one, errors by row,
roles, other workspaces.
"""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from graphrag.agent.thread_store import SESSION_KIND
from graphrag.automations.automation import KIND
from server.rest_automations import AutomationDetail
from tests.support.service import GRAPH, Service, error_of, service

DRAFT = {
    "graphKey": GRAPH,
    "name": "Nightly check",
    "message": "Look for open error outputs.",
    "cron": "0 2 * * 1-5",
    "timezone": "Europe/Paris",
}


BLOCK = {"id": "b", "type": "POINTER", "target": {"kind": "graph", "key": GRAPH}}


@pytest.fixture
async def no_runs() -> AsyncIterator[Service]:
    """A service that starts no run by itself."""
    async with service(automations_at_once=0) as running:
        yield running


async def made(client: httpx2.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await client.post("/api/automations", json={**DRAFT, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_an_automation_is_made_changed_run_and_removed() -> None:
    async with service(automations_at_once=0) as running, running.as_() as ed:
        shown = await made(ed)
        assert shown["schedule"] == "at 02:00 on Monday through Friday"
        assert len(shown["nextTimes"]) == 5
        where = f"/api/automations/{shown['id']}"
        detail = AutomationDetail.model_validate((await ed.get(where)).json())
        assert [m["content"] for m in detail.messages] == [DRAFT["message"]]
        french = (await ed.get(where, headers={"Accept-Language": "fr"})).json()
        assert french["schedule"] == "à 02:00 du lundi au vendredi"
        edited = (await ed.post(where, json={"version": 1, "cron": "0 9 * * *"})).json()
        assert (edited["version"], edited["schedule"]) == (2, "at 09:00 every day")
        assert error_of(await ed.post(where, json={"version": 1}))["code"] == "conflict"
        assert (await ed.post(f"{where}/pause")).json()["pausedReason"] == "person"
        assert error_of(await ed.post(f"{where}/run"))["code"] == "conflict"
        assert (await ed.post(f"{where}/enable")).json()["enabled"] is True
        began = await ed.post(f"{where}/run")
        assert began.status_code == 202
        session = began.json()["sessionId"]
        assert session in error_of(await ed.post(f"{where}/run"))["message"]
        [run] = (await ed.get(f"{where}/sessions")).json()["sessions"]
        assert (run["sessionId"], run["phase"], run["trigger"]) == (session, "idle", "manual")
        at = f"/api/sessions/{quote(session, safe='')}"
        read = (await ed.get(at)).json()
        assert read["messages"][0]["execution"]["automationId"] == shown["id"]
        copied = (await ed.post(f"/api/sessions/{session}/chat")).json()["threadId"]
        assert (await ed.get(f"/api/ai/thread/{copied}/messages")).json()["conversationHistory"]
        stopped = (await ed.post(f"{at}/stop")).json()
        assert (stopped["phase"], stopped["endReason"]) == ("completed", "CANCELLED")
        assert error_of(await ed.post(f"{at}/stop"))["code"] == "conflict"
        [listed] = (await ed.get("/api/automations", params={"graphKey": GRAPH})).json()[
            "automations"
        ]
        assert listed["last"]["endReason"] == "CANCELLED"
        assert listed["spentToday"]["runs"] == 1
        for none in ({"open": "true"}, {"graphKey": "another"}):
            assert (await ed.get("/api/sessions", params=none)).json() == {"sessions": []}
        [kept] = (await ed.get("/api/sessions", params={"phase": "completed"})).json()["sessions"]
        assert kept["sessionId"] == session
        assert (await ed.delete(where)).json() == {"success": True}
        assert error_of(await ed.get(where))["code"] == "not_found"
        assert (await ed.get(at)).status_code == 200, "its runs stay"


@pytest.mark.parametrize(
    ("fields", "status", "code", "said"),
    [
        ({"cron": "61 * * * *"}, 422, "invalid", "five fields"),
        ({"cron": "0 0 0 * * *"}, 422, "invalid", "six fields"),
        ({"cron": "@daily"}, 422, "invalid", "0 2 * * *"),
        ({"cron": "0 0 31 2 *"}, 422, "invalid", "never"),
        ({"cron": "* * * * *"}, 422, "invalid", "60 s apart; at least 300"),
        ({"cron": None, "dates": [1]}, 422, "invalid", "future"),
        ({"timezone": "Europe/Pariss"}, 422, "invalid", "Europe/Paris"),
        ({"message": " \n"}, 422, "invalid", "empty"),
        ({"message": "x" * 100_001}, 413, "too_large", "100001"),
        ({"blocks": [{}]}, 422, "invalid", "blocks.0"),
        ({"blocks": [BLOCK] * 11}, 413, "too_large", "10"),
        ({"name": "nightly CHECK"}, 409, "conflict", "Nightly check"),
        ({"name": " "}, 422, "invalid", "1 to 80"),
        ({"name": "x" * 81}, 422, "invalid", "1 to 80"),
        ({"graphKey": "nowhere"}, 404, "not_found", "nowhere"),
        ({"fromThreadId": "nobodys"}, 404, "not_found", "nobodys"),
        ({"budget": {"modelCalls": 0}}, 422, "invalid_message", "budget.modelCalls"),
        ({"seedId": "seed/x"}, 422, "invalid_message", "seedId"),
        ({"mode": "both"}, 422, "invalid_message", "mode"),
        ({"owner": "me"}, 422, "invalid_message", "owner"),
    ],
)
async def test_bad_input_is_refused_by_name(
    no_runs: Service, fields: dict[str, Any], status: int, code: str, said: str
) -> None:
    async with no_runs.as_() as ed:
        before = (await ed.get("/api/automations")).json()["automations"] or [await made(ed)]
        answer = await ed.post("/api/automations", json={**DRAFT, "name": "Another", **fields})
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (status, code)
        assert said in error["message"]
        assert len((await ed.get("/api/automations")).json()["automations"]) == len(before)


async def test_a_workspace_has_a_most_and_a_cost_needs_a_price() -> None:
    async with service(automations_at_once=0, automations_max=1) as running, running.as_() as ed:
        assert (await made(ed, budget={"costUsd": 1}))["budget"]["costUsd"] == 1, (
            "no model costs nothing"
        )
        answer = await ed.post("/api/automations", json={**DRAFT, "name": "Another"})
        assert (answer.status_code, error_of(answer)["code"]) == (429, "usage_limit")


async def test_roles_are_kept_and_another_workspace_sees_nothing() -> None:
    async with service(automations_at_once=0) as running, running.as_() as ed:
        shown = await made(ed)
        where = f"/api/automations/{shown['id']}"
        session = (await ed.post(f"{where}/run")).json()["sessionId"]
        await _check_role(running, ("vi", "viewer"), where, session, sees_runs=False)
        await _check_role(running, ("olga", "editor"), where, session, sees_runs=False)
        await _check_role(running, ("rose", "reviewer"), where, session, sees_runs=True)
        async with running.as_("vi", "viewer") as vi:
            assert error_of(await vi.post("/api/automations", json=DRAFT))["code"] == "forbidden"
        async with running.as_("ed", "admin", "elsewhere") as stranger:
            for method, path in (
                ("GET", where),
                ("POST", f"{where}/run"),
                ("POST", f"{where}/take-over"),
                ("DELETE", where),
                ("GET", f"{where}/sessions"),
                ("GET", f"/api/sessions/{session}"),
                ("POST", f"/api/sessions/{session}/stop"),
                ("POST", f"/api/sessions/{session}/chat"),
            ):
                assert error_of(await stranger.request(method, path))["code"] == "not_found", path
            assert (await stranger.get("/api/automations")).json() == {"automations": []}
            assert (await stranger.get("/api/sessions")).json() == {"sessions": []}
        async with running.as_("ann", "admin") as ann:
            assert (await ann.post(f"{where}/take-over")).json()["userId"] == "ann"


async def _check_role(
    running: Service, who: tuple[str, str], where: str, session: str, *, sees_runs: bool
) -> None:
    async with running.as_(*who) as client:
        assert (await client.get(where)).status_code == 200
        for method, path in (
            *(("POST", f"{where}/{what}") for what in ("run", "pause", "enable", "take-over")),
            ("DELETE", where),
            ("POST", f"/api/sessions/{session}/stop"),
        ):
            assert error_of(await client.request(method, path))["code"] == "forbidden", path
        edit = await client.post(where, json={"version": 1, "name": "Mine"})
        assert error_of(edit)["code"] == "forbidden"
        assert len((await client.get("/api/sessions")).json()["sessions"]) == sees_runs
        status = 200 if sees_runs else 403
        assert (await client.get(f"{where}/sessions")).status_code == status
        assert (await client.get(f"/api/sessions/{session}")).status_code == status


async def test_a_template_is_not_run_and_an_answer_needs_a_question() -> None:
    async with service(automations_at_once=0) as running, running.as_() as ed:
        shown = await made(ed)
        session = (await ed.post(f"/api/automations/{shown['id']}/run")).json()["sessionId"]
        for key, body in (
            (f"seed/{shown['id']}", {"approved": True}),
            (session, {"approved": True}),
            (session, {"response": "yes"}),
        ):
            assert (
                error_of(await ed.post(f"/api/sessions/{key}/answer", json=body))["code"]
                == "conflict"
            )
        for what, body in (("stop", None), ("confirm", {"end": False})):
            refused = await ed.post(f"/api/sessions/seed/{shown['id']}/{what}", json=body)
            assert "template" in error_of(refused)["message"]
        both = await ed.post(
            f"/api/sessions/{session}/answer", json={"approved": True, "response": "x"}
        )
        assert both.status_code == 422
        assert error_of(await ed.post(f"/api/sessions/{session}/confirm", json={"end": True}))[
            "code"
        ] == ("conflict")
        assert error_of(await ed.post(f"/api/sessions/{session}/resume"))["code"] == "conflict"


async def test_a_schedule_is_previewed_in_both_languages() -> None:
    async with service(automations_at_once=0) as running, running.as_("vi", "viewer") as vi:

        async def preview(language: str = "en", **asked: Any) -> httpx2.Response:
            headers = {"Accept-Language": language}
            return await vi.post("/api/schedules/preview", json=asked, headers=headers)

        asked = {"cron": "0 2 * * 1-5", "timezone": "Europe/Paris"}
        shown = (await preview(**asked)).json()
        assert shown["schedule"] == "at 02:00 on Monday through Friday"
        assert len(shown["next"]) == len(shown["nextTimes"]) == 5
        assert all(time.endswith(" 02:00") for time in shown["next"])
        assert (await preview("fr", **asked)).json()["schedule"] == "à 02:00 du lundi au vendredi"
        assert (await preview()).json()["nextTimes"] == []
        for wrong, said in (
            ({"timezone": "Europe/Pari"}, "Europe/Paris"),
            ({"cron": "0 0 0 0 0 0"}, "six fields"),
            ({"cron": "*/2 * * * *"}, "300"),
        ):
            assert said in error_of(await preview(**wrong))["message"]


async def test_what_a_newer_program_stored_damages_itself_alone() -> None:
    async with service(automations_at_once=0) as running, running.as_() as ed:
        first = await made(ed)
        second = await made(ed, name="Second")
        records = running.state.backend.shared.database.records("default")
        record = await records.get(KIND, first["id"])
        newer = type(record)(kind=KIND, key=record.key, data={**record.data, "schemaVersion": 99})
        await records.put(newer, expected_version=record.version)
        answer = await ed.get(f"/api/automations/{first['id']}")
        assert answer.status_code == 500
        assert error_of(answer)["code"] in ("damaged", "bad_document")
        listed = (await ed.get("/api/automations")).json()["automations"]
        assert [each["id"] for each in listed] == [second["id"]]


async def test_a_stored_run_repeats_no_instructions() -> None:
    async with service(automations_at_once=0) as running, running.as_() as ed:
        shown = await made(ed)
        session = (await ed.post(f"/api/automations/{shown['id']}/run")).json()["sessionId"]
        record = await running.state.backend.shared.database.records("default").get(
            SESSION_KIND, session
        )
        assert [message["role"] for message in record.data["conversationHistory"]] == ["user"]


async def test_a_run_is_tried_again_for_its_own_time_once_it_has_ended() -> None:
    async with service() as running, running.as_() as ed:
        automation = (await made(ed, cron=None, onlyIfChanged=False))["id"]
        began = (await ed.post(f"/api/automations/{automation}/run")).json()["sessionId"]
        await running.state.backend.scheduler.run_due()
        first = (await ed.get(f"/api/sessions/{began}")).json()
        again = (await ed.post(f"/api/sessions/{began}/retry")).json()
        assert again["sessionId"] != began
        assert again["referenceTime"] == first["scheduledTime"]
        read = (await ed.get(f"/api/sessions/{again['sessionId']}")).json()
        assert read["messages"][0]["execution"]["scheduledTime"] == first["scheduledTime"]
        await running.state.backend.scheduler.run_due()
        third = (await ed.post(f"/api/sessions/{again['sessionId']}/retry")).json()
        assert third["referenceTime"] == first["scheduledTime"], "of the first, however often"
        await running.state.backend.scheduler.run_due()
        async with running.as_("other") as other:
            refused = await other.post(f"/api/sessions/{began}/retry")
            assert error_of(refused)["code"] in ("forbidden", "not_found")


async def test_a_reviewer_pauses_all_with_a_reason_and_the_rules_say_who(no_runs: Service) -> None:
    async with no_runs.as_() as ed, no_runs.as_("rev", "reviewer") as rev:
        automation = (await made(ed))["id"]
        body = {"reason": "The model is being replaced"}
        assert error_of(await ed.post("/api/automation-rules/pause", json=body))["code"]
        await rev.post("/api/automation-rules/pause", json=body)
        [rules] = (await ed.get("/api/automation-rules")).json()["workspaces"]
        assert (rules["paused"]["by"], rules["paused"]["reason"]) == ("rev", body["reason"])
        refused = error_of(await ed.post(f"/api/automations/{automation}/run"))
        assert "The model is being replaced" in refused["message"]
        await rev.post("/api/automation-rules/resume")
        assert (await ed.post(f"/api/automations/{automation}/run")).status_code == 202
