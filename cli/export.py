"""The command `export`: a graph as a file of its tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from cli import render
from cli.common import EXIT_FAILED, fail
from cli.options import Common, GraphArgument, command, option
from datasources.types import Family
from graphrag.app.wiring import Services
from graphrag.importers.exchange import export_file


@command()
async def export(
    common: Common,
    services: Services,
    graph: GraphArgument,
    form: Annotated[Family, option("--format -f", "F", "nodius, n8n or node-red.")] = "nodius",
    output: Annotated[
        Path | None, option("--output -o", "FILE", "Write to a file instead.")
    ] = None,
) -> None:
    """Export a graph as Nodius JSON, as an n8n workflow or as a Node-RED flow.

    A file of another tool is the one that the graph was imported from, with what changed since;
    what the format has no place for is named. `--json` prints it on one line; without it, it is
    indented for reading.
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
