"""Occurrences that do not begin in time are reported, each once."""

from graphrag.automations.automation import Automation
from graphrag.automations.lateness import LATE_MS
from graphrag.automations.run_listeners import RunListeners
from tests.support.automations import DAY, HOUR, TWO, finish, night_of, night_on
from tests.support.scripted_provider import ScriptedProvider


class Reports:
    """What listeners of several servers are told; `fails` times it cannot be stored."""

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.stored: list[tuple[str, int]] = []
        self.noted: list[str] = []

    async def _late(self, automation: Automation, time: int) -> bool:
        if self.fails:
            self.fails -= 1
            return False
        self.stored.append((automation.name, time))
        return True

    @property
    def listeners(self) -> RunListeners:
        return RunListeners(late=self._late, late_noted=lambda one: self.noted.append(one.name))


async def test_what_finds_no_place_is_reported_once_although_two_servers_look() -> None:
    reports = Reports()
    async with night_of(ScriptedProvider(), at_once=0, listeners=reports.listeners) as night:
        other = night_on(
            night.database,
            ScriptedProvider(),
            clock=night.clock,
            at_once=0,
            listeners=reports.listeners,
        )
        await night.automation(name="Nightly")
        await night.run_at(TWO + LATE_MS - 1)
        assert reports.stored == []
        await night.run_at(TWO + LATE_MS)
        await other.run_at(TWO + LATE_MS)
        await night.run_at(TWO + HOUR)
    assert (reports.stored, reports.noted) == ([("Nightly", TWO)], ["Nightly"])


async def test_a_time_at_which_no_server_ran_is_reported_and_made_up_for() -> None:
    reports = Reports()
    async with night_of(ScriptedProvider(finish()), listeners=reports.listeners) as night:
        made = await night.automation(name="Nightly")
        assert await night.run_at(TWO + HOUR) == 1
        assert (await night.stored(made)).late_times == (TWO,)
        await night.run_at(TWO + 2 * HOUR)
    assert reports.stored == [("Nightly", TWO)]


async def test_each_late_time_is_reported_and_one_in_time_is_not() -> None:
    reports = Reports()
    script = ScriptedProvider(finish(), finish(), finish())
    async with night_of(script, listeners=reports.listeners) as night:
        made = await night.automation(name="Nightly", onlyIfChanged=False)
        for now in (TWO + HOUR, TWO + DAY, TWO + 2 * DAY + HOUR):
            assert await night.run_at(now) == 1
        assert (await night.stored(made)).late_times == (TWO + 2 * DAY, TWO)
    assert [time for _, time in reports.stored] == [TWO, TWO + 2 * DAY]


async def test_a_report_that_could_not_be_stored_is_made_again_while_it_is_late() -> None:
    reports = Reports(fails=1)
    async with night_of(ScriptedProvider(), at_once=0, listeners=reports.listeners) as night:
        await night.automation(name="Nightly")
        await night.run_at(TWO + HOUR)
        assert (reports.stored, reports.noted) == ([], [])
        await night.run_at(TWO + HOUR)
    assert (reports.stored, reports.noted) == ([("Nightly", TWO)], ["Nightly"])
