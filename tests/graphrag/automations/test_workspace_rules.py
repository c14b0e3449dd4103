"""Rules for all automations of a workspace: a pause, and a budget of a day."""

from typing import Any

import pytest

from graphrag.automations.automation import Automation, Spent
from graphrag.automations.errors import AutomationForbidden, AutomationRefused, AutomationsSpent
from graphrag.automations.workspace_rules import (
    WorkspaceBudget,
    check_workspace,
    pause_all,
    read_rules,
    resume_all,
    set_budget,
)
from graphrag.roles import Person
from tests.support.automations import DAY, TWO, Night, finish, night_of
from tests.support.scripted_provider import ScriptedProvider

REVIEWER = Person("rev", "reviewer", "default")
ADMIN = Person("ada", "admin", "default")


async def spend(night: Night, automation: Automation, **amounts: Any) -> None:
    def spent(one: Automation) -> Automation:
        used = Spent(day=one.day_of(night.clock()), runs=1, **amounts)
        return one.model_copy(update={"spent": used})

    await night.automations.update(automation.key, spent)


async def test_while_all_are_paused_no_run_begins_and_each_time_says_why() -> None:
    async with night_of(ScriptedProvider(finish())) as night:
        made = await night.automation()
        store = night.automations
        await pause_all(store, REVIEWER, "The model is being replaced")
        assert await night.run_at(TWO) == 0
        stored = await night.stored(made)
        assert [one.reason for one in stored.skipped] == ["all_paused"]
        assert stored.next_time == TWO + DAY
        with pytest.raises(AutomationRefused, match=r"rev .The model is being replaced"):
            await check_workspace(store)
        paused = (await read_rules(store.records)).paused
        assert paused is not None
        assert (paused.by, paused.reason) == ("rev", "The model is being replaced")
        await resume_all(store, ADMIN)
        assert await night.run_at(TWO + DAY) == 1


async def test_an_editor_neither_pauses_all_nor_sets_the_budget() -> None:
    async with night_of(ScriptedProvider()) as night:
        editor = Person("ed", "editor", "default")
        with pytest.raises(AutomationForbidden):
            await pause_all(night.automations, editor, "")
        with pytest.raises(AutomationForbidden):
            await set_budget(night.automations, REVIEWER, WorkspaceBudget(day_tokens=1))


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (WorkspaceBudget(day_tokens=100), {"tokens": {"a": 100}}),
        (WorkspaceBudget(day_cost_usd=2.0), {"cost_usd": {"a": 2.5}}),
    ],
)
async def test_a_workspace_whose_budget_is_used_up_begins_no_run_until_the_next_day(
    budget: WorkspaceBudget, spent: dict[str, Any]
) -> None:
    async with night_of(ScriptedProvider(finish())) as night:
        await night.run_at(TWO - 1)
        other = await night.automation(name="Dear", cron="0 3 1 6 *")
        made = await night.automation()
        await set_budget(night.automations, ADMIN, budget)
        await spend(night, other, **spent)
        assert await night.run_at(TWO) == 0
        assert [one.reason for one in (await night.stored(made)).skipped] == ["workspace_budget"]
        with pytest.raises(AutomationsSpent):
            await check_workspace(night.automations)
        await pause_all(night.automations, ADMIN, "")
        await resume_all(night.automations, ADMIN)
        assert (await read_rules(night.automations.records)).budget == budget
        assert await night.run_at(TWO + DAY) == 1
