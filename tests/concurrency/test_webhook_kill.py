"""kill -9 aimed at every write of a server that gathers: what was stored is sent, and as one request."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from datasources.sqlite import SqliteDatabase
from datasources.types import ROOT_WORKSPACE
from graphrag.delivery_queue import CLAIMED_MS
from graphrag.leases import now_ms
from server.webhooks import KIND, Webhooks
from tests.concurrency.killing import killing, last_write
from tests.concurrency.webhook_workers import SAVES, save_and_die
from tests.support.loopback_api import LoopbackApi, loopback_api


async def _sent_by_another(path: Path, api: LoopbackApi) -> list[dict[str, int]]:
    """Send what is left, when it must be due; return the ids of what came, each with its saves."""
    async with SqliteDatabase(path) as database:
        records = database.records(ROOT_WORKSPACE)
        hooks = Webhooks(f"{api.url}/hook", clock=lambda: now_ms() + CLAIMED_MS)
        hooks.open(records)
        async with asyncio.timeout(60):
            while any(each.data["status"] != "done" for each in await records.query(KIND)):
                await hooks.send_due()
        await hooks.aclose()
    bodies = [(each.headers["webhook-id"], json.loads(each.body)["nodesSaved"]) for each in api.arrived]
    return [{key: saves} for key, saves in dict.fromkeys(bodies)]


@pytest.mark.slow
async def test_what_is_gathered_at_a_kill_is_sent_as_one_request(tmp_path: Path) -> None:
    async with SqliteDatabase(tmp_path / "start.db"):
        pass
    found: list[int] = []
    async with loopback_api() as api, killing(save_and_die, tmp_path, f"{api.url}/hook") as killed_at:
        api.answers = {"POST /hook": {}}
        last = await last_write(killed_at)
        for write in range(1, last + 1):
            api.arrived.clear()
            assert await killed_at(write)
            path = tmp_path / f"{write}.db"
            noted = path.with_suffix(".saves")
            stored = len(noted.read_text(encoding="utf-8")) if noted.exists() else 0
            sent = await _sent_by_another(path, api)
            assert len(sent) <= 1, f"killed at write {write} of {last}: {sent}"
            saves = sum(each for one in sent for each in one.values())
            assert saves in (stored, stored + 1), f"killed at write {write} of {last}"
            found.append(saves)
    assert set(found) == set(range(SAVES + 1))
    print(f"killed at each of {last} writes: {found}")
