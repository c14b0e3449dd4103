"""Work outside the event loop: bounded threads, bounded waiting, and places that come back."""

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from graphrag.workers import (
    CollectionLimits,
    Workers,
    WorkersBusy,
    collect_all_rarely,
    end_tasks,
    person_id,
    repeat,
    run_limited,
)
from server.error_responses import error_response
from tests.support.health_probe import HealthProbe
from tests.support.served import served
from tests.support.waiting import cancelled


async def test_work_runs_in_a_thread_and_gives_its_result_or_its_error() -> None:
    assert await run_limited(threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        await run_limited(lambda: 1 / 0)


async def test_a_caller_beyond_the_bound_is_refused_and_places_come_back() -> None:
    workers = Workers(threads=1, waiting=1)
    go = threading.Event()
    running, waiting = (asyncio.ensure_future(workers.run(go.wait, 30)) for _ in range(2))
    await asyncio.sleep(0)
    with pytest.raises(WorkersBusy):
        await workers.run(go.wait, 30)
    go.set()
    assert await running
    assert await waiting
    assert await workers.run(go.wait, 30)


async def test_one_person_has_not_all_places_and_another_is_served() -> None:
    workers = Workers(threads=1, waiting=3, of_one=2)
    go = threading.Event()

    async def asked(person: str) -> bool:
        person_id.set(person)
        return await workers.run(go.wait, 30)

    own = [asyncio.create_task(asked("vera")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(WorkersBusy):
        await asyncio.create_task(asked("vera"))
    other = asyncio.create_task(asked("bob"))
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*own, other) == [True, True, True]
    assert await asyncio.create_task(asked("vera"))


async def test_a_cancelled_caller_leaves_the_queue_and_begun_work_holds_its_thread() -> None:
    workers = Workers(threads=1, waiting=1)
    go = threading.Event()
    begun = threading.Event()

    def work() -> bool:
        begun.set()
        return go.wait(30)

    running = asyncio.ensure_future(workers.run(work))
    await asyncio.to_thread(begun.wait, 30)
    for _ in range(3):  # each takes the one place in the queue, and gives it back
        waiting = asyncio.ensure_future(workers.run(work))
        await asyncio.sleep(0)
        await cancelled(waiting)
    await cancelled(running)
    last = asyncio.ensure_future(workers.run(work))
    await asyncio.sleep(0)
    with pytest.raises(WorkersBusy):
        await workers.run(work)
    go.set()
    assert await last


async def test_repeated_work_goes_on_after_a_failure_which_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    done = 0
    again = asyncio.Event()

    async def work() -> None:
        nonlocal done
        done += 1
        if done == 1:
            raise ValueError
        again.set()

    task = asyncio.create_task(repeat(work, 0.0, logging.getLogger("of the caller"), "work_failed"))
    await asyncio.wait_for(again.wait(), 30)
    await end_tasks(task)
    assert task.cancelled()
    assert [(one.name, one.message) for one in caplog.records] == [("of the caller", "work_failed")]


async def test_repeated_work_may_wait_first() -> None:
    done: list[None] = []

    async def work() -> None:
        done.append(None)

    log = logging.getLogger(__name__)
    waiting = asyncio.create_task(repeat(work, 3600.0, log, "work_failed", waits_first=True))
    at_once = asyncio.create_task(repeat(work, 3600.0, log, "work_failed"))
    await asyncio.sleep(0)
    assert len(done) == 1
    await end_tasks(waiting, at_once)


def test_a_refused_caller_learns_when_to_come_back() -> None:
    answer = error_response(WorkersBusy(waiting=32, retry_after_s=2), "en")
    assert (answer.status, answer.code, answer.retryable) == (503, "busy", True)
    assert answer.headers["Retry-After"] == "2"


@dataclass
class Memory:
    """The blocks that a process seems to have in use, and how often its garbage of all ages was
    collected.
    """

    used: int = 1_000_000
    collections: int = 0
    collected: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            self.collections += 1
            self.collected.set()


@asynccontextmanager
async def collecting(**limits: float) -> AsyncGenerator[tuple[Memory, CollectionLimits]]:
    """Look for garbage very often, in a process that seems to use what the test says."""
    quick = CollectionLimits(check_s=0.001, **limits)  # type: ignore[arg-type]
    memory = Memory()
    gc.collect()
    gc.callbacks.append(memory.count)
    task = asyncio.create_task(collect_all_rarely(quick, lambda: memory.used))
    try:
        await asyncio.sleep(0.05)
        yield memory, quick
    finally:
        gc.callbacks.remove(memory.count)
        await end_tasks(task)


async def test_garbage_of_all_ages_is_collected_once_when_a_process_grew_and_rests() -> None:
    async with collecting(checks_compared=3) as (memory, limits):
        before = memory.collections
        memory.used += limits.growth + 1
        await asyncio.wait_for(memory.collected.wait(), 10)
        await asyncio.sleep(0.05)
        assert memory.collections == before + 1


async def test_garbage_waits_until_no_whole_graph_is_worked_on() -> None:
    async with collecting(checks_compared=100_000) as (memory, limits):
        memory.collected.clear()
        memory.used += limits.growth + limits.passing
        await asyncio.sleep(0.1)
        assert not memory.collected.is_set()
        memory.used -= limits.growth + 1
        await asyncio.wait_for(memory.collected.wait(), 10)


async def test_garbage_of_a_process_that_never_comes_to_rest_is_collected_each_time() -> None:
    async with collecting(checks_compared=100_000, latest_s=0.02) as (memory, limits):
        for _ in range(3):
            memory.collected.clear()
            memory.used += limits.growth + 1
            await asyncio.wait_for(memory.collected.wait(), 10)


async def test_the_health_probe_measures_a_server_and_its_gap_while_nothing_answers() -> None:
    async with served() as service, HealthProbe(service.address) as probe:
        await probe.answered(5)
        threading.Event().wait(0.3)  # the loop itself stands still
        await probe.answered(5)
    assert not probe.failures
    assert probe.longest_gap_ms >= 250
    assert 0 < min(probe.samples) <= probe.p95_ms <= max(probe.samples)
