"""Settings that admins set on the page: what they may set, who may, what takes effect when, and
that no key comes out again.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from graphrag.config import Settings
from mock_data import load_text
from server.app import create_app, running
from server.server_backup import ServerBackup
from tests.graphrag.llm.wire import openai_text, streamed
from tests.support.scripted_http import ScriptedServer
from tests.support.service import SECRET, Service, error_of, settings_of
from tests.support.waiting import until

KEY = "sk-a-key-of-the-page-0815"
PLACE = "/api/administration/settings"


@asynccontextmanager
async def operated(folder: Path, **given: Any) -> AsyncIterator[Service]:
    """A service over a file whose model is not set in the environment."""
    settings: dict[str, Any] = {
        **{"db": f"sqlite:{folder / 'nodius.db'}", "embeddings": "none", "auth_secret": SECRET},
        **given,
    }
    app = create_app(Settings(**settings))
    async with running(app):
        yield Service(app)


async def imported(client: httpx2.AsyncClient) -> None:
    path = "/api/graphs/import?fileName=graph.json"
    answer = await client.post(path, content=load_text("nba.json").encode())
    assert answer.status_code < 300, answer.text


async def put(client: httpx2.AsyncClient, **changes: Any) -> httpx2.Response:
    return await client.put(PLACE, json={"changes": changes})


async def rows(client: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
    view = (await client.get(PLACE)).json()
    return {row["name"]: row for row in view["settings"]}


async def asked(client: httpx2.AsyncClient) -> str:
    (graph,) = (await client.get("/api/graphs")).json()["graphs"]
    body = {"graphKey": graph["graphKey"], "message": "Which colour has the sky?"}
    answer = await client.post("/api/ai/chat", json=body)
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_a_model_that_was_set_on_the_page_answers_at_once_and_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedServer() as server:
        given = {"agent_http_allow": (server.url.removeprefix("http://"),)}
        async with operated(tmp_path, **given) as service, service.as_("ada", "admin") as ada:
            await imported(ada)
            assert (await ada.get("/api/me")).json()["offline"] is True
            changes = {"provider": "compatible", "model": "m", "llm_base_url": f"{server.url}/v1"}
            answer = await put(ada, **changes, llm_api_key=KEY)
            assert answer.status_code == 200, answer.text
            assert (answer.json()["provider"], answer.json()["model"]) == ("compatible", "m")
            server.play(streamed(openai_text("Blue.")))
            assert "Blue." in await asked(ada)
            audit = (await ada.get("/api/audit")).json()["entries"][0]
            assert (audit["event"], audit["userId"]) == ("settings_set", "ada")
            assert audit["settings"] == sorted([*changes, "llm_api_key"])
        async with operated(tmp_path, **given) as service, service.as_("ada", "admin") as ada:
            server.play(streamed(openai_text("Blue again.")))
            assert "Blue again." in await asked(ada)
            key = (await rows(ada))["llm_api_key"]
            assert (key["isSet"], key["source"], "value" in key) == (True, "page", False)
            await put(ada, **dict.fromkeys([*changes, "llm_api_key"]))
            assert (await ada.get("/api/me")).json()["offline"] is True
        assert {one.headers["authorization"] for one in server.requests} == {f"Bearer {KEY}"}
    assert KEY not in caplog.text
    stored = sqlite3.connect(tmp_path / "nodius.db")
    assert KEY not in "\n".join(stored.iterdump())
    stored.close()


async def test_what_the_environment_sets_is_shown_as_such_and_stays(tmp_path: Path) -> None:
    async with (
        operated(tmp_path, provider="offline", rate_limit=7) as service,
        service.as_("ada", "admin") as ada,
    ):
        found = await rows(ada)
        assert (found["rate_limit"]["source"], found["rate_limit"]["value"]) == ("environment", "7")
        for name, value in (("provider", "ollama"), ("rate_limit", 9), ("auth_secret", "x" * 40)):
            refused = error_of(await put(ada, **{name: value}))
            assert refused["code"] == "invalid"
            assert name in refused["message"]
        assert (await rows(ada)) == found


async def test_a_wrong_value_is_refused_by_the_rule_of_the_setting(tmp_path: Path) -> None:
    async with operated(tmp_path) as service, service.as_("ada", "admin") as ada:
        for name, value in (
            ("provider", "no-such"),
            ("rate_limit", -1),
            ("rate_limit", "many"),
            ("embeddings", "magic"),
            ("llm_base_url", "ftp://a"),
            ("llm_base_url", "http://169.254.169.254/v1"),
            ("provider", "mistral"),  # its key is missing
            ("max_total_cost", 5),  # rules have a price, and this is accepted
        ):
            answer = await put(ada, **{name: value})
            assert answer.status_code == (200 if name == "max_total_cost" else 422), answer.text
        found = await rows(ada)
        assert {row["name"] for row in found.values() if row["source"] == "page"} == {
            "max_total_cost"
        }


async def test_a_limit_waits_for_a_restart_and_is_said_to(tmp_path: Path) -> None:
    async with operated(tmp_path) as service, service.as_("ada", "admin") as ada:
        await put(ada, rate_limit=3)
        assert (await rows(ada))["rate_limit"]["waits"] is True
    async with operated(tmp_path) as service, service.as_("ada", "admin") as ada:
        row = (await rows(ada))["rate_limit"]
        assert (row["waits"], row["value"], row["source"]) == (False, "3", "page")
        assert service.state.settings.rate_limit == 3


async def test_only_admins_of_the_workspace_of_the_settings_may(tmp_path: Path) -> None:
    async with (
        operated(tmp_path) as service,
        service.as_("rev", "reviewer") as reviewer,
        service.as_("eve", "admin", "elsewhere") as other,
    ):
        for client in (reviewer, other):
            for answer in (
                await client.get(PLACE),
                await put(client, provider="ollama", model="m"),
                await client.get("/api/administration/findings"),
                await client.post("/api/administration/backup"),
                await client.get("/api/administration/backup"),
                await client.get("/api/administration/backup/file"),
            ):
                assert error_of(answer)["code"] == "forbidden"
        assert service.state.backend.model.name == "offline"


async def test_without_a_secret_no_key_is_kept_and_a_server_without_key_can_be_set(
    tmp_path: Path,
) -> None:
    with ScriptedServer() as server:
        async with operated(tmp_path, auth_secret=None) as service, service.client() as me:
            changes = {"provider": "compatible", "model": "m", "llm_base_url": f"{server.url}/v1"}
            refused = await put(me, **changes, llm_api_key=KEY)
            assert "NODIUS_AUTH_SECRET" in error_of(refused)["message"]
            assert (await me.get("/api/me")).json()["offline"] is True
            assert (await put(me, **changes)).status_code == 200
            assert (await me.get("/api/me")).json()["model"] == "m"


async def test_a_key_of_the_environment_goes_to_no_address_of_the_page(tmp_path: Path) -> None:
    with ScriptedServer() as server:
        given = {
            "agent_http_allow": (server.url.removeprefix("http://"),),
            "openai_api_key": "sk-of-the-environment",
        }
        async with operated(tmp_path, **given) as service, service.as_("ada", "admin") as ada:
            await imported(ada)
            changes = {"provider": "openai", "model": "m", "llm_base_url": f"{server.url}/v1"}
            assert (await put(ada, **changes)).status_code == 422
            assert (await put(ada, **changes, llm_api_key=KEY)).status_code == 200
            server.play(streamed(openai_text("Blue.")))
            await asked(ada)
        assert [one.headers["authorization"] for one in server.requests] == [f"Bearer {KEY}"]


async def test_a_backup_is_made_while_the_service_works_and_can_be_opened(tmp_path: Path) -> None:
    async with operated(tmp_path) as service, service.as_("ada", "admin") as ada:
        await imported(ada)
        assert error_of(await ada.get("/api/administration/backup/file"))["code"] == "not_found"
        assert (await ada.post("/api/administration/backup")).json()["state"] == "running"
        await until(lambda: service.state.backend.backup.state.state != "running")
        state = (await ada.get("/api/administration/backup")).json()
        assert state["state"] == "done", state
        file = await ada.get("/api/administration/backup/file")
    copy = tmp_path / "copy.db"
    copy.write_bytes(file.content)
    assert len(file.content) == state["size"]
    async with operated(copy.parent, db=f"sqlite:{copy}") as service, service.as_() as ed:
        assert len((await ed.get("/api/graphs")).json()["graphs"]) == 1


async def test_a_backup_of_postgres_is_a_dump_of_all_workspaces(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        operated(tmp_path, db=postgres_url) as service,
        service.as_("ada", "admin") as ada,
    ):
        await imported(ada)
        began = (await ada.post("/api/administration/backup")).json()
        assert (began["state"], began["database"]) == ("running", "postgres")
        await until(lambda: service.state.backend.backup.state.state != "running")
        state = (await ada.get("/api/administration/backup")).json()
        assert state["state"] == "done", state
        assert state["holds"]["graphs"] == 1
        file = await ada.get("/api/administration/backup/file")
    assert file.content.startswith(b"PGDMP")
    assert file.headers["content-disposition"].endswith('.dump"')


@pytest.mark.parametrize(
    ("db", "kind"),
    [
        ("postgres://nodius@127.0.0.1/nodius", "postgres"),
        ("arango+http://root:x@127.0.0.1:8529/nodius", "arango"),
        ("memory:", "memory"),
    ],
)
async def test_where_no_file_can_be_made_the_state_says_so(
    db: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # no pg_dump
    backup = ServerBackup(settings_of(db=db))
    assert (backup.begin().state, backup.state.database) == ("unsupported", kind)


async def test_findings_are_those_of_the_doctor(tmp_path: Path) -> None:
    async with operated(tmp_path) as service, service.as_("ada", "admin") as ada:
        found = (await ada.get("/api/administration/findings")).json()["findings"]
    names = {one["name"] for one in found}
    assert {"python", "database", "embeddings", "models"} <= names
    assert all(one["status"] in ("ok", "warning", "error") for one in found)
