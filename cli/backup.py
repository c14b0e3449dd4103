"""The commands `backup` and `restore`: a copy of the database while it is used, and back again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import render
from cli.common import EXIT_USAGE, DbOption, JsonOption, LanguageOption, WorkspaceOption, fail, settings_of
from graphrag.app.wiring import back_up_database, restore_database
from graphrag.config import Settings
from graphrag.errors import describe

EVERY_S = 1.0
ForceOption = Annotated[bool, typer.Option("--force", help="Also over what is there already.")]


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes.")],
    force: ForceOption = False,
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Copy the database while servers use it; of ArangoDB, a workspace into a folder of JSON."""
    settings = settings_of(db, workspace, lang)
    work = back_up_database(settings, target, _progress(as_json), force=force)
    _report(_run(settings, work, target), f"backed up to {target}", as_json=as_json)


def restore(
    copy: Annotated[Path, typer.Argument(metavar="FILE", help="What `nodius backup` wrote.")],
    force: ForceOption = False,
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Put a backup in the database's place. Stop the servers first; what was there is kept beside it."""
    settings = settings_of(db, workspace, lang)
    work = restore_database(settings, copy, _progress(as_json), force=force)
    _report(_run(settings, work, settings.db), f"restored {settings.db} from {copy}", as_json=as_json)


def _progress(quiet: bool) -> Callable[[str], None]:
    last = time.monotonic()

    def said(text: str) -> None:
        nonlocal last
        if not quiet and time.monotonic() - last >= EVERY_S:
            last = time.monotonic()
            render.note(text)

    return said


def _report(held: dict[str, int], done: str, *, as_json: bool) -> None:
    if as_json:
        render.json(held)
        return
    render.line(f"{done}: " + ", ".join(f"{count:,} {name}" for name, count in held.items()))


def _run(settings: Settings, work: Coroutine[Any, Any, dict[str, int]], place: Path | str) -> dict[str, int]:
    try:
        return asyncio.run(work)
    except FileExistsError as exc:
        fail(f"{exc} holds something already; --force replaces it", code=EXIT_USAGE)
    except KeyboardInterrupt:
        fail(f"stopped; {place} is as it was", code=130)
    except Exception as exc:  # the one door: known errors are said, unknown ones re-raised
        known = describe(exc, settings.language)
        if known is None:
            raise
        fail(known.message, code=known.exit_code)
