"""The commands `db …`: set up, check, copy and compact a database, and test its server."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import orjson
import typer

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, require_database, usage_error
from cli.doctor import findings_output
from cli.inputs import write_file
from cli.options import Common, argument, flag, option
from cli.output import Output
from datasources.base import RehearsalStep
from datasources.errors import SourceError
from graphrag.app.database_transfer import CopyRefused, Transfer, transfer_database
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
    common: Common,
    settings: Settings,
    print_user_script: Annotated[
        bool,
        flag(
            "--print-user-script",
            "Only print a script that creates a user: for psql, or for arangosh.",
        ),
    ] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Only print what would be created.")] = False,
    user: Annotated[str, option("--user", "NAME", "The user of that script.")] = "nodius",
) -> Output | None:
    """Create missing tables or collections and indexes, and index the words of nodes. Can be
    repeated.
    """
    if print_user_script:
        typer.echo(_user_script(settings, user), nl=False)
        return None
    return await _prepared(common, settings, dry_run)


@command(database, "upgrade")
async def upgrade(
    common: Common,
    settings: Settings,
    dry_run: Annotated[bool, flag("--dry-run", "Only print what would be changed.")] = False,
) -> Output:
    """Bring the schema of a database of an older program up to date. Can be repeated.

    On a server it does the same as `db init`. A SQLite file has one schema only: an older one is
    exported and imported, as the error says.
    """
    require_database(settings.db)
    return await _prepared(common, settings, dry_run)


async def _prepared(common: Common, settings: Settings, dry_run: bool) -> Output:
    with render.progress("upgrading", quiet=common.as_json) as update:
        done = await prepare_database(
            settings.db, settings.workspace, dry_run=dry_run, progress=update
        )

    def show() -> None:
        for line in done:
            render.line(line)
        if not done:
            render.note("nothing to do: the database is set up")
        else:
            render.note("nothing was changed: --dry-run" if dry_run else "the database is set up")

    return Output(document={"to_do" if dry_run else "done": done}, text=show)


def _user_script(settings: Settings, user: str) -> str:
    try:
        script = database_user_script(settings.db, user)
    except (SourceError, ValueError) as exc:
        usage_error(str(exc))
    if script is None:
        usage_error(
            "only a database on a server has users; give --db postgres://… or arango+http://…"
        )
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


@command(database, "copy", stopped="stopped; the same command continues")
async def copy(
    common: Common,
    original: Annotated[str, argument("FROM", "The database to copy, an address as in --db.")],
    target: Annotated[str, argument("TO", "An empty database, set up by `nodius db init`.")],
) -> Output:
    """Copy a whole database to another one of any kind, and compare both. Stop the servers first.

    Run it again to continue an interrupted copy. Ends with 1 if the two differ afterwards.
    """
    if common.db:
        usage_error("FROM and TO name the databases: leave out --db")
    try:
        with render.progress("copying", quiet=common.as_json) as update:
            done = await transfer_database(original, target, update)
    except CopyRefused as exc:
        usage_error(str(exc))
    return Output(
        document=done.to_document(),
        text=partial(_show_transfer, done),
        exit_code=EXIT_FAILED if done.differences else 0,
    )


def _show_transfer(done: Transfer) -> None:
    for workspace, held in done.inventory.items():
        counts = held.counts()
        counts["node types"] = counts.pop("nodeTypes")
        render.line(
            f"{workspace}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())
        )
    for words in done.left_out:
        render.note(f"not copied: {words}")
    for words in done.notes:
        render.note(words)
    for line in done.differences:
        render.fault(line)
    if done.differences:
        render.fault("the copy differs from the original: copy again into an empty database")
    else:
        render.note("both databases hold the same, and the audit logs are intact")


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
