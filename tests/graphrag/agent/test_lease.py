"""Holds on conversations: one owner a turn, renewed, taken over when it lapses,
stopped from elsewhere.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

import pytest

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import RecordConflict
from datasources.mock import open_nba
from graphrag.agent.events import Completed, Failed, Token, ToolStarted, TurnStarted
from graphrag.agent.thread_store import ThreadBusy, ThreadNotFound
from graphrag.agent.turn_lease import TurnLeases, effective_status
from graphrag.leases import HELD_MS, KIND, new_owner
from graphrag.llm.base import AssistantMessage
from tests.support.agents import (
    EDITOR,
    GRAPH,
    REVIEWER,
    Setting,
    scripted,
    setting_on,
    shown,
    up_to,
)
from tests.support.clock import Clock
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import CHANGE
from tests.support.valid_history import check_valid
from tests.support.waiting import until

PATIENCE_S = 10


def leases(
    records: RecordStore, clock: Clock, *, look_s: float = 60, owner: str | None = None
) -> TurnLeases:
    return TurnLeases(records, clock=clock, look_s=look_s, owner=owner)


def process_on(setting: Setting, model: ScriptedProvider, clock: Clock, **more: float) -> Setting:
    """Another process on the same database."""
    held = leases(setting.database.records("default"), clock, **more)  # type: ignore[arg-type]
    return setting_on(setting.database, model, leases=held)


async def end_of(records: RecordStore) -> int:
    found = await records.get(KIND, "turn/t")
    return found.data["expiresTime"] if found else 0


# one owner


async def test_of_many_that_want_a_thread_at_once_one_gets_it() -> None:
    async with open_nba("default") as database:
        records = database.records("default")
        clock = Clock()
        got: list[int] = []
        all_tried = asyncio.Event()

        async def want(number: int) -> None:
            try:
                async with leases(records, clock).held("t"):
                    got.append(number)
                    await all_tried.wait()
            except ThreadBusy:
                refused.append(number)

        refused: list[int] = []
        tasks = [asyncio.create_task(want(number)) for number in range(50)]
        await until(lambda: len(got) + len(refused) == 50)
        assert len(got) == 1
        all_tried.set()
        await asyncio.gather(*tasks)
        assert await records.get(KIND, "turn/t") is None


async def test_a_thread_that_is_said_to_be_free_can_be_held() -> None:
    async with open_nba("default") as database:
        ours = leases(database.records("default"), Clock())
        ends = asyncio.Event()

        async def turn() -> None:
            async with ours.held("t"):
                await ends.wait()

        running = asyncio.create_task(turn())
        while not await ours.runs("t"):  # noqa: ASYNC110 - every step of the loop is looked at
            await asyncio.sleep(0)
        ends.set()
        while await ours.runs("t"):  # noqa: ASYNC110 - every step of the loop is looked at
            await asyncio.sleep(0)
        async with ours.held("t"):
            assert await ours.runs("t")
        await running


async def test_a_hold_is_renewed_as_long_as_its_turn_lasts() -> None:
    async with open_nba("default") as database:
        records = database.records("default")
        clock = Clock()
        async with leases(records, clock, look_s=0.001).held("t") as hold:
            for _ in range(5):
                clock.now += HELD_MS // 2
                wanted = clock.now + HELD_MS
                async with asyncio.timeout(PATIENCE_S):
                    while await end_of(records) < wanted:  # noqa: ASYNC110 - a task of the tested code renews
                        await asyncio.sleep(0.001)
                hold.check()
                with pytest.raises(ThreadBusy):
                    async with leases(records, clock).held("t"):
                        pass


# taking over


async def test_a_late_owner_stores_nothing_more_and_the_thread_stays_theirs_who_took_over() -> None:
    held = asyncio.Event()
    clock = Clock()
    async with scripted(Says(text="slow", held=held), "theirs") as (other, model):
        setting = process_on(other, model, clock)
        async with aclosing(setting.agent.run(None, GRAPH, "first", EDITOR)) as turn:
            thread_id = (await up_to(turn, TurnStarted)).thread_id
            await up_to(turn, Token)
            clock.now += HELD_MS
            await process_on(other, model, clock).ask("second", thread_id)
            held.set()
            last = [event async for event in turn][-1]
        assert isinstance(last, Failed)
        assert (last.fault.code, last.fault.retryable) == ("busy", True)
        texts = [
            m.content for m in await other.messages(thread_id) if isinstance(m, AssistantMessage)
        ]
        assert texts == ["(This turn ended without an answer.)", "theirs"]


async def test_a_late_owner_is_refused_by_the_store_even_if_its_clock_stands_still() -> None:
    """Its hold was taken over between two looks: the version of the thread refuses
    what it writes.
    """
    held = asyncio.Event()
    late = Clock()
    now = Clock()
    now.now += HELD_MS
    async with scripted(Says(text="slow", held=held), Says(text="mine", held=held)) as (
        base,
        model,
    ):
        setting = process_on(base, model, late)
        async with AsyncExitStack() as stack:
            first = setting.agent.run(None, GRAPH, "first", EDITOR)
            turn = await stack.enter_async_context(aclosing(first))
            thread_id = (await up_to(turn, TurnStarted)).thread_id
            await up_to(turn, Token)
            second = process_on(base, model, now).agent.run(thread_id, GRAPH, "second", EDITOR)
            theirs = await stack.enter_async_context(aclosing(second))
            await up_to(theirs, Token)
            held.set()
            assert isinstance([event async for event in turn][-1], Failed)
            assert isinstance([event async for event in theirs][-1], Completed)
        texts = [
            m.content for m in await base.messages(thread_id) if isinstance(m, AssistantMessage)
        ]
        assert texts == ["(This turn ended without an answer.)", "mine"]


async def test_an_owner_that_learns_of_its_loss_leaves_the_model_at_once() -> None:
    clock = Clock()
    async with scripted(Says(text="slow", held=asyncio.Event()), "theirs") as (base, model):
        setting = process_on(base, model, clock, look_s=0.001)
        async with aclosing(setting.agent.run(None, GRAPH, "first", EDITOR)) as turn:
            thread_id = (await up_to(turn, TurnStarted)).thread_id
            await up_to(turn, Token)
            records = base.database.records("default")
            found = await records.get(KIND, f"turn/{thread_id}")
            taken = Record(kind=KIND, key=found.key, data={**found.data, "hold": "another's"})
            await records.put(taken, expected_version=found.version)
            async with asyncio.timeout(PATIENCE_S):
                last = [event async for event in turn][-1]
        assert isinstance(last, Failed)
        assert model.closed_early == 1
        assert (await records.get(KIND, found.key)).data["hold"] == "another's"  # type: ignore[union-attr]
        clock.now += HELD_MS
        assert shown(await process_on(base, model, clock).ask("next", thread_id)) == "theirs"


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


async def test_who_died_on_this_machine_is_not_waited_for_and_who_is_elsewhere_is() -> None:
    async with open_nba("default") as database:
        records = database.records("default")
        clock = Clock()
        here = new_owner().partition("/")[0]
        for owner, is_free in [
            (f"{here}/{dead_process()}/a", True),
            (f"{here}/{os.getpid()}/of-the-process-that-had-this-number", True),
            (f"{here}/1/lives", False),
            ("elsewhere/4/b", False),
            ("elsewhere/not a number", False),
        ]:
            data = {"owner": owner, "hold": "h", "expiresTime": clock.now + HELD_MS}
            version = (
                await records.put(Record(kind=KIND, key="turn/t", data=data), expected_version=None)
            ).version
            assert await leases(records, clock).ask_to_stop("t") is not is_free
            if is_free:
                async with leases(records, clock).held("t"):
                    continue
            with pytest.raises(ThreadBusy):
                async with leases(records, clock).held("t"):
                    pass
            found = await records.get(KIND, "turn/t")
            assert found.version != version  # the request to stop is on it
            await records.delete(KIND, "turn/t", expected_version=found.version or "")


# stopped from elsewhere


async def test_a_turn_is_stopped_from_another_process_while_the_model_speaks() -> None:
    async with scripted(Says(text="Long ans", held=asyncio.Event()), "Next.") as (base, model):
        setting = process_on(base, model, Clock(), look_s=0.001)
        async with aclosing(setting.agent.run(None, GRAPH, "first", EDITOR)) as turn:
            thread_id = (await up_to(turn, TurnStarted)).thread_id
            await up_to(turn, Token)
            with pytest.raises(ThreadNotFound):
                await base.agent.stop(thread_id, REVIEWER)
            assert await process_on(base, model, Clock()).agent.stop(thread_id, EDITOR)
            async with asyncio.timeout(PATIENCE_S):
                last = [event async for event in turn][-1]
        assert last == Completed(thread_id=thread_id, text="Long ans", stopped=True)
        assert model.closed_early == 1
        stored = (await base.threads.get(thread_id, EDITOR)).thread
        assert (stored.turn.status, stored.messages[-1].content) == ("stopped", "Long ans")
        assert not await base.agent.stop(thread_id, EDITOR)
        assert shown(await base.ask("next", thread_id)) == "Next."


async def test_a_turn_stopped_while_nobody_takes_its_events_ends_before_the_next_one() -> None:
    steps = [Says(text="So", calls=[call("search_nodes", {"query": "x"})])]
    async with scripted(*steps, "Next.") as (base, model):
        clock = Clock()
        setting = process_on(base, model, clock, look_s=0.001)
        async with aclosing(setting.agent.run(None, GRAPH, "first", EDITOR)) as turn:
            thread_id = (await up_to(turn, TurnStarted)).thread_id
            await up_to(turn, ToolStarted)
            assert await process_on(base, model, clock).agent.stop(thread_id, EDITOR)
            for _ in range(50):  # looks of its owner
                await asyncio.sleep(0.001)
            rest = [event async for event in turn]
        assert rest == [Completed(thread_id=thread_id, text="So", stopped=True)]
        assert shown(await base.ask("next", thread_id)) == "Next."
        check_valid(await base.messages(thread_id))


class Sleeping:
    """Records of a process that was stopped just before it wrote several of them."""

    def __init__(self, records: RecordStore, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._records = records
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        if len(writes) > 1:
            await self._meanwhile()
        return await self._records.write(writes)


async def test_an_owner_that_wakes_while_it_proposes_leaves_no_proposal_once_the_thread_is_anothers() -> (
    None
):
    now = Clock()
    thread_ids = list[str]()
    now.now += HELD_MS
    async with scripted(Says(calls=[call("propose_update_node", CHANGE)]), "theirs") as (
        base,
        model,
    ):

        async def taken_by_another() -> None:
            await process_on(base, model, now).ask("second", thread_ids[0])

        records: Any = Sleeping(base.database.records("default"), taken_by_another)
        late = setting_on(base.database, model, leases=leases(records, Clock()))
        async with aclosing(late.agent.run(None, GRAPH, "first", EDITOR)) as turn:
            thread_ids.append((await up_to(turn, TurnStarted)).thread_id)
            last = [event async for event in turn][-1]
        assert isinstance(last, Failed)
        assert last.fault.code == "busy"
        assert await base.approvals.list(by=EDITOR) == []
        check_valid(await base.messages(thread_ids[0]))


async def test_a_proposal_is_stored_though_the_hold_was_renewed_or_unwanted_meanwhile() -> None:
    async with open_nba("default") as database:
        records = database.records("default")
        elsewhere = leases(records, Clock())
        meanwhile = list[bool]()

        async def unwanted() -> None:
            if len(meanwhile) < 2:  # the first try meets another version of the lease
                meanwhile.append(await elsewhere.ask_to_stop("t"))

        sleeping: Any = Sleeping(records, unwanted)
        async with leases(sleeping, Clock()).held("t") as hold:
            await hold.write(RecordWrite(kind="approval", key="k", data={}, expected_version=None))
            assert await records.get("approval", "k") is not None
            with pytest.raises(RecordConflict):  # the write's own conflict is not the lease's
                await hold.write(
                    RecordWrite(kind="approval", key="k", data={}, expected_version=None)
                )
        assert meanwhile == [True, True]
        assert await records.get(KIND, "turn/t") is None


async def test_a_turn_whose_owner_is_gone_is_shown_as_failed_though_nothing_is_stored() -> None:
    held = asyncio.Event()
    clock = Clock()
    async with scripted(Says(text="slow", held=held)) as (base, model):
        setting = process_on(base, model, clock)
        here = leases(base.database.records("default"), clock)
        async with aclosing(setting.agent.run(None, GRAPH, "first", EDITOR)) as turn:
            thread_id = (await up_to(turn, TurnStarted)).thread_id
            await up_to(turn, Token)
            stored = await base.threads.get(thread_id, EDITOR)
            assert stored.thread.turn.status == "running"
            assert (
                await effective_status(base.threads, here, stored.thread, EDITOR) == stored.thread
            )
            clock.now += HELD_MS  # as if its process slept
            seen = await effective_status(base.threads, here, stored.thread, EDITOR)
            assert (seen.turn.status, seen.messages) == ("failed", stored.thread.messages)
            assert await base.threads.get(thread_id, EDITOR) == stored
            clock.now -= HELD_MS
            held.set()
            _ = [event async for event in turn]
        # What was read while it ran is looked at once more before anything is said of it.
        now = await effective_status(base.threads, here, stored.thread, EDITOR)
        assert (now.turn.status, now.messages[-1].content) == ("idle", "slow")


async def test_a_request_to_stop_does_not_reach_the_next_turn() -> None:
    held = asyncio.Event()
    async with scripted(Says(text="one", held=held), "two") as (setting, _):
        async with aclosing(setting.agent.run(None, GRAPH, "first", EDITOR)) as turn:
            thread_id = (await up_to(turn, TurnStarted)).thread_id
            await up_to(turn, Token)
            assert await setting.agent.stop(thread_id, EDITOR)
            held.set()
            _ = [event async for event in turn]
        last = (await setting.ask("second", thread_id))[-1]
        assert last == Completed(thread_id=thread_id, text="two")
