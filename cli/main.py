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
    """Imports only the command that is run; --help and suggestions use the table.

    Typer requires a subclass for this (Click, "Lazily Loading Subcommands").
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, options_behind_command(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load(name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as exc:  # of a command: its values are read by pydantic
            exc.message = exc.message.removeprefix("Value error, ")
            raise


def _new_app(**options: Any) -> typer.Typer:
    return typer.Typer(
        pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False, **options
    )


@cache
def load(name: str) -> Any:
    """Imports a command or a group of commands and returns it for Typer."""
    place = COMMANDS[name]
    imported = getattr(import_module(place.module), place.name)
    only = _new_app()
    if isinstance(imported, typer.Typer):
        only.add_typer(imported, name=name)
    else:
        only.command(name)(imported)
    return get_group(only).commands[name]


def options_behind_command(args: list[str]) -> list[str]:
    """Returns the arguments with shared options moved behind the command.

    `--db URL graphs list` and `graphs --db URL list` become `graphs list --db URL`, so that a
    command without such an option refuses it.
    """
    path: list[str] = []
    moved: list[str] = []
    rest = list(args)
    names: Any = COMMANDS
    while rest and names:
        name, separator, _ = rest[0].partition("=")
        if name in SHARED_OPTIONS:
            count = 2 if SHARED_OPTIONS[name] and not separator else 1
            moved += rest[:count]
            del rest[:count]
        elif rest[0] in names:
            path.append(rest.pop(0))
            names = getattr(load(path[0]), "commands", None) if len(path) == 1 else None
        else:
            break
    return [*path, *moved, *rest] if path else rest  # without a command there is no effect


def _in_table() -> None:
    """Placeholder of a command that is not imported yet."""


def _version(shown: bool) -> None:
    if shown:
        from importlib.metadata import version  # slow to import

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
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Ask and change workflow graphs. Start with `nodius demo`: no key and no network needed."""


for command_name, command_place in COMMANDS.items():
    app.command(command_name, help=command_place.help)(_in_table)


def run() -> None:
    """Runs the command line. Entry point of the `nodius` script."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            # Names may contain characters that the terminal cannot show; scripts expect UTF-8.
            encoding = output.encoding if output.isatty() else "utf-8"
            output.reconfigure(encoding=encoding, errors="backslashreplace")
    collect_only_young()
    app()
