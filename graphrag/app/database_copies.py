"""Copies a database and restores it: a file as a whole, of a server one workspace
as JSON documents.
"""

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
    settings: Settings, target: Path, said: Callable[[str], None], *, force: bool = False
) -> dict[str, int]:
    """Copy the embedded database to a file, or a workspace of a server's into a folder; return
    what it holds.

    `said` is called with the progress, maybe in another thread. Raises: FileExistsError,
    SourceError.
    """
    file = database_file(settings.db)
    if file is None:
        async with open_database(settings.db, settings.workspace) as database:
            return await back_up_folder(database, settings.workspace, target, said)

    def progress(done: int, pages: int) -> None:
        said(f"{done * 100 // max(pages, 1)} % of {pages:,} pages")

    held = await asyncio.to_thread(sqlite_backup.back_up, file, target, progress, force=force)
    await _check_audit_of(target)
    return held


async def restore_database(
    settings: Settings, copy: Path, said: Callable[[str], None], *, force: bool = False
) -> dict[str, int]:
    """Put a backup in the database's place, or into an empty workspace of a server's; return
    what it holds.

    Raises: FileExistsError, DatabaseBusy (a server uses it), BadDocument, SourceError.
    """
    file = database_file(settings.db)
    if file is None:
        async with open_database(settings.db, settings.workspace) as database:
            return await restore_folder(database, settings.workspace, copy, said)
    await asyncio.to_thread(sqlite_backup.inspect, copy)
    await _check_audit_of(copy)
    return await asyncio.to_thread(sqlite_backup.restore, copy, file, force=force)


async def _check_audit_of(file: Path) -> None:
    workspaces = await asyncio.to_thread(sqlite_backup.workspaces_of, file)
    async with SqliteDatabase(file) as database:
        await check_audit(database, workspaces)
