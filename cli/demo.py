"""The `demo` command: sample graphs in a database, embedded, and what a question retrieves."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import render
from cli.ask import summary
from cli.common import DbOption, LanguageOption, WorkspaceOption, run, settings_of
from cli.embed import show_report
from cli.graphs import show_outcome
from graphrag.context import build_context_of
from graphrag.embed_nodes import embed_nodes
from graphrag.exchange import import_bytes
from graphrag.tokens import count_tokens
from graphrag.wiring import Services
from mock_data import load_text

SAMPLES = ("nba.json", "workflows/order_refund.json", "workflows/greenhouse_climate.json")
QUESTIONS = {
    "en": "What happens when fetching the players fails?",
    "fr": "Que se passe-t-il quand la récupération des joueurs échoue ?",
}
GRAPH = "testgraph001"


def demo(
    no_serve: Annotated[  # noqa: ARG001 - preparing and asking is all of the demo so far
        bool, typer.Option("--no-serve", help="Prepare and ask only; start no server.")
    ] = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Import sample graphs, embed them and show what a question retrieves. Safe to run again."""
    settings = settings_of(db, workspace, lang)
    question = QUESTIONS[settings.language]

    async def work(services: Services) -> None:
        render.heading(f"1. Import into {services.database.url}, workspace {settings.workspace}")
        keys: list[str] = []
        for name in SAMPLES:
            outcome = await import_bytes(
                services.source, load_text(name).encode(), file_name=name.rpartition("/")[2], shown=name
            )
            show_outcome(outcome)
            keys.append(outcome.graph_key)
        render.heading("2. Embed the nodes (no key, no network)")
        if services.embedder is None:
            render.line("embeddings are turned off; text search alone will answer")
        else:
            with render.progress("embedding nodes") as update:
                report = await embed_nodes(
                    services.source, services.embedder, graph_keys=keys, progress=update
                )
            show_report(report)
        render.heading(f"3. Ask {GRAPH}: {question}")
        found = await services.retriever.retrieve(GRAPH, question)
        built = build_context_of(found, services.context_options, count_tokens)
        render.line(built.text)
        render.note(summary(found, built))

    run(settings, work)
    render.heading("Try next")
    prefix = ".venv/bin/nodius"
    refund = "When does a person have to approve a refund?"
    for command in (
        f"{prefix} graphs",
        f'{prefix} context order-refund "{refund}"',
        f'{prefix} prompt {GRAPH} "{question}"',
        f"{prefix} tools {GRAPH} --run",
        f"{prefix} import FILE.json   (n8n, Node-RED or Nodius JSON)",
        f"{prefix} doctor",
    ):
        render.line(f"  {command}")
