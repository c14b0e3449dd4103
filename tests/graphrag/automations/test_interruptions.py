"""Runs that meet conversations, other servers, crashes, unreadable records and people
who stop them.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import SourceBusy
from datasources.types import Mutation
from graphrag.agent.thread_store import StoredThread, Thread, Threads, session_of
from graphrag.agent.turn_lease import TurnLeases, pause_run_of
from graphrag.approvals import Reject
from graphrag.automations.automation import Automation
from graphrag.automations.errors import SessionRefused
from graphrag.automations.runner import SLOT
from graphrag.llm.base import SystemMessage, ToolMessage
from graphrag.llm.errors import ModelUnreachable
from graphrag.retrieval.retriever import Retriever
from graphrag.sessions.phases import OPEN, RETRYING, WAITING, EndReason, EventName, Phase
from tests.support.agents import EDITOR, GRAPH, REVIEWER
from tests.support.automations import (
    DAY,
    HOUR,
    MINUTE,
    TWO,
    Night,
    finish,
    move,
    night_of,
    night_on,
    scripted_night,
)
from tests.support.chosen_database import source_class
from tests.support.clock import Clock
from tests.support.scripted_provider import Says, ScriptedProvider, Step, call
from tests.support.waiting import until

READ = call("read_graph_overview", {})
READ_EDGES = call("list_node_edges", {"nodeKey": "root"})
INTERRUPTIONS = int(os.environ.get("INTERRUPTIONS", "200"))


async def pause_run(night: Night, graph_key: str) -> None:
    records = night.automations.records
    await pause_run_of(TurnLeases(records, prefix=SLOT), TurnLeases(records), graph_key)


async def test_a_conversation_goes_first_and_the_run_goes_on_by_itself() -> None:
    held = asyncio.Event()
    async with scripted_night(Says(text="Looking", held=held, reading=(1, 2)), finish()) as (
        night,
        provider,
    ):
        made = await night.automation()
        night.clock.now = TWO
        await night.scheduler.tick()
        await until(lambda: bool(provider.requests))
        async with night.conversations.held("a conversation", facts={"graphKey": made.graph_key}):
            await pause_run(night, made.graph_key)
            await until(lambda: night.scheduler.is_idle)
            session = await night.session(made)
            assert session.end_reason is EndReason.SUSPENDED
            assert session.phase is Phase.CALLING_AI
            assert await night.run_at(TWO + MINUTE) == 0
        assert await night.run_at(TWO + MINUTE + 20_000) == 0
        assert await night.run_at(TWO + MINUTE + 30_000) == 1
        session = await night.session(made)
        assert session.end_reason is EndReason.COMPLETED
        assert session.roundtrips == 1


async def test_a_run_that_is_left_three_times_without_a_step_ends() -> None:
    held = asyncio.Event()
    provider = ScriptedProvider(*[Says(text="x", held=held, reading=(1, 2)) for _ in range(4)])
    async with night_of(provider) as night:
        made = await night.automation()
        night.clock.now = TWO
        for asked in range(4):
            assert await night.scheduler.tick() == 1
            await until(lambda asked=asked: len(provider.requests) > asked)
            await night.scheduler.close()
        await night.run_at(TWO + MINUTE)
        await night.run_at(TWO + 2 * MINUTE)
        session = await night.session(made)
        assert (session.phase, session.end_reason) == (Phase.COMPLETED, EndReason.ERROR)


async def test_two_servers_claim_an_occurrence_once() -> None:
    async with scripted_night(*[finish()] * 5) as (night, provider):
        other = night_on(night.database, provider, clock=night.clock)
        for number in range(5):
            await night.automation(name=f"check {number}", only_if_changed=False)
        night.clock.now = TWO
        while sum(await asyncio.gather(night.scheduler.run_due(), other.scheduler.run_due())):
            night.clock.now += MINUTE
        found = await night.automations.sessions({"open": False})
        ended = [each for each in found if each.thread.session and each.thread.session.end_reason]
        assert len(ended) == 5


async def test_a_late_event_is_refused_and_changes_nothing() -> None:
    provider = ScriptedProvider(finish())
    async with night_of(provider) as night:
        made = await night.ran()
        (thread,) = await night.runs(made)
        for event in EventName:
            assert await night.activate(thread, event) is None
        assert (await night.runs(made))[0] == thread


async def test_a_record_that_a_killed_server_holds_keeps_no_other_automation_from_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = ScriptedProvider(*[finish()] * 3)
    async with night_of(provider) as night:
        made = [
            await night.automation(name=f"check {number}", only_if_changed=False)
            for number in range(3)
        ]
        records = type(night.automations.records)
        held = made[1].key
        stored = records.write

        async def refused(self: RecordStore, writes: Sequence[RecordWrite]) -> list[Record | None]:
            if any(write.key == held for write in writes):
                raise SourceBusy(source="test", reason="others are changing the same")
            return await stored(self, writes)

        with monkeypatch.context() as patch:
            patch.setattr(records, "write", refused)
            await night.run_at(TWO)
        assert [len(await night.runs(each)) for each in made] == [1, 0, 1]
        await night.run_at(TWO + MINUTE)
        assert [len(await night.runs(each)) for each in made] == [1, 1, 1]


@pytest.mark.parametrize("broken", ["seed", "approval", "automation"])
async def test_what_cannot_be_read_keeps_no_other_run_from_its_time(broken: str) -> None:
    provider = ScriptedProvider(Says(calls=[move()]), finish(), *[finish()] * 2)
    async with night_of(provider) as night:
        records = night.automations.records
        first = await night.ran(name="A", overlap="skip", only_if_changed=False)
        (waits,) = await night.approvals.list(by=REVIEWER)
        kind, key = {
            "seed": ("session", first.seed_id),
            "approval": ("approval", waits.id),
            "automation": ("automation", first.key),
        }[broken]
        found = await records.get(kind, key)
        newer = Record(kind=kind, key=key, data={**found.data, "schemaVersion": 99})
        await records.put(newer, expected_version=found.version)
        if broken == "seed":
            await night.approvals.decide(waits.id, Reject("no"), REVIEWER)
            await night.run_at(TWO + HOUR)
        later = await night.automation(
            name="B", graph_key=GRAPH, only_if_changed=False, cron="0 3 * * *"
        )
        await night.run_at(TWO + DAY + HOUR)
        assert (await night.session(later)).end_reason is EndReason.COMPLETED


async def test_the_queue_is_worked_off_in_order_however_long_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphrag.automations.open_runs.MAX_PER_TICK", 2)
    async with scripted_night(*[finish()] * 5, at_once=1) as (night, _):
        made = [await night.automation(name=str(number), cron=None) for number in range(5)]
        for number, automation in enumerate(made):
            stored = await night.stored(automation)
            night.clock.now = TWO + number
            assert await night.automations.claim(stored, night.clock.now, trigger="manual")
        await night.run_at(TWO + MINUTE)
        begun = [(await night.session(automation)).started_time or 0 for automation in made]
        assert begun == sorted(begun)
        assert all(begun)


@pytest.mark.parametrize(
    "step", [Says(calls=[move()]), ModelUnreachable(provider="scripted", reason="down")]
)
async def test_what_runs_on_a_graph_that_is_deleted_is_cancelled(step: Step) -> None:
    async with scripted_night(step) as (night, _):
        made = await night.ran()
        await night.database.source("default").delete_graph(made.graph_key)
        await night.run_at(TWO + HOUR)
        session = await night.session(made)
        assert (session.phase, session.end_reason) == (Phase.COMPLETED, EndReason.CANCELLED)
        assert (await night.stored(made)).paused_reason == "graph_gone"
        assert session.report is not None
        assert "its graph or its automation was deleted" in session.report.text


async def test_a_process_that_was_frozen_for_longer_than_its_lease_stores_nothing() -> None:
    held = asyncio.Event()
    model = ScriptedProvider(Says(text="I was away", held=held, reading=(1, 2)))
    leases = Clock()
    async with night_of(model, lease_clock=leases, look_s=1_000) as frozen:
        made = await frozen.automation()
        frozen.clock.now = TWO
        await frozen.scheduler.tick()
        await until(lambda: bool(model.requests))
        leases.now += MINUTE
        by_another = ScriptedProvider(finish("ok", "By another."))
        other = night_on(frozen.database, by_another, clock=frozen.clock, lease_clock=leases)
        assert await other.scheduler.run_due() == 1
        (before,) = await frozen.runs(made)
        held.set()
        await until(lambda: frozen.scheduler.is_idle)
        (after,) = await frozen.runs(made)
        assert after == before
        assert after.session.report.text == "By another."


@pytest.mark.parametrize("times", [5, pytest.param(INTERRUPTIONS, marks=pytest.mark.slow)])
async def test_however_often_it_makes_way_a_run_ends_as_without(times: int) -> None:
    steps = [Says(text="Looking", held=asyncio.Event(), reading=(1, 2)) for _ in range(times)]
    async with scripted_night(*steps, finish("ok", "At last."), look_s=0.01) as (night, provider):
        made = await night.automation()
        night.clock.now = TWO
        for number in range(times):
            assert await night.scheduler.tick() == 1
            await until(lambda number=number: len(provider.requests) > number)
            await pause_run(night, made.graph_key)
            await until(lambda: night.scheduler.is_idle)
            night.clock.now += MINUTE
        await night.scheduler.run_due()
        session = await night.session(made)
        assert (session.end_reason, session.roundtrips) == (EndReason.COMPLETED, 1)
        assert session.active_ms < 10 * MINUTE


@pytest.mark.parametrize(
    ("phase", "steps"),
    [
        (Phase.IDLE, []),
        (Phase.CALLING_AI, [Says(text="x", held=asyncio.Event(), reading=(1, 2))]),
        (Phase.WAITING_VALIDATION, [Says(calls=[move()])]),
        (Phase.WAITING_NETWORK_RETRY, [ModelUnreachable(provider="scripted", reason="refused")]),
        (Phase.WAITING_COMPLETION_CONFIRMATION, [finish()]),
    ],
)
async def test_a_run_is_stopped_in_whatever_phase_and_its_proposals_stay(
    phase: Phase, steps: list[Step]
) -> None:
    provider = ScriptedProvider(*steps)
    async with night_of(provider, at_once=0 if phase is Phase.IDLE else 2) as night:
        made = await night.automation()
        night.clock.now = TWO
        if phase is Phase.WAITING_COMPLETION_CONFIRMATION:
            night.worker.runner.sleep = _for_ever
        if phase is Phase.IDLE:
            stored = await night.stored(made)
            await night.automations.claim(stored, TWO, trigger="manual")
        else:
            await night.scheduler.tick()
        async with asyncio.timeout(10):
            while not await night.runs(made) or (await night.session(made)).phase is not phase:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        control = night.control
        (run,) = await night.runs(made)
        async with asyncio.timeout(
            60
        ):  # else it would wait for ever, or for a clock that stands still
            ended = await control.stop(run.key, EDITOR)
        assert ended.session.end_reason is EndReason.CANCELLED
        assert ended.session.report is not None
        waiting = await night.approvals.list(status="pending", by=REVIEWER)
        assert len(waiting) == (phase is Phase.WAITING_VALIDATION)
        with pytest.raises(SessionRefused):
            await control.stop(run.key, EDITOR)
        await night.scheduler.close()


@pytest.mark.parametrize("phase", [*sorted(OPEN - {Phase.WAITING_COMMUNICATION_RESPONSE})])
async def test_a_run_that_nobody_works_on_is_stopped_in_whatever_phase_it_was_left(
    phase: Phase,
) -> None:
    async with night_of(ScriptedProvider()) as night:
        made = await night.automation()
        claimed = await night.automations.claim(await night.stored(made), TWO, trigger="manual")
        waiting = {"type": "any"} if phase in WAITING else None
        left = session_of(claimed.thread).model_copy(update={"phase": phase, "waiting": waiting})
        await night.automations.put_session(
            claimed.thread.model_copy(update={"session": left}), claimed.version
        )
        async with asyncio.timeout(60):
            ended = session_of(await night.control.stop(claimed.thread.key, EDITOR))
        assert (ended.phase, ended.end_reason) == (Phase.COMPLETED, EndReason.CANCELLED)
        assert ended.report is not None


@pytest.mark.parametrize(
    ("phase", "seam", "work", "steps"),
    [
        (Phase.EXECUTING_ENRICHMENTS, Retriever, "retrieve", []),
        (Phase.PARSING_AI_RESPONSE, source_class(), "get_nodes_by_key", [Says(calls=[move()])]),
        (Phase.EXECUTING_DATA_QUERIES, source_class(), "get_edges_of", [Says(calls=[READ_EDGES])]),
    ],
)
async def test_a_run_is_stopped_in_the_middle_of_what_hangs(
    phase: Phase, seam: type, work: str, steps: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = getattr(seam, work)
    under_way = asyncio.Event()

    async def hangs(*args: Any, **more: Any) -> Any:
        if (await night.runs(made)) and (await night.session(made)).phase is phase:
            under_way.set()
            await _for_ever(0)
        return await done(*args, **more)

    async with night_of(ScriptedProvider(*steps)) as night:
        made = await night.automation()
        monkeypatch.setattr(seam, work, hangs)
        await _stopped_once(night, made, under_way)
        assert not await night.approvals.list(by=REVIEWER)


async def test_an_action_under_way_is_finished_before_its_run_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apply = source_class().apply
    under_way = asyncio.Event()

    async def slow(*args: Any, **more: Any) -> Any:
        under_way.set()
        await _stop_is_asked(night, made)
        return await apply(*args, **more)

    provider = ScriptedProvider(Says(calls=[move(x=77)]))
    async with night_of(provider, free=frozenset({"layout"}), look_s=0.3) as night:
        made = await night.automation(require_validation=False)
        monkeypatch.setattr(source_class(), "apply", slow)
        await _stopped_once(night, made, under_way)
        (node,) = await night.database.source("default").get_nodes_by_key(GRAPH, ["root"])
        assert node.pos_x == 77
        assert [a.status for a in await night.approvals.list(by=REVIEWER)] == ["applied"]


@pytest.mark.parametrize("failed", ["form", "action"])
async def test_a_run_is_stopped_while_it_notes_why_it_tries_again(
    failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Threads.put
    apply = source_class().apply
    under_way = asyncio.Event()

    async def slow(threads: Threads, thread: Thread, *over: Any) -> StoredThread:
        last = thread.messages[-1]
        wrong = isinstance(last, SystemMessage) and last.kind == "FORMAT_ERROR"
        if wrong or (
            isinstance(last, ToolMessage) and (last.outcome or {}).get("status") == "stale"
        ):
            under_way.set()
            await asyncio.sleep(0.1)  # the owner of the run looks meanwhile
        return await put(threads, thread, *over)

    async def late(source: Any, mutation: Mutation, **more: Any) -> Any:
        if mutation.put_nodes:  # just before, somebody else removes the node
            await apply(source, Mutation(graph_key=GRAPH, delete_nodes=["root"]))
        return await apply(source, mutation, **more)

    said = "I am done." if failed == "form" else Says(calls=[move(x=77)])
    again = Says(text="x", held=asyncio.Event(), reading=(1, 2))
    provider = ScriptedProvider(said, again)
    async with night_of(provider, free=frozenset({"layout"})) as night:
        made = await night.automation(require_validation=False)
        monkeypatch.setattr(Threads, "put", slow)
        monkeypatch.setattr(source_class(), "apply", late)
        await _stopped_once(night, made, under_way)


@pytest.mark.parametrize(
    ("said", "phase"),
    [
        pytest.param("I am done.", Phase.RETRYING_AFTER_FORMAT_ERROR, id="form"),
        pytest.param(
            Says(calls=[move(x=77)]), Phase.RETRYING_AFTER_ACTION_FAILURE, id="policy's action"
        ),
    ],
)
async def test_a_retry_is_stored_before_the_model_is_asked_again(
    said: Step, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Threads.put
    apply = source_class().apply
    stored: list[tuple[Phase, int]] = []

    async def logged(threads: Threads, thread: Thread, *over: Any) -> StoredThread:
        kept = await put(threads, thread, *over)
        if thread.session is not None:
            stored.append((thread.session.phase, thread.session.roundtrips))
        return kept

    async def late(source: Any, mutation: Mutation, **more: Any) -> Any:
        if mutation.put_nodes:  # just before, somebody else removes the node
            await apply(source, Mutation(graph_key=GRAPH, delete_nodes=["root"]))
        return await apply(source, mutation, **more)

    monkeypatch.setattr(Threads, "put", logged)
    monkeypatch.setattr(source_class(), "apply", late)
    async with scripted_night(said, finish(), free=frozenset({"layout"})) as (night, _):
        made = await night.ran(require_validation=False)
        assert (await night.session(made)).end_reason is EndReason.COMPLETED
    retried = stored.index((phase, 1))
    assert stored[retried + 1] == (Phase.CALLING_AI, 2)
    assert (Phase.CALLING_AI, 2) not in stored[:retried]


async def test_a_run_whose_process_died_while_it_retried_asks_again() -> None:
    for phase in sorted(RETRYING):
        async with scripted_night(finish()) as (night, _):
            made = await night.automation()
            night.clock.now = TWO
            claimed = await night.automations.claim(await night.stored(made), TWO, trigger="manual")
            assert claimed is not None
            left = session_of(claimed.thread).model_copy(update={"phase": phase, "roundtrips": 1})
            thread = claimed.thread.model_copy(update={"session": left})
            await night.automations.put_session(thread, claimed.version)
            await night.run_at(TWO + MINUTE)
            session = await night.session(made)
            assert (session.end_reason, session.roundtrips) == (EndReason.COMPLETED, 2), phase


async def _stopped_once(night: Night, made: Automation, under_way: asyncio.Event) -> None:
    """Begin a run, and stop it as soon as something is under way: it is over while
    what it asked hangs.
    """
    night.clock.now = TWO
    await night.scheduler.tick()
    async with asyncio.timeout(60):
        await under_way.wait()
    (run,) = await night.runs(made)
    async with asyncio.timeout(60):
        ended = session_of(await night.control.stop(run.key, EDITOR))
    assert (ended.phase, ended.end_reason) == (Phase.COMPLETED, EndReason.CANCELLED)
    assert ended.report is not None
    await until(lambda: night.scheduler.is_idle)


async def _stop_is_asked(night: Night, made: Automation) -> None:
    """Wait until the lease of the run says that somebody wants it to stop."""
    (run,) = await night.runs(made)
    holder = None
    while holder is None or not holder.data.get("unwanted"):
        await asyncio.sleep(0.01)
        holder = await night.control.events.leases.holder(run.key)


async def _for_ever(_: float) -> None:
    await asyncio.Event().wait()
