"""The commands `graphs` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from cli import render
from cli.common import EXIT_FAILED, EXIT_NOTHING, Common, GraphArgument, command, fail, graph_or_fail, run
from graphrag.app.wiring import Services
from graphrag.importers.exchange import export_document


@command()
def list_graphs(common: Common) -> None:
    """List the graphs of the workspace."""
    settings = common.settings()

    async def work(services: Services) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for graph in await services.source.list_graphs():
            stats = await services.source.get_stats(graph.key)
            rows.append(
                {
                    "key": graph.key,
                    "name": graph.name,
                    "sheets": len(graph.sheets_list),
                    "nodes": stats.nodes,
                    "edges": stats.edges,
                    "embedded": sum(stats.vectors.values()),
                    "revision": graph.revision,
                }
            )
        return rows

    rows = run(settings, work)
    if common.as_json:
        render.json(rows)
    elif rows:
        columns = list(rows[0])
        render.table(columns, [list(row.values()) for row in rows], numbers=range(2, len(columns)), folded=1)
    if not rows:
        render.note(
            f"No graph in workspace {settings.workspace!r} yet: try `nodius demo` or `nodius import FILE`."
        )
        raise typer.Exit(EXIT_NOTHING)


@command()
def export(
    common: Common,
    graph: GraphArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead.")
    ] = None,
) -> None:
    """Export a graph as Nodius JSON: graph, nodes, edges and the node types they use.

    `--json` prints it on one line; without it, it is indented for reading.
    """

    async def work(services: Services) -> dict[str, Any]:
        await graph_or_fail(services.source, graph)
        return await export_document(services.source, graph)

    text = orjson.dumps(common.run(work), option=0 if common.as_json else orjson.OPT_INDENT_2) + b"\n"
    if output is None:
        typer.echo(text.decode(), nl=False)
        return
    try:
        output.write_bytes(text)
    except OSError as exc:
        fail(f"cannot write {output}: {exc.strerror}", code=EXIT_FAILED)
    render.note(f"wrote {output} ({len(text):,} bytes)")
