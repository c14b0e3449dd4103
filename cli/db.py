"""The commands `db init` and `db check`: set a database up, and look whether it is."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

import typer

from cli import render
from cli.common import EXIT_FAILED, EXIT_USAGE, DbOption, JsonOption, LanguageOption, fail, settings_of
from datasources.errors import SourceError
from graphrag.app.wiring import check_database, database_user_script, prepare_database
from graphrag.config import Settings
from graphrag.errors import describe

T = TypeVar("T")
_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}

database = typer.Typer(help="Set a database up and look at its health.", no_args_is_help=True)


@database.command("init")
def init(
    print_user_script: Annotated[
        bool,
        typer.Option(
            "--print-user-script", help="Print a script for arangosh that makes a user; do no more."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be made; make nothing.")] = False,
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="The user of that script.")] = "nodius",
    as_json: JsonOption = False,
    db: DbOption = None,
    lang: LanguageOption = None,
) -> None:
    """Make what the database lacks: collections, indexes, words of nodes. Run it as often as you like."""
    settings = settings_of(db, None, lang)
    if print_user_script:
        _print_script(settings, user)
        return
    done = _run(settings, prepare_database(settings.db, settings.workspace, dry_run=dry_run))
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
        fail(str(exc), code=EXIT_USAGE)
    if script is None:
        fail("only a database on a server has users; give --db arango+http://…", code=EXIT_USAGE)
    typer.echo(script, nl=False)


@database.command("check")
def check(as_json: JsonOption = False, db: DbOption = None, lang: LanguageOption = None) -> None:
    """Look at server, set-up, indexes and every statement. Ends with 1 when something is broken."""
    settings = settings_of(db, None, lang)
    findings = _run(settings, check_database(settings.db, settings.workspace))
    if as_json:
        render.json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            render.line(f"{finding.status:<8}{finding.name}: {finding.detail}", _STYLES[finding.status])
            if finding.fix:
                render.line(f"{'':8}→ {finding.fix}")
    if any(finding.status == "error" for finding in findings):
        raise typer.Exit(EXIT_FAILED)


def _run(settings: Settings, work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except SourceError as exc:
        known = describe(exc, settings.language)
        if known is None:
            raise
        fail(known.message, code=known.exit_code, details=known.details)
