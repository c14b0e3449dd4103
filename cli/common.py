"""What every command shares: options, settings, the one way from an error to an exit code."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_type_hints

import typer

from cli import render
from datasources.base import GraphDataSource
from datasources.errors import GraphNotFound
from datasources.types import Graph
from graphrag.app.databases import database_file
from graphrag.app.wiring import Services, open_services
from graphrag.config import Settings, SettingsError, load_settings
from graphrag.errors import describe
from graphrag.i18n import Language
from graphrag.logs import configure_logs
from tools.base import Role

T = TypeVar("T")

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOTHING = 3


def option(names: str, metavar: str, help: str, **limits: Any) -> Any:
    """Return the declaration of an option with a value; `names` as they are typed, with spaces between."""
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
    str | None, option("--lang", "en|fr", "Language of contexts, prompts and messages.")
]
WorkspaceOption = Annotated[str | None, option("--workspace -w", "NAME", "Whose graphs to work with.")]
GraphArgument = Annotated[str, argument("GRAPH", "A graph's key (see `nodius graphs`).")]
QuestionArgument = Annotated[str, argument("QUESTION", "What to ask, in quotes.")]
RoleOption = Annotated[Role, option("--role", "ROLE", "Who asks: viewer, editor, reviewer or admin.")]
ThreadOption = Annotated[
    str | None, option("--thread -t", "ID", "Go on in this conversation (see `nodius threads list`).")
]
UrlOption = Annotated[str | None, option("--url", "URL", "The service (default: as `nodius serve`).")]
TokenFileOption = Annotated[
    Path | None, option("--token-file", "FILE", "File with the token to sign in (-: stdin).")
]
OfGraphOption = Annotated[str | None, option("--graph", "GRAPH", "Of one graph only.")]
LimitOption = Annotated[int, option("--limit", "N", "Show at most so many.", min=1, max=10_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGroup:
    """Options that commands share, a field each. A parameter of such a class gives a command all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Common(OptionGroup):
    """The options that every command has, as they were given."""

    as_json: JsonOption = False
    db: DbOption = None
    workspace: WorkspaceOption = None
    lang: LanguageOption = None

    def settings(self, **flags: Any) -> Settings:
        """Return the settings with these options and `flags` on top. Ends the program when one is wrong."""
        return settings_of(self.db, self.workspace, self.lang, **flags)

    def say(self, document: Any, shown: str | Callable[[], object]) -> None:
        """Print what was done: as JSON where that is wanted, else in a line, or by calling `shown`."""
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
        """Print a table, or all of it as JSON. Ends the program, saying `none`, where there is no row."""
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
    group: typer.Typer | None = None, name: str | None = None, *, json: bool = True, creates: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Return a decorator that makes a command of a function, of a `group` where one is given.

    The function's first parameter is a `Common`, whose options stand last (without `json` there is no
    --json); a parameter whose class is another OptionGroup stands for its options. A coroutine function is
    run with the `services` of the database, its second parameter: see `with_services` for `creates`. A
    group's command without a `name` is what the group does by itself.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        first, *own = inspect.signature(function, eval_str=True).parameters.values()
        own = [parameter for parameter in own if parameter.annotation is not Services]
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
            work = with_services(settings, lambda on: function(services=on, **given), creates=creates)
            run_coroutine(work, settings.language)

        is_callback = group is not None and name is None
        if is_callback:
            parameters.append(inspect.Parameter(_CONTEXT, _KEYWORD, annotation=typer.Context))
        called.__name__, called.__doc__ = function.__name__, function.__doc__
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        called.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        if group is None:
            return called
        return (group.callback(invoke_without_command=True) if is_callback else group.command(name))(called)

    return decorate


_CONTEXT, _KEYWORD = "context", inspect.Parameter.KEYWORD_ONLY


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


def settings_of(
    db: str | None, workspace: str | None = None, lang: str | None = None, **more: Any
) -> Settings:
    """Return the settings with these flags on top. Ends the program when one is wrong."""
    flags = {"db": db, "workspace": workspace, "language": lang, **more}
    try:
        settings = load_settings(**{name: value for name, value in flags.items() if value is not None})
    except SettingsError as exc:
        fail(str(exc), code=EXIT_USAGE)
    # A person reads this terminal: events stand above the answer only where they are asked for.
    wanted = settings.ai_debug or "log_level" in settings.model_fields_set
    configure_logs(settings.log_level if wanted else "critical", debug=settings.ai_debug)
    return settings


