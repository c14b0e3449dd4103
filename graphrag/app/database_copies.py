"""Copies and restores a database: an embedded one as a file, one of PostgreSQL as a dump, and of
ArangoDB one workspace as JSON.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from datasources import postgres
from datasources.base import Database
from datasources.sqlite import SqliteDatabase
from datasources.sqlite import backup as sqlite_backup
from graphrag.app.backups import back_up_folder, check_audit, restore_folder
from graphrag.app.database_inventory import workspaces_of
from graphrag.app.databases import database_file, open_database
from graphrag.config import Settings

DatabaseKind = Literal["sqlite", "postgres", "arango", "memory"]


def database_kind(url: str) -> DatabaseKind:
    """Returns what a database address names. Raises: InvalidDatabaseUrl."""
    if postgres.is_postgres(url):
        return "postgres"
    if database_file(url) is not None:
        return "sqlite"
    return "memory" if url.startswith("memory:") else "arango"


def has_file_copy(url: str) -> bool:
    """Returns whether `back_up_database` makes one file of this database here: of PostgreSQL it
    does if `pg_dump` is installed.
    """
    kind = database_kind(url)
    return kind == "sqlite" or (kind == "postgres" and shutil.which("pg_dump") is not None)


async def back_up_database(
    settings: Settings, target: Path, report: Callable[[str], None], *, force: bool = False
) -> dict[str, int]:
    """Copies a database of SQLite or PostgreSQL to a file, or a workspace of ArangoDB to a folder.

    Returns counts by name.

    Calls `report` with the progress, possibly from another thread. Raises: FileExistsError,
    SourceError.
    """
    file = database_file(settings.db)
    if postgres.is_postgres(settings.db):
        async with open_database(settings.db, settings.workspace) as database:
            await _check_all_audits(database)
        report(f"pg_dump {target}")
        return await asyncio.to_thread(_dump, settings.db, target, force=force)
    if file is None:
        async with open_database(settings.db, settings.workspace) as database:
            return await back_up_folder(database, settings.workspace, target, report)

    def progress(done: int, pages: int) -> None:
        report(f"{done * 100 // max(pages, 1)} % of {pages:,} pages")

    counts = await asyncio.to_thread(sqlite_backup.back_up, file, target, progress, force=force)
    await _check_audit_of(target)
    return counts


async def restore_database(
    settings: Settings, copy: Path, report: Callable[[str], None], *, force: bool = False
) -> dict[str, int]:
    """Replaces a database of SQLite or PostgreSQL by a backup, or restores one to an empty
    workspace of ArangoDB; returns counts by name.

    Raises: FileExistsError, DatabaseBusy (a server uses it), BadDocument, SourceError.
    """
    file = database_file(settings.db)
    if postgres.is_postgres(settings.db):
        counts = await asyncio.to_thread(_undump, settings.db, copy, force=force)
        async with open_database(settings.db, settings.workspace) as database:
            await _check_all_audits(database)
        return counts
    if file is None:
        async with open_database(settings.db, settings.workspace) as database:
            return await restore_folder(database, settings.workspace, copy, report)
    await asyncio.to_thread(sqlite_backup.inspect, copy)
    await _check_audit_of(copy)
    return await asyncio.to_thread(sqlite_backup.restore, copy, file, force=force)


async def _check_audit_of(file: Path) -> None:
    workspaces = await asyncio.to_thread(sqlite_backup.workspaces_of, file)
    async with SqliteDatabase(file) as database:
        await check_audit(database, workspaces)


def _dump(url: str, target: Path, *, force: bool) -> dict[str, int]:
    # Imported here: loading the driver takes longer than most commands on other databases.
    from datasources.postgres import dumps

    return dumps.dump(postgres.parse_address(url), target, force=force)


def _undump(url: str, copy: Path, *, force: bool) -> dict[str, int]:
    from datasources.postgres import dumps

    return dumps.restore(postgres.parse_address(url), copy, force=force)


async def _check_all_audits(database: Database) -> None:
    await check_audit(database, await workspaces_of(database, ["audit"]))
