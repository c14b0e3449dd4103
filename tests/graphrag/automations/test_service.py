"""Making and changing automations: who may, what is refused and how, what a list shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import pytest

from datasources.errors import GraphNotFound
from graphrag.agent.thread_store import ThreadNotFound, ThreadOfOtherGraph
from graphrag.app.automation_services import automation_service
from graphrag.app.wiring import Services, open_services
from graphrag.approvals import title
from graphrag.automations.automation_view import AutomationView, run_summary
from graphrag.automations.drafts import changes_of, draft_of
from graphrag.automations.errors import (
    AutomationError,
    AutomationForbidden,
    AutomationInvalid,
    AutomationNotFound,
    AutomationRefused,
    AutomationsSpent,
    AutomationTooLong,
    SessionNotFound,
    SessionRefused,
)
from graphrag.automations.service import AutomationService
from graphrag.commands import BlockRefused
from graphrag.config import Settings
from graphrag.errors import describe
from graphrag.llm.base import UserMessage
from graphrag.llm.prices import FREE, Pricing
from graphrag.roles import Person
from graphrag.sessions.agent_session import SessionReport
from graphrag.sessions.machine import EndReason, Phase
from graphrag.sessions.schedules import ScheduleError
from tools.base import Role

GRAPH = "testgraph001"
NOW = 1_763_632_800_000  # Thu 20 Nov 2025 10:00 UTC
DAY = 86_400_000
VIEWER, EDITOR, OTHER, REVIEWER, ADMIN = (
    Person(name, cast(Role, role), "default")
    for name, role in (
        ("val", "viewer"),
        ("ed", "editor"),
        ("olga", "editor"),
        ("rose", "reviewer"),
        ("ann", "admin"),
    )
)
STRANGER = Person("ed", "admin", "elsewhere")


@dataclass
class Setting:
    """A service over the NBA graph in memory, and its clock."""

    services: Services
    now: int = NOW
    woken: int = 0
    pricing: Pricing = field(default_factory=lambda: Pricing(model="priceless"))

    @property
    def service(self) -> AutomationService:
        return automation_service(
            self.services, on_changed=self.wake, pricing=lambda: self.pricing, clock=lambda: self.now
        )

    def wake(self) -> None:
        self.woken += 1

    async def add(self, person: Person = EDITOR, **fields: Any) -> AutomationView:
        return await self.service.add(draft_of(draft(**fields)), person)


def draft(**fields: Any) -> dict[str, Any]:
    usual = {"graphKey": GRAPH, "name": "Nightly check", "message": "Look for errors.", "cron": "0 2 * * *"}
    return {**usual, **fields}


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    settings = Settings(db="memory:", embeddings="none", automations_max=3, provider="offline")
    async with open_services(settings) as services:
        yield Setting(services)


async def test_an_automation_is_made_with_its_template_and_next_times(setting: Setting) -> None:
    view = await setting.add(cron="0 2 * * 1-5", timezone="Europe/Paris", mode="propose")
    shown = view.to_document(setting.now)
    assert shown["schedule"] == "at 02:00 on Monday through Friday"
    assert shown["nextTimes"][0] == shown["nextTime"] == NOW + 15 * 3_600_000
    assert len(shown["nextTimes"]) == 5
    assert (shown["mode"], shown["version"], shown["enabled"], shown["waiting"]) == ("propose", 1, True, 0)
    said = await setting.service.messages(view.automation.key, VIEWER)
    assert [message.content for message in said] == ["Look for errors."]
    assert setting.woken == 1
    listed = await setting.service.list(VIEWER, graph_key=GRAPH)
    assert [each.automation.key for each in listed] == [view.automation.key]
    assert await setting.service.list(STRANGER) == []


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    cast(
        list[Any],
        [
            ({"cron": "61 * * * *"}, ScheduleError, "five fields"),
            ({"cron": "0 0 0 * * *"}, ScheduleError, "six fields"),
            ({"cron": "@daily"}, ScheduleError, "0 2 * * *"),
            ({"cron": "0 0 31 2 *"}, ScheduleError, "never"),
            ({"cron": "* * * * *"}, ScheduleError, "60 s apart; at least 300"),
            ({"cron": None, "dates": [1]}, ScheduleError, "future"),
            ({"timezone": "Europe/Pariss"}, ScheduleError, "Europe/Paris"),
            ({"message": " \n"}, AutomationInvalid, "empty"),
            ({"message": "x" * 100_001}, AutomationTooLong, "100001"),
            ({"blocks": [{}] * 11}, AutomationInvalid, "11 blocks"),
            ({"name": " "}, AutomationInvalid, "1 to 80"),
            ({"name": "x" * 81}, AutomationInvalid, "1 to 80"),
            ({"graphKey": "nowhere"}, GraphNotFound, "nowhere"),
            ({"budget": {"costUsd": 1}}, AutomationInvalid, "priceless"),
            ({"budget": {"dayCostUsd": 1.5}}, AutomationInvalid, "llm_price_input"),
            ({"budget": {"modelCalls": 0}}, AutomationInvalid, "budget.modelCalls"),
            ({"mode": "destroy"}, AutomationInvalid, "mode"),
            ({"seedId": "seed/x"}, AutomationInvalid, "seedId"),
            ({"fromThreadId": "nobodys"}, ThreadNotFound, "nobodys"),
        ],
    ),
)
async def test_what_cannot_be_used_is_refused_by_name(
    setting: Setting, fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as refused:
        await setting.add(**fields)
    known = describe(refused.value, "en")
    assert known is not None
    assert said in known.message
    assert await setting.service.list(ADMIN) == []
    assert setting.woken == 0


async def test_a_name_is_taken_once_in_a_graph_and_a_workspace_has_its_most(setting: Setting) -> None:
    first = await setting.add()
    with pytest.raises(AutomationRefused, match=first.automation.key):
        await setting.add(name=" nightly  CHECK")
    await setting.add(name="Second")
    third = await setting.add(OTHER, name="Third")
    with pytest.raises(AutomationsSpent, match="3 automations"):
        await setting.add(name="Fourth")
    changes = changes_of({"version": 1, "name": "second"})
    with pytest.raises(AutomationRefused, match="Second"):
        await setting.service.edit(third.automation.key, changes, OTHER)


async def test_a_limit_of_cost_is_taken_where_the_price_is_known(setting: Setting) -> None:
    setting.pricing = Pricing(model="m", fixed=FREE)
    view = await setting.add(budget={"costUsd": 2, "tokens": 5})
    assert (view.automation.budget.cost_usd, view.automation.budget.tokens) == (2, 5)
    assert view.automation.budget.model_calls == 20


async def test_an_edit_is_counted_from_now_and_needs_the_version_that_was_seen(setting: Setting) -> None:
    view = await setting.add()
    key = view.automation.key
    setting.now += 3_600_000
    edited = await setting.service.edit(
        key, changes_of({"version": 1, "cron": "0 9 * * *", "message": "Other words."}), EDITOR
    )
    assert edited.automation.version == 2
    assert edited.automation.next_time == NOW + 23 * 3_600_000, "earlier times never run"
    assert [m.content for m in await setting.service.messages(key, EDITOR)] == ["Other words."]
    with pytest.raises(AutomationRefused, match="version 2"):
        await setting.service.edit(key, changes_of({"version": 1, "name": "Late"}), EDITOR)
    dates = await setting.service.edit(key, changes_of({"version": 2, "dates": [setting.now + DAY]}), EDITOR)
    assert (dates.automation.cron, dates.automation.next_time) == (None, setting.now + DAY)
    by_hand = await setting.service.edit(key, changes_of({"version": 3, "dates": None}), EDITOR)
    assert by_hand.automation.next_time is None
    assert by_hand.words == "when a person starts it"


async def test_two_edits_at_once_store_one(setting: Setting) -> None:
    view = await setting.add()
    changes = changes_of({"version": 1, "name": "Mine"})
    service, stored = setting.service, await setting.service.store.get(view.automation.key)
    await service.edit(view.automation.key, changes, EDITOR)
    with pytest.raises(AutomationError):
        await service.store.edit(stored, stored.automation)


@pytest.mark.parametrize("person", [VIEWER, OTHER, REVIEWER])
async def test_only_its_owner_and_admins_change_or_run_an_automation(
    setting: Setting, person: Person
) -> None:
    key = (await setting.add()).automation.key
    service = setting.service
    for change in (
        service.edit(key, changes_of({"version": 1, "name": "Mine"}), person),
        service.enable(key, person),
        service.pause(key, person),
        service.run(key, person),
        service.remove(key, person),
        service.take_over(key, person),
    ):
        with pytest.raises(AutomationForbidden):
            await change
    with pytest.raises(AutomationForbidden):
        await setting.add(VIEWER, name="Viewer's")
    assert (await service.get(key, person)).automation.version == 1


async def test_an_admin_pauses_takes_over_and_removes(setting: Setting) -> None:
    key = (await setting.add()).automation.key
    paused = await setting.service.pause(key, ADMIN)
    assert (paused.automation.enabled, paused.automation.paused_reason) == (False, "person")
    assert (paused.automation.next_time, paused.next_times) == (None, ())
    assert paused.automation.user_id == "ed"
    taken = await setting.service.take_over(key, ADMIN)
    assert (taken.automation.user_id, taken.automation.role) == ("ann", "admin")
    with pytest.raises(AutomationForbidden):
        await setting.service.enable(key, EDITOR)
    enabled = await setting.service.enable(key, ADMIN)
    assert (enabled.automation.enabled, enabled.automation.paused_reason) == (True, None)
    assert enabled.automation.next_time is not None
    await setting.service.remove(key, ADMIN)
    with pytest.raises(AutomationNotFound):
        await setting.service.get(key, ADMIN)


async def test_another_workspaces_keys_do_not_exist(setting: Setting) -> None:
    key = (await setting.add()).automation.key
    run = await setting.service.run(key, EDITOR)
    service = setting.service
    for asked in (
        service.get(key, STRANGER),
        service.run(key, STRANGER),
        service.remove(key, STRANGER),
        service.runs(key, STRANGER),
        service.messages(key, STRANGER),
    ):
        with pytest.raises(AutomationNotFound):
            await asked
    for asked in (
        service.sessions.get(run.key, STRANGER),
        service.sessions.stop(run.key, STRANGER),
        service.sessions.chat_copy(run.key, STRANGER),
    ):
        with pytest.raises(SessionNotFound):
            await asked
    assert await service.sessions.list(STRANGER) == []


async def test_one_run_at_a_time_unless_it_is_replaced(setting: Setting) -> None:
    key = (await setting.add()).automation.key
    first = await setting.service.run(key, EDITOR)
    assert first.session is not None
    assert (first.session.phase, first.session.trigger) == (Phase.IDLE, "manual")
    with pytest.raises(AutomationRefused, match="--supersede"):
        await setting.service.run(key, EDITOR)
    setting.now += 1
    second = await setting.service.run(key, EDITOR, supersede=True)
    runs = await setting.service.runs(key, REVIEWER)
    assert [run.key for run in runs] == [second.key, first.key]
    assert runs[1].session is not None
    assert runs[1].session.end_reason is EndReason.CANCELLED
    with pytest.raises(AutomationForbidden):
        await setting.service.runs(key, OTHER)


async def test_a_run_that_a_person_starts_notes_and_reads_what_a_scheduled_one_does(setting: Setting) -> None:
    key = (await setting.add(mode="propose")).automation.key
    first = await setting.service.run(key, EDITOR)
    stored = (await setting.service.store.get(key)).automation
    graph = await setting.services.source.get_graph(GRAPH)
    assert stored.last_seen.revision == graph.revision, "the next run is skipped while nothing changes"
    proposed = await setting.services.approvals.propose(
        graph_key=GRAPH,
        thread_id=first.key,
        turn=1,
        tool_call_id="c1",
        action={"type": "move_node", "payload": {"nodeKey": "root", "posX": 1, "posY": 2}},
        asker=EDITOR,
        model="m",
    )
    setting.now += 1
    second = await setting.service.run(key, EDITOR, supersede=True)
    assert title(proposed, "en") in json.dumps(second.conversation_history, ensure_ascii=False)
    left = await setting.services.approvals.get(proposed.id, EDITOR)
    assert left.status == "expired"


async def test_of_runs_that_are_replaced_at_the_same_moment_one_is_left(setting: Setting) -> None:
    key = (await setting.add()).automation.key
    await setting.service.run(key, EDITOR)
    ticks = count(setting.now + 1)
    services = [
        automation_service(setting.services, clock=lambda: next(ticks), pricing=lambda: setting.pricing)
        for _ in range(4)
    ]
    asked = (service.run(key, EDITOR, supersede=True) for service in services)
    await asyncio.gather(*asked, return_exceptions=True)
    assert len(await setting.service.sessions.list(ADMIN, is_open=True)) == 1


async def test_a_paused_one_and_spent_runs_are_not_run(setting: Setting) -> None:
    key = (await setting.add(budget={"dayRuns": 1})).automation.key
    await setting.service.pause(key, EDITOR)
    with pytest.raises(AutomationRefused, match="paused"):
        await setting.service.run(key, EDITOR)
    await setting.service.enable(key, EDITOR)
    await setting.service.run(key, EDITOR)
    with pytest.raises(AutomationsSpent, match="2025-11-21 00:00"):
        await setting.service.run(key, EDITOR, supersede=True)
    setting.now += DAY
    assert await setting.service.run(key, EDITOR, supersede=True)


async def test_removing_stops_what_is_open_and_keeps_the_runs(setting: Setting) -> None:
    key = (await setting.add()).automation.key
    run = await setting.service.run(key, EDITOR)
    await setting.service.remove(key, EDITOR)
    left = await setting.service.sessions.get(run.key, EDITOR)
    assert left.session is not None
    assert left.session.end_reason is EndReason.CANCELLED


async def test_no_run_is_left_open_by_who_begins_one_while_it_is_removed(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (await setting.add()).automation.key
    service = setting.service
    listed = service.store.sessions

    async def begins_meanwhile(where: Any, **more: Any) -> Any:
        found = await listed(where, **more)
        with suppress(AutomationNotFound):
            await setting.service.run(key, EDITOR)
        return found

    monkeypatch.setattr(service.store, "sessions", begins_meanwhile)
    await service.remove(key, EDITOR)
    assert await setting.service.sessions.list(ADMIN, is_open=True) == []


async def test_who_may_not_see_runs_reads_nothing_of_them_in_the_list(setting: Setting) -> None:
    key = (await setting.add()).automation.key
    store = setting.service.store
    run = await setting.service.run(key, EDITOR)
    stored = await store.session(run.key)
    assert stored.thread.session is not None
    said = SessionReport(outcome="findings", text="what it found")
    session = stored.thread.session.model_copy(update={"report": said})
    await store.put_session(stored.thread.model_copy(update={"session": session}), stored.version)
    await setting.service.sessions.stop(run.key, EDITOR)
    for person, seen in ((EDITOR, True), (REVIEWER, True), (OTHER, False), (VIEWER, False)):
        shown = (await setting.service.get(key, person)).to_document(setting.now)
        assert shown["last"]["report"]["outcome"] == "findings"
        assert ("what it found" in json.dumps(shown)) is seen


async def test_a_run_is_stopped_once_and_a_template_never_runs(setting: Setting) -> None:
    view = await setting.add()
    control = setting.service.sessions
    run = await setting.service.run(view.automation.key, EDITOR)
    stopped = await control.stop(run.key, EDITOR)
    assert run_summary(stopped)["endReason"] == "CANCELLED"
    assert run_summary(stopped)["phase"] == "completed"
    for past in (
        control.stop(run.key, EDITOR),
        control.confirm(run.key, EDITOR, end=True),
        control.resume(run.key, EDITOR),
    ):
        with pytest.raises(SessionRefused, match=r"completed.*CANCELLED"):
            await past
    with pytest.raises(AutomationRefused, match="waits for no answer"):
        await control.answer(run.key, EDITOR, approved=True)
    for refused in (
        control.stop(view.automation.seed_id, EDITOR),
        control.answer(view.automation.seed_id, EDITOR, approved=True),
        control.confirm(view.automation.seed_id, EDITOR, end=False),
    ):
        with pytest.raises(AutomationRefused, match="template"):
            await refused
    assert (await setting.service.get(view.automation.key, EDITOR)).last == stopped


async def test_the_messages_of_a_conversation_become_the_template(setting: Setting) -> None:
    chats = setting.services.threads
    begun = chats.begin(GRAPH, EDITOR, title="A talk")
    said = UserMessage(
        content="Check the errors", segments=({"text": "Check the errors"},), retrieved=("root",)
    )
    await chats.save(begun, [said, UserMessage(content=" ")])
    view = await setting.add(message="Propose repairs.", fromThreadId=begun.thread.key)
    kept = await setting.service.messages(view.automation.key, EDITOR)
    assert [m.content for m in kept] == ["Check the errors", "Propose repairs."]
    assert (kept[0].segments, kept[0].retrieved) == (said.segments, ())
    alone = await setting.add(name="Alone", message="", fromThreadId=begun.thread.key)
    assert len(await setting.service.messages(alone.automation.key, EDITOR)) == 1
    with pytest.raises(ThreadNotFound):
        await setting.add(OTHER, name="Other's", fromThreadId=begun.thread.key)
    other = chats.begin("another-graph", EDITOR, title="")
    await chats.save(other, [said])
    with pytest.raises(ThreadOfOtherGraph):
        await setting.add(name="Elsewhere", fromThreadId=other.thread.key)


async def test_a_run_goes_on_as_a_conversation_of_who_copies_it(setting: Setting) -> None:
    view = await setting.add()
    run = await setting.service.run(view.automation.key, EDITOR)
    copy = await setting.service.sessions.chat_copy(run.key, REVIEWER)
    stored = await setting.services.threads.get(copy.key, REVIEWER)
    assert stored.thread.session is None
    assert [m.content for m in stored.thread.messages] == ["Look for errors."]
    assert stored.thread.turn.status == "failed", "what nobody answered is answered at the next try"
    assert "execution" not in stored.thread.conversation_history[0]
    with pytest.raises(AutomationForbidden):
        await setting.service.sessions.chat_copy(run.key, OTHER)


async def test_runs_are_listed_for_who_may_see_them(setting: Setting) -> None:
    view = await setting.add()
    run = await setting.service.run(view.automation.key, EDITOR)
    control = setting.service.sessions
    for person, seen in ((EDITOR, 1), (OTHER, 0), (VIEWER, 0), (REVIEWER, 1), (ADMIN, 1)):
        assert len(await control.list(person)) == seen
    assert [t.key for t in await control.list(EDITOR, graph_key=GRAPH, phase=Phase.IDLE, is_open=True)] == [
        run.key
    ]
    assert await control.list(EDITOR, is_open=False) == []
    assert await control.list(EDITOR, graph_key="another") == []


async def test_a_schedule_is_previewed_in_both_languages(setting: Setting) -> None:
    shown = setting.service.preview("0 2 * * 1-5", (), "Europe/Paris")
    assert shown["next"][:2] == ["Fri 21 Nov 02:00", "Mon 24 Nov 02:00"]
    assert (
        setting.service.preview("0 2 * * 1-5", (), None, "fr")["schedule"] == "à 02:00 du lundi au vendredi"
    )
    with pytest.raises(ScheduleError):
        setting.service.preview("0 0 0 0 0 0", (), None)


async def test_blocks_of_a_task_are_checked_and_keep_their_periods_as_written(setting: Setting) -> None:
    block = {"id": "b1", "type": "USE", "target": {"kind": "node", "key": "fetch-api"}}
    period = {"from": "-1_WEEK", "to": "NOW"}
    made = await setting.add(message="Look.", blocks=[{**block, "period": period}])
    key = made.automation.key
    (said,) = await setting.service.messages(key, EDITOR)
    assert said.content.startswith("Look. [uses ")
    assert said.segments[-1]["block"] == {**block, "period": period}
    changes = {"version": made.automation.version, "message": "Look again."}
    await setting.service.edit(key, changes_of(changes), EDITOR)
    (again,) = await setting.service.messages(key, EDITOR)
    assert again.content.startswith("Look again. [uses ")
    assert again.segments[-1] == said.segments[-1]
    gone = {**block, "target": {"kind": "node", "key": "fetch-apo"}}
    with pytest.raises(BlockRefused, match="fetch-api"):
        await setting.add(name="Other", message="Look.", blocks=[gone])
    with pytest.raises(AutomationInvalid, match=r"blocks\.0\.type"):
        await setting.add(name="Other", message="Look.", blocks=[{**block, "type": "DO"}])


async def test_a_preview_refuses_what_would_not_be_stored(setting: Setting) -> None:
    with pytest.raises(ScheduleError, match="300 s"):
        setting.service.preview("*/2 * * * *", (), "UTC")
    assert setting.service.preview(None, (), None)["nextTimes"] == []
