"""What an admin reads of the settings, and how a key is tried: no secret is shown, sent away or logged."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.graphrag.llm.wire import openai_text, streamed
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.service import SECRET, error_of, service

KEY, OURS = "sk-an-admins-key-0815", "sk-the-operators-key-4711"
SECRETS: dict[str, Any] = {
    "llm_api_key": OURS,
    "notify_secret": "notify-secret",
    "notify_url": "https://hooks.example.com/services/T0/secret-path?sig=secret-query",
    "oidc_client_secret": "client-secret",
    "openai_api_key": OURS,
    "auth_jwks": "https://user:secret-word@login.example.com/keys",
    "twilio_auth_token": "twilio-secret",
}


async def test_an_admin_sees_what_is_set_and_no_secret_and_others_nothing() -> None:
    async with (
        service(**SECRETS, oidc_roles={"groups": {"staff": "editor"}}) as running,
        running.as_("ada", "admin") as ada,
        running.as_("rev", "reviewer") as reviewer,
    ):
        answer = await ada.get("/api/settings")
        assert error_of(await reviewer.get("/api/settings"))["code"] == "forbidden"
        refused = await reviewer.post("/api/settings/test", json={"provider": "openai"})
        assert error_of(refused)["code"] == "forbidden"
    shown = answer.json()
    assert not [
        word
        for word in ("secret", OURS, SECRET, "T0", "twilio")
        if word in answer.text.replace("_SECRET", "")
    ]
    assert (shown["provider"], shown["model"], shown["embedder"]) == ("offline", "rules", None)
    rows = {row["variable"]: row for group in shown["groups"] for row in group["settings"]}
    assert rows["NODIUS_NOTIFY_URL"] == _row("NODIUS_NOTIFY_URL", "https://hooks.example.com", "set")
    assert rows["NODIUS_LLM_API_KEY"] == _row("NODIUS_LLM_API_KEY", None, "set")
    assert rows["NODIUS_OIDC_ROLES"]["value"] == '{"groups":{"staff":"editor"}}'
    assert rows["NODIUS_RATE_LIMIT"] == _row("NODIUS_RATE_LIMIT", "30", "default")
    assert rows["NODIUS_MAX_TOTAL_COST"]["state"] == "unset"
    assert {each["name"]: each["hasKey"] for each in shown["providers"]}["openai"] is True


def _row(variable: str, value: str | None, state: str) -> dict[str, Any]:
    return {"variable": variable, "value": value, "state": state}


async def test_a_key_is_tried_with_one_request_and_shown_and_logged_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedServer() as server:
        allow = server.url.removeprefix("http://")
        async with (
            service(agent_http_allow=(allow,), **SECRETS) as running,
            running.as_("ada", "admin") as ada,
        ):
            asked = {"provider": "openai", "model": "m", "baseUrl": f"{server.url}/v1", "key": KEY}
            server.play(streamed(openai_text(f"Blue, {KEY}.")))
            good = (await ada.post("/api/settings/test", json=asked)).json()
            server.play(Answer(status=401, body={"error": {"message": f"wrong key {KEY}"}}))
            wrong = (await ada.post("/api/settings/test", json=asked)).json()
            server.play(Answer(status=500, body={"error": {"message": "out of order"}}))
            broken = (await ada.post("/api/settings/test", json=asked)).json()
            french = await ada.post(
                "/api/settings/test", json={"provider": "mistral"}, headers={"Accept-Language": "fr"}
            )
    assert (good["ok"], good["detail"]) == (True, "Blue, [hidden].")
    assert isinstance(good["latencyMs"], int)
    assert (
        good["line"]
        == f"NODIUS_PROVIDER=openai NODIUS_MODEL=m NODIUS_LLM_BASE_URL={server.url}/v1 NODIUS_LLM_API_KEY=…"
    )
    assert (wrong["ok"], broken["ok"]) == (False, False)  # each asked once: the server plays no more
    assert "key" in wrong["detail"]
    assert (french.json()["ok"], french.json()["latencyMs"]) == (False, None)
    assert french.json()["line"] == "NODIUS_PROVIDER=mistral MISTRAL_API_KEY=…"
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    for said in (str(good), str(wrong), str(broken), caplog.text):
        assert KEY not in said
        assert OURS not in said


async def test_an_address_gets_no_key_of_the_settings_and_must_be_one_that_agents_may_reach() -> None:
    with ScriptedServer() as server:
        async with service(**SECRETS) as running, running.as_("ada", "admin") as ada:
            for address in (
                f"{server.url}/v1",
                "http://169.254.169.254/",
                "http://0x7f000001/",
                "http://a@b/",
            ):
                asked = {"provider": "openai", "baseUrl": address, "key": KEY}
                answer = (await ada.post("/api/settings/test", json=asked)).json()
                assert (answer["ok"], answer["latencyMs"]) == (False, None), address
        assert server.requests == []
        server.play(streamed(openai_text("Blue.")))
        async with (
            service(**{**SECRETS, "auth_jwks": None, "auth_secret": None}) as alone,
            alone.client() as me,
        ):
            here = {"provider": "compatible", "model": "m", "baseUrl": f"{server.url}/v1"}
            answer = await me.post("/api/settings/test", json=here)
            assert answer.json()["ok"] is True, answer.text  # without sign-in everybody sits here
        assert OURS not in str(server.requests[0].headers)


async def test_trying_is_bounded_and_what_is_wrong_is_not_repeated() -> None:
    async with service() as running, running.as_("ada", "admin") as ada:
        for body in (
            {"provider": "x\n"},
            {"provider": "openai", "baseUrl": "ftp://a"},
            {"provider": "a", "key": ""},
        ):
            answer = await ada.post("/api/settings/test", json={**body, "key": body.get("key", KEY)})
            assert answer.status_code == 422
            assert KEY not in answer.text
        codes = [
            (await ada.post("/api/settings/test", json={"provider": "no"})).status_code for _ in range(7)
        ]
        assert codes == [200] * 6 + [429]
