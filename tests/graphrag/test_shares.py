"""One person has a share of what all have together."""

import asyncio

import pytest

from graphrag.shares import SharedPlaces, share_of_one


@pytest.mark.parametrize(("places", "share"), [(1, 1), (2, 1), (16, 4), (50, 10), (1000, 200)])
def test_the_share_of_one_is_a_fifth_and_at_least_one(places: int, share: int) -> None:
    assert share_of_one(places) == share


async def test_who_waits_in_their_own_share_keeps_nobody_else_waiting() -> None:
    places = SharedPlaces(10)
    go = asyncio.Event()
    at_work = list[str]()

    async def work(holder: str) -> None:
        async with places.held(holder):
            at_work.append(holder)
            await go.wait()

    async with asyncio.TaskGroup() as group:
        for holder in ["vera"] * 30 + ["bob"] * 2:
            group.create_task(work(holder))
        await asyncio.sleep(0)
        assert at_work == ["vera", "vera", "bob", "bob"]
        go.set()
    assert at_work.count("vera") == 30


async def test_all_places_are_bounded_and_a_cancelled_holder_leaves_its_own() -> None:
    places = SharedPlaces(2)
    go = asyncio.Event()

    async def work(holder: str) -> None:
        async with places.held(holder):
            await go.wait()

    tasks = [asyncio.create_task(work(name)) for name in ("ann", "bob", "cleo", "cleo")]
    await asyncio.sleep(0)
    tasks[3].cancel()  # waits for its own share
    tasks[2].cancel()  # waits for a place
    tasks[0].cancel()  # holds one
    go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(10), places.held("ann"), places.held("bob"):
        pass
