"""The `import` command: files into graphs, and what became of each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli import render
from cli.common import EXIT_FAILED, run, usage_error
from cli.options import Common, GraphLanguageOption, argument, command, flag, option
from graphrag.app.wiring import Services
from graphrag.embedding.embedder import EmbeddingError
from graphrag.embedding.refresh import embed_nodes
from graphrag.i18n import Language
from graphrag.importers.exchange import ImportOutcome, import_file
from graphrag.importers.report import counted
from graphrag.retrieval.suggestions import Suggestions, suggest

ACTIONS = ("created", "updated", "unchanged")


@command()
def import_files(
    common: Common,
    files: Annotated[list[Path], argument("FILE...", "n8n, Node-RED or Nodius JSON; -: stdin.")],
    graph: Annotated[
        str | None, option("--graph -g", "KEY", "Import one file as this graph.")
    ] = None,
    replace: Annotated[
        bool, flag("--replace", "Make a graph as its file is, whatever people changed since.")
    ] = False,
    language: GraphLanguageOption = None,
    embeds: Annotated[
        bool, flag("--embed/--no-embed", "Embed what was imported, to be found by meaning.")
    ] = True,
) -> None:
    """Import workflows; importing a file again merges it into its graph.

    What only the file changed is taken, what people changed stays. Where both changed the same, the
    file's version waits for a decision: see `nodius review`. A file that cannot be used is refused
    with the reason, and the others go on. Embedding may be stopped: what was imported stays, and
    `nodius embed-nodes` goes on.
    """
    if graph is not None and len(files) > 1:
        usage_error(f"--graph names one graph, but {len(files)} files are given")
    settings = common.settings(embeddings=None if embeds else "none")
    importing = partial(import_file, graph_key=graph, replaces=replace, language=language)

    async def work(services: Services) -> None:
        done: list[ImportOutcome] = []
        with render.progress("importing", quiet=common.as_json) as update:
            for i, file in enumerate(files, start=1):
                done += await importing(services.approvals, file, services.local_person())
                update(i, len(files))
        if common.as_json:
            render.json([outcome.as_dict(settings.language) for outcome in done])
        else:
            _show(done, settings.language)
            await _introduce(services, done, settings.language)
        if changed := sorted({o.graph_key for o in done if o.action in ("created", "updated")}):
            await _embed(services, changed, quiet=common.as_json)
        if any(outcome.refused for outcome in done):
            raise typer.Exit(EXIT_FAILED)

    run(settings, work, creates=True)


async def _embed(services: Services, graph_keys: list[str], *, quiet: bool) -> None:
    """Embed what was imported; say how to go on where that is left, fails or is stopped."""
    later = "`nodius embed-nodes` embeds what was imported."
    if services.embedder is None:
        render.note(f"Next: {later}")
        return
    try:
        with render.progress("embedding nodes", quiet=quiet) as update:
            await embed_nodes(
                services.source, services.embedder, graph_keys=graph_keys, progress=update
            )
    except EmbeddingError as exc:
        render.note(f"Not embedded yet: {exc}. {later}")
    except asyncio.CancelledError:
        render.note(f"Not all is embedded yet: {later}")
        raise


async def _introduce(
    services: Services, outcomes: Sequence[ImportOutcome], language: Language
) -> None:
    """Print what the new graph does and what may be asked about it; of several graphs nothing."""
    keys = [outcome.graph_key for outcome in outcomes if outcome.action == "created"]
    if len(keys) == 1:
        show_suggestions(
            await suggest(services.source, await services.source.get_graph(keys[0]), language)
        )


def show_suggestions(made: Suggestions) -> None:
    """Print what a graph does and what may be asked about it."""
    for line in (made.summary, *made.questions):
        render.line(f"  {line}")


def _show(outcomes: Sequence[ImportOutcome], language: Language) -> None:
    for outcome in outcomes:
        show_outcome(outcome, language)
    if len(outcomes) > 1:
        count = Counter(outcome.action for outcome in outcomes if not outcome.refused)
        parts = [f"{count[action]} {action}" for action in ACTIONS if count[action]]
        refused = len(outcomes) - count.total()
        render.line(f"{len(outcomes)} files: {', '.join([*parts, f'{refused} refused'])}")


def show_outcome(outcome: ImportOutcome, language: Language = "en") -> None:
    """Print what one import did: its graph, its counts, and each thing that was
    dropped or repaired.
    """
    if outcome.refused:
        render.line(f"{outcome.file}: refused: {outcome.refused}", "red")
        return
    render.line(
        f"{outcome.file}: {outcome.action} graph {outcome.graph_key} "
        f"({outcome.format}; {counted('node', outcome.nodes, 'en')}, {counted('edge', outcome.edges, 'en')})"
    )
    for remark in outcome.remarks(language):
        render.line(f"  {remark}", "yellow")
