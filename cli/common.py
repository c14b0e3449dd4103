"""What every command shares: options, settings, the one way from an error to an exit code."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from cli import render
from datasources.base import GraphDataSource
from datasources.types import Graph
from graphrag.app.logs import configure_logs
from graphrag.app.wiring import Services, database_file, open_services
from graphrag.config import Settings, SettingsError, load_settings
from graphrag.errors import describe

T = TypeVar("T")

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOTHING = 3

DbOption = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="Database: sqlite:PATH, memory: (the NBA sample graph) or arango+http://USER:PASSWORD@HOST/NAME.",
    ),
]
WorkspaceOption = Annotated[
    str | None, typer.Option("--workspace", "-w", metavar="NAME", help="Whose graphs to work with.")
]
LanguageOption = Annotated[
    str | None, typer.Option("--lang", metavar="en|fr", help="Language of contexts, prompts and messages.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a script.")]
GraphArgument = Annotated[str, typer.Argument(metavar="GRAPH", help="A graph's key (see `nodius graphs`).")]


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
    """Say what is wrong on standard error and end with an exit code."""
    render.fault(f"nodius: {message}")
    if details:
        render.note(f"  {details}")
    raise typer.Exit(code)


def run(
    settings: Settings, work: Callable[[Services], Coroutine[Any, Any, T]], *, creates: bool = False
) -> T:
    """Open the services, do the work once and close them; an expected error becomes its exit code.

    A command that only reads (not `creates`) makes no database where there is none.
    """

    async def opened() -> T:
        if not creates:
            _existing(settings.db)
        async with open_services(settings) as services:
            return await work(services)

    try:
        return asyncio.run(opened())
    except KeyboardInterrupt:
        fail("stopped; what was finished is stored", code=130)
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(EXIT_FAILED) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as exc:  # the one door: known errors are said, unknown ones re-raised
        known = describe(exc, settings.language)
        if known is None:
            raise
        fail(known.message, code=known.exit_code, details=known.details)


def _existing(url: str) -> None:
    file = database_file(url)
    if file is not None and not file.exists():
        hint = "`nodius demo` or `nodius import FILE` makes one"
        fail(f"there is no database {url} yet; {hint}, --db or NODIUS_DB names another", code=EXIT_NOTHING)


async def graph_or_fail(source: GraphDataSource, graph_key: str, *, or_else: str = "") -> Graph:
    """Return the graph, or end with exit code 3 and the keys that look like it.

    `or_else` says what else the word could have named and does not.
    """
    graphs = {graph.key: graph for graph in await source.list_graphs()}
    if graph_key in graphs:
        return graphs[graph_key]
    names = {graph.name: graph.key for graph in graphs.values()}
    near = difflib.get_close_matches(graph_key, [*graphs, *names], n=3, cutoff=0.5)
    if near:
        hint = "; did you mean " + ", ".join(dict.fromkeys(names.get(n, n) for n in near)) + "?"
    elif graphs:
        hint = "; see `nodius graphs`"
    else:
        hint = "; there is no graph yet: try `nodius demo` or `nodius import FILE`"
    other = f", {or_else}" if or_else else ""
    fail(f"no graph {graph_key!r} in workspace {source.workspace!r}{other}{hint}", code=EXIT_NOTHING)
