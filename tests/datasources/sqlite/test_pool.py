"""Every read of the pool gets an answer, a result or an error: nobody waits for ever."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from datasources.errors import SourceUnavailable
from datasources.sqlite.pool import MANY_ROWS, Pool
from datasources.sqlite.schema import prepare

SECONDS = 30
"""Far more than any answer takes: to fail instead of waiting for ever."""


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[Pool]:
    path = tmp_path / "graphs.db"
    prepare(path)
    made = Pool(path)
    yield made
    await asyncio.to_thread(made.close)


def _count(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("SELECT count(*) FROM graphs").fetchone()
    return number


async def test_reads_whose_thread_cannot_connect_say_so(pool: Pool) -> None:
    aside = pool.path.with_name("aside.db")
    pool.path.rename(aside)
    pool.path.mkdir()
    asked = [pool.read(_count) for _ in range(6)]
    outcomes = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), SECONDS)
    assert [type(outcome) for outcome in outcomes] == [SourceUnavailable] * 6
    pool.path.rmdir()
    aside.rename(pool.path)
    assert await asyncio.wait_for(pool.read(_count), SECONDS) == 0


async def test_a_read_that_stops_an_iteration_keeps_nobody_waiting(pool: Pool) -> None:
    def stop(connection: sqlite3.Connection) -> int:
        return next(iter(connection.execute("SELECT 1 WHERE 0")))[0]

    asked = [pool.read(stop), pool.read(_count), pool.read(stop), pool.read(_count)]
    outcomes = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), SECONDS)
    assert [type(outcome) for outcome in outcomes] == [RuntimeError, int, RuntimeError, int]


async def test_who_goes_away_at_any_moment_leaves_the_others_their_answers(pool: Pool) -> None:
    for turn in range(12):
        tasks = [asyncio.create_task(pool.read(_count)) for i in range(9)]
        for _ in range(turn):
            await asyncio.sleep(0)
        for task in tasks[turn % 2 :: 2]:
            task.cancel()
        await asyncio.wait_for(asyncio.wait(tasks), SECONDS)
        kept = [task.result() for task in tasks if not task.cancelled()]
        assert kept == [0] * len(kept)
        assert len(kept) >= 4


async def test_reads_asked_for_in_the_step_that_closes_are_refused_or_answered(
    tmp_path: Path,
) -> None:
    path = tmp_path / "graphs.db"
    prepare(path)
    for turn in range(6):
        made = Pool(path)
        tasks = [asyncio.create_task(made.read(_count)) for _ in range(9)]
        for _ in range(turn):
            await asyncio.sleep(0)
        await asyncio.to_thread(made.close)
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), SECONDS)
        assert all(outcome == 0 or isinstance(outcome, SourceUnavailable) for outcome in outcomes)


async def test_what_a_large_write_leaves_in_the_log_is_moved_to_the_file(pool: Pool) -> None:
    def write(connection: sqlite3.Connection) -> None:
        rows = ((f"k{i}", "v" * 100) for i in range(MANY_ROWS))
        connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", rows)

    before = pool.path.stat().st_size
    with closing(
        sqlite3.connect(pool.path)
    ) as other:  # the last one to close would move it in any case
        assert _count(other) == 0
        await pool.write(write)
        await asyncio.to_thread(pool.close)
        assert pool.path.stat().st_size > before + MANY_ROWS * 100


async def test_index_builds_hold_up_neither_reads_nor_the_build_of_another_graph(
    pool: Pool,
) -> None:
    may_end = threading.Event()
    huge = pool.background(lambda _: may_end.wait())
    try:
        failing = pool.background(lambda _: 1 / 0)
        small = pool.background(_count)
        async with asyncio.timeout(SECONDS):
            with pytest.raises(ZeroDivisionError):
                await asyncio.wrap_future(failing)
            assert await asyncio.wrap_future(small) == 0
            more = [pool.background(lambda _: may_end.wait()) for _ in range(10)]
            assert await asyncio.gather(*(pool.read(_count) for _ in range(20))) == [0] * 20
    finally:
        may_end.set()
    assert all(await asyncio.gather(*map(asyncio.wrap_future, (huge, *more))))
