"""The `import` command: imports files into graphs and prints the result of each file."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, run, usage_error
from cli.options import Common, GraphLanguageOption, argument, flag, option
from cli.output import Output
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
        bool, flag("--replace", "Overwrite the graph, including changes by people.")
    ] = False,
    language: GraphLanguageOption = None,
    embeds: Annotated[
        bool, flag("--embed/--no-embed", "Embed imported nodes for search by meaning.")
    ] = True,
) -> None:
    """Import workflows; importing a file again merges it into its graph.

    Changes made only in the file are applied, and changes by people stay. If both changed the same
    thing, the version of the file waits for a decision: see `nodius review`. A file that cannot be
    used is refused with the reason, and the others are imported. Embedding can be stopped at any
    time; `nodius embed-nodes` continues it.
    """
    if graph is not None and len(files) > 1:
        usage_error(f"--graph names one graph, but {len(files)} files are given")
    settings = common.settings(embeddings=None if embeds else "none")
    importing = partial(import_file, graph_key=graph, replaces=replace, language=language)

    async def work(services: Services) -> None:
        outcomes: list[ImportOutcome] = []
        with render.progress("importing", quiet=common.as_json) as update:
            for i, file in enumerate(files, start=1):
                outcomes += await importing(services.approvals, file, services.local_person())
                update(i, len(files))
        introduced = None if common.as_json else await _only_created(services, outcomes)
        output = _output(outcomes, introduced, settings.language)
        output.finish(as_json=common.as_json)
        if changed := sorted({o.graph_key for o in outcomes if o.action in ("created", "updated")}):
            await _embed(services, changed, quiet=common.as_json)
        if any(outcome.refused for outcome in outcomes):
            raise typer.Exit(EXIT_FAILED)

    run(settings, work, creates=True)


async def _only_created(
    services: Services, outcomes: Sequence[ImportOutcome]
) -> Suggestions | None:
    """Returns the summary of the graph that was created, None unless it was exactly one."""
    created = [outcome.graph_key for outcome in outcomes if outcome.action == "created"]
    if len(created) != 1:
        return None
    graph = await services.source.get_graph(created[0])
    return await suggest(services.source, graph, services.settings.language)


def _output(
    outcomes: Sequence[ImportOutcome], suggestions: Suggestions | None, language: Language
) -> Output:
    """Returns the results of all files, with the summary of a new graph."""

    def show() -> None:
        for outcome in outcomes:
            show_outcome(outcome, language)
        if len(outcomes) > 1:
            _show_counts(outcomes)
        if suggestions is not None:
            show_suggestions(suggestions)

    return Output(document=[outcome.as_dict(language) for outcome in outcomes], text=show)


async def _embed(services: Services, graph_keys: list[str], *, quiet: bool) -> None:
    """Embeds imported graphs. Prints how to continue if embedding is off, fails or is stopped."""
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


def show_suggestions(suggestions: Suggestions) -> None:
    """Prints the summary of a graph and questions about it."""
    for line in (suggestions.summary, *suggestions.questions):
        render.line(f"  {line}")


def _show_counts(outcomes: Sequence[ImportOutcome]) -> None:
    count = Counter(outcome.action for outcome in outcomes if not outcome.refused)
    parts = [f"{count[action]} {action}" for action in ACTIONS if count[action]]
    refused = len(outcomes) - count.total()
    render.line(f"{len(outcomes)} files: {', '.join([*parts, f'{refused} refused'])}")


def show_outcome(outcome: ImportOutcome, language: Language = "en") -> None:
    """Prints the result of importing a file: its graph, the counts, and everything that was dropped
    or repaired.
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
