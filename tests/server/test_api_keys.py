"""Keys of programs: what they allow, by which channel, until when; and that a revoked one ends at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from datasources.mock import MemoryDatabase
from datasources.sqlite import SqliteDatabase
from datasources.types import ROOT_WORKSPACE
from graphrag.app.api_keys import HELD_S, KIND, MAX_KEYS, PROPOSING, ApiKeys, TooManyKeys
from graphrag.approvals.programs import ids_of
from graphrag.roles import ClientInfo
from tests.server.mcp.helpers import connected
from tests.support.served import served
from tests.support.service import GRAPH, service

DAY_MS = 86_400_000


class Clocks:
    """Time as a store of keys sees it, and as its memory does."""

    now, passed = 1_700_000_000_000, 0.0

    def keys(self, records: Any) -> ApiKeys:
        return ApiKeys(records, clock=lambda: self.now, monotonic=lambda: self.passed)


async def test_a_key_is_stored_as_a_hash_and_holds_until_it_is_over_or_revoked() -> None:
    records, clocks = MemoryDatabase().records(ROOT_WORKSPACE), Clocks()
    here, there = clocks.keys(records), clocks.keys(records)
    key, text = await here.create(user="ed", role="editor", workspaces=["default"], name="bot", days=2)
    assert key.id.startswith("key_")
    assert text.split("_", 3)[3] not in str(await records.query(KIND))
    found = await there.find(text, "mcp")
    assert found is not None
    assert (found.user, found.role, found.workspaces, found.name) == ("ed", "editor", ("default",), "bot")
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
        keys = running.state.authenticator.keys
        assert keys is not None
        key, text = await keys.create(user="ed", role="editor", workspaces=["default"], name="bot")
        async with connected(running, bearer=text) as client:
            change = {"nodeKey": "fetch-api", "changes": {"data.name": "X"}, "reason": "shorter"}
            made = await client.call_tool("propose_update_node", {"graphKey": GRAPH, **change})
            assert made.structured_content is not None, made
        services = await running.state.services("default")
        (proposed,) = await services.approvals.waiting()
        assert proposed.client is not None
        assert proposed.client["keyId"] == key.id
        (seen,) = await services.approvals.programs(services.local_person())
        assert seen.id == f"key:{key.id}"
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
        named = ids_of(ClientInfo(channel=channel, name="bot", key_id=key.id))
        assert named[0] == f"key:{key.id}", "its rule holds however it comes"
    assert ids_of(ClientInfo(channel="websocket", name="bot")) == ()


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
        keys = running.state.authenticator.keys
        assert keys is not None
        _, text = await keys.create(user="bot", role="viewer", workspaces=["default"], channels=())
        async with running.client(peer="203.0.113.9") as nobody:
            assert (await nobody.get("/api/me")).status_code == 403
        async with running.client(text, peer="203.0.113.9") as program:
            me = (await program.get("/api/me")).json()
            assert (me["userId"], me["role"]) == ("bot", "viewer")
        async with running.client("nodius_key_0_x", peer="203.0.113.9") as wrong:
            assert (await wrong.get("/api/me")).status_code == 401


async def test_revoking_is_never_overwritten_by_a_use_that_is_noted(tmp_path: Path) -> None:
    async with SqliteDatabase(tmp_path / "g.db") as database:
        clocks = Clocks()
        here, there = (clocks.keys(database.records(ROOT_WORKSPACE)) for _ in range(2))
        key, text = await here.create(user="ed", role="editor", workspaces=["w"])
        assert await there.find(text, "mcp") is not None
        await here.revoke(key.id)
        clocks.now += 120_000
        await there.find(text, "mcp")  # it still has the key in mind, and notes its use
        (listed,) = await here.list()
        assert listed.revoked is not None
