"""Servers that are killed while they gather what a webhook tells: each in a child, ended
at one write.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from datasources.types import ROOT_WORKSPACE
from server.webhook_target import WebhookTarget
from server.webhooks import KIND, Webhooks
from tests.support.chosen_database import database_in

SAVES = 3
GATHER_S = 1.0


async def save_and_send(path: Path, url: str) -> None:
    """Note each save in a file as soon as it is stored that it is to be sent; then wait
    until it is.
    """
    noted = path.with_suffix(".saves")
    noted.write_text("", encoding="utf-8")
    async with database_in(path) as database:
        records = database.records(ROOT_WORKSPACE)
        hooks = Webhooks(WebhookTarget(url=url), records, gather_s=GATHER_S)
        hooks.start()

        async def until(saved: int, statuses: set[str]) -> None:
            while True:
                found = [each.data for each in await records.query(KIND)]
                stored = sum(each["body"]["nodesSaved"] for each in found)
                if stored == saved and {each["status"] for each in found} <= statuses:
                    return
                await asyncio.sleep(0.005)

        for number in range(1, SAVES + 1):
            hooks.graph_changed("default", "g", 1)
            await until(number, {"waiting", "done"})
            noted.write_text("." * number, encoding="utf-8")
        await until(SAVES, {"done"})
        await hooks.aclose()
