"""Making and changing automations: who may, what is refused and how, what a list shows."""

from itertools import count
from typing import Any

import pytest

from graphrag.agent.thread_store import ThreadNotFound, ThreadOfOtherGraph
from graphrag.automations import errors
from graphrag.automations.drafts import AutomationChanges
from graphrag.commands import BlockRefused
from graphrag.errors import describe
from graphrag.llm.base import UserMessage
from graphrag.llm.registry import FREE, Pricing
from tests.support.automation_setting import ADMIN, DAY, EDITOR, GRAPH, NOW, OTHER, Setting


async def test_a_name_is_taken_once_in_a_graph_and_a_workspace_has_its_most(
    setting: Setting,
) -> None:
    first = await setting.add()
    with pytest.raises(errors.AutomationRefused, match=first.id):
        await setting.add(name=" nightly  CHECK")
    await setting.add(name="Second")
    third = await setting.add(OTHER, name="Third")
    with pytest.raises(errors.AutomationsSpent, match="3 automations"):
        await setting.add(name="Fourth")
    changes = AutomationChanges.read({"version": 1, "name": "second"})
    with pytest.raises(errors.AutomationRefused, match="Second"):
        await setting.service.edit(third.id, changes, OTHER)


async def test_a_limit_of_cost_is_taken_only_where_the_price_is_known(setting: Setting) -> None:
    for budget in ({"costUsd": 1}, {"dayCostUsd": 1.5}):
        with pytest.raises(errors.AutomationInvalid) as refused:
            await setting.add(budget=budget)
        assert "priceless" in describe(refused.value, "en").message
    assert (await setting.service.list(ADMIN), setting.woken) == ([], 0)
    setting.pricing = Pricing(model="m", fixed=FREE)
    view = await setting.add(budget={"costUsd": 2, "tokens": 5})
    assert (view.budget.cost_usd, view.budget.tokens, view.budget.model_calls) == (2, 5, 20)


async def test_an_edit_is_counted_from_now_and_needs_the_version_that_was_seen(
    setting: Setting,
) -> None:
    view = await setting.add()
    key = view.id
    setting.now += 3_600_000
    edited = await setting.service.edit(
        key,
        AutomationChanges.read({"version": 1, "cron": "0 9 * * *", "message": "Other words."}),
        EDITOR,
    )
    assert edited.version == 2
    assert edited.next_time == NOW + 23 * 3_600_000, "earlier times never run"
    assert [m.content for m in await setting.service.messages(key, EDITOR)] == ["Other words."]
    with pytest.raises(errors.AutomationRefused, match="version 2"):
        await setting.service.edit(
            key, AutomationChanges.read({"version": 1, "name": "Late"}), EDITOR
        )
    dates = await setting.service.edit(
        key, AutomationChanges.read({"version": 2, "dates": [setting.now + DAY]}), EDITOR
    )
    assert (dates.cron, dates.next_time) == (None, setting.now + DAY)
    by_hand = await setting.service.edit(
        key, AutomationChanges.read({"version": 3, "dates": None}), EDITOR
    )
    assert by_hand.next_time is None
    assert by_hand.schedule == "when a person starts it"


async def test_an_admin_pauses_takes_over_and_removes(setting: Setting) -> None:
    key = (await setting.add()).id
    paused = await setting.service.pause(key, ADMIN)
    assert (paused.enabled, paused.paused_reason) == (False, "person")
    assert (paused.next_time, paused.next_times) == (None, [])
    assert paused.user_id == "ed"
    taken = await setting.service.take_over(key, ADMIN)
    assert (taken.user_id, taken.role) == ("ann", "admin")
    with pytest.raises(errors.AutomationForbidden):
        await setting.service.enable(key, EDITOR)
    enabled = await setting.service.enable(key, ADMIN)
    assert (enabled.enabled, enabled.paused_reason) == (True, None)
    assert enabled.next_time is not None
    await setting.service.remove(key, ADMIN)
    with pytest.raises(errors.AutomationNotFound):
        await setting.service.get(key, ADMIN)


async def test_the_messages_of_a_conversation_become_the_template(setting: Setting) -> None:
    chats = setting.services.threads
    begun = chats.begin(GRAPH, EDITOR, title="A talk")
    said = UserMessage(
        content="Check the errors", segments=({"text": "Check the errors"},), retrieved=("root",)
    )
    await chats.save(begun, [said, UserMessage(content=" ")])
    view = await setting.add(message="Propose repairs.", fromThreadId=begun.thread.key)
    kept = await setting.service.messages(view.id, EDITOR)
    assert [m.content for m in kept] == ["Check the errors", "Propose repairs."]
    assert (kept[0].segments, kept[0].retrieved) == (said.segments, ())
    alone = await setting.add(name="Alone", message="", fromThreadId=begun.thread.key)
    assert len(await setting.service.messages(alone.id, EDITOR)) == 1
    with pytest.raises(ThreadNotFound):
        await setting.add(OTHER, name="Other's", fromThreadId=begun.thread.key)
    other = chats.begin("another-graph", EDITOR, title="")
    await chats.save(other, [said])
    with pytest.raises(ThreadOfOtherGraph):
        await setting.add(name="Elsewhere", fromThreadId=other.thread.key)


async def test_blocks_of_a_task_are_checked_and_keep_their_periods_as_written(
    setting: Setting,
) -> None:
    block = {"id": "b1", "type": "USE", "target": {"kind": "node", "key": "fetch-api"}}
    period = {"from": "-1_WEEK", "to": "NOW"}
    made = await setting.add(message="Look.", blocks=[{**block, "period": period}])
    key = made.id
    (said,) = await setting.service.messages(key, EDITOR)
    assert said.content.startswith("Look. [uses ")
    assert said.segments[-1]["block"] == {**block, "period": period}
    changes = {"version": made.version, "message": "Look again."}
    await setting.service.edit(key, AutomationChanges.read(changes), EDITOR)
    (again,) = await setting.service.messages(key, EDITOR)
    assert again.content.startswith("Look again. [uses ")
    assert again.segments[-1] == said.segments[-1]
    gone = {**block, "target": {"kind": "node", "key": "fetch-apo"}}
    with pytest.raises(BlockRefused, match="fetch-api"):
        await setting.add(name="Other", message="Look.", blocks=[gone])
    with pytest.raises(errors.AutomationInvalid, match=r"blocks\.0\.type"):
        await setting.add(name="Other", message="Look.", blocks=[{**block, "type": "DO"}])


async def test_what_a_tick_notes_meanwhile_is_no_reason_to_refuse_a_change(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (await setting.add()).id
    service = setting.service
    read = service.store.get
    times = count(1)

    async def read_before_a_tick(automation_id: str) -> Any:
        found = await read(automation_id)
        if next(times) % 2:  # after every second look something is noted
            await service.store.put(found.with_skipped(setting.now, "unchanged"))
        return found

    monkeypatch.setattr(service.store, "get", read_before_a_tick)
    edited = await service.edit(key, AutomationChanges.read({"version": 1, "name": "Mine"}), EDITOR)
    assert (edited.name, edited.version) == ("Mine", 2)
    assert len(edited.skipped) == 1, "what was noted is kept"
    paused = await service.pause(key, EDITOR)
    assert not paused.enabled
    await service.remove(key, EDITOR)
    assert await service.list(EDITOR) == []
