"""Settings, services and exit codes of commands."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import typer

from cli import render
from datasources.base import GraphDataSource
from datasources.errors import GraphNotFound
from graphrag.app.databases import database_file, open_database
from graphrag.config import Settings, SettingsError, load_settings
from graphrag.errors import describe
from graphrag.i18n import Language
from graphrag.logs import configure_logs

if TYPE_CHECKING:
    from graphrag.app.wiring import Services

T = TypeVar("T")

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOTHING = 3
EXIT_STOPPED = 130  # as shells report Ctrl-C
STOPPED = "stopped; what was finished is stored"
DELIVERY_WAIT_S = 10.0  # at the end of a command, for requests to the APIs of agents


def settings_of(**flags: Any) -> Settings:
    """Returns the settings, overridden by the flags that are not None. Ends the program if one is
    invalid.
    """
    try:
        settings = load_settings(
            **{name: value for name, value in flags.items() if value is not None}
        )
    except SettingsError as exc:
        usage_error(str(exc))
    # Log events would mix with the answer, so they are off unless the settings ask for them.
    wanted = settings.ai_debug or "log_level" in settings.model_fields_set
    configure_logs(settings.log_level if wanted else "critical", debug=settings.ai_debug)
    return settings


def fail(message: str, *, code: int = EXIT_FAILED, details: str = "") -> NoReturn:
    """Prints an error on standard error and ends the program."""
    render.fault(f"nodius: {message}")
    if details:
        render.note(f"  {details}")
    raise typer.Exit(code)


def usage_error(message: str) -> NoReturn:
    """Prints an error in the options or arguments and ends the program."""
    fail(message, code=EXIT_USAGE)


def run(
    settings: Settings, work: Callable[[Services], Coroutine[Any, Any, T]], *, creates: bool = False
) -> T:
    """Runs `work` with the services and returns its result. Ends the program for expected
    errors.
    """
    with exit_codes(settings.language):
        return asyncio.run(with_services(settings, work, creates=creates))


async def with_services(
    settings: Settings, work: Callable[[Services], Coroutine[Any, Any, T]], *, creates: bool = False
) -> T:
    """Opens the services, runs `work` and closes them.

    Ends the program if the database does not exist and the command does not create it (`creates`),
    and with similar keys if there is no graph of a given key.
    """
    # The services import the libraries of models, which takes most of a command's start.
    from graphrag.app.wiring import close_agents, open_shared

    if not creates:
        require_database(settings.db)
    async with open_shared(settings) as shared:
        services = shared.services(settings.workspace)
        try:
            return await work(services)
        except GraphNotFound as exc:
            await fail_without_graph(services.source, exc.graph_key)
        finally:
            await services.life.deliveries.wait_until_sent(timeout_s=DELIVERY_WAIT_S)
            await close_agents(services)


async def with_source(
    settings: Settings, work: Callable[[GraphDataSource], Coroutine[Any, Any, T]]
) -> T:
    """Opens only the graphs of the workspace, runs `work` and closes them.

    Imports much less than `with_services`. Ends the program if the database does not exist.
    """
    require_database(settings.db)
    async with open_database(settings.db, settings.workspace) as database:
        return await work(database.source(settings.workspace))


def require_database(db: str) -> None:
    """Ends the program if the file of an address does not exist."""
    file = database_file(db)
    if file is not None and not file.exists():
        hint = (
            "`nodius demo` or `nodius import FILE` creates one, --db or NODIUS_DB selects another"
        )
        fail(f"there is no database {db} yet; {hint}", code=EXIT_NOTHING)


@contextmanager
def exit_codes(language: Language, *, stopped: str | None = STOPPED) -> Generator[None]:
    """Ends the program with an error message and an exit code for expected errors in the block.

    At Ctrl-C it prints `stopped`. Raises: KeyboardInterrupt if `stopped` is None, and unexpected
    errors.
    """
    try:
        yield
    except KeyboardInterrupt:
        if stopped is None:
            raise
        fail(stopped, code=EXIT_STOPPED)
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(EXIT_FAILED) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as exc:  # unexpected errors are raised again
        described = describe(exc, language)
        if described is None:
            raise
        fail(described.message, code=described.exit_code, details=described.details)


async def fail_without_graph(
    source: GraphDataSource, graph_key: str, *, or_else: str = ""
) -> NoReturn:
    """Ends the program because no graph has this key; prints keys that look like it.

    `or_else` names other things that the key could have meant.
    """
    graphs = await source.list_graphs()
    keys_by_name = {graph.name: graph.key for graph in graphs}
    candidates = [*(graph.key for graph in graphs), *keys_by_name]
    similar = difflib.get_close_matches(graph_key, candidates, n=3, cutoff=0.5)
    if similar:
        keys = dict.fromkeys(keys_by_name.get(name, name) for name in similar)
        hint = "; did you mean " + ", ".join(keys) + "?"
    elif graphs:
        hint = "; see `nodius graphs`"
    else:
        hint = "; there is no graph yet: try `nodius demo` or `nodius import FILE`"
    other = f", {or_else}" if or_else else ""
    fail(
        f"no graph {graph_key!r} in workspace {source.workspace!r}{other}{hint}", code=EXIT_NOTHING
    )


def local_time(at_ms: int, precision: Literal["minutes", "seconds"] = "minutes") -> str:
    """Returns a time in the local time zone. Units: milliseconds since 1970."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(" ", precision)
