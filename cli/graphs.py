"""The commands `graphs`, with what is done to whole graphs.

Only what lists the graphs is imported here; the other commands import what they use when they run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.common import local_time, usage_error
from cli.options import Common, GraphArgument, GraphLanguageOption, argument, command, option
from datasources.base import GraphDataSource
from datasources.types import Family

if TYPE_CHECKING:
    from graphrag.app.wiring import Services

graphs = typer.Typer(
    help="List the graphs of the workspace; make, rename, copy, delete and restore them."
)
NameArgument = Annotated[str, argument("NAME", "What the graph is called.")]


async def list_graphs(common: Common, source: GraphDataSource) -> None:
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
    common.show_list(
        rows,
        columns,
        [list(row.values()) for row in rows],
        none=f"No graph in workspace {source.workspace!r} yet: try `nodius demo` or `nodius import FILE`.",
        numbers=range(3, len(columns)),
        folded=1,
    )


for by_name in (None, "list"):  # `nodius graphs` alone lists them, too
    command(graphs, by_name)(list_graphs)


def _say(common: Common, key: str, name: str, said: str) -> None:
    """Say what became of which graph."""
    common.say({"key": key, "name": name}, f"{said} {key} ({name})")


@command(graphs, "show")
async def show(common: Common, services: Services, graph: GraphArgument) -> None:
    """Say what a graph does, and three questions to begin with that need no model."""
    from cli.import_files import show_suggestions
    from graphrag.retrieval.suggestions import suggest

    found = await services.source.get_graph(graph)
    made = await suggest(services.source, found, services.settings.language)
    facts = {"summary": made.summary, "questions": list(made.questions)}
    common.say({"key": graph, "name": found.name, **facts}, partial(show_suggestions, made))


@command(graphs, "new", creates=True)
async def new(
    common: Common,
    services: Services,
    name: NameArgument,
    family: Annotated[
        Family, option("--type", "TYPE", "Whose types: nodius, n8n or node-red.")
    ] = "nodius",
    language: GraphLanguageOption = None,
) -> None:
    """Make an empty graph."""
    from graphrag.app.whole_graphs import new_graph

    by = services.local_person()
    made = await new_graph(services.approvals, _name(name), by, family=family, language=language)
    _say(common, made.key, made.name, "made")


@command(graphs, "rename", creates=True)
async def rename(
    common: Common, services: Services, graph: GraphArgument, name: NameArgument
) -> None:
    """Give a graph another name; its key stays."""
    from graphrag.app.whole_graphs import rename_graph

    renamed = await rename_graph(services.approvals, graph, _name(name), services.local_person())
    _say(common, renamed.key, renamed.name, "renamed")


@command(graphs, "duplicate", creates=True)
async def duplicate(
    common: Common, services: Services, graph: GraphArgument, name: NameArgument
) -> None:
    """Copy a graph as it is stored now, under a new key."""
    from graphrag.app.whole_graphs import copy_graph

    made = await copy_graph(services.approvals, graph, _name(name), services.local_person())
    _say(common, made.key, made.name, "made")


@command(graphs, "delete", creates=True)
async def delete(common: Common, services: Services, graph: GraphArgument) -> None:
    """Delete a graph; for 30 days it can be restored."""
    from graphrag.app.deleted_graphs import delete_graph

    deleted = await delete_graph(services.approvals, graph, services.local_person())
    _say(common, deleted.graph_key, deleted.name, "deleted")


@command(graphs, "restore", creates=True)
async def restore(common: Common, services: Services, graph: GraphArgument) -> None:
    """Restore the graph that was deleted last under a key (see `nodius graphs deleted`)."""
    from graphrag.app.deleted_graphs import restore_graph

    restored = await restore_graph(services.approvals, graph, services.local_person())
    _say(common, restored.key, restored.name, "restored")


@command(graphs, "deleted")
async def list_deleted(common: Common, services: Services) -> None:
    """List the deleted graphs that can be restored; remove for good what was deleted
    30 days ago.
    """
    from graphrag.app.deleted_graphs import deleted_graphs, purge

    await purge(services.approvals)
    found = await deleted_graphs(services.approvals)
    columns = ["key", "name", "nodes", "edges", "deleted", "by", "gone for good"]
    rows = [
        [
            g.graph_key,
            g.name,
            g.nodes,
            g.edges,
            local_time(g.deleted_time),
            g.deleted_by,
            local_time(g.ends),
        ]
        for g in found
    ]
    documents = [dict(zip(columns, row, strict=True)) for row in rows]
    none = "There is no deleted graph."
    common.show_list(documents, columns, rows, none=none, numbers=[2, 3], folded=1)


def _name(name: str) -> str:
    from graphrag.app.whole_graphs import MAX_NAME

    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        usage_error(f"a name has 1 to {MAX_NAME} printable characters")
    return name.strip()
