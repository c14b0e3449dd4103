"""Work in processes that are killed at a numbered write: whatever its number, what is left
must be right.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pkgutil
import signal
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from datasources.sqlite import pool
from tests.datasources.sqlite.helpers import line_of, start
from tests.support.chosen_database import CHOSEN, copy_database
from tests.support.postgres_writes import count_postgres_writes

KilledAt = Callable[[int], Awaitable[bool]]
"""Does the work on a copy of `start.db`, `NUMBER.db`; says whether it was killed before its end."""
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "COMMIT")


def die_at(write: int) -> None:
    """End this process before its write of that number begins. Each SQL statement is one."""
    counted = itertools.count(1)

    def count() -> None:
        if next(counted) == write:
            os.kill(os.getpid(), signal.SIGKILL)

    if CHOSEN:
        count_postgres_writes(count)
    else:
        _count_sqlite_writes(count)


def _count_sqlite_writes(count: Callable[[], None]) -> None:
    connect = pool.connect

    def watched(statement: str) -> None:
        if statement.lstrip().upper().startswith(_WRITES):
            count()

    def watching(*args: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*args, **more)
        connection.set_trace_callback(watched)
        return connection

    pool.connect = watching  # type: ignore[assignment]


def die_for_each_line(folder: str, name: str, *arguments: str) -> None:
    """Do the work of that name in a child for each line that comes in, the number of a write.

    Prints how each child ended.
    """
    work: Callable[..., Coroutine[Any, Any, None]] = pkgutil.resolve_name(name)
    while line := input():
        path = Path(folder) / f"{line}.db"
        copy_database(Path(folder) / "start.db", path)
        child = os.fork()
        if not child:
            die_at(int(line))
            asyncio.run(work(path, *arguments))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


@asynccontextmanager
async def killing(
    work: Callable[..., Awaitable[None]], folder: Path, *arguments: object
) -> AsyncGenerator[KilledAt]:
    """Do a work on copies of `start.db`, each in a child of one process, until the end
    of the block.
    """
    process = start(die_for_each_line, folder, f"{work.__module__}:{work.__name__}", *arguments)

    async def killed_at(write: int) -> bool:
        assert process.stdin is not None
        process.stdin.write(f"{write}\n")
        process.stdin.flush()
        return await line_of(process) == "-9"

    try:
        yield killed_at
    finally:
        process.kill()
        process.communicate()


async def last_write(killed_at: KilledAt) -> int:
    """Return the number of the last write; what the work leaves unharmed is that of
    the next number.
    """
    last, unharmed = 1, 2
    while await killed_at(unharmed):
        last = unharmed
        unharmed = 2 * unharmed
    while unharmed - last > 1:
        middle = (last + unharmed) // 2
        last, unharmed = (middle, unharmed) if await killed_at(middle) else (last, middle)
    return last
