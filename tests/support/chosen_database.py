"""The database of a test: a file or in memory, or one of a server if NODIUS_TEST_DB says so.

`NODIUS_TEST_DB=postgres` or `pgvector` runs the suites that use these functions on PostgreSQL. A
path then stands for a database, also in the processes that a test starts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasources import postgres
from datasources.base import Database
from datasources.mock import MemoryDatabase, open_nba
from datasources.mock.source import MemorySource
from tests.support.postgres import (
    TEMPLATE,
    PostgresServer,
    installed_programs,
    pgvector_programs,
)

if TYPE_CHECKING:
    from datasources.postgres import PostgresDatabase

SAMPLE = "nodius_sample"
CHOSEN = os.environ.get("NODIUS_TEST_DB", "")
# Where the processes that a test starts find the server: its folder and port.
_SERVER = "TEST_DB_SERVER"
_created: list[str] = []  # databases of the running test that have no path
_opened = AsyncExitStack()


async def use_server(
    server: PostgresServer, put_sample: Callable[[Database], Awaitable[None]]
) -> None:
    """Uses a server in this process and in those that it starts."""
    os.environ[_SERVER] = f"{server.folder}:{server.port}"
    server.create_database(SAMPLE, template=TEMPLATE)
    async with _postgres(server.url(SAMPLE)) as database:
        await put_sample(database)


@cache
def _attached(place: str) -> PostgresServer:
    folder, _, port = place.rpartition(":")
    programs = pgvector_programs() if CHOSEN == "pgvector" else installed_programs()
    assert programs is not None
    return PostgresServer(programs, folder=Path(folder), port=int(port))


def _server() -> PostgresServer:
    return _attached(os.environ[_SERVER])


def address_in(path: Path | str) -> str:
    """Returns the address of a path's database, which is empty at first."""
    if not CHOSEN:
        return f"sqlite:{path}"
    _create_once(str(path))
    return _server().url(_name(path))


def database_in(path: Path | str) -> Database:
    """Returns a path's database, not yet opened."""
    # Imported here: a process needs one of them.
    if not CHOSEN:
        from datasources.sqlite import SqliteDatabase

        return SqliteDatabase(Path(path))
    return _postgres(address_in(path))


def _postgres(address: str) -> PostgresDatabase:
    return postgres.PostgresDatabase(postgres.parse_address(address))


def copy_database(path: Path, to: Path) -> None:
    """Copies a path's database, which nobody uses, over that of another path."""
    if CHOSEN:
        _server().drop_database(_name(to))
        _create(to, template=_name(path))
        return
    for left in to.parent.glob(f"{to.name}-*"):  # the log of a process that was killed before
        left.unlink()
    shutil.copy(path, to)


def sample_address() -> str:
    """Returns the address of a new database with the sample graph."""
    if not CHOSEN or _SERVER not in os.environ:  # while tests are collected there is no server
        return "memory:"
    _created.append(_server().create_database(template=SAMPLE))
    return _server().url(_created[-1])


@asynccontextmanager
async def sample_database() -> AsyncGenerator[Database]:
    """Yields a new database with the sample graph."""
    async with _new(SAMPLE) if CHOSEN else open_nba("default") as database:
        yield database


@asynccontextmanager
async def new_database() -> AsyncGenerator[Database]:
    """Yields a new database that is empty."""
    async with _new(TEMPLATE) if CHOSEN else MemoryDatabase() as database:
        yield database


@asynccontextmanager
async def _new(template: str) -> AsyncGenerator[Database]:
    name = _server().create_database(template=template)
    try:
        async with _postgres(_server().url(name)) as database:
            yield database
    finally:
        _server().drop_database(name)


def source_class() -> type[Any]:
    """Returns the class of the sources of new databases, to make its methods slow or failing."""
    if not CHOSEN:
        return MemorySource
    from datasources.postgres.source import PostgresSource

    return PostgresSource


async def fresh_database() -> Database:
    """Returns a new database that is empty, open until the end of the test."""
    return await _opened.enter_async_context(new_database()) if CHOSEN else MemoryDatabase()


async def remove_new_databases() -> None:
    """Closes and removes the databases that a test made without a path."""
    await _opened.aclose()
    while _created:
        _server().drop_database(_created.pop())


def drop_databases_in(folder: Path) -> None:
    """Removes the databases of the paths in a folder."""
    for name, path in _server().execute(
        "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database"
    ):
        if path is not None and Path(path).is_relative_to(folder):
            _server().drop_database(name)


def _name(path: Path | str) -> str:
    return f"p{hashlib.sha256(str(path).encode()).hexdigest()[:20]}"


@cache
def _create_once(path: str) -> None:
    if not _server().execute(f"SELECT 1 FROM pg_database WHERE datname = '{_name(path)}'"):
        _create(path, template=TEMPLATE)


def _create(path: Path | str, *, template: str) -> None:
    name = _server().create_database(_name(path), template=template)
    quoted = str(path).replace("'", "''")
    _server().execute(f"COMMENT ON DATABASE {name} IS '{quoted}'")
