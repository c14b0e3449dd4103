"""Chooses the database for an address; opens it, sets it up and checks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasources.arango import ArangoAddress, is_arango, parse_address, user_script
from datasources.base import Database, Finding, RehearsalStep
from datasources.errors import InvalidDatabaseUrl
from datasources.mock import open_nba
from datasources.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from datasources.arango import ArangoDatabase


def open_database(url: str, workspace: str) -> Database:
    """Returns the database for an address, not yet opened.

    `sqlite:PATH` is a file, created if missing; `memory:` has the NBA sample graph and ends with
    the process; `arango+http://…` is a database set up by `prepare_database`.
    Raises: InvalidDatabaseUrl.
    """
    if is_arango(url):
        return _arango(parse_address(url))
    file = database_file(url)
    return open_nba(workspace) if file is None else SqliteDatabase(file)


def _arango(address: ArangoAddress, *, prepared: bool = True) -> ArangoDatabase:
    # Imported here: loading the driver takes longer than most commands on other databases.
    from datasources.arango import ArangoDatabase

    return ArangoDatabase(address, prepared=prepared)


def database_file(url: str) -> Path | None:
    """Returns the file of a database address, None if it has none. Raises: InvalidDatabaseUrl."""
    scheme, separator, rest = url.partition(":")
    if not separator:
        raise InvalidDatabaseUrl(url=url, reason="it has no scheme")
    if scheme == "memory" or is_arango(url):
        return None
    if scheme == "sqlite":
        path = rest.removeprefix("//")
        if not path:
            raise InvalidDatabaseUrl(url=url, reason="the path is missing")
        return Path(path).expanduser()
    raise InvalidDatabaseUrl(url=url, reason=f"unknown scheme {scheme!r}")


async def prepare_database(url: str, workspace: str, *, dry_run: bool = False) -> list[str]:
    """Creates what a database lacks; returns one line for each part created. Idempotent.

    With `dry_run` creates nothing and returns the lines for what is missing.

    Raises: InvalidDatabaseUrl, the errors of opening the database.
    """
    if is_arango(url):
        async with _arango(parse_address(url), prepared=False) as arango:
            return await arango.set_up(dry_run=dry_run)
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
    if is_arango(url):
        async with _arango(parse_address(url), prepared=False) as arango:
            return await arango.check()
    file = database_file(url)
    if file is not None and not await asyncio.to_thread(file.exists):
        fix = "run `nodius db init`"
        return [Finding("database", "error", f"{url} does not exist yet", fix)]
    async with open_database(url, workspace) as database:
        return await database.check()


async def rehearse_database(url: str, report: Callable[[RehearsalStep], None]) -> dict[str, Any]:
    """Tests all operations of the service on the server of an address, in a temporary database.

    Returns the report, which names neither server nor user. Calls `report` after each step.
    Raises: InvalidDatabaseUrl, also for a database without a server.
    """
    if not is_arango(url):
        raise InvalidDatabaseUrl(url=url, reason="only a database on a server is rehearsed on")
    address = parse_address(url)
    # The driver is slow to load.
    from datasources.arango.rehearsal import rehearse
    from graphrag.app.lease_trial import check_leases

    return await rehearse(address, report, {"leases": check_leases})


def database_user_script(url: str, user: str) -> str | None:
    """Returns a script that creates a user with minimal rights, None for a database without users.

    Raises: InvalidDatabaseUrl.
    """
    if not is_arango(url):
        database_file(url)
        return None
    address = parse_address(url)
    return user_script(user=user, database=address.database, host=address.hosts[0])
