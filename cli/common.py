"""What every command shares: settings, services, the one way from an error to an exit code."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
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
DELIVERING_S = 10.0
"""So long a command waits at its end for what it is sending to the APIs of agents."""


def settings_of(
    db: str | None, workspace: str | None = None, lang: str | None = None, **more: Any
) -> Settings:
    """Return the settings with these flags on top. Ends the program when one is wrong."""
    flags = {"db": db, "workspace": workspace, "language": lang, **more}
    try:
        settings = load_settings(
            **{name: value for name, value in flags.items() if value is not None}
        )
    except SettingsError as exc:
        usage_error(str(exc))
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


def usage_error(message: str) -> NoReturn:
    """Print what is wrong with how the command is written and end with its exit code."""
    fail(message, code=EXIT_USAGE)


def run(
    settings: Settings, work: Callable[[Services], Coroutine[Any, Any, T]], *, creates: bool = False
) -> T:
    """Do the work with the services; an expected error becomes its exit code."""
    with exit_codes(settings.language):
        return asyncio.run(with_services(settings, work, creates=creates))


async def with_services(
    settings: Settings, work: Callable[[Services], Coroutine[Any, Any, T]], *, creates: bool = False
) -> T:
    """Open the services, do the work once and close them.

    A command that only reads (not `creates`) makes no database where there is none. One that meets
    no graph of a key ends with the keys that look like it.
    """
    # Most of the program, with the libraries of models: only commands that work with the
    # services load it.
    from graphrag.app.wiring import close_agents, open_shared

    if not creates:
        _require_database(settings.db)
    async with open_shared(settings) as shared:
        services = shared.services(settings.workspace)
        try:
            return await work(services)
        except GraphNotFound as exc:
            await fail_without_graph(services.source, exc.graph_key)
        finally:
            await services.life.deliveries.wait_until_sent(timeout_s=DELIVERING_S)
            await close_agents(services)


async def with_source(
    settings: Settings, work: Callable[[GraphDataSource], Coroutine[Any, Any, T]]
) -> T:
    """Open the graphs of the workspace alone, do the work once and close them.

    Much less is loaded than for `with_services`. Makes no database where there is none.
    """
    _require_database(settings.db)
    async with open_database(settings.db, settings.workspace) as database:
        return await work(database.source(settings.workspace))


def _require_database(db: str) -> None:
    file = database_file(db)
    if file is not None and not file.exists():
        hint = "`nodius demo` or `nodius import FILE` makes one, --db or NODIUS_DB names another"
        fail(f"there is no database {db} yet; {hint}", code=EXIT_NOTHING)


@contextmanager
def exit_codes(
    language: Language, *, stopped: str | None = "stopped; what was finished is stored"
) -> Generator[None]:
    """End the program for an expected error in the block, and at Ctrl-C saying `stopped`.

    Raises: KeyboardInterrupt where `stopped` is None.
    """
    try:
        yield
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


async def fail_without_graph(
    source: GraphDataSource, graph_key: str, *, or_else: str = ""
) -> NoReturn:
    """End with exit code 3 and the keys that look like one that no graph has.

    `or_else` says what else the word could have named and does not.
    """
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
    fail(
        f"no graph {graph_key!r} in workspace {source.workspace!r}{other}{hint}", code=EXIT_NOTHING
    )


def bytes_of(file: Path, limit: int = -1) -> bytes:
    """Return what a file holds (-: standard input), `limit` bytes of it. Ends the program
    where it cannot.
    """
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(limit)
        with file.open("rb") as opened:
            return opened.read(limit)
    except OSError as exc:
        usage_error(f"cannot read {file}: {exc.strerror}")


def service_of(
    settings: Settings, url: str | None, token_file: Path | None
) -> tuple[str, str | None]:
    """Return a service's address and the token to sign in with; ends the program when
    it is unreadable.
    """
    address = url or f"http://{settings.host}:{settings.port}"
    if token_file is None:
        return address, None
    try:
        text = sys.stdin.read() if str(token_file) == "-" else token_file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        usage_error(f"cannot read the token in {token_file}: {exc}")
    return address, text.strip()


def check_question(question: str) -> None:
    """Ends the program for an empty question."""
    if not question.strip():
        usage_error("the question is empty")


def local_time(at_ms: int, precision: Literal["minutes", "seconds"] = "minutes") -> str:
    """Return a time as people here write it. Units: milliseconds since 1970."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(" ", precision)
