"""Records of people and servers that were not seen for long are deleted, except
owners of automations.
"""

import pytest

from datasources.base import Database, RecordStore
from graphrag.automations.last_seen import KIND, Members, forget_unseen, last_tick, mark_tick
from graphrag.roles import Person
from tests.support.automations import DAY, MINUTE, night_of
from tests.support.clock import Clock
from tests.support.scripted_provider import ScriptedProvider


async def kept(records: RecordStore) -> list[str]:
    return sorted(record.key for record in await records.query(KIND, limit=1_000))


async def test_people_are_forgotten_after_their_term_and_owners_of_automations_are_not() -> None:
    async with night_of(ScriptedProvider()) as night:
        records = night.automations.records
        clock = night.clock
        members = Members(records, clock=clock)
        made = await night.automation()
        for name in ("ann", made.user_id):
            await members.note(Person(name, "viewer", "default", name=name.title()))
        clock.now += 60 * DAY
        await members.note(Person("bob", "editor", "default", name="Bob"))
        clock.now += 120 * DAY + 1
        assert await forget_unseen(records, now=clock(), days=180) == 1
        assert await kept(records) == ["bob", made.user_id]
        assert await members.role_of(made.user_id, "admin") == "viewer", "as it was seen last"
        assert await members.is_gone(made.user_id)
        await night.automations.remove(made.key)
        assert await forget_unseen(records, now=clock(), days=180) == 1
        assert await kept(records) == ["bob"]


async def test_a_person_is_known_for_as_long_as_absence_pauses_automations(
    database: Database,
) -> None:
    clock = Clock()
    records = database.records("default")
    await Members(records, clock=clock).note(Person("ann", "viewer", "default"))
    clock.now += 90 * DAY
    assert await forget_unseen(records, now=clock(), days=1) == 0
    clock.now += 1
    assert await forget_unseen(records, now=clock(), days=1) == 1


@pytest.mark.parametrize("alike", [1, 60])
async def test_people_are_bounded_in_number_and_those_seen_longest_ago_go(
    database: Database, alike: int
) -> None:
    clock = Clock()
    records = database.records("default")
    members = Members(records, clock=clock)
    for number in range(130):
        clock.now += number % alike == 0
        await members.note(Person(f"p{number:03}", "viewer", "default"))
    assert await forget_unseen(records, now=clock(), days=180, most=120) == 10
    assert len(await kept(records)) == 120
    if alike == 1:
        assert (await kept(records))[0] == "p010"
    assert await forget_unseen(records, now=clock(), days=180, most=120) == 0


async def test_servers_that_are_gone_are_forgotten_and_the_latest_is_always_known(
    database: Database,
) -> None:
    clock = Clock()
    records = database.records("default")
    for number in range(5):
        clock.now += DAY
        await mark_tick(records, f"server-{number}", clock())
    await mark_tick(records, "another", clock() - MINUTE)
    assert await forget_unseen(records, now=clock(), days=180) == 3
    assert await kept(records) == ["tick/another", "tick/server-3", "tick/server-4"]
    at = clock()
    clock.now += 1_000 * DAY
    await forget_unseen(records, now=clock(), days=180)
    assert await last_tick(records) == at


async def test_who_is_seen_again_meanwhile_is_kept(database: Database) -> None:
    clock = Clock()
    records = database.records("default")
    members = Members(records, clock=clock)
    await members.note(Person("ann", "viewer", "default"))
    clock.now += 200 * DAY
    await members.note(Person("ann", "editor", "default"))
    assert await forget_unseen(records, now=clock(), days=180) == 0
