"""What was used this month is stored: no restart and no second server begins at nothing."""

from __future__ import annotations

import asyncio
import calendar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from datasources.errors import SourceUnavailable
from datasources.mock import MemoryDatabase
from datasources.sqlite import SqliteDatabase
from graphrag.llm.base import UsageReport
from graphrag.llm.usage_meter import CallUsage, Payer, UsageLimits, UsageMeter

ANN, BOB = Payer(workspace="acme", person="ann"), Payer(workspace="acme", person="bob")
ELSEWHERE = Payer(workspace="globex", person="ann")
ALL = UsageLimits(person_tokens=100, workspace_tokens=1000, total_cost_usd=5.0)


@dataclass
class Clock:
    now: float = float(calendar.timegm((2026, 11, 30, 12, 0, 0)))

    def __call__(self) -> float:
        return self.now


def call(payer: Payer, tokens: int, cost_usd: float = 0.0) -> CallUsage:
    report = UsageReport(prompt=tokens)
    return CallUsage(kind="chat", provider="p", model="m", tokens=report, cost_usd=cost_usd, payer=payer)


async def used(accounts: UsageMeter, payer: Payer) -> dict[str, int]:
    return {standing.whose: standing.used.tokens for standing in await accounts.standings(payer)}


async def test_each_call_counts_for_the_person_the_workspace_and_the_service() -> None:
    accounts = UsageMeter(ALL)
    for payer in (ANN, BOB, ELSEWHERE, Payer(workspace="acme")):
        accounts.record(call(payer, tokens=10))
    assert await used(accounts, ANN) == {"person": 20, "workspace": 30, "service": 40}
    assert await used(accounts, BOB) == {"person": 10, "workspace": 30, "service": 40}
    assert await used(accounts, ELSEWHERE) == {"person": 20, "workspace": 10, "service": 40}


async def test_a_restart_and_a_second_server_go_on_counting(tmp_path: Path) -> None:
    clock = Clock()
    async with SqliteDatabase(tmp_path / "one.db") as one, SqliteDatabase(tmp_path / "one.db") as other:
        async with UsageMeter(ALL, one.records("root"), clock=clock) as accounts:
            accounts.record(call(ANN, tokens=60, cost_usd=1.5))
        async with (
            UsageMeter(ALL, one.records("root"), clock=clock) as here,
            UsageMeter(ALL, other.records("root"), clock=clock) as there,
        ):
            assert (
                await used(here, ANN)
                == await used(there, ANN)
                == {"person": 60, "workspace": 60, "service": 60}
            )
            here.record(call(ANN, tokens=1))
            there.record(call(BOB, tokens=2))
            await asyncio.gather(here.flush(), there.flush())
            clock.now += 10  # what was read is looked up again
            assert await used(here, BOB) == {"person": 2, "workspace": 63, "service": 63}
            service = (await here.standings(ANN))[-1]
            assert (service.whose, service.used.cost_usd) == ("service", 1.5)


async def test_servers_that_store_at_the_same_moment_lose_nothing() -> None:
    database = MemoryDatabase()
    servers = [UsageMeter(ALL, database.records("root")) for _ in range(5)]
    for _ in range(10):
        for server in servers:
            server.record(call(ANN, tokens=1, cost_usd=0.5))
        await asyncio.gather(*(server.flush() for server in servers))
    fresh = UsageMeter(ALL, database.records("root"))
    for server in servers:
        await server.flush()
    assert await used(fresh, ANN) == {"person": 50, "workspace": 50, "service": 50}


async def test_a_new_month_begins_at_nothing() -> None:
    clock = Clock()
    accounts = UsageMeter(ALL, MemoryDatabase().records("root"), clock=clock)
    accounts.record(call(ANN, tokens=60))
    await accounts.flush()
    clock.now += 86_400
    assert await used(accounts, ANN) == {"person": 0, "workspace": 0, "service": 0}


async def test_many_calls_are_few_writes_and_a_store_that_is_away_loses_none() -> None:
    records: Any = MemoryDatabase().records("root")
    writes, is_away = 0, True

    class Counting:
        async def get(self, *args: Any) -> Any:
            return await records.get(*args)

        async def write(self, given: Any) -> None:
            nonlocal writes
            if is_away:
                raise SourceUnavailable(source="test", reason="unplugged")
            writes += 1
            await records.write(given)

    accounts = UsageMeter(ALL, Counting())  # type: ignore[arg-type]
    for _ in range(500):
        accounts.record(call(ANN, tokens=1))
    await accounts.flush()
    is_away = False
    await accounts.flush()
    await accounts.flush()
    assert writes == 1
    assert await used(UsageMeter(ALL, records), ANN) == {"person": 500, "workspace": 500, "service": 500}


@pytest.mark.parametrize("name", ["", "a/b", "ü" * 200, "x" * 1000, "\x00", "\ud800", "a b:c"])
async def test_any_name_of_a_person_has_an_account_of_its_own(name: str, tmp_path: Path) -> None:
    async with SqliteDatabase(tmp_path / "one.db") as database:
        payer = Payer(workspace="acme", person=name)
        accounts = UsageMeter(ALL, database.records("root"))
        accounts.record(call(payer, tokens=7))
        await accounts.flush()
        assert (await used(UsageMeter(ALL, database.records("root")), payer))["person"] == 7
