"""Runs as people start, see, stop and copy them."""

import asyncio
import json
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from graphrag.agent.thread_store import ThreadBusy
from graphrag.agent.turn_lease import TurnLeases
from graphrag.app.automation_services import automation_service
from graphrag.approvals import title
from graphrag.automations import errors, session_control
from graphrag.sessions.agent_session import SessionReport
from graphrag.sessions.phases import EndReason, Phase
from tests.support.agents import an_ask
from tests.support.automation_setting import (
    ADMIN,
    DAY,
    EDITOR,
    GRAPH,
    OTHER,
    REVIEWER,
    VIEWER,
    Setting,
)


async def test_one_run_at_a_time_unless_it_is_replaced(setting: Setting) -> None:
    key = (await setting.add()).id
    first = await setting.service.run(key, EDITOR)
    assert (first.session.phase, first.session.trigger) == (Phase.IDLE, "manual")
    with pytest.raises(errors.AutomationRefused, match="--supersede"):
        await setting.service.run(key, EDITOR)
    setting.now += 1
    second = await setting.service.run(key, EDITOR, supersede=True)
    runs = await setting.service.runs(key, REVIEWER)
    assert [run.key for run in runs] == [second.key, first.key]
    assert runs[1].session.end_reason is EndReason.CANCELLED
    with pytest.raises(errors.AutomationForbidden):
        await setting.service.runs(key, OTHER)


async def test_a_run_that_a_person_starts_notes_and_reads_what_a_scheduled_one_does(
    setting: Setting,
) -> None:
    key = (await setting.add(mode="propose")).id
    first = await setting.service.run(key, EDITOR)
    stored = await setting.service.store.get(key)
    graph = await setting.services.source.get_graph(GRAPH)
    assert stored.last_seen.revision == graph.revision, (
        "the next run is skipped while nothing changes"
    )
    proposed = await setting.services.approvals.propose(
        {"type": "move_node", "payload": {"nodeKey": "root", "posX": 1, "posY": 2}},
        an_ask(asker=EDITOR, thread_id=first.key),
    )
    setting.now += 1
    second = await setting.service.run(key, EDITOR, supersede=True)
    assert title(proposed, "en") in json.dumps(second.conversation_history, ensure_ascii=False)
    left = await setting.services.approvals.get(proposed.id, EDITOR)
    assert left.result is not None
    assert left.result.reason is not None
    assert (left.status, left.result.reason.code) == ("stale", "stale_replaced")
    old = (await setting.service.sessions.get(first.key, EDITOR)).session
    assert old is not None
    assert old.report is not None
    assert old.report.text.startswith("A newer run of this automation replaced this one.")


async def test_of_runs_that_are_replaced_at_the_same_moment_one_is_left(setting: Setting) -> None:
    key = (await setting.add()).id
    await setting.service.run(key, EDITOR)
    ticks = count(setting.now + 1)
    services = [
        automation_service(
            setting.services, clock=lambda: next(ticks), pricing=lambda *_: setting.pricing
        )
        for _ in range(4)
    ]
    asked = (service.run(key, EDITOR, supersede=True) for service in services)
    await asyncio.gather(*asked, return_exceptions=True)
    assert len(await setting.service.sessions.list(ADMIN, is_open=True)) == 1


async def test_a_paused_one_and_spent_runs_are_not_run(setting: Setting) -> None:
    key = (await setting.add(budget={"dayRuns": 1})).id
    await setting.service.pause(key, EDITOR)
    with pytest.raises(errors.AutomationRefused, match="paused"):
        await setting.service.run(key, EDITOR)
    await setting.service.enable(key, EDITOR)
    await setting.service.run(key, EDITOR)
    with pytest.raises(errors.AutomationsSpent, match="2025-11-21 00:00"):
        await setting.service.run(key, EDITOR, supersede=True)
    setting.now += DAY
    assert await setting.service.run(key, EDITOR, supersede=True)


async def test_removing_stops_what_is_open_and_keeps_the_runs(setting: Setting) -> None:
    key = (await setting.add()).id
    run = await setting.service.run(key, EDITOR)
    await setting.service.remove(key, EDITOR)
    left = await setting.service.sessions.get(run.key, EDITOR)
    assert left.session.end_reason is EndReason.CANCELLED


async def test_what_no_process_gives_up_is_busy_to_who_stops_it_and_left_to_a_tick_by_who_removes_it(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_control, "STOP_WAIT_S", 0.02)
    key = (await setting.add()).id
    run = await setting.service.run(key, EDITOR)
    async with TurnLeases(setting.service.store.records).held(run.key):
        with pytest.raises(ThreadBusy):
            await setting.service.sessions.stop(run.key, EDITOR)
        await setting.service.remove(key, EDITOR)
    with pytest.raises(errors.AutomationNotFound):
        await setting.service.get(key, EDITOR)


async def test_no_run_is_left_open_by_who_begins_one_while_it_is_removed(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (await setting.add()).id
    service = setting.service
    listed = service.store.sessions

    async def begins_meanwhile(where: Any, **more: Any) -> Any:
        found = await listed(where, **more)
        with suppress(errors.AutomationNotFound):
            await setting.service.run(key, EDITOR)
        return found

    monkeypatch.setattr(service.store, "sessions", begins_meanwhile)
    await service.remove(key, EDITOR)
    assert await setting.service.sessions.list(ADMIN, is_open=True) == []


async def test_who_may_not_see_runs_reads_nothing_of_them_in_the_list(setting: Setting) -> None:
    key = (await setting.add()).id
    store = setting.service.store
    run = await setting.service.run(key, EDITOR)
    stored = await store.session(run.key)
    said = SessionReport(outcome="findings", text="what it found")
    session = stored.thread.session.model_copy(update={"report": said})
    await store.put_session(stored.thread.model_copy(update={"session": session}), stored.version)
    await setting.service.sessions.stop(run.key, EDITOR)
    for person, seen in ((EDITOR, True), (REVIEWER, True), (OTHER, False), (VIEWER, False)):
        shown = (await setting.service.get(key, person)).to_document()
        assert shown["last"]["report"]["outcome"] == "findings"
        assert ("what it found" in json.dumps(shown)) is seen


async def test_a_run_goes_on_as_a_conversation_of_who_copies_it(setting: Setting) -> None:
    view = await setting.add()
    run = await setting.service.run(view.id, EDITOR)
    copy = await setting.service.sessions.chat_copy(run.key, REVIEWER)
    stored = await setting.services.threads.get(copy.key, REVIEWER)
    assert stored.thread.session is None
    assert [m.content for m in stored.thread.messages] == ["Look for errors."]
    assert stored.thread.turn.status == "failed", "what nobody answered is answered at the next try"
    assert "execution" not in stored.thread.conversation_history[0]
    with pytest.raises(errors.AutomationForbidden):
        await setting.service.sessions.chat_copy(run.key, OTHER)


async def test_all_proposals_of_a_run_are_closed_however_many_it_made(setting: Setting) -> None:
    approvals = setting.services.approvals
    first = await approvals.propose(
        {"type": "move_node", "payload": {"nodeKey": "root", "posX": 1, "posY": 2}},
        an_ask(asker=EDITOR, thread_id="auto/a/1"),
    )
    for number in range(100):
        await approvals.context.put(first.changed(id=f"{first.id}-{number}", version=None))
    assert len(await approvals.withdraw(graph_key=GRAPH, thread_id="auto/a/1")) == 101
    assert await approvals.list(status="pending", by=REVIEWER) == []
