"""Places and times of runs: one that has finished leaves its place, equal times are spread."""

import asyncio

from datasources.types import Graph
from graphrag.agent.thread_store import session_of
from graphrag.automations.scheduler import Scheduler
from graphrag.automations.worker import Worker
from graphrag.sessions.machine import SessionLimits
from graphrag.sessions.phases import EndReason, Phase
from tests.support.agents import EDITOR
from tests.support.automations import TWO, Night, finish, night_on, scripted_night
from tests.support.clock import Clock
from tests.support.scripted_provider import ScriptedProvider
from tests.support.waiting import until

SPREAD_S = 30


class Stopped(Clock):
    """A clock that stands still while somebody waits, until it is let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self.goes_on.wait()
        await super().sleep(seconds)


async def graph(night: Night, key: str) -> None:
    new = Graph(key=key, name=key, workspace="default")
    await night.database.source("default").create_graph(new)


async def test_a_run_whose_end_is_announced_gives_its_place_but_not_its_graph_back() -> None:
    clock = Stopped()
    async with scripted_night(finish(), finish(), finish(), at_once=1, clock=clock) as (night, _):
        await graph(night, "other")
        first = await night.automation(name="first", dates=(TWO,), cron=None)
        second = await night.automation(
            name="second", graph_key="other", dates=(TWO + 1,), cron=None
        )
        same_graph = await night.automation(name="third", dates=(TWO + 2,), cron=None)
        clock.now = TWO + 3
        assert await night.scheduler.tick() == 1
        await until(lambda: night.scheduler.free_places == 1)
        assert (await night.session(first)).phase is Phase.WAITING_COMPLETION_CONFIRMATION

        assert await night.scheduler.tick() == 1
        await until(lambda: night.scheduler.free_places == 1)
        assert (await night.session(second)).phase is Phase.WAITING_COMPLETION_CONFIRMATION
        assert await night.scheduler.tick() == 0
        assert await night.runs(same_graph) == []

        clock.goes_on.set()
        await night.scheduler.run_due()
        for made in (first, second, same_graph):
            assert (await night.session(made)).end_reason is EndReason.COMPLETED


async def test_a_run_that_a_person_lets_continue_takes_its_place_again() -> None:
    clock = Stopped()
    async with scripted_night(finish(), finish(), at_once=1, clock=clock) as (night, _):
        made = await night.automation()
        clock.now = TWO
        await night.scheduler.tick()
        await until(lambda: night.scheduler.free_places == 1)
        (run,) = await night.runs(made)
        await night.control.confirm(run.key, EDITOR, end=False)
        clock.goes_on.set()
        await until(lambda: night.scheduler.is_idle)
        ended = session_of((await night.runs(made))[0])
        assert (ended.end_reason, ended.roundtrips) == (EndReason.COMPLETED, 2)
        assert night.scheduler.free_places == 1


async def test_equal_times_are_spread_over_the_setting_and_alike_on_each_server() -> None:
    limits = SessionLimits(confirm_ms=0)
    steps = [finish() for _ in range(12)]
    async with scripted_night(*steps, limits=limits, spread_s=SPREAD_S) as (night, _):
        other = night_on(night.database, ScriptedProvider(), clock=night.clock, spread_s=SPREAD_S)
        for number in range(len(steps)):
            await night.automation(name=f"check {number}", only_if_changed=False)
        begun = list[int]()
        for second in range(SPREAD_S + 1):
            begun.append(await night.run_at(TWO + second * 1000))
            assert await other.scheduler.run_due() == 0
        assert sum(begun) == len(steps)
        assert max(begun) < len(steps)


async def test_a_time_that_waits_for_its_turn_in_the_spread_is_not_missed() -> None:
    async with scripted_night(finish(), spread_s=3_600) as (night, _):
        made = await night.automation(missed="skip")
        assert await night.run_at(TWO + 3_600_000) == 1
        assert (await night.stored(made)).skipped == ()
        assert (await night.session(made)).scheduled_time == TWO


async def test_runs_that_are_due_are_waited_for_whichever_tick_starts_them() -> None:
    goes_on, reached = asyncio.Event(), asyncio.Event()

    async def names() -> list[str]:
        return ["default", "slow"]

    async with scripted_night(finish()) as (night, _):

        async def worker(workspace: str) -> Worker:
            if workspace == "slow":
                reached.set()
                await goes_on.wait()
            return night.worker

        scheduler = Scheduler(names, worker)
        made = await night.automation()
        night.clock.now = TWO
        beside = asyncio.create_task(scheduler.tick())
        await reached.wait()  # the run is claimed and not yet started
        due = asyncio.create_task(scheduler.run_due())
        goes_on.set()
        assert await due + await beside == 1
        assert (await night.session(made)).end_reason is EndReason.COMPLETED
