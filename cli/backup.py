"""The commands `backup` and `restore`: copy the database while it is in use, and restore a copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

from cli import render
from cli.command import command
from cli.common import usage_error
from cli.options import Common, argument, flag
from cli.output import Output
from graphrag.app.database_copies import back_up_database, restore_database
from graphrag.app.databases import open_database
from graphrag.config import Settings

PROGRESS_INTERVAL_S = 1.0
STOPPED = "stopped; the target is unchanged"
ForceOption = Annotated[bool, flag("--force", "Replace an existing target.")]


@command(stopped=STOPPED)
async def backup(
    common: Common,
    settings: Settings,
    target: Annotated[Path, argument("FILE", "Where to write the copy.")],
    force: ForceOption = False,
) -> Output:
    """Copy the database while servers use it. From ArangoDB: one workspace, as a folder of JSON."""
    copying = back_up_database(settings, target, _progress(common.as_json), force=force)
    return await _copied(copying, f"backed up to {target}")


@command(stopped=STOPPED)
async def restore(
    common: Common,
    settings: Settings,
    copy: Annotated[Path, argument("FILE", "A copy made by `nodius backup`.")],
    force: ForceOption = False,
) -> Output:
    """Replace the database by a backup. Stop the servers first; the previous database is kept."""
    copying = restore_database(settings, copy, _progress(common.as_json), force=force)
    address = open_database(settings.db, settings.workspace).url  # without the password
    return await _copied(copying, f"restored {address} from {copy}")


def _progress(quiet: bool) -> Callable[[str], None]:
    last = time.monotonic()

    def show(text: str) -> None:
        nonlocal last
        if not quiet and time.monotonic() - last >= PROGRESS_INTERVAL_S:
            last = time.monotonic()
            render.note(text)

    return show


async def _copied(copying: Coroutine[Any, Any, dict[str, int]], done: str) -> Output:
    try:
        counts = await copying
    except FileExistsError as exc:
        usage_error(f"{exc} is not empty; --force replaces it")
    parts = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return Output(document=counts, text=f"{done}: {parts}")
