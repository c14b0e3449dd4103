"""The `nodius` command: finds a command in the table and imports it when it is run."""

from __future__ import annotations

import io
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from cli.command_table import COMMANDS
from graphrag.workers import collect_only_young

# Options that may stand before a command as well as after it, and whether a value follows each.
SHARED_OPTIONS = {"--db": True, "--workspace": True, "-w": True, "--lang": True, "--json": False}


class CommandsOnDemand(TyperGroup):
    """Imports the command that is run; its help and its suggestions need the table alone.

    Subclassing is how Typer lets a program do so (Click, "Lazily Loading Subcommands").
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, options_behind_command(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, known, rest = super().resolve_command(ctx, args)
        return name, known if name is None else load(name), rest


def _new_app(**options: Any) -> typer.Typer:
    return typer.Typer(
        pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False, **options
    )


@cache
def load(name: str) -> Any:
    """Import a command, or a group of commands, and return it as Typer runs it."""
    place = COMMANDS[name]
    found = getattr(import_module(place.module), place.name)
    only = _new_app()
    if isinstance(found, typer.Typer):
        only.add_typer(found, name=name)
    else:
        only.command(name)(found)
    return get_group(only).commands[name]


def options_behind_command(args: list[str]) -> list[str]:
    """Return the arguments with shared options moved behind the command that they stand before.

    `--db URL graphs list` becomes `graphs list --db URL`, and `graphs --db URL list` as well, so
    that the command itself says whether it has such an option.
    """
    path: list[str] = []
    moved: list[str] = []
    rest = list(args)
    known: Any = COMMANDS
    while rest and known:
        name, separator, _ = rest[0].partition("=")
        if name in SHARED_OPTIONS:
            count = 2 if SHARED_OPTIONS[name] and not separator else 1
            moved += rest[:count]
            del rest[:count]
        elif rest[0] in known:
            path.append(rest.pop(0))
            known = getattr(load(path[0]), "commands", None) if len(path) == 1 else None
        else:
            break
    return [*path, *moved, *rest] if path else rest  # without a command they have nothing to say


def _in_table() -> None:
    """Stands for a command that is not imported."""


def _version(shown: bool) -> None:
    if shown:
        from importlib.metadata import version  # slow to import, and seldom wanted

        typer.echo(f"nodius-graphrag {version('nodius-graphrag')}")
        raise typer.Exit


app = _new_app(
    name="nodius",
    cls=CommandsOnDemand,
    help="Ask and change workflow graphs. Start with `nodius demo`: no key and no network needed.",
    no_args_is_help=True,
)


@app.callback()
def main(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and end."
        ),
    ] = False,
) -> None:
    """Ask and change workflow graphs. Start with `nodius demo`: no key and no network needed."""


for command_name, command_place in COMMANDS.items():
    app.command(command_name, help=command_place.help)(_in_table)


def run() -> None:
    """Run the command line; the entry point of the `nodius` script."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            # A name may hold what the terminal, or any encoding, cannot show; a
            # script expects UTF-8.
            encoding = output.encoding if output.isatty() else "utf-8"
            output.reconfigure(encoding=encoding, errors="backslashreplace")
    collect_only_young()
    app()
