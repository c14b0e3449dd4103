"""What an admin reads of the settings, and how a key is tried: no secret is shown, sent
away or logged.
"""

import logging
from pathlib import Path
from typing import Any

import pytest

from datasources.mock import MemoryDatabase
from datasources.types import ROOT_WORKSPACE
from graphrag.app.api_keys import HELD_S, KIND, MAX_KEYS, PROPOSING, ApiKeys, TooManyKeys
from graphrag.approvals.programs import program_of
from graphrag.roles import ClientInfo
from tests.graphrag.llm.wire import openai_text, streamed
from tests.server.mcp.helpers import connected
from tests.support.chosen_database import database_in
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.served import served
from tests.support.service import GRAPH, SECRET, error_of, service

KEY, OURS = "sk-an-admins-key-0815", "sk-the-operators-key-4711"
SECRETS: dict[str, Any] = {
    "llm_api_key": OURS,
    "notify_secret": "notify-secret",
    "notify_secret_before": "older-secret",
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
    assert rows["NODIUS_NOTIFY_URL"] == _row(
        "NODIUS_NOTIFY_URL", "https://hooks.example.com", "set"
    )
    assert rows["NODIUS_LLM_API_KEY"] == _row("NODIUS_LLM_API_KEY", None, "set")
    assert rows["NODIUS_OIDC_ROLES"]["value"] == '{"groups":{"staff":"editor"}}'
    assert rows["NODIUS_RATE_LIMIT"] == _row("NODIUS_RATE_LIMIT", "30", "default")
    assert rows["NODIUS_MAX_TOTAL_COST"]["state"] == "unset"
    assert {each["name"]: each["hasKey"] for each in shown["providers"]}["openai"] is True


def _row(variable: str, value: str | None, state: str) -> dict[str, Any]:
    return {"variable": variable, "value": value, "state": state}


async def test_a_key_is_tried_once_and_shown_and_logged_nowhere(
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
                "/api/settings/test",
                json={"provider": "mistral"},
                headers={"Accept-Language": "fr"},
            )
    assert (good["ok"], good["detail"]) == (True, "Blue, [hidden].")
    assert isinstance(good["latencyMs"], int)
    assert (
        good["line"]
        == f"NODIUS_PROVIDER=openai NODIUS_MODEL=m NODIUS_LLM_BASE_URL={server.url}/v1 NODIUS_LLM_API_KEY=…"
    )
    assert (wrong["ok"], broken["ok"]) == (
        False,
        False,
    )  # each asked once: the server plays no more
    assert "key" in wrong["detail"]
    assert (french.json()["ok"], french.json()["latencyMs"]) == (False, None)
    assert french.json()["line"] == "NODIUS_PROVIDER=mistral MISTRAL_API_KEY=…"
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    for said in (str(good), str(wrong), str(broken), caplog.text):
        assert KEY not in said
        assert OURS not in said


async def test_an_address_gets_no_key_of_the_settings_and_must_be_one_that_agents_may_reach() -> (
    None
):
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
            answer = await ada.post(
                "/api/settings/test", json={**body, "key": body.get("key", KEY)}
            )
            assert answer.status_code == 422
            assert KEY not in answer.text
        codes = [
            (await ada.post("/api/settings/test", json={"provider": "no"})).status_code
            for _ in range(7)
        ]
        assert codes == [200] * 6 + [429]


DAY_MS = 86_400_000


class Clocks:
    """Time as a store of keys sees it, and as its memory does."""

    now, passed = 1_700_000_000_000, 0.0

    def keys(self, records: Any) -> ApiKeys:
        return ApiKeys(records, clock=lambda: self.now, monotonic=lambda: self.passed)


async def test_a_key_is_stored_as_a_hash_and_holds_until_it_is_over_or_revoked() -> None:
    records = MemoryDatabase().records(ROOT_WORKSPACE)
    clocks = Clocks()
    here = clocks.keys(records)
    there = clocks.keys(records)
    key, text = await here.create(
        user="ed", role="editor", workspaces=["default"], name="bot", days=2
    )
    assert key.id.startswith("key_")
    assert text.split("_", 3)[3] not in str(await records.query(KIND))
    found = await there.find(text, "mcp")
    assert (found.user, found.role, found.workspaces, found.name) == (
        "ed",
        "editor",
        ("default",),
        "bot",
    )
    (listed,) = await here.list()
    assert listed.used == clocks.now
    for wrong in (
        text[:-1],
        text + "x",
        text.replace("key_", "key_0", 1),
        "nodius_",
        "nodius_key_",
        text[7:],
    ):
        assert await there.find(wrong, "mcp") is None
    await here.revoke(key.id)
    assert await here.find(text, "mcp") is None
    clocks.passed += HELD_S  # another server looks again by then
    assert await there.find(text, "mcp") is None
    other, another = await here.create(user="ed", role="viewer", workspaces=["default"], days=2)
    clocks.now += 2 * DAY_MS
    assert await here.find(another, "api") is None
    assert await here.revoke("key_none") is None
    assert (await here.revoke(other.id, workspaces=["globex"])) is None


async def test_a_key_holds_for_its_channels_and_nobody_has_too_many() -> None:
    keys = Clocks().keys(MemoryDatabase().records(ROOT_WORKSPACE))
    _, text = await keys.create(user="ed", role="editor", workspaces=["w"], channels=["mcp"])
    assert await keys.find(text, "mcp") is not None
    assert await keys.find(text, "api") is None
    for _ in range(MAX_KEYS - 1):
        await keys.create(user="ed", role="viewer", workspaces=["w"])
    with pytest.raises(TooManyKeys):
        await keys.create(user="ed", role="viewer", workspaces=["w"])
    wrong: list[dict[str, Any]] = [
        *({"days": 0}, {"days": 366}, {"user": "caller:1"}),
        *({"workspaces": []}, {"channels": ["fax"]}, {"name": "a\n"}),
    ]
    given: dict[str, Any] = {"user": "ann", "role": "viewer", "workspaces": ["w"]}
    for one in wrong:
        with pytest.raises(ValueError):
            await keys.create(**{**given, **one})


async def test_a_key_signs_a_program_in_over_rest_and_mcp_until_it_is_revoked() -> None:
    async with served() as running:
        keys = running.state.authentication.api_keys
        key, text = await keys.create(user="ed", role="editor", workspaces=["default"], name="bot")
        async with connected(running, bearer=text) as client:
            change = {"nodeKey": "fetch-api", "changes": {"data.name": "X"}, "reason": "shorter"}
            made = await client.call_tool("propose_update_node", {"graphKey": GRAPH, **change})
            assert made.structured_content is not None, made
        services = await running.state.services("default")
        (proposed,) = await services.approvals.waiting()
        assert proposed.client["keyId"] == key.id
        assert proposed.program == f"key:{key.id}"
        await keys.revoke(key.id)
        with pytest.raises(Exception):  # noqa: B017 - the client's own, of a group of tasks
            async with connected(running, bearer=text):
                pass


async def test_a_key_reads_and_proposes_and_is_known_by_every_channel() -> None:
    keys = Clocks().keys(MemoryDatabase().records(ROOT_WORKSPACE))
    key, text = await keys.create(user="ed", role="editor", workspaces=["w"])
    assert key.channels == PROPOSING
    for channel in ("api", "websocket", "ag-ui", "page"):
        assert await keys.find(text, channel) is None, "nothing is decided or edited with it"
    for channel in ("mcp", "websocket", "api"):
        client = ClientInfo(channel=channel, name="bot", key_id=key.id)
        assert program_of(client) == f"key:{key.id}", "it is the same program on every channel"
    assert program_of(ClientInfo(channel="websocket", name="bot")) is None


async def test_admins_make_list_and_revoke_keys_of_their_workspaces_alone() -> None:
    async with service() as running:
        async with running.as_("ada", "admin") as ada, running.as_("sam", "admin", "globex") as sam:
            made = (
                await ada.post("/api/keys", json={"name": "bot", "role": "viewer", "channels": []})
            ).json()
            assert made["key"].startswith(f"nodius_{made['id']}_")
            (listed,) = (await ada.get("/api/keys")).json()["keys"]
            assert "key" not in listed
            assert (await sam.get("/api/keys")).json() == {"keys": []}
            assert (await sam.delete(f"/api/keys/{made['id']}")).status_code == 404
            refused = await sam.post("/api/keys", json={"workspaces": ["default"]})
            assert refused.status_code == 422
            async with running.client(made["key"]) as bot:
                assert (await bot.get("/api/me")).json()["role"] == "viewer"
                assert (await bot.get("/api/keys")).status_code == 403
                # A program is none of the page, whatever it says of itself.
                page = await bot.get("/api/me", headers={"X-Nodius-Client": "page"})
                assert page.status_code == 200
            assert (await ada.delete(f"/api/keys/{made['id']}")).json()["revoked"]
            async with running.client(made["key"]) as bot:
                gone = await bot.get("/api/me")
                assert (gone.status_code, gone.json()["error"]["code"]) == (401, "unauthorized")
        async with running.as_("ed", "editor") as ed:
            assert (await ed.post("/api/keys", json={})).status_code == 403


async def test_without_sign_in_a_key_lets_a_program_in_from_elsewhere_as_its_user() -> None:
    async with service(auth_secret=None) as running:
        keys = running.state.authentication.api_keys
        _, text = await keys.create(user="bot", role="viewer", workspaces=["default"], channels=())
        async with running.client(peer="203.0.113.9") as nobody:
            assert (await nobody.get("/api/me")).status_code == 403
        async with running.client(text, peer="203.0.113.9") as program:
            me = (await program.get("/api/me")).json()
            assert (me["userId"], me["role"]) == ("bot", "viewer")
        async with running.client("nodius_key_0_x", peer="203.0.113.9") as wrong:
            assert (await wrong.get("/api/me")).status_code == 401


async def test_revoking_is_never_overwritten_by_a_use_that_is_noted(tmp_path: Path) -> None:
    async with database_in(tmp_path / "g.db") as database:
        clocks = Clocks()
        here, there = (clocks.keys(database.records(ROOT_WORKSPACE)) for _ in range(2))
        key, text = await here.create(user="ed", role="editor", workspaces=["w"])
        assert await there.find(text, "mcp") is not None
        await here.revoke(key.id)
        clocks.now += 120_000
        await there.find(text, "mcp")  # it still has the key in mind, and notes its use
        (listed,) = await here.list()
        assert listed.revoked is not None
