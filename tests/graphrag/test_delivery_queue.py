"""The queue of owed requests: one server at a time tries one, and only what is over is removed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from datasources.base import Database, Record
from datasources.types import ROOT_WORKSPACE
from graphrag.delivery_queue import CLAIMED_MS, DELAYS_MS, KEPT_MS, DeliveryQueue

KIND = "webhook"


class Queue(DeliveryQueue):
    """One of a server, with a clock of its own."""

    def __init__(self, database: Database) -> None:
        self.now = 1_700_000_000_000
        super().__init__(database.records(ROOT_WORKSPACE), KIND, since="createdTime", clock=lambda: self.now)

    async def read(self, key: str) -> Record:
        found = await self.records.get(KIND, key)
        assert found is not None
        return found


async def test_while_one_is_tried_nobody_else_tries_it_until_its_sender_must_be_gone(
    memory: Database,
) -> None:
    first, second = Queue(memory), Queue(memory)
    stored = await first.add("k", {"inWorkspace": "w"})
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def hangs() -> Mapping[str, Any]:
        begun.set()
        await goes_on.wait()
        return {"status": "done"}

    async def fails() -> Mapping[str, Any]:
        return {"error": "ConnectError"}

    trying = asyncio.create_task(first.attempt(stored, hangs))
    await begun.wait()
    assert await second.attempt(stored, fails) is None
    assert await second.retry(await second.read("k")) is None
    second.now += CLAIMED_MS
    tried = await second.attempt(await second.read("k"), fails)
    assert tried is not None
    assert (tried["attempts"], tried["nextTime"]) == (2, second.now + DELAYS_MS[1])
    goes_on.set()
    await trying  # it came too late to say that it is done
    assert (await second.read("k")).data == tried
    again = await second.retry(await second.read("k"))
    assert again is not None
    assert (again.data["attempts"], again.data["nextTime"]) == (0, second.now)


@pytest.mark.parametrize(("status", "stays"), [("done", False), ("refused", False), ("of_later", True)])
async def test_what_is_over_is_removed_and_what_a_later_program_stored_is_not(
    memory: Database, status: str, stays: bool
) -> None:
    queue, seen = Queue(memory), list[str]()
    await queue.change(await queue.add("k", {"inWorkspace": "w"}), {"status": status})
    queue.now += KEPT_MS

    async def send(records: Any) -> None:
        seen.extend(record.key for record in records)

    assert await queue.send_due(send) == 1
    assert (await queue.records.get(KIND, "k") is not None, seen) == (stays, ["k"] * stays)
