"""The commands `graphs …`: list, show, make, rename, copy, delete and restore whole graphs.

At the top it imports only what listing the graphs needs; the other commands import the rest when
they run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.command import command
from cli.common import local_time, usage_error
from cli.options import GraphArgument, GraphLanguageOption, argument, option
from cli.output import Output, listing
from datasources.base import GraphDataSource
from datasources.types import Family
from graphrag.i18n import Language
from graphrag.roles import Person

if TYPE_CHECKING:
    from graphrag.app.wiring import Services

graphs = typer.Typer(
    help="List the graphs of the workspace; make, rename, copy, delete and restore them."
)
NameArgument = Annotated[str, argument("NAME", "The graph's name.")]


async def list_graphs(source: GraphDataSource) -> Output:
    """List the graphs of the workspace."""
    rows: list[dict[str, Any]] = []
    for graph in await source.list_graphs():
        stats = await source.get_stats(graph.key)
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
    columns = list(rows[0]) if rows else []
    return listing(
        rows,
        columns,
        [list(row.values()) for row in rows],
        empty=f"No graph in workspace {source.workspace!r} yet: try `nodius demo` or `nodius import FILE`.",
        numbers=range(3, len(columns)),
        folded=1,
    )


for by_name in (None, "list"):  # `nodius graphs` lists them, too
    command(graphs, by_name)(list_graphs)


def _done(key: str, name: str, verb: str) -> Output:
    return Output(document={"key": key, "name": name}, text=f"{verb} {key} ({name})")


@command(graphs, "show")
async def show(services: Services, language: Language, graph: GraphArgument) -> Output:
    """Show a summary of a graph and three first questions that need no model."""
    from cli.import_files import show_suggestions
    from graphrag.retrieval.suggestions import suggest

    stored = await services.source.get_graph(graph)
    suggestions = await suggest(services.source, stored, language)
    return Output(
        document={
            "key": graph,
            "name": stored.name,
            "summary": suggestions.summary,
            "questions": list(suggestions.questions),
        },
        text=partial(show_suggestions, suggestions),
    )


@command(graphs, "new", creates=True)
async def new(
    services: Services,
    person: Person,
    name: NameArgument,
    family: Annotated[
        Family, option("--type", "TYPE", "Node types: nodius, n8n or node-red.")
    ] = "nodius",
    language: GraphLanguageOption = None,
) -> Output:
    """Make an empty graph."""
    from graphrag.app.whole_graphs import new_graph

    graph = await new_graph(
        services.approvals, _name(name), person, family=family, language=language
    )
    return _done(graph.key, graph.name, "made")


@command(graphs, "rename", creates=True)
async def rename(
    services: Services, person: Person, graph: GraphArgument, name: NameArgument
) -> Output:
    """Rename a graph; its key stays."""
    from graphrag.app.whole_graphs import rename_graph

    renamed = await rename_graph(services.approvals, graph, _name(name), person)
    return _done(renamed.key, renamed.name, "renamed")


@command(graphs, "duplicate", creates=True)
async def duplicate(
    services: Services, person: Person, graph: GraphArgument, name: NameArgument
) -> Output:
    """Copy a graph as it is stored now, under a new key."""
    from graphrag.app.whole_graphs import copy_graph

    copy = await copy_graph(services.approvals, graph, _name(name), person)
    return _done(copy.key, copy.name, "made")


@command(graphs, "delete", creates=True)
async def delete(services: Services, person: Person, graph: GraphArgument) -> Output:
    """Delete a graph; it can be restored for 30 days."""
    from graphrag.app.deleted_graphs import delete_graph

    deleted = await delete_graph(services.approvals, graph, person)
    return _done(deleted.graph_key, deleted.name, "deleted")


@command(graphs, "restore", creates=True)
async def restore(services: Services, person: Person, graph: GraphArgument) -> Output:
    """Restore the graph that was deleted last under a key (see `nodius graphs deleted`)."""
    from graphrag.app.deleted_graphs import restore_graph

    restored = await restore_graph(services.approvals, graph, person)
    return _done(restored.key, restored.name, "restored")


@command(graphs, "deleted")
async def list_deleted(services: Services) -> Output:
    """List the deleted graphs that can be restored; remove those deleted more than 30 days ago."""
    from graphrag.app.deleted_graphs import deleted_graphs, purge

    await purge(services.approvals)
    columns = ["key", "name", "nodes", "edges", "deleted", "by", "gone for good"]
    rows = [
        [
            graph.graph_key,
            graph.name,
            graph.nodes,
            graph.edges,
            local_time(graph.deleted_time),
            graph.deleted_by,
            local_time(graph.ends),
        ]
        for graph in await deleted_graphs(services.approvals)
    ]
    documents = [dict(zip(columns, row, strict=True)) for row in rows]
    return listing(
        documents, columns, rows, empty="There is no deleted graph.", numbers=[2, 3], folded=1
    )


def _name(name: str) -> str:
    from graphrag.app.whole_graphs import MAX_NAME

    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        usage_error(f"a name has 1 to {MAX_NAME} printable characters")
    return name.strip()
