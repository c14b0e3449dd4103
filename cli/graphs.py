"""The commands `graphs`, `import` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from cli import render
from cli.common import (
    EXIT_FAILED,
    EXIT_NOTHING,
    EXIT_USAGE,
    DbOption,
    GraphArgument,
    JsonOption,
    LanguageOption,
    WorkspaceOption,
    fail,
    graph_or_fail,
    run,
    settings_of,
)
from graphrag.exchange import ImportOutcome, export_document, import_file
from graphrag.wiring import Services


def list_graphs(
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """List the graphs of the workspace."""
    settings = settings_of(db, workspace, lang)

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
    if as_json:
        render.json(rows)
    elif rows:
        columns = list(rows[0])
        render.table(columns, [list(row.values()) for row in rows], numbers=range(2, len(columns)))
    if not rows:
        render.note(
            f"No graph in workspace {settings.workspace!r} yet: try `nodius demo` or `nodius import FILE`."
        )
        raise typer.Exit(EXIT_NOTHING)


def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="n8n, Node-RED or Nodius JSON.")],
    graph: Annotated[
        str | None, typer.Option("--graph", "-g", metavar="KEY", help="Import one file as this graph.")
    ] = None,
    as_json: JsonOption = False,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Import workflows; importing a file again updates its graph.

    A file that cannot be used is refused with the reason, and the others go on.
    """
    if graph and len(files) > 1:
        fail(f"--graph names one graph, but {len(files)} files are given", code=EXIT_USAGE)
    settings = settings_of(db, workspace, lang)

    async def work(services: Services) -> list[ImportOutcome]:
        done: list[ImportOutcome] = []
        with render.progress("importing", quiet=as_json or len(files) < 5) as update:
            for i, file in enumerate(files, start=1):
                done.append(await import_file(services.source, file, graph_key=graph))
                update(i, len(files))
        return done

    outcomes = run(settings, work)
    if as_json:
        render.json([outcome.as_dict() for outcome in outcomes])
    else:
        for outcome in outcomes:
            show_outcome(outcome)
    refused = [outcome for outcome in outcomes if outcome.refused]
    if not as_json and len(outcomes) > 1:
        render.line(f"{len(outcomes) - len(refused)} files imported, {len(refused)} refused")
    if refused:
        raise typer.Exit(EXIT_FAILED)


def show_outcome(outcome: ImportOutcome) -> None:
    """Print what one import did: its graph, its counts, and each thing that was dropped or repaired."""
    if outcome.refused:
        render.line(f"{outcome.file}: refused: {outcome.refused}", "red")
        return
    render.line(
        f"{outcome.file}: {outcome.action} graph {outcome.graph_key} "
        f"({outcome.format}; {outcome.nodes} nodes, {outcome.edges} edges)"
    )
    for remark in outcome.remarks:
        render.line(f"  {remark}", "yellow")


def export(
    graph: GraphArgument,
    as_json: JsonOption = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead.")
    ] = None,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Export a graph as Nodius JSON: graph, nodes, edges and the node types they use.

    `--json` prints it on one line; without it, it is indented for reading.
    """
    settings = settings_of(db, workspace, lang)

    async def work(services: Services) -> dict[str, Any]:
        await graph_or_fail(services.source, graph)
        return await export_document(services.source, graph)

    document = run(settings, work)
    text = orjson.dumps(document, option=0 if as_json else orjson.OPT_INDENT_2) + b"\n"
    if output is None:
        typer.echo(text.decode(), nl=False)
        return
    try:
        output.write_bytes(text)
    except OSError as exc:
        fail(f"cannot write {output}: {exc.strerror}", code=EXIT_FAILED)
    render.note(f"wrote {output} ({len(text):,} bytes)")
