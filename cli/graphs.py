"""The commands `graphs`, with what is done to whole graphs, and `export`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from cli import render
from cli.common import EXIT_FAILED, fail, local_time, usage_error
from cli.import_files import GraphLanguageOption, show_suggestions
from cli.options import Common, GraphArgument, argument, command, option
from datasources.types import Graph
from graphrag.app.deleted_graphs import DeletedGraph, delete_graph, deleted_graphs, purge, restore_graph
from graphrag.app.whole_graphs import MAX_NAME, Family, copy_graph, new_graph, rename_graph
from graphrag.app.wiring import Services
from graphrag.importers.exchange import export_file
from graphrag.retrieval.suggestions import suggest

graphs = typer.Typer(help="List the graphs of the workspace; make, rename, copy, delete and restore them.")
NameArgument = Annotated[str, argument("NAME", "What the graph is called.")]


async def list_graphs(common: Common, services: Services) -> None:
    """List the graphs of the workspace."""
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
    columns, place = list(rows[0]) if rows else [], services.settings.workspace
    common.show_list(
        rows,
        columns,
        [list(row.values()) for row in rows],
        none=f"No graph in workspace {place!r} yet: try `nodius demo` or `nodius import FILE`.",
        numbers=range(3, len(columns)),
        folded=1,
    )


for by_name in (None, "list"):  # `nodius graphs` alone lists them, too
    command(graphs, by_name)(list_graphs)


def _say(common: Common, made: Graph | DeletedGraph, said: str) -> None:
    """Say what became of which graph."""
    key = made.graph_key if isinstance(made, DeletedGraph) else made.key
    common.say({"key": key, "name": made.name}, f"{said} {key} ({made.name})")


@command(graphs, "show")
async def show(common: Common, services: Services, graph: GraphArgument) -> None:
    """Say what a graph does, and three questions to begin with that need no model."""
    found = await services.source.get_graph(graph)
    made = await suggest(services.source, found, services.settings.language)
    facts = {"summary": made.summary, "questions": list(made.questions)}
    common.say({"key": graph, "name": found.name, **facts}, partial(show_suggestions, made))


@command(graphs, "new", creates=True)
async def new(
    common: Common,
    services: Services,
    name: NameArgument,
    family: Annotated[Family, option("--type", "TYPE", "Whose types: nodius, n8n or node-red.")] = "nodius",
    language: GraphLanguageOption = None,
) -> None:
    """Make an empty graph."""
    by = services.local_person()
    made = await new_graph(services.approvals, _name(name), by, family=family, language=language)
    _say(common, made, "made")


@command(graphs, "rename", creates=True)
async def rename(common: Common, services: Services, graph: GraphArgument, name: NameArgument) -> None:
    """Give a graph another name; its key stays."""
    by = services.local_person()
    _say(common, await rename_graph(services.approvals, graph, _name(name), by), "renamed")


@command(graphs, "duplicate", creates=True)
async def duplicate(common: Common, services: Services, graph: GraphArgument, name: NameArgument) -> None:
    """Copy a graph as it is stored now, under a new key."""
    by = services.local_person()
    _say(common, await copy_graph(services.approvals, graph, _name(name), by), "made")


@command(graphs, "delete", creates=True)
async def delete(common: Common, services: Services, graph: GraphArgument) -> None:
    """Delete a graph; for 30 days it can be restored."""
    _say(common, await delete_graph(services.approvals, graph, services.local_person()), "deleted")


@command(graphs, "restore", creates=True)
async def restore(common: Common, services: Services, graph: GraphArgument) -> None:
    """Restore the graph that was deleted last under a key (see `nodius graphs deleted`)."""
    _say(common, await restore_graph(services.approvals, graph, services.local_person()), "restored")


@command(graphs, "deleted")
async def list_deleted(common: Common, services: Services) -> None:
    """List the deleted graphs that can be restored; remove for good what was deleted 30 days ago."""
    await purge(services.approvals)
    found = await deleted_graphs(services.approvals)
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
        usage_error(f"a name has 1 to {MAX_NAME} printable characters")
    return name.strip()


@command()
async def export(
    common: Common,
    services: Services,
    graph: GraphArgument,
    form: Annotated[Family, option("--format -f", "F", "nodius, n8n or node-red.")] = "nodius",
    output: Annotated[Path | None, option("--output -o", "FILE", "Write to a file instead.")] = None,
) -> None:
    """Export a graph as Nodius JSON, as an n8n workflow or as a Node-RED flow.

    A file of another tool is the one that the graph was imported from, with what changed since; what the
    format has no place for is named. `--json` prints it on one line; without it, it is indented for reading.
    """
    made = await export_file(services.approvals, graph, form)
    for line in made.report.lines(services.settings.language):
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
