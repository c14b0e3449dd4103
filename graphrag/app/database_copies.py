"""Copies and restores a database: an embedded one as a file, of a server one workspace as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from datasources.sqlite import SqliteDatabase
from datasources.sqlite import backup as sqlite_backup
from graphrag.app.backups import back_up_folder, check_audit, restore_folder
from graphrag.app.databases import database_file, open_database
from graphrag.config import Settings


async def back_up_database(
    settings: Settings, target: Path, report: Callable[[str], None], *, force: bool = False
) -> dict[str, int]:
    """Copies an embedded database to a file, or a workspace of a server to a folder; returns counts
    by name.

    Calls `report` with the progress, possibly from another thread. Raises: FileExistsError,
    SourceError.
    """
    file = database_file(settings.db)
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
    """Replaces an embedded database by a backup, or restores one to an empty workspace of a server;
    returns counts by name.

    Raises: FileExistsError, DatabaseBusy (a server uses it), BadDocument, SourceError.
    """
    file = database_file(settings.db)
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
