"""The cache: expiry, bound, sharing, and callers that give up."""

from __future__ import annotations

import asyncio

import pytest

from graphrag.retrieval.result_cache import ResultCache


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Counts its computations; a gate holds them back."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> int:
        self.calls += 1
        value = self.calls
        await self.gate.wait()
        return value


async def test_second_call_is_a_hit_until_the_entry_expires() -> None:
    clock, source = Clock(), Source()
    cache: ResultCache[int] = ResultCache(ttl_s=10, clock=clock)
    assert await cache.get("q", source) == (1, False)
    clock.now = 9.9
    assert await cache.get("q", source) == (1, True)
    clock.now = 10.1
    assert await cache.get("q", source) == (2, False)


async def test_least_recently_used_goes_first() -> None:
    source = Source()
    cache: ResultCache[int] = ResultCache(ttl_s=10, max_entries=2)
    for rest in ("a", "b", "a", "c"):
        await cache.get(rest, source)
    assert len(cache) == 2
    assert (await cache.get("a", source))[1] is True
    assert (await cache.get("b", source))[1] is False


async def test_identical_calls_at_once_share_one_computation() -> None:
    source = Source()
    source.gate.clear()
    cache: ResultCache[int] = ResultCache(ttl_s=10)
    waiting = [asyncio.ensure_future(cache.get("q", source)) for _ in range(20)]
    await asyncio.sleep(0)
    source.gate.set()
    assert [value for value, _ in await asyncio.gather(*waiting)] == [1] * 20
    assert source.calls == 1


async def test_cancelled_first_caller_leaves_the_others_their_result() -> None:
    source = Source()
    source.gate.clear()
    cache: ResultCache[int] = ResultCache(ttl_s=10)
    first = asyncio.ensure_future(cache.get("q", source))
    second = asyncio.ensure_future(cache.get("q", source))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    source.gate.set()
    assert await second == (1, True)


async def test_failure_reaches_all_who_wait_and_is_not_kept() -> None:
    gate = asyncio.Event()

    async def fail() -> int:
        await gate.wait()
        raise ValueError("broken")

    cache: ResultCache[int] = ResultCache(ttl_s=10)
    waiting = [asyncio.ensure_future(cache.get("q", fail)) for _ in range(3)]
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    assert await cache.get("q", Source()) == (1, False)


async def test_no_time_to_live_means_no_cache() -> None:
    source = Source()
    cache: ResultCache[int] = ResultCache(ttl_s=0)
    await cache.get("q", source)
    assert await cache.get("q", source) == (2, False)


async def test_a_value_that_is_not_to_be_kept_is_given_and_forgotten() -> None:
    source = Source()
    cache: ResultCache[int] = ResultCache(ttl_s=10)
    assert await cache.get("q", source, keep=lambda value: value > 1) == (1, False)
    assert len(cache) == 0
    assert await cache.get("q", source, keep=lambda value: value > 1) == (2, False)
    assert await cache.get("q", source, keep=lambda value: value > 1) == (2, True)
