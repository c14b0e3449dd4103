"""A night of 200 automations on two servers, one of which restarts: the morning view names each of
30 failures once, with its cause and its cost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from graphrag.automations.automation import Budget
from graphrag.leases import now_ms
from graphrag.llm.base import Chunk, Finished, Message, UsageReport, UserMessage
from graphrag.llm.errors import ModelContentFiltered, ModelRequestRefused, ModelUnreachable
from graphrag.llm.registry import Price, Pricing
from graphrag.sessions.machine import SessionLimits
from tests.support.automations import HOUR, MINUTE, Night, finish, night_on
from tests.support.chosen_database import address_in, database_in
from tests.support.clock import Clock
from tests.support.databases import nba_file
from tests.support.scripted_provider import FixedModel, call, calls_chunks
from tests.support.service import service

pytestmark = pytest.mark.slow

AUTOMATIONS = 200
FAILING = 5  # of each kind
CAUSES = {
    "refused": ("failed", "ERROR"),
    "filtered": ("failed", "ERROR"),
    "reads": ("failed", "LIMIT_REACHED"),
    "slow": ("failed", "TIMEOUT"),
    "reported": ("failed", "REPORTED"),
    "away": ("waits", "waiting_network_retry"),
}
# Answers of the model that are counted before the run ends.
CALLS = {"refused": 0, "filtered": 0, "reads": 2, "slow": 0, "reported": 1, "away": 0, "fine": 1}
USED = UsageReport(prompt=100, completion=10)
DOLLARS = 0.01 * 100 + 0.1 * 10
PRICING = Pricing(model="script-1", fixed=Price(input=10_000.0, output=100_000.0))


class NightModel(FixedModel):
    """Does what the task says. `is_midnight` is set when it was asked a third of all."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_midnight = asyncio.Event()

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Chunk]:
        task = next(m.content for m in messages if isinstance(m, UserMessage))
        kind = task.split()[0]
        self.asked += 1
        if self.asked == AUTOMATIONS // 3:
            self.is_midnight.set()
        if kind == "refused":
            raise ModelRequestRefused(provider=self.name, reason="no such model")
        if kind == "filtered":
            raise ModelContentFiltered(provider=self.name, reason="policy")
        if kind == "away":
            raise ModelUnreachable(provider=self.name, reason="refused")
        if kind == "slow":
            await asyncio.Event().wait()
        outcome = "failed" if kind == "reported" else "ok"
        [ends] = finish(outcome, "Looked at it.").calls
        for piece in calls_chunks(
            call("search_nodes", {"query": task}) if kind == "reads" else ends
        ):
            yield piece
        yield USED
        yield Finished(reason="tool_calls")


async def stored(night: Night, due: int) -> dict[str, str]:
    """Stores automations that are due at a time; returns the kind of each by its name."""
    at = datetime.fromtimestamp(due / 1000, UTC)
    zone = f"Etc/GMT{at.hour - 12:+d}"  # where it is noon: the day of its costs is that of the view
    schedule: dict[str, Any] = {
        "cron": f"{at.minute} 12 * * *",
        "timezone": zone,
        "only_if_changed": False,
    }
    kinds = [kind for kind in CAUSES for _ in range(FAILING)]
    kinds += ["fine"] * (AUTOMATIONS - len(kinds))
    names = {f"{kind} {number}": kind for number, kind in enumerate(kinds)}
    for name, kind in names.items():
        limits = {"reads": {"model_calls": 2}, "slow": {"active_s": 1}}.get(kind, {})
        await night.automation(name, name=name, budget=Budget(**limits), **schedule)
    return names


async def test_the_morning_names_each_failure_once_with_its_cause_and_cost(tmp_path: Path) -> None:
    path = await nba_file(tmp_path)
    due = (now_ms() // MINUTE - 20) * MINUTE
    clock = Clock(due - 2 * MINUTE)
    model = NightModel()
    async with database_in(path) as database:

        def server() -> Night:
            limits = SessionLimits(confirm_ms=0)
            return night_on(database, model, clock=clock, pricing=PRICING, limits=limits)

        one, other = server(), server()
        names = await stored(one, due)
        clock.now = due
        working = asyncio.create_task(one.scheduler.run_due())
        beside = asyncio.create_task(other.scheduler.run_due())
        await model.is_midnight.wait()
        await one.scheduler.close()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await asyncio.gather(server().scheduler.run_due(), beside)
    async with (
        service(db=address_in(path), automations_at_once=0) as running,
        running.as_("rev", "reviewer") as reviewer,
    ):
        answer = await reviewer.get("/api/today", params={"since": due - HOUR, "limit": 500})
    told = answer.json()
    assert told["more"] == {}
    found = {row["name"]: (row["state"], row["reason"]) for row in told["runs"]}
    assert Counter(row["name"] for row in told["runs"]).most_common(1)[0][1] == 1
    assert found == {name: CAUSES[kind] for name, kind in names.items() if kind in CAUSES}
    costs = {row["name"]: row["costUsd"] for row in told["costs"]}
    assert costs == {name: pytest.approx(CALLS[kind] * DOLLARS) for name, kind in names.items()}
