"""The commands `graphs`, with what is done to whole graphs, and `export`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import orjson
import typer

from cli import render
from cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    Common,
    GraphArgument,
    argument,
    command,
    fail,
    graph_or_fail,
    local_time,
    option,
    run,
)
from cli.import_files import GraphLanguageOption, graph_language, show_suggestions
from graphrag.app.deleted_graphs import DeletedGraph, delete_graph, deleted_graphs, purge, restore_graph
from graphrag.app.whole_graphs import MAX_NAME, Family, copy_graph, new_graph, rename_graph
from graphrag.app.wiring import Services
from graphrag.approvals import Approvals
from graphrag.importers.exchange import export_file
from graphrag.importers.export import ExportResult
from graphrag.retrieval.suggestions import Suggestions, suggest
from graphrag.roles import Person

graphs = typer.Typer(
    help="List the graphs of the workspace; make, rename, copy, delete and restore them.",
    invoke_without_command=True,
)
NameArgument = Annotated[str, argument("NAME", "What the graph is called.")]


@graphs.callback(invoke_without_command=True)
@command()
def list_graphs(common: Common, context: typer.Context) -> None:
    """List the graphs of the workspace; make, rename, copy, delete and restore them."""
    if context.invoked_subcommand is not None:
        return
    settings = common.settings()

    async def work(services: Services) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for graph in await services.source.list_graphs():
            stats = await services.source.get_stats(graph.key)
            rows.append(
                {
                    "key": graph.key,
                    "name": graph.name,
                    "language": graph.language or "en",
                    "sheets": len(graph.sheets_list),
                    "nodes": stats.nodes,
                    "edges": stats.edges,
                    "embedded": sum(stats.vectors.values()),
                    "revision": graph.revision,
                }
            )
        return rows

    rows = run(settings, work)
    columns = list(rows[0]) if rows else []
    common.show_list(
        rows,
        columns,
        [list(row.values()) for row in rows],
        none=f"No graph in workspace {settings.workspace!r} yet: try `nodius demo` or `nodius import FILE`.",
        numbers=range(3, len(columns)),
        folded=1,
    )


def _done(common: Common, work: Callable[[Approvals, Person], Coroutine[Any, Any, Any]], said: str) -> None:
    """Do a work as who is at this command line, and say what became of which graph."""

    async def carried_out(services: Services) -> dict[str, Any]:
        made = await work(services.approvals, services.local_person())
        key = made.graph_key if isinstance(made, DeletedGraph) else made.key
        return {"key": key, "name": made.name}

    made = common.run(carried_out, creates=True)
    common.say(made, f"{said} {made['key']} ({made['name']})")


@command(graphs, "show")
def show(common: Common, graph: GraphArgument) -> None:
    """Say what a graph does, and three questions to begin with that need no model."""
    settings = common.settings()

    async def work(services: Services) -> tuple[str, Suggestions]:
        found = await graph_or_fail(services.source, graph)
        return found.name, await suggest(services.source, found, settings.language)

    name, made = run(settings, work)
    if common.as_json:
        render.json({"key": graph, "name": name, "summary": made.summary, "questions": list(made.questions)})
    else:
        show_suggestions(made)


@command(graphs, "new")
def new(
    common: Common,
    name: NameArgument,
    family: Annotated[str, option("--type", "TYPE", "Whose types: nodius, n8n or node-red.")] = "nodius",
    language: GraphLanguageOption = None,
) -> None:
    """Make an empty graph."""
    known = next((one for one in get_args(Family) if one == family), None)
    if known is None:
        fail(f"--type {family!r}: use nodius, n8n or node-red", code=EXIT_USAGE)
    made = partial(new_graph, name=_name(name), family=known, language=graph_language(language))
    _done(common, lambda approvals, by: made(approvals, by=by), "made")


@command(graphs, "rename")
def rename(common: Common, graph: GraphArgument, name: NameArgument) -> None:
    """Give a graph another name; its key stays."""
    _done(common, lambda approvals, by: rename_graph(approvals, graph, _name(name), by), "renamed")


@command(graphs, "duplicate")
def duplicate(common: Common, graph: GraphArgument, name: NameArgument) -> None:
    """Copy a graph as it is stored now, under a new key."""
    _done(common, lambda approvals, by: copy_graph(approvals, graph, _name(name), by), "made")


@command(graphs, "delete")
def delete(common: Common, graph: GraphArgument) -> None:
    """Delete a graph; for 30 days it can be restored."""
    _done(common, lambda approvals, by: delete_graph(approvals, graph, by), "deleted")


@command(graphs, "restore")
def restore(common: Common, graph: GraphArgument) -> None:
    """Restore the graph that was deleted last under a key (see `nodius graphs deleted`)."""
    _done(common, lambda approvals, by: restore_graph(approvals, graph, by), "restored")


@command(graphs, "deleted")
def list_deleted(common: Common) -> None:
    """List the deleted graphs that can be restored; remove for good what was deleted 30 days ago."""

    async def work(services: Services) -> list[DeletedGraph]:
        await purge(services.approvals)
        return await deleted_graphs(services.approvals)

    found = common.run(work)
    columns = ["key", "name", "nodes", "edges", "deleted", "by", "gone for good"]
    rows = [
        [g.graph_key, g.name, g.nodes, g.edges, local_time(g.deleted_time), g.deleted_by, local_time(g.ends)]
        for g in found
    ]
    documents = [dict(zip(columns, row, strict=True)) for row in rows]
    none = "There is no deleted graph."
    common.show_list(documents, columns, rows, none=none, numbers=[2, 3], folded=1)


def _name(name: str) -> str:
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        fail(f"a name has 1 to {MAX_NAME} printable characters", code=EXIT_USAGE)
    return name.strip()


@command()
def export(
    common: Common,
    graph: GraphArgument,
    form: Annotated[str, option("--format -f", "F", "nodius, n8n or node-red.")] = "nodius",
    output: Annotated[Path | None, option("--output -o", "FILE", "Write to a file instead.")] = None,
) -> None:
    """Export a graph as Nodius JSON, as an n8n workflow or as a Node-RED flow.

    A file of another tool is the one that the graph was imported from, with what changed since; what the
    format has no place for is named. `--json` prints it on one line; without it, it is indented for reading.
    """
    if form not in (choices := ("nodius", "n8n", "node-red")):
        fail(f"unknown format {form!r}: use one of {', '.join(choices)}", code=EXIT_USAGE)
    settings = common.settings()

    async def work(services: Services) -> ExportResult:
        await graph_or_fail(services.source, graph)
        return await export_file(services.approvals, graph, form)

    made = run(settings, work)
    for line in made.report.lines(settings.language):
        render.note(line)
    text = orjson.dumps(made.document) + b"\n" if common.as_json else made.text()
    if output is None:
        typer.echo(text.decode(), nl=False)
        return
    try:
        output.write_bytes(text)
    except OSError as exc:
        fail(f"cannot write {output}: {exc.strerror}", code=EXIT_FAILED)
    render.note(f"wrote {output} ({len(text):,} bytes)")