def fail(message: str, *, code: int = EXIT_FAILED, details: str = "") -> NoReturn:
    """Print what is wrong on standard error and end with an exit code."""
    render.fault(f"nodius: {message}")
    if details:
        render.note(f"  {details}")
    raise typer.Exit(code)


def run(
    settings: Settings, work: Callable[[Services], Coroutine[Any, Any, T]], *, creates: bool = False
) -> T:
    """Do the work with the services; an expected error becomes its exit code."""
    return run_coroutine(with_services(settings, work, creates=creates), settings.language)


async def with_services(
    settings: Settings, work: Callable[[Services], Coroutine[Any, Any, T]], *, creates: bool = False
) -> T:
    """Open the services, do the work once and close them.

    A command that only reads (not `creates`) makes no database where there is none.
    """
    if not creates:
        _check_exists(settings.db)
    async with open_services(settings) as services:
        return await work(services)


def run_coroutine(
    work: Coroutine[Any, Any, T],
    language: Language,
    *,
    stopped: str | None = "stopped; what was finished is stored",
    runs: Callable[[Coroutine[Any, Any, T]], T] = asyncio.run,
) -> T:
    """Return what `work` returns. Ends the program for an expected error, and at Ctrl-C saying `stopped`.

    `runs`: what runs it to its end.

    Raises: KeyboardInterrupt where `stopped` is None.
    """
    try:
        return runs(work)
    except KeyboardInterrupt:
        if stopped is None:
            raise
        fail(stopped, code=130)
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(EXIT_FAILED) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as exc:  # every command's last resort: unexpected errors are raised again
        known = describe(exc, language)
        if known is None:
            raise
        fail(known.message, code=known.exit_code, details=known.details)


def _check_exists(url: str) -> None:
    file = database_file(url)
    if file is not None and not file.exists():
        hint = "`nodius demo` or `nodius import FILE` makes one"
        fail(f"there is no database {url} yet; {hint}, --db or NODIUS_DB names another", code=EXIT_NOTHING)


async def graph_or_fail(source: GraphDataSource, graph_key: str, *, or_else: str = "") -> Graph:
    """Return the graph, or end with exit code 3 and the keys that look like it.

    `or_else` says what else the word could have named and does not.
    """
    with suppress(GraphNotFound):
        return await source.get_graph(graph_key)
    graphs = await source.list_graphs()
    names = {graph.name: graph.key for graph in graphs}
    known = [*(graph.key for graph in graphs), *names]
    near = difflib.get_close_matches(graph_key, known, n=3, cutoff=0.5)
    if near:
        hint = "; did you mean " + ", ".join(dict.fromkeys(names.get(n, n) for n in near)) + "?"
    elif graphs:
        hint = "; see `nodius graphs`"
    else:
        hint = "; there is no graph yet: try `nodius demo` or `nodius import FILE`"
    other = f", {or_else}" if or_else else ""
    fail(f"no graph {graph_key!r} in workspace {source.workspace!r}{other}{hint}", code=EXIT_NOTHING)


def service_of(settings: Settings, url: str | None, token_file: Path | None) -> tuple[str, str | None]:
    """Return a service's address and the token to sign in with; ends the program when it is unreadable."""
    address = url or f"http://{settings.host}:{settings.port}"
    if token_file is None:
        return address, None
    try:
        text = sys.stdin.read() if str(token_file) == "-" else token_file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        fail(f"cannot read the token in {token_file}: {exc}", code=EXIT_USAGE)
    return address, text.strip()


def check_question(question: str) -> None:
    """Ends the program for an empty question."""
    if not question.strip():
        fail("the question is empty", code=EXIT_USAGE)


def local_time(at_ms: int, precision: Literal["minutes", "seconds"] = "minutes") -> str:
    """Return a time as people here write it. Units: milliseconds since 1970."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(" ", precision)
