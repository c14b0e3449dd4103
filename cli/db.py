"""The commands of `db`: set a database up, look at it, rehearse on its server,
remove old history.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import orjson
import typer

from cli import render
from cli.common import EXIT_FAILED, exit_codes, fail, settings_of, usage_error
from cli.doctor import show_findings
from cli.options import DbOption, JsonOption, LanguageOption, flag, option
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

database = typer.Typer(help="Set a database up and look at its health.", no_args_is_help=True)


@database.command("init")
def init(
    print_user_script: Annotated[
        bool,
        flag("--print-user-script", "Print a script for arangosh that makes a user; do no more."),
    ] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Say what would be made; make nothing.")] = False,
    user: Annotated[str, option("--user", "NAME", "The user of that script.")] = "nodius",
    as_json: JsonOption = False,
    db: DbOption = None,
    lang: LanguageOption = None,
) -> None:
    """Make what the database lacks: collections, indexes, words of nodes. Run it as often
    as you like.
    """
    settings = settings_of(db, None, lang)
    if print_user_script:
        _print_script(settings, user)
        return
    work = prepare_database(settings.db, settings.workspace, dry_run=dry_run)
    with exit_codes(settings.language):
        done = asyncio.run(work)
    if as_json:
        render.json({"to_do" if dry_run else "done": done})
        return
    for line in done:
        render.line(line)
    if not done:
        render.note("nothing to do: the database is set up")
    else:
        render.note("nothing was made: --dry-run" if dry_run else "the database is set up")


def _print_script(settings: Settings, user: str) -> None:
    try:
        script = database_user_script(settings.db, user)
    except SourceError as exc:
        usage_error(str(exc))
    if script is None:
        usage_error("only a database on a server has users; give --db arango+http://…")
    typer.echo(script, nl=False)


@database.command("compact")
def compact(
    days: Annotated[int | None, option("--days", "N", "Days of undo data to keep.", min=1)] = None,
    mb: Annotated[int | None, option("--mb", "N", "Megabytes of undo data to keep.", min=1)] = None,
    as_json: JsonOption = False,
    db: DbOption = None,
    lang: LanguageOption = None,
) -> None:
    """Remove what undoes old changes, in all workspaces, and compress those of older versions."""
    settings = settings_of(db, None, lang)
    with exit_codes(settings.language):
        done = asyncio.run(compact_database(settings, days=days, max_mb=mb))
    if as_json:
        render.json(done)
        return
    for workspace, one in done.items():
        render.line(
            f"{workspace}: {one['moved']} changes compressed, {one['removed']} parts removed"
        )
    if not done:
        render.note("nothing to do: no workspace keeps changes")


@database.command("check")
def check(as_json: JsonOption = False, db: DbOption = None, lang: LanguageOption = None) -> None:
    """Look at server, set-up, indexes and every statement. Ends with 1 when something is broken."""
    settings = settings_of(db, None, lang)
    with exit_codes(settings.language):
        findings = asyncio.run(check_database(settings.db, settings.workspace))
    show_findings(findings, as_json=as_json)


_REPORT = Path("nodius-rehearsal.json")


@database.command("rehearse")
def rehearse(
    address: Annotated[
        str | None,
        typer.Argument(metavar="ADDRESS", help="The server, as in --db; else --db or NODIUS_DB."),
    ] = None,
    out: Annotated[Path, option("--out", "FILE", "Where to write the report.")] = _REPORT,
    as_json: JsonOption = False,
    db: DbOption = None,
    lang: LanguageOption = None,
) -> None:
    """Try all that the service does on an ArangoDB server, in a database of its own that
    is removed again.

    Writes a report that names neither server, user nor password. Ends with 1 when something failed.
    """
    if address and db:
        usage_error("give the address once: as ADDRESS or with --db")
    settings = settings_of(address or db, None, lang)
    with exit_codes(settings.language, stopped="stopped; the database of the rehearsal is removed"):
        report = asyncio.run(rehearse_database(settings.db, _show_step))
    text = orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    try:
        out.write_bytes(text)
    except OSError as exc:
        fail(f"cannot write {out}: {exc.strerror}")
    if as_json:
        render.json(report)
    outcome = "everything passed" if report["passed"] else "something failed"
    render.note(f"{outcome}; the report, which can be sent to others, is in {out}")
    if not report["passed"]:
        raise typer.Exit(EXIT_FAILED)


def _show_step(step: RehearsalStep) -> None:
    render.note(f"{step.status:<9}{step.name}: {step.detail} ({step.ms:,} ms)")
