"""The commands `db …`: set a database up, check it, test its server, and remove old undo data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import orjson
import typer

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, usage_error
from cli.doctor import findings_output
from cli.inputs import write_file
from cli.options import Common, argument, flag, option
from cli.output import Output
from datasources.base import RehearsalStep
from datasources.errors import SourceError
from graphrag.app.databases import (
    check_database,
    database_user_script,
    prepare_database,
    rehearse_database,
)
from graphrag.app.history_term import compact_database
from graphrag.config import Settings

database = typer.Typer(help="Set a database up and check its health.", no_args_is_help=True)


@command(database, "init")
async def init(
    settings: Settings,
    print_user_script: Annotated[
        bool,
        flag("--print-user-script", "Only print a script for arangosh that creates a user."),
    ] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Only print what would be created.")] = False,
    user: Annotated[str, option("--user", "NAME", "The user of that script.")] = "nodius",
) -> Output | None:
    """Create missing collections and indexes, and index the words of nodes. Can be repeated."""
    if print_user_script:
        typer.echo(_user_script(settings, user), nl=False)
        return None
    done = await prepare_database(settings.db, settings.workspace, dry_run=dry_run)

    def show() -> None:
        for line in done:
            render.line(line)
        if not done:
            render.note("nothing to do: the database is set up")
        else:
            render.note("nothing was created: --dry-run" if dry_run else "the database is set up")

    return Output(document={"to_do" if dry_run else "done": done}, text=show)


def _user_script(settings: Settings, user: str) -> str:
    try:
        script = database_user_script(settings.db, user)
    except SourceError as exc:
        usage_error(str(exc))
    if script is None:
        usage_error("only a database on a server has users; give --db arango+http://…")
    return script


@command(database, "compact")
async def compact(
    settings: Settings,
    days: Annotated[int | None, option("--days", "N", "Days of undo data to keep.", min=1)] = None,
    mb: Annotated[int | None, option("--mb", "N", "Megabytes of undo data to keep.", min=1)] = None,
) -> Output:
    """Remove undo data of old changes in all workspaces, and compress that of older versions."""
    done = await compact_database(settings, days=days, max_mb=mb)

    def show() -> None:
        for workspace, one in done.items():
            render.line(
                f"{workspace}: {one['moved']} changes compressed, {one['removed']} parts removed"
            )
        if not done:
            render.note("nothing to do: no workspace keeps changes")

    return Output(document=done, text=show)


@command(database, "check")
async def check(settings: Settings) -> Output:
    """Check server, set-up, indexes and every statement. Ends with 1 if something does not work."""
    return findings_output(await check_database(settings.db, settings.workspace))


_REPORT = Path("nodius-rehearsal.json")


@command(database, "rehearse", stopped="stopped; the database of the rehearsal is removed")
async def rehearse(
    common: Common,
    address: Annotated[
        str | None, argument("ADDRESS", "The server, as in --db; else --db or NODIUS_DB.")
    ] = None,
    out: Annotated[Path, option("--out", "FILE", "Where to write the report.")] = _REPORT,
) -> Output:
    """Run every operation of the service on an ArangoDB server, in a temporary database.

    Writes a report without names of server and user and without the password. Ends with 1 if
    something failed.
    """
    if address and common.db:
        usage_error("give the address once: as ADDRESS or with --db")
    settings = replace(common, db=address or common.db).settings()
    report = await rehearse_database(settings.db, _show_step)
    write_file(out, orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    outcome = "everything passed" if report["passed"] else "something failed"
    return Output(
        document=report,
        text=lambda: None,
        notes=(f"{outcome}; the report, which can be sent to others, is in {out}",),
        exit_code=0 if report["passed"] else EXIT_FAILED,
    )


def _show_step(step: RehearsalStep) -> None:
    render.note(f"{step.status:<9}{step.name}: {step.detail} ({step.ms:,} ms)")
