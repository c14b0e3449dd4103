"""The options of commands, each declared once."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from cli.common import settings_of, usage_error
from graphrag.config import Settings
from languages import LANGUAGES, GraphLanguage
from tools.base import Role


def option(names: str, metavar: str, help: str, **limits: Any) -> Any:
    """Returns the declaration of an option that takes a value; `names` are separated by spaces."""
    return typer.Option(*names.split(), metavar=metavar, help=help, **limits)


def flag(names: str, help: str) -> Any:
    """Returns the declaration of an option that takes no value."""
    return typer.Option(*names.split(), help=help)


def argument(metavar: str, help: str) -> Any:
    """Returns the declaration of an argument."""
    return typer.Argument(metavar=metavar, help=help)


JsonOption = Annotated[bool, flag("--json", "Print JSON for a script.")]
DbOption = Annotated[
    str | None,
    option(
        "--db",
        "URL",
        "Database: sqlite:PATH, memory: (the NBA sample graph), postgres://USER:PASSWORD@HOST/NAME or"
        " arango+http://USER:PASSWORD@HOST/NAME.",
    ),
]
LanguageOption = Annotated[
    str | None, option("--lang", "|".join(LANGUAGES), "Language of contexts, prompts and messages.")
]
WorkspaceOption = Annotated[
    str | None, option("--workspace -w", "NAME", "The workspace whose graphs are used.")
]
GraphArgument = Annotated[str, argument("GRAPH", "A graph's key (see `nodius graphs`).")]
QuestionArgument = Annotated[str, argument("QUESTION", "The question, in quotes.")]
RoleOption = Annotated[
    Role, option("--role", "ROLE", "Your role: viewer, editor, reviewer or admin.")
]
ThreadOption = Annotated[
    str | None,
    option("--thread -t", "ID", "Continue this conversation (see `nodius threads list`)."),
]
UrlOption = Annotated[
    str | None, option("--url", "URL", "The service (default: as `nodius serve`).")
]
TokenFileOption = Annotated[
    Path | None, option("--token-file", "FILE", "File with the token to sign in (-: stdin).")
]
OfGraphOption = Annotated[str | None, option("--graph", "GRAPH", "Only for this graph.")]
_CODES = sorted((*get_args(GraphLanguage), "en"))
GraphLanguageOption = Annotated[
    Literal["en", GraphLanguage] | None,
    option(
        "--language", "CODE", f"Language of a new graph: {', '.join(_CODES[:-1])} or {_CODES[-1]}."
    ),
]
LimitOption = Annotated[int, option("--limit", "N", "Maximum number shown.", min=1, max=10_000)]

SPAN_MS = {"h": 3_600_000, "d": 86_400_000}


def span_ms(span: str) -> int:
    """Returns the value of `--since` in milliseconds. Ends the program if it is none."""
    parts = re.fullmatch(r"(\d{1,4})([hd])", span)
    if parts is None:
        usage_error(f"--since {span!r}: write hours or days, such as 12h or 7d")
    return int(parts[1]) * SPAN_MS[parts[2]]


# The settings that options override, by the names of the options' fields.
SETTINGS = {
    "db": "db",
    "workspace": "workspace",
    "lang": "language",
    "provider": "provider",
    "model": "model",
    "mode": "mode",
    "budget": "budget_tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGroup:
    """Options that commands share, one per field. A command that has a parameter of such a class
    has all of them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Printing(OptionGroup):
    """The option of every command, also of those that do not use the database of the settings."""

    as_json: JsonOption = False

    def settings(self, **flags: Any) -> Settings:
        """Returns the settings, overridden by these options (see SETTINGS) and `flags`. Ends the
        program if one of them is invalid.
        """
        names = [field.name for field in fields(self) if field.name in SETTINGS]
        own = {SETTINGS[name]: getattr(self, name) for name in names}
        return settings_of(**own, **flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Common(Printing):
    """The options of a command that uses the database of the settings."""

    db: DbOption = None
    workspace: WorkspaceOption = None
    lang: LanguageOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WithModel(Common):
    """The options of a command that uses a language model."""

    provider: Annotated[
        str | None, option("--provider", "NAME", "Provider of the model (default: see settings).")
    ] = None
    model: Annotated[str | None, option("--model", "NAME", "Name of the model.")] = None
