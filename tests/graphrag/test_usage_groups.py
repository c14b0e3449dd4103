"""Usage by person, model, day and graph: whose it is, and how much of it is counted."""

from __future__ import annotations

from typing import Any

import pytest

from graphrag.agent.turn_trace import DAY_MS, TurnTrace
from graphrag.app import usage_groups
from graphrag.app.usage_groups import usage_by
from graphrag.app.usage_report import UsageGroup
from graphrag.app.wiring import Services
from graphrag.leases import now_ms
from graphrag.roles import Person
from tests.support.opened import open_services
from tests.support.service import settings_of

ADMIN = Person(user_id="al", role="admin", workspace="default")


async def stored(services: Services, user: str, turn: int, **more: Any) -> None:
    """Stores a turn with one call of a model."""
    facts: dict[str, Any] = {"threadId": f"t-{user}", "graphKey": "g", "userId": user, "turn": turn}
    trace = TurnTrace(services.traces)
    call: dict[str, Any] = {
        "inputTokens": 90,
        "outputTokens": 10,
        "cachedTokens": 5,
        "costUsd": 0.5,
    }
    trace.add("chat", "chat m", 1.0, model="m", provider="p", **call)
    await services.traces.keep({**facts, "time": now_ms(), **more}, trace)


async def groups(services: Services, by: Any, days: int = 30) -> list[UsageGroup]:
    return (await usage_by([(services, ADMIN)], by, days)).groups


async def test_the_largest_are_named_and_the_others_added_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage_groups, "MAX_GROUPS", 2)
    async with open_services(settings_of(db="memory:")) as services:
        for place, user in enumerate(("ann", "bob", "cid", "dan")):
            for turn in range(1, 5 - place):
                await stored(services, user, turn)
        found = await groups(services, "person")
        assert [(one.name, one.questions, one.others) for one in found] == [
            ("ann", 4, 0),
            ("bob", 3, 0),
            ("", 3, 2),
        ]
        assert sum(one.total_tokens for one in found) == 1_000
        assert found[0].cost == 2.0


async def test_runs_are_calls_but_no_questions_and_old_days_are_left_out() -> None:
    async with open_services(settings_of(db="memory:")) as services:
        await stored(services, "ann", 1)
        await stored(services, "ann", 1, threadId="auto/a/5")
        await stored(services, "old", 1, time=now_ms() - 8 * DAY_MS)
        [model] = await groups(services, "model", days=7)
        assert (model.name, model.calls, model.questions) == ("p m", 2, 1)
        assert len(await groups(services, "person", days=30)) == 2


async def test_that_more_is_there_than_is_counted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_groups, "MAX_TURNS", 2)
    async with open_services(settings_of(db="memory:")) as services:
        for turn in range(1, 4):
            await stored(services, "ann", turn)
        used = await usage_by([(services, ADMIN)], "day", 365)
        assert used.cut
        assert [one.questions for one in used.groups] == [2]
