"""The commands `backup` and `restore`: a copy of the database while it is used, and back again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

from cli import render
from cli.common import exit_codes, usage_error
from cli.options import Common, argument, command, flag
from graphrag.app.database_copies import back_up_database, restore_database
from graphrag.config import Settings

EVERY_S = 1.0
ForceOption = Annotated[bool, flag("--force", "Also over what is there already.")]


@command()
def backup(
    common: Common,
    target: Annotated[Path, argument("FILE", "Where the copy goes.")],
    force: ForceOption = False,
) -> None:
    """Copy the database while servers use it; of ArangoDB, a workspace into a folder of JSON."""
    settings = common.settings()
    work = back_up_database(settings, target, _progress(common.as_json), force=force)
    _finish(common, settings, work, target, f"backed up to {target}")


@command()
def restore(
    common: Common,
    copy: Annotated[Path, argument("FILE", "What `nodius backup` wrote.")],
    force: ForceOption = False,
) -> None:
    """Put a backup in the database's place. Stop the servers first; what was there is
    kept beside it.
    """
    settings = common.settings()
    work = restore_database(settings, copy, _progress(common.as_json), force=force)
    _finish(common, settings, work, settings.db, f"restored {settings.db} from {copy}")


def _progress(quiet: bool) -> Callable[[str], None]:
    last = time.monotonic()

    def show(text: str) -> None:
        nonlocal last
        if not quiet and time.monotonic() - last >= EVERY_S:
            last = time.monotonic()
            render.note(text)

    return show


def _finish(
    common: Common,
    settings: Settings,
    work: Coroutine[Any, Any, dict[str, int]],
    place: Path | str,
    done: str,
) -> None:
    try:
        with exit_codes(settings.language, stopped=f"stopped; {place} is as it was"):
            counts = asyncio.run(work)
    except FileExistsError as exc:
        usage_error(f"{exc} holds something already; --force replaces it")
    common.say(
        counts, f"{done}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())
    )
