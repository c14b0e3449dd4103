"""The options of commands, each declared once; and what makes a command of a function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer

from cli import render
from cli.common import EXIT_NOTHING, exit_codes, settings_of, with_services, with_source
from datasources.base import GraphDataSource
from graphrag.config import Settings
from languages import LANGUAGES, GraphLanguage
from tools.base import Role


def option(names: str, metavar: str, help: str, **limits: Any) -> Any:
    """Return the declaration of an option with a value; `names` as they are typed,
    with spaces between.
    """
    return typer.Option(*names.split(), metavar=metavar, help=help, **limits)


def flag(names: str, help: str) -> Any:
    """Return the declaration of an option without a value."""
    return typer.Option(*names.split(), help=help)


def argument(metavar: str, help: str) -> Any:
    """Return the declaration of an argument."""
    return typer.Argument(metavar=metavar, help=help)


JsonOption = Annotated[bool, flag("--json", "Print JSON for a script.")]
DbOption = Annotated[
    str | None,
    option(
        "--db",
        "URL",
        "Database: sqlite:PATH, memory: (the NBA sample graph) or arango+http://USER:PASSWORD@HOST/NAME.",
    ),
]
LanguageOption = Annotated[
    str | None, option("--lang", "|".join(LANGUAGES), "Language of contexts, prompts and messages.")
]
WorkspaceOption = Annotated[
    str | None, option("--workspace -w", "NAME", "Whose graphs to work with.")
]
GraphArgument = Annotated[str, argument("GRAPH", "A graph's key (see `nodius graphs`).")]
QuestionArgument = Annotated[str, argument("QUESTION", "What to ask, in quotes.")]
RoleOption = Annotated[
    Role, option("--role", "ROLE", "Who asks: viewer, editor, reviewer or admin.")
]
ThreadOption = Annotated[
    str | None,
    option("--thread -t", "ID", "Go on in this conversation (see `nodius threads list`)."),
]
UrlOption = Annotated[
    str | None, option("--url", "URL", "The service (default: as `nodius serve`).")
]
TokenFileOption = Annotated[
    Path | None, option("--token-file", "FILE", "File with the token to sign in (-: stdin).")
]
OfGraphOption = Annotated[str | None, option("--graph", "GRAPH", "Of one graph only.")]
_CODES = sorted((*get_args(GraphLanguage), "en"))
GraphLanguageOption = Annotated[
    Literal["en", GraphLanguage] | None,
    option(
        "--language", "CODE", f"Of a new graph's texts: {', '.join(_CODES[:-1])} or {_CODES[-1]}."
    ),
]
LimitOption = Annotated[int, option("--limit", "N", "Show at most so many.", min=1, max=10_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGroup:
    """Options that commands share, a field each. A parameter of such a class gives a command
    all of them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Common(OptionGroup):
    """The options that every command has, as they were given."""

    as_json: JsonOption = False
    db: DbOption = None
    workspace: WorkspaceOption = None
    lang: LanguageOption = None

    def settings(self, **flags: Any) -> Settings:
        """Return the settings with these options and `flags` on top. Ends the program when
        one is wrong.
        """
        return settings_of(self.db, self.workspace, self.lang, **flags)

    def say(self, document: Any, shown: str | Callable[[], object]) -> None:
        """Print what was done: as JSON where that is wanted, else in a line, or
        by calling `shown`.
        """
        if self.as_json:
            render.json(document)
        elif isinstance(shown, str):
            render.line(shown)
        else:
            shown()

    def show_list(
        self,
        document: Any,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        none: str,
        numbers: Sequence[int] = (),
        folded: int | None = None,
    ) -> None:
        """Print a table, or all of it as JSON. Ends the program, saying `none`, where there
        is no row.
        """
        if self.as_json:
            render.json(document)
        elif rows:
            render.table(columns, rows, numbers=numbers, folded=folded)
        if not rows:
            render.note(none)
            raise typer.Exit(EXIT_NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithModel(Common):
    """The options of a command in which a model answers."""

    provider: Annotated[
        str | None, option("--provider", "NAME", "Whose model answers (default: see settings).")
    ] = None
    model: Annotated[str | None, option("--model", "NAME", "Which model answers.")] = None

    def settings(self, **flags: Any) -> Settings:
        return Common.settings(self, provider=self.provider, model=self.model, **flags)


def command(
    group: typer.Typer | None = None,
    name: str | None = None,
    *,
    json: bool = True,
    creates: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Return a decorator that makes a command of a function, of a `group` where one is given.

    The function's first parameter is a `Common`, whose options stand last (without `json` there is
    no --json); a parameter whose class is another OptionGroup stands for its options. A coroutine
    function is run with the `services` of the database, its second parameter (see `with_services`
    for `creates`), or with the graphs of the workspace alone where it has a `source:
    GraphDataSource` instead. A group's command without a `name` is what the group does by itself.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        first, *own = inspect.signature(function, locals=_OPENED, eval_str=True).parameters.values()
        reads_only = any(parameter.annotation is GraphDataSource for parameter in own)
        own = [
            one for one in own if one.name != "services" and one.annotation is not GraphDataSource
        ]
        parameters: list[inspect.Parameter] = []
        groups: dict[str, tuple[type[OptionGroup], list[str]]] = {}
        for parameter in (*own, first):
            options = _options(parameter)
            if options is None:
                parameters.append(parameter.replace(kind=_KEYWORD))
                continue
            options = [one for one in options if json or one.name != "as_json"]
            groups[parameter.name] = (parameter.annotation, [one.name for one in options])
            parameters += options

        def called(**given: Any) -> None:
            context: typer.Context | None = given.pop(_CONTEXT, None)
            if context is not None and context.invoked_subcommand is not None:
                return
            for of, (kind, names) in groups.items():
                given[of] = kind(**{option: given.pop(option) for option in names})
            if not inspect.iscoroutinefunction(function):
                function(**given)
                return
            common: Common = given[first.name]
            settings = common.settings()
            with exit_codes(settings.language):
                if reads_only:
                    asyncio.run(with_source(settings, lambda on: function(source=on, **given)))
                else:
                    asyncio.run(
                        with_services(
                            settings, lambda on: function(services=on, **given), creates=creates
                        )
                    )

        is_callback = group is not None and name is None
        if is_callback:
            parameters.append(inspect.Parameter(_CONTEXT, _KEYWORD, annotation=typer.Context))
        called.__name__ = function.__name__
        called.__doc__ = function.__doc__
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        called.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        if group is None:
            return called
        return (
            group.callback(invoke_without_command=True) if is_callback else group.command(name)
        )(called)

    return decorate


_CONTEXT = "context"
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
# A command that imports little names the class of its services for type checkers alone.
_OPENED = {"Services": object}


def _options(parameter: inspect.Parameter) -> list[inspect.Parameter] | None:
    """Return the options that a parameter stands for; None where it is one itself."""
    found: Any = parameter.annotation
    if not (isinstance(found, type) and issubclass(found, OptionGroup)):
        return None
    hints = get_type_hints(found, include_extras=True)
    return [
        inspect.Parameter(field.name, _KEYWORD, annotation=hints[field.name], default=field.default)
        for field in fields(found)
    ]
