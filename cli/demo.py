"""The `demo` command: sample graphs in a database, asked, one changed and back; then the page."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli import render
from cli.browser import open_page
from cli.common import DbOption, LanguageOption, WorkspaceOption, fail, run, settings_of
from cli.embed_nodes import show_report
from cli.import_files import show_outcome
from cli.prompt import summary
from cli.serve import serve_settings
from cli.tour import tour
from graphrag.app.wiring import Services
from graphrag.embedding.refresh import embed_nodes
from graphrag.importers import UnreadableWorkflow
from graphrag.importers.exchange import import_bytes
from graphrag.retrieval.prepared_prompt import prepare_prompt
from mock_data import load_text

GRAPH = "testgraph001"
SAMPLES = {
    "nba.json": GRAPH,
    "workflows/order_refund.json": "order-refund",
    "workflows/greenhouse_climate.json": "greenhouse-climate",
}
"""Files of the package `mock_data`, and the keys of their graphs."""

QUESTIONS = {
    "en": "What happens when fetching the players fails?",
    "fr": "Que se passe-t-il quand la récupération des joueurs échoue ?",
}
SECOND_QUESTIONS = {
    "en": "When does a person have to approve a refund?",
    "fr": "Quand une personne doit-elle approuver un remboursement ?",
}
_SPACED = re.compile(r"[\w ,.:?'/-]* [\w ,.:?'/-]*")
"""Text that is quoted by double quotes alone, as a person would."""

SHOWN_CHARS = 60
"""Code and data are cut to this here; a model gets them longer."""


def demo(
    serves: Annotated[
        bool | None,
        typer.Option("--serve/--no-serve", help="Then serve the page (default: on a terminal)."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page where there is a screen.")
    ] = True,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", min=0, max=65535, help="Port of the page; 0: any.")
    ] = None,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Import sample graphs, ask, change one and undo it, then serve the page. Safe to run again."""
    settings = settings_of(db, workspace, lang, port=port)
    question = QUESTIONS[settings.language]

    async def work(services: Services) -> None:
        render.heading(f"1. Import into {services.database.url}, workspace {settings.workspace}")
        await _import(services)
        render.heading("2. Embed the nodes (no key, no network)")
        await _embed(services)
        render.heading(f"3. Ask {GRAPH}: {question}")
        await _show(services, question)
        await tour(services, GRAPH, first=4)

    run(settings, work, creates=True)
    flags = [
        part
        for name, value in (("--db", db), ("--workspace", workspace), ("--lang", lang))
        if value is not None
        for part in (name, value)
    ]
    _try_next(question, SECOND_QUESTIONS[settings.language], flags)
    if serves if serves is not None else sys.stdin.isatty() and sys.stdout.isatty():
        render.heading("The page")
        shown = partial(_show_page, opens=browser)
        serve_settings(settings, on_ready=shown, any_port=port is None)


def _show_page(address: str, *, opens: bool) -> None:
    opened = opens and open_page(address)
    render.line(f"{address} ({'opened in your browser; ' if opened else ''}Ctrl-C ends)")


async def _import(services: Services) -> None:
    for name, key in SAMPLES.items():
        file = Path(name).name
        try:
            outcome = await import_bytes(
                services.approvals,
                load_text(name).encode(),
                services.local_person(),
                file_name=file,
                graph_key=key,
            )
        except UnreadableWorkflow as exc:
            fail(f"{exc.reason}; the demo can have a database of its own: --db sqlite:demo.db")
        show_outcome(outcome)


async def _embed(services: Services) -> None:
    if services.embedder is None:
        render.line("embeddings are turned off; text search alone will answer")
        return
    with render.progress("embedding nodes") as update:
        report = await embed_nodes(
            services.source, services.embedder, graph_keys=list(SAMPLES.values()), progress=update
        )
    show_report(report)


async def _show(services: Services, question: str) -> None:
    """Print which nodes were found and why, then the context as a model reads it, shortened."""
    options = services.context_options
    short = replace(
        options,
        truncate_process=min(options.truncate_process, SHOWN_CHARS),
        truncate_data=min(options.truncate_data, SHOWN_CHARS),
    )
    prepare = partial(prepare_prompt, services.source, services.retriever, GRAPH, question, role="editor")
    whole = await prepare(options=options)
    render.passage((await prepare(options=short)).context.text)
    render.note(summary(whole))
    if short != options:
        render.note(f"Code and data are cut to {SHOWN_CHARS} characters here; `nodius context` shows more.")


def _try_next(question: str, second: str, flags: Sequence[str]) -> None:
    render.heading("Try next")
    for arguments in (
        ("graphs",),
        ("serve",),
        ("ask", "order-refund", second),
        ("chat", GRAPH),
        ("audit",),
        ("context", "order-refund", second),
        ("prompt", GRAPH, question),
        ("tools", GRAPH, "--run"),
        ("import", "FILE.json"),
        ("doctor",),
    ):
        render.passage("  " + _command([*arguments, *flags]))


def _command(arguments: Sequence[str]) -> str:
    """Return a command as this person can type it: `nodius` where the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which("nodius")
    if called.name != "nodius" or (found is not None and Path(found).resolve() == called.resolve()):
        called = Path("nodius")
    quoted = [f'"{part}"' if _SPACED.fullmatch(part) else shlex.quote(part) for part in arguments]
    return " ".join([shlex.quote(str(called)), *quoted])
