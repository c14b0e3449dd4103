"""Chooses the database for an address; opens it, sets it up and checks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasources import arango, postgres
from datasources.base import Database, Finding, RehearsalStep
from datasources.errors import InvalidDatabaseUrl
from datasources.mock import MemoryDatabase, open_nba
from datasources.split_database import SplitDatabase
from graphrag.config import SettingsError

if TYPE_CHECKING:
    from datasources.arango import ArangoDatabase
    from datasources.postgres import PostgresDatabase


def open_database(url: str, workspace: str) -> Database:
    """Returns the database for an address, not yet opened.

    `sqlite:PATH` is a file, created if missing; `memory:` has the NBA sample graph and ends with
    the process; `postgres://…` and `arango+http://…` are databases on a server, set up by
    `prepare_database`.
    Raises: InvalidDatabaseUrl, SettingsError if the driver is not installed.
    """
    if (server := _on_server(url)) is not None:
        return server
    file = database_file(url)
    if file is None:
        return open_nba(workspace)
    from datasources.sqlite import SqliteDatabase  # takes 30 ms, which other databases do not need

    return SqliteDatabase(file)


def open_graphs_only(url: str, workspace: str) -> Database:
    """Returns the database for an address with records of its own in memory, not yet opened.

    A trial in it reads the stored graphs and no stored record, and leaves none behind.
    Raises: as `open_database`.
    """
    return SplitDatabase(graphs=open_database(url, workspace), records=MemoryDatabase())


def _on_server(url: str, *, prepared: bool = True) -> ArangoDatabase | PostgresDatabase | None:
    """Returns the database of an address on a server, None for other addresses.

    With `prepared=False` it is also opened before its set-up.
    """
    # Imported here: loading a driver takes longer than most commands on other databases.
    if arango.is_arango(url):
        return arango.ArangoDatabase(arango.parse_address(url), prepared=prepared)
    if postgres.is_postgres(url):
        return _on_postgres(url, prepared=prepared)
    return None


def _on_postgres(url: str, *, prepared: bool) -> PostgresDatabase:
    address = postgres.parse_address(url)
    try:
        import_module("psycopg")
    except ImportError as exc:  # also without the library of PostgreSQL that it loads
        reason = "a PostgreSQL database needs: pip install 'nodius-graphrag[postgres]'"
        raise SettingsError(name="db", origin="NODIUS_DB", reason=reason) from exc
    return postgres.PostgresDatabase(address, prepared=prepared)


def _is_on_server(url: str) -> bool:
    return arango.is_arango(url) or postgres.is_postgres(url)


def database_file(url: str) -> Path | None:
    """Returns the file of a database address, None if it has none. Raises: InvalidDatabaseUrl."""
    scheme, separator, rest = url.partition(":")
    if not separator:
        raise InvalidDatabaseUrl(url=url, reason="it has no scheme")
    if scheme == "memory" or _is_on_server(url):
        return None
    if scheme == "sqlite":
        path = rest.removeprefix("//")
        if not path:
            raise InvalidDatabaseUrl(url=url, reason="the path is missing")
        return Path(path).expanduser()
    raise InvalidDatabaseUrl(url=url, reason=f"unknown scheme {scheme!r}")


async def prepare_database(
    url: str,
    workspace: str,
    *,
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[str]:
    """Creates what a database lacks; returns one line for each part created. Idempotent.

    With `dry_run` creates nothing and returns the lines for what is missing. Calls
    `progress(done, total)` while a long work runs, perhaps in another thread.

    Raises: InvalidDatabaseUrl, the errors of opening the database.
    """
    if postgres.is_postgres(url):
        async with _on_postgres(url, prepared=False) as server:
            return await server.set_up(dry_run=dry_run, progress=progress)
    if (server := _on_server(url, prepared=False)) is not None:
        async with server:
            return await server.set_up(dry_run=dry_run)
    file = database_file(url)
    missing = file is not None and not await asyncio.to_thread(file.exists)
    if dry_run:
        return [f"would make {url}"] if missing else []
    async with open_database(url, workspace):
        return [f"made {url}"] if missing else []


async def check_database(url: str, workspace: str) -> list[Finding]:
    """Returns the findings of a database's health check, also before its set-up. Creates nothing.

    Raises: InvalidDatabaseUrl.
    """
    if (server := _on_server(url, prepared=False)) is not None:
        async with server:
            return await server.check()
    file = database_file(url)
    if file is not None and not await asyncio.to_thread(file.exists):
        fix = "run `nodius db init`"
        return [Finding("database", "error", f"{url} does not exist yet", fix)]
    async with open_database(url, workspace) as database:
        return await database.check()


async def rehearse_database(url: str, report: Callable[[RehearsalStep], None]) -> dict[str, Any]:
    """Tests all operations of the service on the server of an address, in a temporary database.

    Returns the report, which names neither server nor user. Calls `report` after each step.
    Raises: InvalidDatabaseUrl, also for a database that is not ArangoDB's.
    """
    if not arango.is_arango(url):
        raise InvalidDatabaseUrl(url=url, reason="only an ArangoDB server is rehearsed on")
    address = arango.parse_address(url)
    # The driver is slow to load.
    from datasources.arango.rehearsal import rehearse
    from graphrag.app.lease_trial import check_leases

    return await rehearse(address, report, {"leases": check_leases})


def database_user_script(url: str, user: str) -> str | None:
    """Returns a script that creates a user with minimal rights, None for a database without users.

    Raises: InvalidDatabaseUrl.
    """
    if postgres.is_postgres(url):
        return postgres.role_script(role=user, database=postgres.parse_address(url).database)
    if arango.is_arango(url):
        address = arango.parse_address(url)
        return arango.user_script(user=user, database=address.database, host=address.hosts[0])
    database_file(url)
    return None
